"""Texts without a format of their own, or nearly so: plain texts, Markdown, separated values, source code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

from hwdag.text.tables import NAMED_ONCE, fenced, markdown_with_headers, separated_lines
from hwdag_files.blocks import no_heading
from hwdag_files.content import Content, as_notes
from hwdag_files.encoded import without_encoded
from hwdag_files.encodings import decoded
from hwdag_files.front_matter import with_front_matter
from hwdag_files.open_tables import with_aligned_rows

_CODE = (
    ".bash .bat .c .cc .cfg .cpp .cs .css .dart .go .h .hpp .ini .java .jl .js .jsx .kt .lua .php .pl"
    " .ps1 .py .r .rb .rs .scala .sh .sql .swift .toml .ts .tsx .yaml .yml .zsh"
)
FEWEST_NUMBERED = 8  # lines of a text whose lines are numbered
NUMBERED_SHARE = 0.9  # of its lines, at least, with a number, and of numbers that follow each other
WITHIN_SHARE = 0.2  # of its lines that begin within a sentence; rows of a table do not

_NUMBERED = re.compile(r"[ \t]*(\d{1,4})(?:[ \t]{2,}|\t|[ \t]*$)")
_WIDE = re.compile(r"\S {3,}\S|\S\t")
_ALONE = re.compile(r"(?:\A|\n\n) {0,3}#{1,6}[ \t]+[^\n]+(?=\n\n|\s*\Z)")
_COMMENT = re.compile(r"^[ \t]*#{1,6}[ \t].*\n(?=[ \t]*\S)|\S[^\n]*\n(?=[ \t]*#{1,6}[ \t])", re.M)
"""A line with "#" that touches another line, as a comment of a list of commands does."""

_ATX_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")


def text_content(data: bytes) -> Content:
    """Read a plain text, whose columns may be aligned by blanks; a script is source code."""
    if data.startswith(b"#!"):
        return code_content(data)
    content = _plain(data)
    text, number = without_line_numbers(content.text)
    notes = (f"left out {number} numbers that count the lines",) if number else ()
    if not _ALONE.search(text) or _COMMENT.search(text):
        text = no_heading(text)
    return replace(content, text=with_aligned_rows(text), notes=(*content.notes, *notes))


def without_line_numbers(text: str) -> tuple[str, int]:
    """Return a text without the numbers of its lines, as transcripts have, and how many there were."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    found = {at: match for at, line in enumerate(lines) if (match := _NUMBERED.match(line))}
    numbers = [int(match[1]) for match in found.values()]
    bare = [lines[at][match.end() :] for at, match in found.items()]
    steps = sum(below in (above + 1, 1) for above, below in pairwise(numbers))
    within = sum(line[:1].islower() for line in bare)  # lines that begin within a sentence
    cells = sum(bool(_WIDE.search(line.rstrip())) for line in bare)
    if (
        len(found) < FEWEST_NUMBERED
        or len(found) < NUMBERED_SHARE * len(filled)
        or steps < NUMBERED_SHARE * (len(numbers) - 1)
        or within < WITHIN_SHARE * len(bare)
        or 2 * cells > len(bare)
    ):
        return text, 0
    kept = (line[found[at].end() :] if at in found else line for at, line in enumerate(lines))
    return "\n".join(kept), len(found)


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
