"""Paragraphs and items of a converted file as blocks of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d{1,3}[.)]")
_IS_ITEM = re.compile(r" *(?:- |\d{1,3}[.)] )")


def without_blanks(text: str) -> str:
    """Return a paragraph without superfluous blanks; tabs and breaks stay."""
    lines = (
        "\t".join(" ".join(cell.split()) for cell in line.split("\t")) for line in text.split("\n")
    )
    return "\n".join(filter(None, map(str.strip, lines)))


def item(text: str, number: str, depth: int) -> str:
    """Return an item of a list with its number, below the items around its list."""
    indent = "  " * depth
    whole = (f"{number} {text}" if number else text).replace("\n", f"\n{indent}  ")
    return f"{indent}{whole}" if _NUMBER.fullmatch(number) else f"{indent}- {whole}"


def one_line(blocks: Iterable[str]) -> str:
    """Return blocks as the text of a cell, without the signs of headings and items."""
    return " ".join(" ".join(re.sub(r"^\s*(?:#+|-) ", "", block) for block in blocks).split())


def joined(blocks: Sequence[str]) -> str:
    """Put blank lines between blocks, but none between the items of a list."""
    parts, was_item = list[str](), False
    for block in blocks:
        is_item = _IS_ITEM.match(block) is not None
        if parts:
            parts.append("\n" if is_item and was_item else "\n\n")
        parts.append(block)
        was_item = is_item
    return "".join(parts)
