"""PDF, office and other packed files to text, in a process of their own.

A file of a few kilobytes may unpack to gigabytes, or keep a parser busy for hours. A thread cannot be
stopped, so what parses such a file is a process with a limit of memory and time.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, time
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from hwdag.text.characters import without_surrogates
from hwdag.text.tables import table_lines
from hwdag_files.content import Content, UnreadableError, said
from hwdag_files.html import html_content, page_text
from hwdag_files.pdf import pdf_content

if TYPE_CHECKING:
    from openpyxl.cell.read_only import ReadOnlyCell
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

CONVERTED_SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".epub", ".ipynb"})
"""Office files and books, which the extra `documents` reads, and notebooks."""

PACKED_SUFFIXES = CONVERTED_SUFFIXES - {".ipynb"}

LAYOUT_SHARE = (
    0.5  # of the time for a PDF; its pages that take longer are read without their layout
)
MEMORY_BYTES = 4 << 30  # of the process that parses a file
UNPACKED_BYTES = 1 << 29  # of all members of a packed file together
MOST_CHARACTERS = 1 << 27  # of a text

_SLIDE_NUMBER = re.compile(r"<!-- Slide number: \d+ -->\n*")
_SLIDE_LINES = re.compile(r"(?m)^(?![|#!<*-]).+(?:\n(?![|#!<*-]).+)+")
# a formula, and no value or an empty one before its cell ends
_NO_VALUE = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\s[^<>]*/>)\s*(?:<(?:\w+:)?v\s*(?:/>|>\s*</)|</(?:\w+:)?c>)"
)
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours of what a notebook printed


def convert(data: bytes, suffix: str, *, max_seconds: float) -> Content:
    """Read a file that has to be parsed; raises `UnreadableError`."""
    command = [sys.executable, "-P", "-m", "hwdag_files.converting", suffix, f"{max_seconds}"]
    # why: the child must find what this process has found
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max_seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(
            f"reading it took longer than {max_seconds:g} s; allow more with max_seconds, or give "
            "its text"
        ) from None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise UnreadableError(
            f"reading it needs more than {MEMORY_BYTES >> 30} GB, or broke its parser (status "
            f"{done.returncode}); give its text"
        ) from None
    if "reason" in found:
        raise UnreadableError(found["reason"])
    return Content(**found | {name: tuple(found[name]) for name in ("notes", "page_starts")})


def main() -> None:
    """Parse standard input, for `convert`; the arguments are the suffix of the file and the seconds."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # why: what a library prints is no answer
    with suppress(ImportError, ValueError, OSError):  # Windows, or a lower limit that is there
        from resource import RLIMIT_AS, setrlimit

        setrlimit(RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        layout_seconds = LAYOUT_SHARE * float(sys.argv[2])
        found = asdict(parse(sys.stdin.buffer.read(), sys.argv[1], layout_seconds))
    except UnreadableError as error:
        found = {"reason": str(error)}
    with answer:
        answer.write(json.dumps(found).encode())


def parse(data: bytes, suffix: str, layout_seconds: float | None = None) -> Content:
    """Read a file within this process; raises `UnreadableError`. The seconds are those of `pdf_content`."""
    if suffix in CONVERTED_SUFFIXES:
        content = _converted(data, suffix)
    elif suffix == ".pdf":
        content = pdf_content(data, layout_seconds=layout_seconds)
    else:
        content = html_content(data)
    if len(content.text) > MOST_CHARACTERS:
        raise UnreadableError(
            f"its text has {len(content.text):,} characters, more than {MOST_CHARACTERS:,}"
        )
    return content


def _converted(data: bytes, suffix: str) -> Content:
    """Read an office file, a book or a notebook as Markdown; raises `UnreadableError`."""
    if suffix in PACKED_SUFFIXES:
        _check_packed(data)
    logging.disable()
    try:
        text, title = _READERS[suffix](data)
    except ImportError:
        raise UnreadableError(
            f"to read {suffix} install the extra: pip install 'hwdag[documents]'"
        ) from None
    except Exception as error:  # the parsers raise all kinds of exceptions
        raise UnreadableError(f"not a readable {suffix} file: {said(error)}") from error
    text, odd = without_surrogates(text)
    notes = (f"{odd} characters that are not Unicode replaced",) if odd else ()
    title, _ = without_surrogates(title or "")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Content(text.strip(), title.strip(), notes)


def _document(data: bytes) -> tuple[str, str | None]:
    """A Word document as a page, whose headings and list items are marked as in Markdown."""
    from bs4 import BeautifulSoup
    from mammoth import convert_to_html, html
    from markitdown.converter_utils.docx.pre_process import pre_process_docx

    found = convert_to_html(
        pre_process_docx(io.BytesIO(data)),  # the formulas as LaTeX
        convert_image=lambda image: [html.text(image.alt_text or "")],
        style_map="p[style-name='Title'] => p.title:fresh",
    )
    page = BeautifulSoup(found.value, "html.parser")
    title = page.find("p", class_="title")
    for table in page.find_all("table"):
        if table.tr and not table.th:  # why: few documents mark the header of a table
            for cell in table.tr.find_all("td", recursive=False):
                cell.name = "th"
    return page_text(page), title.get_text(" ", strip=True) if title else None


def _markdown(suffix: str, data: bytes) -> tuple[str, str | None]:
    from markitdown import StreamInfo, converters

    # why not the class MarkItDown: it reads a package that is none of its kind as any other zip
    kind = converters.PptxConverter if suffix == ".pptx" else converters.EpubConverter
    unescaped = {"escape_asterisks": False, "escape_underscores": False}
    found = kind().convert(io.BytesIO(data), StreamInfo(extension=suffix), **unescaped)
    text = _SLIDE_NUMBER.sub("", found.markdown)
    if suffix == ".pptx":  # why: its paragraphs have no marks, and seldom a full stop
        text = _SLIDE_LINES.sub(lambda lines: "- " + lines[0].replace("\n", "\n- "), text)
    return text, found.title


def _notebook(data: bytes) -> tuple[str, str | None]:
    """The cells of a notebook, code and what it printed as blocks of code."""
    notebook = json.loads(data.decode("utf-8-sig"))
    parts = list[str]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```\n{source}\n```")
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            is_image = any(kind.startswith("image/") for kind in shown)
            text = "".join(output.get("text", "" if is_image else shown.get("text/plain", "")))
            if text := _TERMINAL.sub("", text).strip("\r\n"):
                parts.append(f"```\n{text}\n```")
    title = notebook.get("metadata", {}).get("title")
    return "\n\n".join(parts), title if isinstance(title, str) else None


def _workbook(data: bytes) -> tuple[str, str | None]:
    """Every sheet as a heading and the rows that are filled.

    Row by row, because markitdown fills the whole rectangle up to the farthest cell with "NaN".
    """
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    same: Iterable[ReadOnlyWorksheet | None] = repeat(None)
    if _lacks_values(data):  # why not always: openpyxl gives either values or formulas
        same = load_workbook(io.BytesIO(data), read_only=True).worksheets
    sheets = (
        f"## {sheet.title}\n\n" + "\n".join(_rows_of(sheet, formulas, _merged(data, sheet)))
        for sheet, formulas in zip(book.worksheets, same, strict=False)
    )
    return "\n\n".join(sheets), book.properties.title


def _lacks_values(data: bytes) -> bool:
    """Whether a workbook has formulas whose values the program that wrote it did not store."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        parts = (name for name in packed.namelist() if "worksheets/" in name)
        return any(_NO_VALUE.search(packed.read(name)) for name in parts)


def _merged(data: bytes, sheet: ReadOnlyWorksheet) -> dict[int, list[tuple[int, int]]]:
    """The columns where cells of several rows are one, from 0, with the last of the rows; by the first."""
    from openpyxl.utils.cell import range_boundaries

    merged = defaultdict[int, list[tuple[int, int]]](list)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        # why so: openpyxl tells them only where it holds the whole sheet in memory
        found = _MERGED.findall(packed.read(sheet._worksheet_path))
    for column, first, _, last in (range_boundaries(one.decode()) for one in found):
        if last > first:
            merged[first].append((column - 1, last))
    return merged


def _rows_of(
    sheet: ReadOnlyWorksheet,
    formulas: ReadOnlyWorksheet | None,
    merged: Mapping[int, Sequence[tuple[int, int]]],
) -> Iterator[str]:
    """The tables of a sheet, which empty rows part; what stands alone in its row is no header."""
    sheet.reset_dimensions()  # why: the file may say that every row has 16,384 cells
    beside: Iterable[Iterable[object]] = repeat(repeat(None))
    if formulas:
        formulas.reset_dimensions()
        beside = formulas.iter_rows(values_only=True)
    table, above = list[list[str]](), dict[int, tuple[str, int]]()
    for number, (row, same) in enumerate(zip(sheet.iter_rows(), beside, strict=False), 1):
        cells = list(map(_shown, row, same))
        while cells and not cells[-1].strip():
            cells.pop()
        for column, (text, last) in above.items() if cells else ():
            if number <= last:
                cells += [""] * (column + 1 - len(cells))
                cells[column] = cells[column] or text
        above |= {at: (cells[at], last) for at, last in merged.get(number, ()) if at < len(cells)}
        filled = sum(map(bool, cells))
        if filled > 1 or (filled and table):
            table.append(cells)
        else:
            yield from table_lines(table or [cells])
            table = []
    yield from table_lines(table)


def _shown(cell: ReadOnlyCell, formula: object) -> str:
    """The value of a cell, or its formula where the program that wrote it stored no value."""
    # why the type: a formula that gives an empty text has the type of a text
    if cell.value is None and cell.data_type == "n":
        text = getattr(formula, "text", formula)  # that of an array is an object
        return text if isinstance(text, str) else ""
    return "" if cell.value is None else _as_shown(cell.value, cell.number_format or "")


def _as_shown(value: object, number_format: str) -> str:
    """A value nearly as the program shows it: a date without midnight, and a share as percent."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, float) or (type(value) is int and "%" in number_format):
        # why 15: as many digits as the file holds rightly, so 0.1 + 0.2 is 0.3
        return f"{value * 100:.15g}%" if "%" in number_format else f"{value:.15g}"
    return str(value)


_READERS: dict[str, Callable[[bytes], tuple[str, str | None]]] = {
    ".docx": _document,
    ".pptx": partial(_markdown, ".pptx"),
    ".xlsx": _workbook,
    ".epub": partial(_markdown, ".epub"),
    ".ipynb": _notebook,
}


def _check_packed(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(member.file_size for member in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"not a readable package: {said(error)}") from error
    if size > UNPACKED_BYTES:
        raise UnreadableError(
            f"it unpacks to {size >> 20:,} MB, more than the {UNPACKED_BYTES >> 20} MB that are read"
        )


if __name__ == "__main__":
    main()
