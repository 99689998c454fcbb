"""Marks across the pages of a PDF, such as "DRAFT", and large or pale type that is none."""

import io

import pytest
from pdf_world import TEXTS, wrapped
from reportlab.lib.colors import Color, black, darkblue, grey, red
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from hwdag_files.pdf import pdf_content


def pages(number, *, mark, colour, y=470, degrees=0, size=50, is_over=True):
    """Return pages of four paragraphs, each page with a mark below or over the text."""
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4, invariant=1)

    def draw_mark():
        canvas.saveState()
        canvas.setFillColor(colour)
        canvas.setFont("Helvetica-Bold", size)
        canvas.translate(90, y)
        canvas.rotate(degrees)
        canvas.drawString(0, 0, mark)
        canvas.restoreState()

    for page in range(number):
        if not is_over:
            draw_mark()
        canvas.setFillColor(black)
        canvas.setFont("Times-Roman", 11)
        at = 700
        for text in TEXTS:
            for line in wrapped(f"{page + 1} {text}"):
                canvas.drawString(72, at, line)
                at -= 13
            at -= 13
        if is_over:
            draw_mark()
        canvas.showPage()
    canvas.save()
    return pdf_content(buffer.getvalue())


def texts(number):
    return [f"{page + 1} {text}" for page in range(number) for text in TEXTS]


COLOURS = [Color(0.85, 0.85, 0.85), Color(0.6, 0.6, 0.6), Color(1, 0, 0, alpha=0.3)]


@pytest.mark.parametrize("mark", ["DRAFT", "CONFIDENTIAL COPY", "Muster"])
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("degrees", [0, 8, 45])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_mark_over_the_text_is_left_out(mark, colour, degrees, is_over):
    content = pages(1, mark=mark, colour=colour, degrees=degrees, y=600, size=40, is_over=is_over)
    assert content.text.split("\n\n") == texts(1)
    assert content.title == "" and content.notes[0].startswith("left out")


@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("y", [200, 760])
def test_a_pale_mark_at_one_place_of_all_pages_is_no_title_or_heading(number, y):
    content = pages(number, mark="CONFIDENTIAL COPY", colour=COLOURS[0], y=y)
    assert content.text.split("\n\n") == texts(number)
    assert content.title == "" and "of a mark across the page" in content.notes[0]


def test_a_dark_stamp_across_several_lines_is_left_out():
    content = pages(1, mark="PAID", colour=red, y=600, size=60)
    assert content.text.split("\n\n") == texts(1)


@pytest.mark.parametrize("colour", [black, darkblue, grey, Color(0.75, 0.75, 0.75)])
def test_large_type_above_the_text_of_one_page_is_its_title(colour):
    content = pages(1, mark="Works of Hamar", colour=colour, y=760, size=30)
    assert content.text.split("\n\n") == ["# Works of Hamar", *texts(1)]
    assert (content.title, content.notes) == ("Works of Hamar", ())


@pytest.mark.parametrize("colour", [darkblue, grey])
def test_a_heading_that_is_on_two_pages_stays(colour):
    content = pages(2, mark="Works of Hamar", colour=colour, y=720, size=30)
    assert content.text.count("# Works of Hamar") == 2


def test_the_words_of_a_cloud_are_no_marks():
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4, invariant=1)
    words = list(dict.fromkeys(" ".join(TEXTS).split()))[:90]
    for i, word in enumerate(words):
        canvas.setFont("Helvetica", 30 if i % 4 == 0 else 9)
        canvas.drawString(40 + 66 * (i % 8), 700 - 14 * (i // 8), word)
    canvas.save()
    content = pdf_content(buffer.getvalue())
    assert [word for word in words if word not in content.text] == [] and content.notes == ()
