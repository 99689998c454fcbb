"""Workbooks as a person sees their sheets."""

import io
import re
import zipfile

import pytest

from hwdag_files.workbook import workbook_content

openpyxl = pytest.importorskip("openpyxl")
xlsxwriter = pytest.importorskip("xlsxwriter")
pytestmark = pytest.mark.slow


def sheet_of(rows, title="Plan"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return book, book.active


def content(book, changed=lambda name, data: data, renamed=lambda name: name):
    buffer, new = io.BytesIO(), io.BytesIO()
    book.save(buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(new, "w") as packed:
        for name in old.namelist():
            packed.writestr(renamed(name), changed(name, old.read(name)))
    return workbook_content(new.getvalue())


def lines(book):
    return content(book).text.split("\n")[2:]


SHIPS = [["Town", "Ships", "Crew"], ["Hamar", 12, 60], ["Berg", 9, 45]]


def test_hidden_sheets_rows_and_columns_are_left_out_and_noted():
    book, sheet = sheet_of([*SHIPS, ["Lund", 7, 35]])
    sheet.row_dimensions[3].hidden = True
    sheet.row_dimensions[9].hidden = True  # an empty one
    sheet.column_dimensions["C"].hidden = True
    for state in ("hidden", "veryHidden"):
        other = book.create_sheet(state)
        other.append(["Secret", 1])
        other.sheet_state = state
    book.create_sheet("Last").append(["End", "here"])
    found = content(book)
    assert found.text.split("\n") == [
        "## Plan",
        "",
        "| Town, Ships",
        "| Hamar, Ships: 12",
        "| Lund, Ships: 7",
        "",
        "## Last",
        "",
        "| End, here",
    ]
    assert found.notes == (
        "2 hidden sheets left out",
        "1 hidden row left out, some of them perhaps by a filter",
        "1 hidden column left out",
    )


def test_rows_without_numbers_of_their_own_are_counted():
    book, sheet = sheet_of(SHIPS)
    sheet.row_dimensions[3].hidden = True
    found = content(book, lambda name, data: re.sub(rb'<row r="\d+"', b"<row", data))
    assert "Berg" not in found.text and "Hamar" in found.text


def test_a_row_or_column_without_height_or_width_is_hidden():
    book, sheet = sheet_of(SHIPS)
    sheet.row_dimensions[2].height = 31
    sheet.column_dimensions["B"].width = 31

    def flat(name, data):
        return re.sub(rb'(ht|width)="31(\.0)?"', rb'\1="0"', data)

    assert content(book, flat).text.split("\n")[2:] == ["| Town, Crew", "| Berg, Crew: 45"]


def test_a_merged_cell_is_in_all_its_rows_even_if_the_first_is_hidden():
    book, sheet = sheet_of([["Part", "Item", "Cost"], ["Water", "Meter", 12], [None, "Hose", 8]])
    sheet.merge_cells("A2:A3")
    sheet.row_dimensions[2].hidden = True
    assert lines(book)[-1] == "| Water, Item: Hose, Cost: 8"


def test_formulas_without_a_value_are_noted():
    book, _ = sheet_of([["n", "double"], [3, "=A2*2"], [4, "=A3*2"]])
    assert content(book).notes == ("2 formulas without a stored value: the formula is read",)


def test_a_zero_that_nobody_computed_is_no_value():
    """XlsxWriter, which pandas uses, stores 0 for every formula, and asks Excel to compute all."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["n", "double", "half", "rest"])
        sheet.write_number(1, 0, 4)
        sheet.write_formula(1, 1, "=A2*2")
        sheet.write_formula(1, 2, "=A2/2", value=2)
        sheet.write_number(1, 3, 0)
    found = workbook_content(file.getvalue())
    assert found.text.endswith("| 4, double: =A2*2, half: 2, rest: 0")
    assert found.notes == ("1 formula without a stored value: the formula is read",)


def test_a_format_that_hides_a_value_hides_it():
    book, sheet = sheet_of([["Town", "Code"], ["Hamar", 7]])
    sheet["B2"].number_format = ";;;"
    found = content(book)
    assert "7" not in found.text
    assert found.notes == ("1 value left out whose format hides them",)


def test_comments_are_noted():
    book, sheet = sheet_of(SHIPS)
    sheet["A1"].comment = openpyxl.comments.Comment("Check this", "Ada")
    assert content(book).notes == ("comments on 1 sheet left out",)


def test_charts_are_noted_and_text_boxes_are_read():
    book, sheet = sheet_of(SHIPS)
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(sheet, min_col=2, min_row=1, max_row=3))
    sheet.add_chart(chart)
    assert content(book).notes == ("charts or pictures on 1 sheet not read",)
    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    box = f"<txBody {a}><a:p><a:r><a:t>Closed </a:t></a:r><a:r><a:t>in May.</a:t></a:r></a:p></txBody>"

    def changed(name, data):
        graphic = rb"<(\w+:)?graphicFrame.*</(\w+:)?graphicFrame>"
        return re.sub(graphic, box.encode(), data) if "drawing" in name else data

    found = content(book, changed)
    assert found.text.endswith("| Berg, Ships: 9, Crew: 45\n\nClosed in May.") and found.notes == ()


@pytest.mark.parametrize(
    ("font", "shown"),
    [
        ({"vertAlign": "superscript"}, "10⁶"),
        ({"vertAlign": "subscript"}, "10₆"),
        ({"strike": True}, "10~~6~~"),
        ({}, "106"),
    ],
)
def test_parts_of_a_text_are_read_as_they_look(font, shown):
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    book, sheet = sheet_of([["Grains", "Town"], ["", "Hamar"]])
    sheet["A2"] = CellRichText("10", TextBlock(InlineFont(**font), "6"))
    assert lines(book)[-1] == f"| {shown}, Town: Hamar"


def test_a_cell_that_is_struck_out_is_marked():
    book, sheet = sheet_of(SHIPS)
    sheet["B2"].font = openpyxl.styles.Font(strike=True)
    assert lines(book)[1] == "| Hamar, Ships: ~~12~~, Crew: 60"


def test_tables_below_each_other_have_their_own_names():
    rows = [*SHIPS, ["Roads"], ["Road", "Length", "Year"], ["North", 3.5, 1999]]
    assert lines(sheet_of(rows)[0])[-2:] == [
        "| Road, Length, Year",
        "| North, Length: 3.5, Year: 1999",
    ]
    assert "| Roads" in lines(sheet_of(rows)[0])
    # a group of rows is no table of its own
    rows = [*SHIPS, ["Inland"], ["Lund", 7, 35], ["Moss", 6, 30]]
    assert lines(sheet_of(rows)[0])[-1] == "| Moss, Ships: 6, Crew: 30"
    rows = [*SHIPS, ["Inland"], ["Lund", "none", "none"], ["Moss", 6, 30]]
    assert lines(sheet_of(rows)[0])[-1] == "| Moss, Ships: 6, Crew: 30"


def test_a_header_of_two_rows_names_with_both():
    book, sheet = sheet_of(
        [[None, "2024", None, "2025"], ["Town", "in", "out", "in"], ["Hamar", 1, 2, 3]]
    )
    sheet.merge_cells("B1:C1")
    assert lines(book)[-1] == "| Hamar, 2024 in: 1, 2024 out: 2, 2025 in: 3"


def test_white_letters_are_noted():
    book, sheet = sheet_of(SHIPS)
    for place in ("A2", "B2", "A3"):
        sheet[place].font = openpyxl.styles.Font(color="FFFFFFFF")
    sheet["A3"].fill = openpyxl.styles.PatternFill("solid", fgColor="FF000000")
    found = content(book)
    assert "| Hamar, Ships: 12, Crew: 60" in found.text
    assert found.notes == ("2 values read in white letters, which a person may not see",)


@pytest.mark.parametrize("renamed", [str.upper, lambda name: name.replace("/", "\\")])
def test_names_of_parts_may_have_another_case_or_be_paths_of_windows(renamed):
    assert "Hamar" in content(sheet_of(SHIPS)[0], renamed=renamed).text


def test_a_sheet_may_be_in_any_folder():
    def moved(text):
        return text.replace("xl/worksheets/sheet1.xml", "plan.xml")

    found = content(
        sheet_of(SHIPS)[0],
        lambda name, data: data.replace(b"/xl/worksheets/sheet1.xml", b"/plan.xml"),
        moved,
    )
    assert "| Hamar, Ships: 12, Crew: 60" in found.text


def test_sheets_that_are_charts_are_noted():
    book, sheet = sheet_of(SHIPS)
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(sheet, min_col=2, min_row=1, max_row=3))
    book.create_chartsheet().add_chart(chart)
    assert content(book).notes == ("1 sheet without rows, such as charts, left out",)


def test_codes_of_signs_are_read_and_a_style_may_be_empty():
    book, _ = sheet_of([["Town", "Note"], ["Hamar", "one_x000D_\ntwo_x005F_x0041_"]])

    def changed(name, data):
        return data.replace(b'<c r="B2"', b'<c r="B2" s=""')

    assert content(book, changed).text.endswith("| Hamar, Note: one two_x0041_")
