"""How long reading large office files and pages takes, and how much memory, with hwdag and markitdown.

    python benchmarks/files.py           # two minutes of processor time

A Word file of 5 MB, a workbook of 100,000 rows and an HTML page of 100,000 elements are made from random words. Each
is read in a process of its own, by `hwdag_files.read`, which starts a second one, and by markitdown. Seconds are
of the processor, and memory is the largest of a process. The files are the same in every run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ru",
    "te",
    "na",
    "so",
    "pe",
    "di",
    "vu",
    "ha",
    "gor",
    "len",
    "bri",
    "sto",
]
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"

MEASURED = """
import json, resource, sys
{code}
spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
seconds = sum(one.ru_utime + one.ru_stime for one in spent)
print(json.dumps([seconds, max(one.ru_maxrss for one in spent) / 1024, length]))
"""
READERS = {
    "hwdag": "from hwdag_files.read import read_documents\n"
    "found = list(read_documents([sys.argv[1]]))\nlength = sum(len(one.text) for one in found)",
    "markitdown": "from markitdown import MarkItDown\n"
    "length = len(MarkItDown().convert(sys.argv[1]).markdown)",
}


class Reading(NamedTuple):
    """How a file was read; the seconds are None if the reader refused it."""

    file: str
    reader: str
    seconds: float | None = None
    megabytes: float = 0.0
    characters: int = 0


def main() -> None:
    """Print a table of all readings."""
    print("| file | reader | seconds of the processor | MB at the peak | characters |")
    print("|---|---|---|---|---|")
    for one in readings():
        seconds = "refused" if one.seconds is None else f"{one.seconds:.1f}"
        print(
            f"| {one.file} | {one.reader} | {seconds} | {one.megabytes:.0f} | {one.characters:,} |",
            flush=True,
        )


def readings(share: float = 1.0) -> Iterator[Reading]:
    """Make the files, or ones of a share of their size, and read each by every reader."""
    with tempfile.TemporaryDirectory() as folder:
        words = Words()
        files = {
            "Word, 5 MB": word_file(Path(folder, "a.docx"), words, int(5e6 * share)),
            "workbook, 100,000 rows": workbook(Path(folder, "a.xlsx"), words, int(1e5 * share)),
            "HTML, 100,000 elements": page(Path(folder, "a.html"), words, int(1e5 * share)),
        }
        for name, file in files.items():
            for reader, code in READERS.items():
                yield Reading(name, reader, *measured(file, code))


def measured(file: Path, code: str) -> tuple[float, float, int] | tuple[()]:
    """Return seconds, megabytes and characters of a reading; nothing if it failed."""
    command = [sys.executable, "-c", MEASURED.format(code=code), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return ()
    seconds, megabytes, characters = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes, characters


class Words:
    """Random words, the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._words = [
            "".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 4)))
            for _ in range(20_000)
        ]

    def some(self, count: int) -> str:
        """Return a sentence without its full stop."""
        return " ".join(self._random.choices(self._words, k=count)).capitalize()


def word_file(path: Path, words: Words, size: int) -> Path:
    """Write a Word file of about a size in bytes, paragraphs of six sentences."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r" Type="{OFFICE}" '
            'Target="word/document.xml"/></Relationships>',
        )
        with packed.open("word/document.xml", "w", force_zip64=True) as part:
            part.write(f'<w:document xmlns:w="{WORD}"><w:body>'.encode())
            written = 0
            while written < 3 * size:  # of which a third is left when it is packed
                text = " ".join(f"{words.some(14)}." for _ in range(6))
                written += part.write(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>".encode())
            part.write(b"</w:body></w:document>")
    return path


def workbook(path: Path, words: Words, rows: int) -> Path:
    """Write a workbook of one sheet with six columns."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Orders")
    sheet.append(["Order", "Town", "Item", "Count", "Price", "Paid"])
    for number in range(rows):
        day = f"2024-03-{number % 28 + 1:02}"
        sheet.append([f"N-{number}", words.some(1), words.some(1), number % 99, number / 8, day])
    book.save(path)
    return path


def page(path: Path, words: Words, elements: int) -> Path:
    """Write a page of paragraphs with four elements each."""
    with path.open("w", encoding="utf-8") as file:
        file.write("<title>Words</title>")
        for _ in range(elements // 4):
            linked = f"<b>{words.some(1)}</b> <a href='x'>{words.some(1)}</a>"
            file.write(f"<div><p>{words.some(8)} {linked}</p></div>\n")
    return path


if __name__ == "__main__":
    main()
