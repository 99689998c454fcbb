"""Numbers that count the lines of a PDF's page, and columns of numbers that do not."""

import io

import pytest
from pdf_world import HARBOUR, RAILWAY, SCHOOL, WATERWORKS, wrapped
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from hwdag_files.pdf import pdf_content

TEXT = " ".join([WATERWORKS, HARBOUR, SCHOOL, RAILWAY] * 2)


def page(draw):
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4, invariant=1)
    canvas.setFont("Times-Roman", 11)
    draw(canvas)
    canvas.save()
    return pdf_content(buffer.getvalue())


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [7, 11])
@pytest.mark.parametrize("first", [1, 26])
def test_numbers_next_to_the_lines_are_left_out(step, side, size, first):
    def draw(canvas):
        for i, line in enumerate(wrapped(TEXT, 70)):
            canvas.setFont("Times-Roman", 11)
            canvas.drawString(100, 760 - 18 * i, line)
            if (first + i) % step == 0:
                canvas.setFont("Helvetica", size)
                canvas.drawRightString(80 if side == "left" else 520, 760 - 18 * i, str(first + i))

    content = page(draw)
    assert content.text == TEXT
    assert "that count the lines" in content.notes[0]


@pytest.mark.parametrize("step", [5, 10])
def test_numbers_between_two_columns_are_left_out(step):
    def draw(canvas):
        for x, text in ((50, TEXT), (318, f"{RAILWAY} {TEXT}")):
            for i, line in enumerate(wrapped(text, 46)):
                canvas.drawString(x, 760 - 13 * i, line)
                if x == 50 and (i + 1) % step == 0:
                    canvas.drawCentredString(300, 760 - 13 * i, str(i + 1))

    assert page(draw).text.replace("\n\n", " ") == f"{TEXT} {RAILWAY} {TEXT}"


def test_the_lines_of_a_transcript_are_its_sentences():
    talk = [
        ("Q.", "Where were you on the evening of the fourth of March, when the lamp went out?"),
        ("A.", "I was in the boathouse with my brother until a quarter past eleven at night."),
        ("Q.", "Did you see the red van that stood at the north gate with its lights still on?"),
        ("A.", "Yes. A woman with a grey hat sat in it, I think that it was the teacher."),
    ] * 2
    lines = [line for who, said in talk for line in wrapped(f"{who} {said}", 45)]

    def draw(canvas):
        canvas.setFont("Courier", 10)
        for i, line in enumerate(lines):
            canvas.drawRightString(80, 760 - 26 * i, str(i + 1))
            canvas.drawString(100, 760 - 26 * i, line)

    text = " ".join(page(draw).text.split())
    assert [said for _, said in talk if said not in text] == []
    assert "|" not in text and "14" not in text


TABLES = {
    "rows with numbers": [(str(i), f"Pump {i}", f"{i * 37 % 90} litres") for i in range(1, 16)],
    "a column of fives": [(str(5 * i), "years of service", f"{i}.50") for i in range(1, 9)],
    "lower case": [(str(i), "fix the pump", "by May") for i in range(1, 12)],
    "names": [
        (str(i), name) for i, name in enumerate(["Aas", "Bakke", "Moe", "Boe", "Lie"] * 3, 1)
    ],
}


@pytest.mark.parametrize("name", TABLES)
def test_numbers_of_the_rows_of_a_table_stay(name):
    def draw(canvas):
        for i, cells in enumerate(TABLES[name]):
            for x, cell in zip((72, 130, 300), cells, strict=False):
                canvas.drawString(x, 760 - 16 * i, cell)

    content = page(draw)
    lines = content.text.splitlines()
    assert [
        row
        for row in TABLES[name]
        if not any(set(row[0].split()) <= set(line.replace(",", " ").split()) for line in lines)
    ] == []
    assert content.notes == ()


def test_a_numbered_list_keeps_its_numbers():
    def draw(canvas):
        for i in range(12):
            canvas.drawString(72, 760 - 16 * i, f"{i + 1} the pump of house {i} is tested")

    assert page(draw).notes == ()
