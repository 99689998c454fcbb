"""PDFs with words that a line crosses out."""

import io

import pytest
from pdf_world import WATERWORKS, wrapped
from reportlab.pdfgen.canvas import Canvas

from hwdag_files.pdf import pdf_content

BEFORE, STRUCK, AFTER = "The fee is ", "70 euros", " 80 euros."


def page(first, last, height, width=0.5, kind="line"):
    """Return a page with a line from one place of a sentence to another, in sizes of its type."""
    canvas = Canvas(io.BytesIO(), invariant=1)
    canvas.setFont("Times-Roman", 11)
    canvas.drawString(72, 780, BEFORE + STRUCK + AFTER)
    start, end = (72 + canvas.stringWidth(text) for text in (first, last))
    if kind == "line":
        canvas.setLineWidth(width)
        canvas.line(start, 780 + height * 11, end, 780 + height * 11)
    else:
        canvas.rect(start, 780 + height * 11, end - start, width, stroke=0, fill=1)
    for number, line in enumerate(wrapped(WATERWORKS)):
        canvas.drawString(72, 740 - 13 * number, line)
    return canvas.getpdfdata()


@pytest.mark.parametrize("height", [0.18, 0.26, 0.33])
@pytest.mark.parametrize("kind", ["line", "rectangle"])
def test_words_that_are_crossed_out_are_marked(height, kind):
    content = pdf_content(page(BEFORE, BEFORE + STRUCK, height, kind=kind))
    assert content.text == f"The fee is ~~70 euros~~ 80 euros.\n\n{WATERWORKS}"


@pytest.mark.parametrize(
    "lines",
    [
        (BEFORE, BEFORE + STRUCK, -0.12),  # below the words
        (BEFORE, BEFORE + STRUCK, 0.75),  # above them
        (BEFORE, BEFORE + STRUCK + 40 * "x", 0.26),  # a rule over the page
        (BEFORE, BEFORE + STRUCK, 0.1, 5),  # a field of colour
    ],
)
def test_other_lines_cross_nothing_out(lines):
    assert pdf_content(page(*lines)).text.startswith(f"{BEFORE}{STRUCK}{AFTER}")
