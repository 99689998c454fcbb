"""Paragraphs that begin with "# " as text are no headings of Markdown."""

import pytest
from pdf_world import body, written
from test_odf import odf
from word_world import docx, paragraph, run

from hwdag.text.headings import Outline
from hwdag.types import Span
from hwdag_files.converting import parse
from hwdag_files.read import read_bytes

pytest.importorskip("lxml")

LINE = "# of seats on the ferry is 40."
PAGES = {
    ".docx": docx(paragraph(run("Fees")) + paragraph(run(LINE))),
    ".odt": odf("text", f"<text:p>Fees</text:p><text:p>{LINE}</text:p>"),
    ".rtf": rf"{{\rtf1\ansi Fees\par {LINE}\par}}".encode(),
    ".eml": f"Subject: Fees\n\nSee:\n{LINE}\n".encode(),
    ".html": f"<h1>Fees</h1><p>{LINE}</p><pre>\n# set up\nrun\n</pre>".encode(),
    ".xml": f"<book><title>Fees</title><p>See <b>this</b>.</p><p>{LINE}</p></book>".encode(),
    ".pdf": written([*body(), (500, LINE)]),
    ".txt": f"Fees\n{LINE}\n".encode(),
}


@pytest.mark.parametrize("suffix", PAGES)
def test_a_paragraph_that_begins_like_a_heading_is_a_paragraph(suffix):
    text = parse(PAGES[suffix], suffix).text if suffix != ".txt" else read(PAGES[suffix])
    at = text.replace("\xa0", " ").index(LINE)
    assert not any("seats" in section.heading for section in Outline(text).sections())
    assert "set up" not in Outline(text).heading_of(Span(at, len(text)))


def read(data):
    return read_bytes(data, "a.txt").text


def test_lines_between_blank_lines_of_a_plain_text_are_headings():
    text = read(b"# Fees\n\nIt is 80.\n\n## Seats\n\nThere are 40.\n")
    assert [section.heading for section in Outline(text).sections()] == ["Fees", "Fees > Seats"]
    commands = read(b"# Fees\n\n# make a copy\ncp a b\n")
    assert "\xa0make a copy" in commands
