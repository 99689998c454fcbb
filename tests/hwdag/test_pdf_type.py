"""Type that is set in an unusual way: twice, small, apart, with initials; and titles in the metadata."""

import io

import pytest
from pdf_world import WATERWORKS, wrapped
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from hwdag_files.pdf import pdf_content


def page(draw):
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4, invariant=1)
    canvas.setFont("Times-Roman", 11)
    draw(canvas)
    canvas.save()
    content = pdf_content(buffer.getvalue())
    assert content.notes == ()
    return content


BILLS = "All bills of Hawaii, page xviii, number 4477001, were filled in; see llama 1,250."


@pytest.mark.parametrize("size", [5, 8, 11, 30])
@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.02, 0.0), (0.06, 0.03), (0.1, 0.0)])
@pytest.mark.parametrize("x", [60, 61.4, 62.7])
def test_letters_that_are_printed_twice_are_read_once(size, shift, x):
    def draw(canvas):
        canvas.setFont("Helvetica", size)
        for i, line in enumerate(wrapped(BILLS, 30)):
            for right, up in [(0.0, 0.0), shift]:
                canvas.drawString(x + right * size, 780 - 1.3 * i * size + up * size, line)

    text = page(draw).text.removeprefix("# ")
    assert text == BILLS


HEADS = ["TERMINATION OF LEASE", "Jane Doe", "Kapitel 12", "The fine is 85 euros."]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("share", [0.15, 0.25, 0.4, 0.5])
@pytest.mark.parametrize("size", [9, 16])
def test_letters_that_are_set_apart_are_words(head, share, size):
    def draw(canvas):
        text = canvas.beginText(72, 780)
        text.setFont("Helvetica-Bold", size, 3 * size)
        text.setCharSpace(share * size)
        text.textLine(head)
        text.setCharSpace(0)
        text.setFont("Times-Roman", 11)
        text.textLines(wrapped(WATERWORKS))
        canvas.drawText(text)

    lines = page(draw).text.splitlines()
    assert (lines[0].removeprefix("# "), lines[-1]) == (head, WATERWORKS)


def test_letters_with_a_typed_blank_after_each_are_words():
    head = "   ".join(" ".join(word) for word in ("PRICES", "OF", "BOATS"))
    assert page(lambda canvas: canvas.drawString(72, 700, head)).text == "PRICES OF BOATS"


@pytest.mark.parametrize("line", ["1 2 3 4 5 6 7", "A B C D E F", "x = y + z", "a 1 b 2 c 3"])
def test_single_signs_in_a_row_stay_apart(line):
    assert page(lambda canvas: canvas.drawString(72, 700, line)).text == line


LEASE = "The lease of the boathouse ends on 30 April 2026 without notice, and the tenant hands over all seven keys at the office of the society. The deposit is paid back in May, or in June at the latest."


@pytest.mark.parametrize("lines", [2, 3, 4])
@pytest.mark.parametrize("text", [LEASE, LEASE.replace("The lease", "A lease", 1)])
def test_a_large_initial_is_of_the_first_line_next_to_it(lines, text):
    initial, rest = text[0], text[1:]
    size = 13.5 * (lines - 1) / 0.66 + 11

    def draw(canvas):
        for i, line in enumerate(wrapped("The paper of the society. " * 5, 70)):
            canvas.drawString(60, 790 - 13.5 * i, line)
        canvas.setFont("Times-Roman", size)
        canvas.drawString(60, 700 - 13.5 * (lines - 1), initial)
        beside = canvas.stringWidth(initial, "Times-Roman", size) + 2
        canvas.setFont("Times-Roman", 11)
        for i, line in enumerate(wrapped(rest, 50)):
            is_word = i == 0 and rest.startswith(" ")
            canvas.drawString(60 + (beside if i < lines else 0) + 3 * is_word, 700 - 13.5 * i, line)

    assert text in page(draw).text


def test_a_large_letter_of_an_index_is_no_initial():
    def draw(canvas):
        for i, names in enumerate((("Aas", "Abel", "Agnes"), ("Bakke", "Berg", "Boe"))):
            canvas.setFont("Times-Roman", 36)
            canvas.drawString(60, 672 - 80 * i, names[0][0])
            canvas.setFont("Times-Roman", 11)
            for j, name in enumerate(names):
                canvas.drawString(92, 700 - 14 * j - 80 * i, f"{name}, a family of the town")

    words = page(draw).text.split()
    assert {"Aas,", "Abel,", "Agnes,", "Bakke,", "Berg,", "Boe,"} <= set(words)


HEAD = "Annual Report 2023 of the Varden Water Authority"


def report(title, head=HEAD):
    def draw(canvas):
        canvas.setTitle(title)
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(60, 780, head)
        canvas.setFont("Times-Roman", 11)
        for i, line in enumerate(wrapped(WATERWORKS)):
            canvas.drawString(60, 740 - 14 * i, line)

    return page(draw).title


@pytest.mark.parametrize(
    "title", ["10811.exe", "R Graphics Output", "Slide 1", "@title", "Annual Report 2019", "Print"]
)
def test_a_title_of_the_metadata_that_is_not_on_the_first_page_is_no_title(title):
    assert report(title) == HEAD


@pytest.mark.parametrize("title", [HEAD, "Varden Water Authority: Annual Report 2023"])
def test_a_title_of_the_metadata_with_the_words_of_the_first_page_counts(title):
    assert report(title) == title


def test_without_a_large_heading_the_title_is_that_of_the_metadata():
    assert report("Works of a Town", head="") == "Works of a Town"
    assert report("works_final.indd", head="") == ""


@pytest.mark.parametrize(
    ("size", "lines", "is_heading"),
    [
        (11, ["Airworthiness directives, the", "companies and their airplanes"], True),
        (11, ["Airworthiness directives, the", "companies and their airplanes fly."], False),
        (11, ["in the part for further", "information on a subject"], False),
        (11, ["One line of four that", "are in bold type, as", "some abstracts are in", "journals of the time"], False),
        (16, ["Airworthiness directives, the", "companies and their airplanes"], True),
        (14, ["Big achievements follow if you dream", "big. The works are a proof of the", "power of dreams."], False),
    ],
)  # fmt: skip
def test_a_heading_may_have_several_lines_and_is_no_sentence(size, lines, is_heading):
    def draw(canvas):
        text = canvas.beginText(72, 780)
        text.setFont("Times-Bold" if size == 11 else "Times-Roman", size, 1.2 * size)
        text.textLines(lines)
        text.setFont("Times-Roman", 11, 20)
        text.textLine("")
        text.setLeading(13)
        text.textLines(wrapped(WATERWORKS))
        canvas.drawText(text)

    first = page(draw).text.splitlines()[0]
    assert first == f"{'# ' * is_heading}{' '.join(lines)}"
