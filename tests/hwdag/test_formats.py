"""docs/input.md names every format, with the parts that are read and those that are noted."""

import re
from pathlib import Path

from hwdag_files.pdf import pdf_content
from hwdag_files.read import KNOWN_SUFFIXES, MAX_SECONDS
from hwdag_files.readers import READERS, TEXT_READERS
from hwdag_files.texts import PLAIN_READERS

PAGE = (Path(__file__).parents[2] / "docs" / "input.md").read_text("utf-8")
HEADER = "| kind | files | read | not read | noted |"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE[PAGE.index(HEADER) :].split("\n\n")[0].split("\n")[2:]
]


def suffixes(row):
    spans = re.findall("`([^`]*)`", row[1])
    return [word for span in spans for word in span.split() if word.startswith(".")]


def test_the_table_has_every_suffix_once():
    named = [suffix for row in ROWS for suffix in suffixes(row)]
    assert len(named) == len(set(named))
    assert set(named) == KNOWN_SUFFIXES


def test_every_row_describes_its_format():
    assert all(len(row) == 5 and row[0] and row[2] for row in ROWS)


def test_the_kinds_of_a_reader_are_in_one_row():
    readers = {**PLAIN_READERS, **TEXT_READERS, **READERS, ".pdf": pdf_content}
    assert readers.keys() == KNOWN_SUFFIXES
    rows = {suffix: row[0] for row in ROWS for suffix in suffixes(row)}
    for reader in set(readers.values()):
        assert len({rows[suffix] for suffix, own in readers.items() if own is reader}) == 1


def test_the_limits_of_the_page_are_those_of_the_code():
    assert f"{MAX_SECONDS:g} seconds (`max_seconds`)" in PAGE
