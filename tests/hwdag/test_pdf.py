"""PDFs as people have them: the text that a person reads, in the order in which a person reads it."""

import io
import itertools
import random
import re
import subprocess
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
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Frame, FrameBreak, PageBreak, Paragraph, Table

from hwdag.text.sentences import sentences
from hwdag_files import layout, open_tables, pieces, words
from hwdag_files import pdf as pdf_module
from hwdag_files.pdf import pdf_content
from hwdag_files.read import read_documents


@pytest.fixture(autouse=True)
def without_ocr(monkeypatch):
    monkeypatch.setattr(pdf_module, "has_ocr", lambda: False)


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
    "ruled table": "Staff of the libraries",
    "German": "Die Wasserwerke",
    "two columns": "Towns at the lake",
    "running headers": "Annual Report",
    "scanned": "",
}


@pytest.mark.parametrize("name", PDFS)
def test_blocks_are_in_reading_order(name):
    content = pdf_content(PDFS[name]())
    # why: a line break within a paragraph is the end of a page
    blocks = re.split(r"\n\n|\n(?=\| )", content.text)
    assert [block.replace("\n", " ") for block in blocks] == BLOCKS[name]
    assert content.title == TITLES.get(name, content.title)


@pytest.mark.parametrize("name", PDFS)
def test_page_starts_are_those_of_the_file(name, tmp_path):
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
        "pictures without text on pages 2, 3: scanned, needs OCR: pip install 'hwdag[ocr]'",
    )


def test_a_paragraph_continues_over_the_end_of_a_page():
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


@pytest.mark.parametrize("title", ["19{:02d}", "Day {}", "The towns at the lake of Mjøsa"])
def test_larger_type_in_the_margin_stays(title):
    titles = [title.format(number) for number in range(1, 7)]
    content = pdf_content(written(*([(790, one, 16), *body()] for one in titles)))
    assert [one for one in titles if content.text.count(one) < titles.count(one)] == []


def test_a_long_header_in_larger_type_that_counts_the_pages_is_left_out():
    header = "{} Register of waterworks / Vol. 85 / Thursday"
    pages = [[(790, header.format(47700 + i), 13), *body()] for i in range(4)]
    assert pdf_content(written(*pages)).text == "\n\n".join([WATERWORKS] * 4)


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
def test_a_table_continues_over_the_end_of_a_page_with_the_names_of_its_columns(repeat, style):
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
    assert (content.text, content.notes) == (WATERWORKS, ())


@pytest.mark.parametrize("degrees", [90, -90])
def test_a_table_turned_sideways_is_not_lost(degrees):
    table = ["Town 2018 2019", "Hamar 512 530", "Otta 91 97"]
    content = pdf_content(pdf_world.turned(degrees, lines=table))
    assert [row for row in [*table, "Hamar were built in 1902"] if row not in content.text] == []


@pytest.mark.parametrize("degrees", [45, 60, 90])
def test_a_stamp_over_the_page_is_no_heading(degrees):
    content = pdf_content(pdf_world.turned(degrees, stamp="DRAFT"))
    assert (content.text, content.title) == (WATERWORKS, "")


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u00ad"])
def test_a_hyphen_is_one_whatever_its_sign(hyphen):
    lines = [
        pieces._piece([words.Word(text, 0.0, 60.0, 0.0, 10.0, 10.0)], 0.0).text
        for text in (f"first{hyphen}year water{hyphen}", "works")
    ]
    assert pdf_module._rendered([layout.Block("text", lines)], {}, set()) == "first-year waterworks"


def test_the_hyphen_of_a_compound_a_number_or_a_name_stays():
    lines = [
        "state-of-the-",
        "art, 1914-",
        "1918, COVID-",
        "19, X-",
        "rays, self-organi-",
        "sation",
    ]
    found = pdf_module._rendered([layout.Block("text", lines)], {}, set())
    assert found == "state-of-the-art, 1914-1918, COVID-19, X-rays, self-organisation"


def test_the_fields_of_a_form_are_read_in_their_lines():
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    for y, label, value in ((700, "Ship:", "Gudrun of Moss"), (660, "Master:", "")):
        canvas.drawString(72, y, label)
        canvas.acroForm.textfield(name=label, value=value, x=120, y=y - 6, height=20, borderWidth=0)
    canvas.save()
    assert pdf_content(buffer.getvalue()).text == "Ship: Gudrun of Moss\n\nMaster:"


def test_check_boxes_and_radio_buttons_are_read_as_set_or_not():
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    form = canvas.acroForm
    for y, label, is_set in ((700, "Engine", True), (660, "Sails", False)):
        form.checkbox(name=label, checked=is_set, x=72, y=y - 6)
        canvas.drawString(100, y, label)
    for x, label, is_set in ((72, "Norway", True), (180, "Sweden", False)):
        form.radio(name="flag", value=label, selected=is_set, x=x, y=614)
        canvas.drawString(x + 28, 620, label)
    canvas.save()
    text = pdf_content(buffer.getvalue()).text
    assert text.split("\n\n") == ["[x] Engine", "[ ] Sails", "[x] Norway [ ] Sweden"]


def test_fields_that_no_program_has_drawn_are_read():
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    canvas.drawString(72, 700, "Ship:")
    canvas.acroForm.textfield(name="ship", value="", x=120, y=694, height=20, borderWidth=0)
    canvas.save()
    writer = PdfWriter(clone_from=io.BytesIO(buffer.getvalue()))
    [field] = writer.pages[0]["/Annots"]
    field.get_object()[NameObject("/V")] = TextStringObject("Gudrun of Moss")
    del field.get_object()["/AP"]
    writer.write(filled := io.BytesIO())
    assert pdf_content(filled.getvalue()).text == "Ship: Gudrun of Moss"


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


def test_a_large_first_letter_takes_no_words_from_the_lines_next_to_it():
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


def rows_of(*flowables):
    """Return the rows between two paragraphs in the text of these."""
    around = [Paragraph(WATERWORKS, pdf_world.BODY), Paragraph(SCHOOL, pdf_world.BODY)]
    text = pdf_content(pdf_world.built([around[0], *flowables, around[1]])).text
    assert text.startswith(WATERWORKS) and text.endswith(SCHOOL)
    return [line for line in text.splitlines() if line.startswith("|")]


def halls(equipment):
    cells = [["Old Mill", "Stage", "120"], ["Riverside", equipment, "310"], ["Barn", "Oven", "95"]]
    body = [[hall, Paragraph(text, pdf_world.BODY), seats] for hall, text, seats in cells]
    return [["Hall", "Equipment", "Seats"], *body]


@pytest.mark.parametrize("place", ["TOP", "MIDDLE", "BOTTOM"])
@pytest.mark.parametrize("lines", [2, 3])
def test_a_cell_without_lines_around_it_continues_in_the_next_line(place, lines):
    text = "Stage, kitchen, lights and a projector with a screen" + " and a grand piano" * (
        lines > 2
    )
    style = [("VALIGN", (0, 0), (-1, -1), place)]
    assert rows_of(Table(halls(text), colWidths=[80, 150, 50], style=style)) == [
        "| Hall; Equipment; Seats",
        "| Old Mill; Equipment: Stage; Seats: 120",
        f"| Riverside; Equipment: {text}; Seats: 310",
        "| Barn; Equipment: Oven; Seats: 95",
    ]


def drawn(*lines, leading=12):
    """Pieces at these places, line below line, in a type of 10: each bold if its text ends in "*"."""
    canvas = Canvas(buffer := io.BytesIO(), invariant=1)
    for i, line in enumerate(lines):
        for x, text in line.items():
            canvas.setFont("Helvetica-Bold" if text.endswith("*") else "Helvetica", 10)
            canvas.drawString(x, 740 - leading * i, text.removesuffix("*"))
    canvas.save()
    return pdf_content(buffer.getvalue()).text


def test_lines_between_the_rows_of_a_statement_belong_to_the_row_above():
    entry = {72: "1 July", 140: "Standing order", 300: "110.21"}
    found = drawn(entry, {140: "Ref 387926"}, entry, {140: "Rent"}, {140: "Harbour"}, entry)
    assert found.splitlines() == [
        "| 1 July, Standing order Ref 387926, 110.21",
        "| 1 July, Standing order Rent Harbour, 110.21",
        "| 1 July, Standing order, 110.21",
    ]


@pytest.mark.parametrize("mark", ["", "*"])
def test_names_of_groups_do_not_end_a_table(mark):
    found = drawn(
        {300: f"2023{mark}", 360: f"2022{mark}"},
        {72: f"Current assets{mark}"},
        {72: "Inventories", 300: "1,204", 360: "1,177"},
        {72: "Cash", 300: "812", 360: "640"},
        {72: "Property, plants and"},
        {72: "equipment", 300: "9,440", 360: "9,010"},
        {72: f"Assets that are not current{mark}"},
        {72: "Goodwill that was bought, less its", 300: "1,500", 360: "1,400"},
        {72: "impairment"},
        {72: "Total", 300: "12,956", 360: "12,227"},
    )
    assert found.splitlines() == [
        "| Current assets",
        "| Inventories; 2023: 1,204; 2022: 1,177",
        "| Cash; 2023: 812; 2022: 640",
        "| Property, plants and equipment; 2023: 9,440; 2022: 9,010",
        "| Assets that are not current",
        "| Goodwill that was bought, less its impairment; 2023: 1,500; 2022: 1,400",
        "| Total; 2023: 12,956; 2022: 12,227",
    ]


def test_a_table_of_one_row_below_its_header():
    rows = [["Work", "Hours", "Rate", "Sum"], ["Tuning of the organ", "6", "85.00", "510.00"]]
    assert rows_of(Table(rows, colWidths=[140, 50, 60, 60])) == [
        "| Work, Hours, Rate, Sum",
        "| Tuning of the organ, Hours: 6, Rate: 85.00, Sum: 510.00",
    ]


def test_a_narrow_gap_separates_cells_if_wide_gaps_do_in_other_rows():
    found = drawn(
        {72: "Plan", 130: "Storage", 260: "Price"},
        {72: "Basic", 130: "10 GB", 260: "4.90"},
        {72: "Enterprise", 130: "as agreed", 260: "on request"},
        {72: "Family", 130: "200 GB", 260: "11.90"},
    )
    assert "| Enterprise, Storage: as agreed, Price: on request" in found.splitlines()


def test_names_of_columns_over_two_lines_are_one():
    found = drawn(
        {120: "Price per*", 200: "Seats at*", 280: "Key*"},
        {72: "Hall*", 120: "day*", 200: "tables*", 280: "from*"},
        {72: "Mill", 120: "240", 200: "96", 280: "Town hall"},
        {72: "Chapel", 120: "130", 200: "40", 280: "Vicar"},
        {72: "Barn", 120: "90", 200: "35", 280: "Ferry"},
    )
    assert found.splitlines()[-2:] == [
        "| Chapel, Price per day: 130, Seats at tables: 40, Key from: Vicar",
        "| Barn, Price per day: 90, Seats at tables: 35, Key from: Ferry",
    ]


@pytest.mark.parametrize("days", [("Day", "Evening"), ("In the daytime", "In the evening")])
def test_names_over_several_columns_are_those_of_each(days):
    cells = [[f"Hall {i}", *(f"{i}{j}" for j in range(4))] for i in range(3)]
    names = ["", "Members", "Others", "Members", "Others"]
    style = [
        ("SPAN", (1, 0), (2, 0)),
        ("SPAN", (3, 0), (4, 0)),
        ("ALIGN", (1, 0), (-1, -1), "CENTER"),
    ]
    table = Table([["", days[0], "", days[1], ""], names, *cells], colWidths=[80] * 5, style=style)
    assert rows_of(table)[-1] == (
        f"| Hall 2, {days[0]} Members: 20, {days[0]} Others: 21, "
        f"{days[1]} Members: 22, {days[1]} Others: 23"
    )


def test_numbers_below_each_other_are_of_several_rows():
    found = drawn(
        *(
            {72: town, 200: n, 300: m}
            for town, n, m in [("Hamar", "512", "530"), ("Moss", "98", "91")]
        ),
        {200: "610", 300: "621"},
        {300: "1,231"},
    )
    assert found.splitlines() == ["| Hamar, 512, 530", "| Moss, 98, 91", "| 610, 621", "| 1,231"]


def test_text_below_a_table_is_not_a_row():
    rows = [{72: f"Hall {i}", 200: f"{i}1", 300: f"{i}2"} for i in range(3)]
    text = {72: "The list is valid until the council changes it, after two readings."}
    note = {72: "Valid until May."}
    assert drawn(*rows, note, text).splitlines()[3:] == ["", note[72], "", text[72]]
    caption = {72: "Table 2:", 140: "Prices of the halls that are let to clubs."}
    assert drawn(*rows, caption, *rows).count("| Hall 2, 21, 22") == 2


def test_lines_that_are_drawn_with_dashes_are_no_rows():
    dashes = {72: "-----", 200: "------", 300: "====="}
    rows = [{72: f"Hall {i}", 200: f"{i}1", 300: f"{i}2"} for i in range(3)]
    found = drawn({72: "Hall", 200: "Days", 300: "Seats"}, dashes, *rows, dashes)
    assert found.splitlines()[-3:] == [f"| Hall {i}, Days: {i}1, Seats: {i}2" for i in range(3)]
    assert "--" not in found


LISTED = [{72: "•", 90: "Rope"}, {72: "•", 90: "Buoys for the northern pier"}, {72: "•", 90: "Oil"}]
COLUMNS = [
    {72: "the pumps of the water works", 260: "a sandbank before the pier,"},
    {72: "were paid with a loan which", 260: "and the basin was widened so"},
    {72: "the town repaid within years", 260: "that steamers could turn"},
]


@pytest.mark.parametrize("lines", [LISTED, COLUMNS])
def test_lists_and_columns_of_text_are_no_tables(lines):
    assert "| " not in drawn(*lines)


def columns(gap, above=()):
    """Two justified columns of a text, which may have a table over them."""
    width = (480 - gap) / 2
    frames = [
        Frame(x, 60, width, 400, leftPadding=0, rightPadding=0) for x in (57, 57 + width + gap)
    ]
    top = Frame(57, 480, 480, 300, leftPadding=0, rightPadding=0)
    story = [Paragraph(text, pdf_world.JUSTIFIED) for text in paragraphs(HARBOUR, 9)]
    frames = [top, *frames] if above else frames
    return pdf_world.built([*above, *([FrameBreak()] if above else []), *story], frames=frames)


@pytest.mark.parametrize("gap", [9, 12, 18])
def test_columns_with_a_narrow_space_between_them_are_read_one_after_the_other(gap):
    assert pdf_content(columns(gap)).text.replace("\n", " ") == "  ".join(paragraphs(HARBOUR, 9))


def test_a_dump_of_bytes_is_no_text_in_columns():
    lines = [
        (740 - 12 * i, f"{i:06x} " + "00 4f 05 " * 5 + "|>0=..Pk..9~..<..|") for i in range(12)
    ]
    dumped = [line for _, line in lines]
    found = pdf_content(written([(y, line.replace("|>", "   |>")) for y, line in lines])).text
    assert " ".join(found.split()) == " ".join(" ".join(dumped).split())


def test_a_table_of_numbers_over_two_columns_is_read_across():
    rows = [[f"Area {i}", *(f"{i}.{j}" for j in range(7))] for i in range(9)]
    table = Table([["Area", *map(str, range(2010, 2017))], *rows], colWidths=[75] + [57] * 7)
    found = pdf_content(columns(12, [table])).text.split("\n\n")
    assert found[0].splitlines()[-1] == "| Area 8, " + ", ".join(
        f"{2010 + j}: 8.{j}" for j in range(7)
    )
    assert found[1:] == paragraphs(HARBOUR, 9)


@pytest.mark.parametrize("style", [GRID, []])
def test_words_that_the_end_of_a_line_divides_in_a_cell_are_put_together(style):
    cell = Paragraph("sterilises instru-<br/>ments and Nord-<br/>Süd 2020-<br/>21", pdf_world.BODY)
    cells = [["Name", "Meaning"], ["Autoklav", cell], ["Pumpe", "an old one"], ["Rohr", "a pipe"]]
    text = pdf_content(pdf_world.built([Table(cells, colWidths=[80, 120], style=style)])).text
    assert "sterilises instruments and Nord-Süd 2020-21" in text


@pytest.mark.slow
def test_lines_that_are_no_table_take_little_time():
    lines = [
        pieces.Line(
            tuple(
                pieces.Piece("cells of a text " * 3, x, x + 15.0, 12.0 * y, 12.0 * y + 10, 10.0)
                for x in range(0, 100, 20)
            )
        )
        for y in range(1000)
    ]
    start = time.process_time()
    assert not open_tables.open_tables(lines)
    assert time.process_time() - start < 8


def test_text_from_right_to_left_is_not_mirrored():
    text = "הנמל נבנה על ידי קלרה הולם"
    content = pdf_content(pdf_world.hebrew(text))
    assert content.text == text and "right to left" in content.notes[0]


def test_letters_of_arabic_are_read_without_their_forms():
    printed = "\ufedf\ufef4\ufee0\ufef0 \ufea3\ufeaa\ufe8d\ufea9"
    assert pdf_content(pdf_world.hebrew(printed)).text == "ليلى حداد"


def test_a_password_is_asked_for():
    with pytest.raises(pdf_module.UnreadableError, match="password"):
        pdf_content(pdf_world.encrypted("secret"))


def test_a_page_whose_layout_cannot_be_read_is_read_in_the_order_of_the_file(monkeypatch):
    real, numbers = layout.page_lines, itertools.count(1)

    def fails_once(page, outline):
        if next(numbers) == 2:
            raise KeyError("damaged")
        return real(page, outline)

    monkeypatch.setattr(layout, "page_lines", fails_once)
    content = pdf_content(pdf_world.outlined())
    assert len(content.page_starts) == 4
    assert content.text[content.page_starts[1] :].startswith("Harbour")
    assert [note for note in content.notes if "page 2" in note]


def test_pages_that_take_too_long_are_read_without_their_layout(monkeypatch):
    real, numbers = layout.page_lines, itertools.count(1)

    def slow(page, outline):
        if next(numbers) == 3:
            time.sleep(60)
        return real(page, outline)

    monkeypatch.setattr(layout, "page_lines", slow)
    content = pdf_content(pdf_world.outlined(), layout_seconds=1)
    ends = [*content.page_starts[1:], len(content.text)]
    pages = [content.text[a:b].strip() for a, b in zip(content.page_starts, ends, strict=True)]
    assert pages[0] == f"# Waterworks\n\n{WATERWORKS}"
    assert "\n\n" not in pages[2] and pages[3].startswith("Railway\n")
    assert [note for note in content.notes if "1 s" in note]


@pytest.mark.slow
def test_a_page_of_many_lines_and_words_takes_seconds(tmp_path):
    """Read a map, whose lines and words kept the search for tables and columns busy for minutes."""
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


def test_pdfium_is_not_loaded_if_files_are_parsed_elsewhere():
    """Keep a fault of native code within the process that parses."""
    code = "import sys, hwdag_files.read; print('pypdfium2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
