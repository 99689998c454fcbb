"""Paragraphs and items of a converted file as blocks of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d{1,3}[.)]")
_ATX = re.compile(r"^([ \t]*#{1,6})[ \t]+", re.M)
_IS_ITEM = re.compile(r" *(?:- |\d{1,3}[.)] )")
_FILE = re.compile(
    r"[^\s/][^/]{0,200}\.(?:bmp|emf|gif|jpe?g|png|svg|tiff?|webp|wmf)", re.IGNORECASE
)
_MADE = re.compile(
    r"\s*(?:Description automatically generated.*|AI-generated content may be incorrect\.?)$"
)


def without_blanks(text: str) -> str:
    """Return a paragraph without superfluous blanks; tabs and breaks stay."""
    lines = (
        "\t".join(" ".join(cell.split()) for cell in line.split("\t")) for line in text.split("\n")
    )
    return "\n".join(filter(None, map(str.strip, lines)))


def no_heading(text: str) -> str:
    """Keep lines from being read as Markdown headings: put a no-break space after each "#"."""
    return _ATX.sub("\\1\xa0", text) if "#" in text else text


def item(text: str, number: str, depth: int) -> str:
    """Return an item of a list with its number, below the items around its list."""
    indent = "  " * depth
    whole = (f"{number} {text}" if number else text).replace("\n", f"\n{indent}  ")
    return f"{indent}{whole}" if _NUMBER.fullmatch(number) else f"{indent}- {whole}"


def one_line(blocks: Iterable[str]) -> str:
    """Return blocks as the text of a cell, without the signs of headings and items."""
    return " ".join(" ".join(re.sub(r"^\s*(?:#+|-) ", "", block) for block in blocks).split())


def is_item(block: str) -> bool:
    """Return whether a block is an item of a list."""
    return _IS_ITEM.match(block) is not None


def described(text: str) -> str:
    """Return the description of a picture, without a remark of a program; "" if it is a file name."""
    line = _MADE.sub("", " ".join(text.split()))
    return "" if _FILE.fullmatch(line) else line


def joined(blocks: Sequence[str]) -> str:
    """Join blocks by blank lines, and the items of a list by line breaks."""
    parts, was_item = list[str](), False
    for block in blocks:
        if parts:
            parts.append("\n" if was_item and is_item(block) else "\n\n")
        parts.append(block)
        was_item = is_item(block)
    return "".join(parts)
