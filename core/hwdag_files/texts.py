"""Texts without a format of their own, or nearly so: plain texts, Markdown, separated values, source code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from hwdag.text.tables import NAMED_ONCE, fenced, markdown_with_headers, separated_lines
from hwdag_files.content import Content, as_notes
from hwdag_files.encoded import without_encoded
from hwdag_files.encodings import decoded
from hwdag_files.front_matter import with_front_matter
from hwdag_files.open_tables import with_aligned_rows

_CODE = (
    ".bash .bat .c .cc .cfg .cpp .cs .css .dart .go .h .hpp .ini .java .jl .js .jsx .kt .lua .php .pl"
    " .ps1 .py .r .rb .rs .scala .sh .sql .swift .toml .ts .tsx .yaml .yml .zsh"
)
_ATX_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")


def text_content(data: bytes) -> Content:
    """Read a plain text, whose columns may be aligned by blanks; a script is source code."""
    if data.startswith(b"#!"):
        return code_content(data)
    content = _plain(data)
    return replace(content, text=with_aligned_rows(content.text))


def rows_content(data: bytes) -> Content:
    """Read separated values."""
    content, noted = _plain(data), Counter[str]()
    lines = separated_lines(content.text, noted)
    return replace(content, text="\n".join(lines), notes=(*content.notes, *_notes(noted)))


def markdown_content(data: bytes) -> Content:
    """Read Markdown with its front matter."""
    return as_markdown(with_front_matter(_plain(data)))


def as_markdown(content: Content) -> Content:
    """Write the tables of a Markdown text as rows that name their columns, and find its title."""
    noted = Counter[str]()
    text = markdown_with_headers(content.text, noted)
    title = content.title or _first_heading(text)
    return replace(content, text=text, title=title, notes=(*content.notes, *_notes(noted)))


def code_content(data: bytes) -> Content:
    """Read source code between fences, so that its comments are no headings."""
    content = _plain(data)
    code = content.text.strip("\n")
    # why longer: strings and comments may have fences of their own
    longest = max(map(len, re.findall("`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return replace(content, text=f"{fence}\n{code}\n{fence}\n") if code.strip() else content


PLAIN_READERS: Mapping[str, Callable[[bytes], Content]] = {
    **dict.fromkeys((".txt", ".text"), text_content),
    **dict.fromkeys((".md", ".markdown"), markdown_content),
    **dict.fromkeys((".csv", ".tsv"), rows_content),
    **dict.fromkeys(_CODE.split(), code_content),
}
"""Readers by suffix whose time is linear and small, for the calling process."""


def _plain(data: bytes) -> Content:
    text, notes = decoded(data)
    text, more = without_encoded(text)
    return Content(text, "", (*notes, *more))


def _notes(noted: Counter[str]) -> tuple[str, ...]:
    return as_notes(noted, {NAMED_ONCE: NAMED_ONCE})


def _first_heading(text: str) -> str:
    """Return the first heading outside of code, in either of Markdown's two styles; "" if there is none."""
    lines, previous = text.splitlines(), ""
    code = fenced(lines)
    for number, line in enumerate(lines):
        bare = "" if number in code else line.strip()
        if bare and (match := _ATX_HEADING.match(line)):
            return match[1].strip().rstrip("#").rstrip()
        if previous and bare and not bare.strip("="):
            return previous
        previous = bare
    return ""
