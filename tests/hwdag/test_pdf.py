"""PDFs as people have them: what a person reads, in the order in which a person reads it."""

import io
import random
import re
import sys
import time

import pdf_world
import pytest
from pdf_world import (
    HARBOUR,
    NAMES,
    PDFS,
    SCHOOL,
    TEXTS,
    WATERWORKS,
    body,
    ledger,
    paragraphs,
    wrapped,
    written,
)
from pypdf import PdfReader
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, Table

from hwdag.text import layout
from hwdag.text import pdf as pdf_module
from hwdag.text.files import read_documents
from hwdag.text.pdf import pdf_content
from hwdag.text.sentences import sentences

pytest.importorskip("pdfplumber")

STAFF = [
    "| Town, 2020, 2021, 2022",
    "| Hamar, 2020: 512, 2021: 530, 2022: 541",
    "| Gjøvik, 2020: 298, 2021: 301, 2022: 287",
    "| Lillehammer, 2020: 377, 2021: 365, 2022: 390",
]
MUSEUMS = [
    "| Museum, Visitors, Open since",
    "| Mjøsmuseet, Visitors: 12,400, Open since: 1906",
    "| Glass Hall, Visitors: 8,150, Open since: 1998",
    "| Railway Museum, Visitors: 31,020, Open since: 1896",
]
TABLE = ["# Staff of the libraries", WATERWORKS, "Table 1: Employees by town and year."]


def chapters(mark, number):
    return [
        block
        for i, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True), 1)
        for block in (f"## {i}{mark} {name}", *paragraphs(text, number))
    ]


BLOCKS = {
    "two columns": [
        "# Towns at the lake",
        "A study of four works and who built them",
        *chapters("", 5),
    ],
    "ruled table": [*TABLE, *STAFF, HARBOUR],
    "open tables": [*TABLE, *STAFF, HARBOUR, "Table 2: Museums of the region.", *MUSEUMS, SCHOOL],
    "running headers": ["# Annual Report", *chapters(".", 13)],
    "outline": [
        block for pair in zip([f"# {name}" for name in NAMES], TEXTS, strict=True) for block in pair
    ],
    "scanned": [WATERWORKS],
    "captions": [
        "# Pictures of the works",
        WATERWORKS,
        "1902 1911 1934",
        "Figure 1. Water pumped per day, in thousand litres.",
        HARBOUR,
    ],
    "rotated": [WATERWORKS, HARBOUR],
    "German": [
        "# Geschichte der Wasserwerke",
        "Die Wasserwerke der Stadt wurden am 1. Mai 1902 von Dr. Jürgen Müller eröffnet. Sie "
        "versorgten z. B. die Brauerei und das Krankenhaus. Die Grundsteinlegung war am 24. Dezember "
        "1899 gewesen, als der Magistrat das Nord-Süd-Gleis beschloß. Im 19. Jahrhundert gab es nur "
        "Brunnen.",
    ],
    "encrypted": ["# Sealed", SCHOOL],
}
TITLES = {
    "outline": "Works of a Town",
    "ruled table": "Library report 2022",
    "German": "Die Wasserwerke",
    "two columns": "Towns at the lake",
    "running headers": "Annual Report",
    "scanned": "",
}


@pytest.mark.parametrize("name", PDFS)
def test_blocks_stand_in_reading_order(name):
    content = pdf_content(PDFS[name]())
    # why: a line break within a paragraph is the end of a page
    blocks = re.split(r"\n\n|\n(?=\| )", content.text)
    assert [block.replace("\n", " ") for block in blocks] == BLOCKS[name]
    assert content.title == TITLES.get(name, content.title)


@pytest.mark.parametrize("name", PDFS)
def test_pages_begin_where_they_do_in_the_file(name, tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(PDFS[name]())
    [document] = read_documents([path])
    pages = PdfReader(path).pages
    assert len(document.page_starts) == len(pages)
    ends = [*document.page_starts[1:], len(document.text)]
    for page, start, end in zip(pages, document.page_starts, ends, strict=True):
        printed = letters(page.extract_text())
        for span in sentences(document.text[start:end]):
            words = document.text[start + span.start : start + span.end].split()
            if words[0] not in ("|", "#", "##"):
                assert letters("".join(words[:3])) in printed


def letters(text):
    return "".join(filter(str.isalnum, text))


def test_a_scanned_page_is_named():
    assert pdf_content(pdf_world.scanned()).notes == (
        "pictures without text on pages 2, 3: scanned, needs OCR",
    )


def test_a_paragraph_goes_on_over_the_end_of_a_page():
    content = pdf_content(pdf_world.running_headers())
    found = [content.text[span.start : span.end] for span in sentences(content.text)]
    sentence = "What it cost is not known, because the accounts were lost in the fire of 1940."
    whole = [one for one in found if one.replace("\n", " ") == sentence]
    assert len(whole) == sum(one.count(sentence) for one in BLOCKS["running headers"])


APART = " " * 12
KEPT = {
    "amounts and dates": [
        (f"Invoice {number} of 2024-03-0{day}", f"Total due: {total} EUR")
        for number, day, total in [(4711, 2, "1,250.00"), (4790, 3, "99.50"), (4803, 4, "7,400.00")]
    ],
    "footnotes": [
        (f"Harbour, {name}", f"{i} {name} to the council.") for i, name in enumerate(NAMES, 1)
    ],
    "two pages": [(f"Invoice {4711 + i}: total 1{i}50 EUR", "By hand.") for i in range(2)],
    "amounts apart": [(f"Total due:{APART}EUR {n}", f"Sum{APART}{n}") for n in (41, 42, 90, 77)],
    "dates alone": [(f"2024-03-{day:02d}", f"{day}.3.2024") for day in range(4, 9)],
}


@pytest.mark.parametrize("name", KEPT)
def test_lines_of_the_margins_that_differ_stay(name):
    pages = [[(790, top), *body(), (60, bottom)] for top, bottom in KEPT[name]]
    content = pdf_content(written(*pages))
    for lines in KEPT[name]:
        for line in lines:
            assert " ".join(line.split()) in content.text


def test_larger_type_in_the_margin_stays():
    years = list(range(1901, 1907))
    content = pdf_content(written(*([(790, str(year), 16), *body()] for year in years)))
    assert [year for year in years if str(year) not in content.text] == []


@pytest.mark.parametrize("number", ["{}", "- {} -", "Page {} of 9", "Seite {}/9"])
@pytest.mark.parametrize("first", [1, 117])
def test_numbers_of_pages_are_left_out(number, first):
    pages = [[*body(), (40, number.format(first + i))] for i in range(2)]
    assert pdf_content(written(*pages)).text == f"{WATERWORKS}\n\n{WATERWORKS}"


def test_headers_of_odd_and_even_pages_and_roman_numbers_are_left_out():
    roman = ["v", "vi", "vii", "viii", "ix", "x"]
    pages = [
        [(800, f"{i + 5} Town" if i % 2 else f"Lake {i + 5}"), *body(), (40, number)]
        for i, number in enumerate(roman)
    ]
    assert pdf_content(written(*pages)).text == "\n\n".join([WATERWORKS] * 6)


def test_headers_with_the_chapter_and_the_number_of_the_page_are_left_out():
    pages = [[(800, f"{NAMES[i // 2]}{APART}{i + 5}"), *body()] for i in range(6)]
    assert pdf_content(written(*pages)).text == "\n\n".join([WATERWORKS] * 6)


@pytest.mark.parametrize("repeat", [0, 1])
def test_no_row_of_a_table_is_lost_at_the_end_of_a_page(repeat):
    text = pdf_content(ledger(repeat=repeat)).text
    assert [i for i in range(100) if str(10000 + 37 * i) not in text] == []


GRID = [("GRID", (0, 0), (-1, -1), 0.5, colors.black)]


@pytest.mark.parametrize("repeat", [0, 1])
@pytest.mark.parametrize("style", [(), GRID])
def test_a_table_goes_on_over_the_end_of_a_page_with_the_names_of_its_columns(repeat, style):
    lines = pdf_content(ledger(repeat=repeat, style=style)).text.splitlines()
    rows = [line for line in lines if line.startswith("| 2021")]
    assert len(rows) == 100 and lines.count("| Date, Voucher, Amount") == 1 + 2 * repeat
    assert all(re.fullmatch(r"\| [\d-]+, Voucher: \d+, Amount: [\d.]+", row) for row in rows)


@pytest.mark.parametrize("widths", [[70, 110, 110], [120, 120, 120, 60]])
def test_a_table_of_other_columns_at_the_top_of_a_page_has_its_own_names(widths):
    tables = [
        Table(
            [[f"{word}{i}" for i, _ in enumerate(one)] for word in words], colWidths=one, style=GRID
        )
        for words, one in [(("Sum ", "May "), [120] * 3), (("Ship ", "Aud ", "Bor "), widths)]
    ]
    text = pdf_content(pdf_world.built([tables[0], PageBreak(), tables[1]])).text
    assert "| Aud 0, Ship 1: Aud 1, Ship 2: Aud 2" in text


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_page_that_is_shown_turned_is_read_as_it_was_written(degrees):
    content = pdf_content(pdf_world.turned(degrees, shown=True))
    assert content.text.replace("\n", " ") == WATERWORKS
    assert "turned" in content.notes[0]


@pytest.mark.parametrize("degrees", [90, -90])
def test_a_table_that_stands_sideways_is_not_lost(degrees):
    table = ["Town 2018 2019", "Hamar 512 530", "Otta 91 97"]
    content = pdf_content(pdf_world.turned(degrees, lines=table))
    assert [row for row in [*table, "Hamar were built in 1902"] if row not in content.text] == []


@pytest.mark.parametrize("degrees", [45, 60, 90])
def test_a_stamp_over_the_page_is_no_heading(degrees):
    content = pdf_content(pdf_world.turned(degrees, stamp="DRAFT"))
    assert (content.text, content.title) == (WATERWORKS, "")


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u00ad"])
def test_a_hyphen_is_one_whatever_its_sign(hyphen):
    place = {"x0": 0, "x1": 60, "top": 0, "bottom": 10, "size": 10, "fontname": "Times"}
    lines = [
        layout._piece([{"text": text, **place}], 0.0).text
        for text in (f"first{hyphen}year water{hyphen}", "works")
    ]
    assert pdf_module._rendered([layout.Block("text", lines)], {}, set()) == "first-year waterworks"


def test_lines_of_chinese_are_put_together_without_a_blank():
    lines = ["总部位于二〇二", "四年，共有", "500 人，", "和 Ada", "Lovelace"]
    found = pdf_module._rendered([layout.Block("text", lines)], {}, set())
    assert found == "总部位于二〇二四年，共有 500 人，和 Ada Lovelace"


RAISED = {
    "marks of notes": (
        "the catch was low<super>12</super>, as ever",
        "the catch was low¹², as ever",
    ),
    "an index": ("litres of H<sub>2</sub>O were lost", "litres of H2O were lost"),
    "a power": (
        "a pond of 340 m<super>2</super> or 10<super>6</super> cm",
        "a pond of 340 m² or 10⁶ cm",
    ),
    "an ordinal": ("on the 3<super>rd</super> of May", "on the 3rd of May"),
    "a note": ("<super>7</super> Without the catch of amateurs", "⁷ Without the catch of amateurs"),
}


@pytest.mark.parametrize("name", RAISED)
def test_raised_and_lowered_signs_stay_in_their_line(name):
    marked, plain = RAISED[name]
    lines = [f"{WATERWORKS} {marked}", f"{marked} {HARBOUR}"]
    text = pdf_content(pdf_world.built([Paragraph(line, pdf_world.BODY) for line in lines])).text
    assert text == f"{WATERWORKS} {plain}\n\n{plain} {HARBOUR}"


def test_a_large_first_letter_takes_no_words_out_of_the_lines_beside_it():
    lines = wrapped(WATERWORKS[1:], 60)
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    canvas.setFont("Times-Roman", 24)
    canvas.drawString(72, 686, WATERWORKS[0])
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(lines):
        canvas.drawString(88 if i < 2 else 72, 700 - 14 * i, line)
    canvas.save()
    assert lines[0] in pdf_content(buffer.getvalue()).text


def test_pieces_of_a_line_in_types_of_different_size_are_read_from_left_to_right():
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    for y in (700, 680, 660):
        for x, text, size in ((72, "Rent", 9), (200, f"{y}.00", 12), (300, "EUR", 9)):
            canvas.setFont("Times-Roman", size)
            canvas.drawString(x, y, text)
    canvas.save()
    assert "| Rent, 680.00, EUR" in pdf_content(buffer.getvalue()).text.splitlines()


def test_cells_below_a_name_that_spans_two_columns_are_not_lost():
    rows = [
        [(0, 20, "Hall"), (40, 110, "Members Others")],
        *[[(0, 20, f"H{i}"), (40, 60, f"{i}1"), (90, 110, f"{i}2")] for i in range(3)],
    ]
    lines = [
        layout.Line(tuple(layout.Piece(text, x0, x1, y, y + 10, 10.0) for x0, x1, text in row))
        for y, row in enumerate(rows)
    ]
    assert layout._cells(lines)[1:] == [[f"H{i}", f"{i}1 {i}2"] for i in range(3)]


@pytest.mark.parametrize("style", [GRID])
def test_words_that_the_end_of_a_line_divides_in_a_cell_are_put_together(style):
    cell = Paragraph("sterilises instru-<br/>ments and Nord-<br/>Süd 2020-<br/>21", pdf_world.BODY)
    cells = [["Name", "Meaning"], ["Autoklav", cell], ["Pumpe", "an old one"], ["Rohr", "a pipe"]]
    text = pdf_content(pdf_world.built([Table(cells, colWidths=[80, 120], style=style)])).text
    assert "sterilises instruments and Nord-Süd 2020-21" in text


def test_text_from_right_to_left_is_not_mirrored():
    text = "הנמל נבנה על ידי קלרה הולם"
    content = pdf_content(pdf_world.hebrew(text))
    assert content.text == text and "right to left" in content.notes[0]


def test_a_password_is_asked_for():
    with pytest.raises(pdf_module.UnreadableError, match="password"):
        pdf_content(pdf_world.encrypted("secret"))


def test_without_pdfplumber_the_text_is_that_of_pypdf_with_a_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "pdfplumber", None)
    content = pdf_content(pdf_world.ruled_table())
    assert "Hamar" in content.text and "2022: 541" not in content.text
    assert content.title == "Library report 2022"
    assert pdf_module.WITHOUT_LAYOUT in content.notes


def test_a_page_whose_layout_cannot_be_read_is_read_by_pypdf(monkeypatch):
    real = layout.page_lines

    def fails_once(page, outline):
        if page.page_number == 2:
            raise KeyError("damaged")
        return real(page, outline)

    monkeypatch.setattr(layout, "page_lines", fails_once)
    content = pdf_content(pdf_world.outlined())
    assert len(content.page_starts) == 4
    assert content.text[content.page_starts[1] :].startswith("Harbour")
    assert [note for note in content.notes if "page 2" in note]


def test_pages_that_take_too_long_are_read_without_their_layout(monkeypatch):
    real = layout.page_lines

    def slow(page, outline):
        if page.page_number == 3:
            time.sleep(60)
        return real(page, outline)

    monkeypatch.setattr(layout, "page_lines", slow)
    content = pdf_content(pdf_world.outlined(), layout_seconds=5)
    ends = [*content.page_starts[1:], len(content.text)]
    pages = [content.text[a:b].strip() for a, b in zip(content.page_starts, ends, strict=True)]
    assert pages[0] == f"# Waterworks\n\n{WATERWORKS}"
    assert "\n\n" not in pages[2] and pages[3].startswith("Railway\n")
    assert [note for note in content.notes if "5 s" in note]


@pytest.mark.slow
def test_a_page_of_many_lines_and_words_takes_seconds(tmp_path):
    """A map: its lines and words would keep the search for tables and columns busy for minutes."""
    canvas, rng = Canvas(str(tmp_path / "map.pdf"), invariant=1), random.Random(0)
    canvas.setFont("Helvetica", 2)
    for _ in range(2000):
        x, y = rng.uniform(0, 590), rng.uniform(0, 830)
        canvas.line(x, y, x + rng.uniform(0, 9), y)
        canvas.drawString(x, y, "Moen")
    canvas.save()
    start = time.process_time()
    content = pdf_content((tmp_path / "map.pdf").read_bytes())
    assert time.process_time() - start < 60
    assert content.text.count("Moen") > 1600
