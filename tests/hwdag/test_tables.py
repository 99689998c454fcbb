"""A row of a table is a leaf that names its columns, whatever file it comes from."""

import csv
import io
import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.text.chunking import leaves
from hwdag.text.sentences import LONGEST_ROW, sentences
from hwdag.text.tables import (
    NAMED_ONCE,
    is_number,
    markdown_with_headers,
    separated_lines,
    table_lines,
)
from hwdag_files.html import html_content
from hwdag_files.open_tables import with_aligned_rows
from hwdag_files.read import read_documents
from hwdag_lab.scripted import ScriptedLM

STAFF = [["Town", "2021", "2022"], ["Hamar", "530", "541"], ["Gjøvik", "301", "287"]]
LINES = ["| Town, 2021, 2022", "| Hamar, 2021: 530, 2022: 541", "| Gjøvik, 2021: 301, 2022: 287"]


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|:--:|---|", *lines[1:]])


def html(rows):
    cells = [
        "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
        for tag, row in zip(["th", "td", "td"], rows, strict=True)
    ]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def markup(rows):
    cells = ["".join(f"<td>{cell}" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{row}" for row in cells) + "</table>"


def separated(rows, sign=","):
    return "\n".join(sign.join(row) for row in rows)


def sheet(rows):
    openpyxl = pytest.importorskip("openpyxl")
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in [["Staff of the libraries"], [], *rows]:
        book.active.append([int(cell) if cell.isdigit() else cell for cell in row])
    book.save(buffer)
    return buffer.getvalue()


FILES = {
    "a.csv": separated(STAFF),
    "b.csv": separated(STAFF, ";"),
    "c.tsv": separated(STAFF, "\t"),
    "d.md": f"# Staff\n\nBefore.\n\n{markdown(STAFF)}\n\nAfter.",
    "e.html": f"<p>Before.</p>{html(STAFF)}<p>After.</p>",
}


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_a_leaf_that_names_its_columns(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    [document] = read_documents([tmp_path])
    assert_rows(document.text)


@pytest.mark.slow
def test_rows_of_a_sheet_are_leaves(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(sheet(STAFF))
    [document] = read_documents([tmp_path])
    assert "| Staff of the libraries\n" in document.text
    assert_rows(document.text)


@pytest.mark.slow
def test_a_merged_cell_of_a_sheet_is_repeated_in_all_its_rows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["Plan"], ["Group", "Item", "Cost"], ["Water", "Meter", 120], [None, "Hose", 80]]
    for row in [*rows, [None, "Tap"], [], [None, "Gravel", 310]]:
        book.active.append(row)
    for cells in ("A1:C1", "A3:A7"):
        book.active.merge_cells(cells)
    book.save(tmp_path / "a.xlsx")
    [document] = read_documents([tmp_path])
    assert document.text.split("\n")[2:] == [
        "| Plan",
        "| Group, Item, Cost",
        "| Water, Item: Meter, Cost: 120",
        "| Water, Item: Hose, Cost: 80",
        "| Water, Item: Tap",
        "| Water, Gravel, 310",
    ]


def assert_rows(text):
    spans = leaves(text, count_tokens=ScriptedLM().count_tokens, limit=300)
    found = [text[span.start : span.end] for span in spans]
    assert found[found.index(LINES[1]) :][:2] == LINES[1:]
    assert sum(leaf.endswith(LINES[0]) for leaf in found) == 1


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([["", "a"], ["x", "1"]], ["| x, a: 1"]),
        ([["Rex", "3"], ["Tom", "4"]], ["| Rex, 3", "| Tom, 4"]),
        ([["k", "v"], ["x", "1, 2"], ["", ""]], ["| k; v", "| x; v: 1, 2"]),
        ([["a\nb", "c"]], ["| a b, c"]),
        ([["a", "b"], ["x", "1", "2"]], ["| a, b", "| x, 1, 2"]),
        ([], []),
    ],
)
def test_rows_name_their_headers_and_leave_out_empty_cells(rows, lines):
    assert table_lines(rows) == lines


@given(st.lists(st.lists(st.text("ab1,;|é\n "), min_size=1, max_size=4), max_size=5))
def test_no_word_of_a_table_is_lost(rows):
    text = "\n".join(table_lines(rows))
    for cell in (cell for row in rows for cell in row):
        assert " ".join(cell.split()) in text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "Umsatz 2023\n\nOrt;Betrag;Anteil\nKöln;1234,50;12,5\nBonn;99,95;3,1\n",
            ["Umsatz 2023", "", "| Ort, Betrag, Anteil", "| Köln, Betrag: 1234,50, Anteil: 12,5"],
        ),
        ("1,5;2,5\n3,5;4,5", ["| 1,5, 2,5", "| 3,5, 4,5"]),
        ("\ta\nx, y\t1, 2, 3", ["| x, y; a: 1, 2, 3"]),
        ('a,b\n"x\ny; z",1', ["| a, b", "| x y; z, b: 1"]),
        ("name\nAda\nBo", ["| name", "| Ada", "| Bo"]),
        (
            "IBAN,DE12,,\nSaldo,418,EUR,\n\nTag,Ort,Betrag,Art\n1.3.,Köln,94,bar\n\n2.3.,Bonn,12,bar",
            [
                *("| IBAN, DE12", "| Saldo, 418, EUR", "", "| Tag, Ort, Betrag, Art"),
                "| 1.3., Ort: Köln, Betrag: 94, Art: bar",
                "| 2.3., Ort: Bonn, Betrag: 12, Art: bar",
            ],
        ),
    ],
)
def test_the_separator_is_what_most_lines_agree_on(text, lines):
    assert separated_lines(text)[: len(lines)] == lines


@given(st.text("a,;\"\t\n'|"))
def test_any_text_has_rows(text):
    separated_lines(text)
    markdown_with_headers(text)


@given(st.lists(st.lists(st.text("ab ,\"'"), min_size=2, max_size=2), min_size=2))
def test_what_csv_writes_is_read(rows):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    words = " ".join(separated_lines(buffer.getvalue()))
    assert all(" ".join(cell.split()) in words for row in rows for cell in row)


@pytest.mark.parametrize("rows", ["x{0}y\n" * 40_000, "v{0}" * 40_000], ids=["rows", "columns"])
def test_a_header_of_any_width_takes_linear_time(rows):
    """Take seconds: a quadratic part took a minute."""
    header = [f"c{i}" for i in range(40_000)]
    began = time.process_time()
    separated_lines(f"{','.join(header)}\n{rows.format(',')}")
    markdown_with_headers(f"{'|'.join(header)}\n{'|'.join('-' * 40_000)}\n{rows.format('|')}")
    assert time.process_time() - began < 5


def test_tables_in_code_and_bars_in_prose_stay():
    for text in (f"```\n{markdown(STAFF)}\n```", "a | b\nis no table", "| a |\n|---|---|\n| b |"):
        assert markdown_with_headers(text) == text


def test_a_cell_may_hold_a_bar():
    text = "a | b\n--|--\nx | y\\|z\nrest"
    assert markdown_with_headers(text) == "| a, b\n| x, b: y|z\nrest"


def test_a_long_row_is_cut():
    assert len(sentences("| a: It is so. Then it is not. | b |")) == 1
    assert len(sentences("| " + "It is so. " * (LONGEST_ROW // 5))) > 1


def test_a_layout_table_stays_text(tmp_path):
    (tmp_path / "a.html").write_text(
        "<table><tr><td>Left side.</td><td>Right side.</td></tr></table>"
    )
    [document] = read_documents([tmp_path])
    assert document.text == "Left side.\tRight side."


def test_cells_that_span_columns_name_them_all(tmp_path):
    (tmp_path / "a.html").write_text(
        "<table><caption>Staff</caption><tr><th>Town</th><th colspan=2>2022</th></tr>"
        "<tr><td>Hamar</td><td>54</td><td>1</td></tr></table>"
    )
    [document] = read_documents([tmp_path])
    assert document.text == "Staff\n\n| Town, 2022, 2022\n| Hamar, 2022: 54, 2022: 1"


def html_text(markup):
    return html_content(markup.encode()).text


def test_cells_that_span_rows_are_repeated_in_all_of_them():
    markup = (
        "<table><tr><th>Country</th><th>River</th><th>Length</th></tr><tr><td rowspan=2>Norway</td><td>Glomma</td>"
        "<td rowspan=3>long</td></tr><tr><td>Otra</td></tr><tr></tr><tr><td>Sweden</td></tr></table>"
    )
    assert html_text(markup).split("\n") == [
        "| Country, River, Length",
        "| Norway, River: Glomma, Length: long",
        "| Norway, River: Otra, Length: long",
        "| Sweden",
    ]


def test_names_above_numbers_need_no_header_cells():
    rows = "<tr><td><b>Plant</b></td><td>Price</td></tr><tr><td>Yew</td><td>4.00</td></tr>"
    more = "<tr><td>Beech</td><td>2.10</td></tr>"
    assert html_text(f"<table>{rows}{more}</table>").split("\n") == [
        "| Plant, Price",
        "| Yew, Price: 4.00",
        "| Beech, Price: 2.10",
    ]
    assert html_text(f"<table>{rows}</table>") == "Plant\tPrice\n\nYew\t4.00"
    assert "|" not in html_text(f"<table>{rows}{more}</table>".replace("4.00", "dear"))


def test_a_header_of_two_rows_names_with_both():
    text = html_text(
        "<table><tr><th colspan=3>Staff</th></tr>"
        "<tr><th rowspan=2>Town</th><th colspan=2>2022</th></tr><tr><th>men</th><th>women</th></tr>"
        "<tr><td>Hamar</td><td>54</td><td>1</td></tr><tr><td colspan=3>In all towns</td></tr></table>"
    )
    assert text.split("\n") == [
        "| Staff",
        "| Town, 2022 men, 2022 women",
        "| Hamar, 2022 men: 54, 2022 women: 1",
        "| In all towns",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        f"<tr><th>{'x' * 200_000}</th>" + "<td rowspan=99 colspan=99>y</td>" * 2_000,
        f"<tr><th>n</th><th>{'x' * 200_000}</th></tr>" + "<tr><td>y</td><td>z</td></tr>" * 5_000,
        f"<tr><th>n</th><td rowspan=99 colspan=99>{'x' * 100_000}</td></tr>" + "<tr></tr>" * 99,
    ],
)
def test_spans_and_long_names_do_not_make_a_page_gigabytes(rows):
    began = time.process_time()
    assert len(html_text(f"<table>{rows}</table>")) < 100 * len(rows)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("cell", ["€ 240", "240,00 EUR", "07:40", "12 %", "(1,200)", "$ 5"])
def test_amounts_with_their_unit_and_times_are_numbers(cell):
    assert is_number(cell)
    assert table_lines([["Mill", cell], ["Barn", "none"]]) == [f"| Mill, {cell}", "| Barn, none"]


@pytest.mark.parametrize("name", ["2022", "2022 TEUR", "2022 EUR"])
def test_a_year_with_its_currency_names_a_column(name):
    assert table_lines([["Town", name], ["Moss", "31"]])[-1] == f"| Moss, {name}: 31"


ALIGNED = """FARES (pay the driver)
                    single   return   week
Adult                 3.20     5.60   21.00
Young person          2.10     3.80   13.50

Dear all,
  the bus  is late.

NAME\tROOM\tDAY
----\t----\t---
Ada Horn\t2\tMonday
Bo\t31\tFriday
"""


def test_columns_that_blanks_align_in_a_plain_text_are_those_of_a_table(tmp_path):
    path = tmp_path / "fares.txt"
    path.write_text(ALIGNED)
    [document] = read_documents(path)
    assert document.text.split("\n") == [
        "FARES (pay the driver)",
        "| Adult, single: 3.20, return: 5.60, week: 21.00",
        "| Young person, single: 2.10, return: 3.80, week: 13.50",
        "",
        "Dear all,",
        "  the bus  is late.",
        "",
        "| NAME, ROOM, DAY",
        "| Ada Horn, ROOM: 2, DAY: Monday",
        "| Bo, ROOM: 31, DAY: Friday",
        "",
    ]


@given(st.text(alphabet="ab1. \t\n", max_size=300))
def test_no_word_of_a_plain_text_is_lost(text):
    assert set(re.findall("[ab1]+", text)) <= set(re.findall("[ab1]+", with_aligned_rows(text)))
    unaligned = re.sub("[ \t]+", " ", text)
    assert with_aligned_rows(unaligned) == unaligned


def test_a_fence_is_closed_by_its_own_sign_alone_and_as_long():
    table = markdown(STAFF)
    for opening, inside, closing in (
        ("~~~", "```", "~~~"),
        ("````", "```", "`````"),
        ("```python", "~~~", "```"),
        ("```", "```x", "```"),
    ):
        code = f"{opening}\n{inside}\n{table}\n{closing}"
        assert markdown_with_headers(code) == code
        assert markdown_with_headers(f"{code}\n\n{table}") != f"{code}\n\n{table}"


@pytest.mark.parametrize("sign", ["\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_row_ends_at_a_line_feed_alone(sign):
    text = f"Name,Note,Price\nAlpha,first{sign}second,5\nBeta,third,6"
    assert separated_lines(text)[1] == "| Alpha, Note: first second, Price: 5"


def test_a_quotation_mark_that_is_never_closed_is_a_sign_like_others():
    for count, above in ((20_000, '5" pipe,3\n"6 pipe,4\n'), (100, '"6 pipe,4\n')):
        text = f"Size,Count\n{above}" + "".join(f"w{i},{i}\n" for i in range(count))
        lines = separated_lines(text)
        assert len(lines) == text.count("\n")
        assert '| "6 pipe, Count: 4' in lines
        assert "| w7, Count: 7" in lines
    assert separated_lines('A,B\n"x\ny",1\n')[1] == "| x y, B: 1"


def test_cells_and_rows_may_lack_end_tags():
    closed = (
        "<table><tr><th>Town</th><th>2021</th></tr><tr><td>Hamar</td><td>530</td></tr></table>"
        "<table><tr><td>out<table><tr><td>in</td></tr></table></td><td>side</td></tr></table><p>End</p>"
    )
    left_out = re.sub("</t[hdr]>", "", closed)
    assert html_content(closed.encode()).text.startswith("| Town, 2021\n| Hamar, 2021: 530")
    whole = "<thead><tr><th>A<th>B<tbody><tr><td>x<td>1<tr><td>y<td>2"
    assert html_content(f"<table>{whole}</table>".encode()).text == "| A, B\n| x, B: 1\n| y, B: 2"
    items = "<ul><li hidden>secret<li>a<ul><li>b</ul><li>c</ul><dl><dt>x<dd hidden>no<dt>y</dl>"
    assert html_content(items.encode()).text.split() == [
        "-",
        "a",
        "-",
        "b",
        "-",
        "c",
        "-",
        "x",
        "-",
        "y",
    ]
    first = left_out[: left_out.index("<table>", 1)]
    assert html_content(first.encode()).text == "| Town, 2021\n| Hamar, 2021: 530"
    nested = html_content(closed[closed.index("<table>", 1) :].encode()).text
    assert nested.split() == ["out", "in", "side", "End"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Day;Text;Amount;\n1.1.;Rent;-900,00;\n2.1.;Pay;2500,00;",
            "| 1.1., Text: Rent, Amount: -900,00",
        ),
        ("Name,Value,Value,Unit\nA,11,12,bar\nB,21,22,bar", "| A, Value: 11, Value: 12, Unit: bar"),
        (",Jan,,Mar\nA,11,12,13\nB,21,22,23", "| A, Jan: 11, 12, Mar: 13"),
        ("Hour\t1\t2\t3\nA\t0.3\t0.4\t0.5\nB\t0.1\t0.2\t0.6", "| A, 1: 0.3, 2: 0.4, 3: 0.5"),
        (
            "Town,2022,,2023,\n,mean,max,mean,max\nA,1,2,3,4\nB,5,6,7,8",
            "| A, 2022 mean: 1, 2022 max: 2, 2023 mean: 3, 2023 max: 4",
        ),
        ("Part,Item,Cost\nA,Oven,9\n,Sink,7\nB,Hose,2", "| A, Item: Sink, Cost: 7"),
        ("Part,Item,Cost\nA,Oven,9\n,Total,9\nB,Hose,2", "| Item: Total, Cost: 9"),
        (
            "P,Litres,,,\nA,2,,Valve,Bar\nB,3,,V1,16\nC,4,,V2,10",
            "| B, Litres: 3, Valve: V1, Bar: 16",
        ),
        (
            ",Ships,,Boats\n,2024,2025,2025\nTown,in,in,in\nA,1,2,3\nB,4,5,6",
            "| A, Ships 2024 in: 1, Ships 2025 in: 2, Boats 2025 in: 3",
        ),
        (",2024,2025\nTown,in,in\nA,1,2\nB,3,4", "| A, 2024 in: 1, 2025 in: 2"),
        # without names these stay
        ("A,dog,dog\nB,cat,dog\nC,cat,cat", "| B, cat, dog"),
        ("A,7,9,8\nB,1,2,3\nC,4,5,6", "| B, 1, 2, 3"),
    ],
)
def test_a_row_names_the_columns_that_have_names(text, line):
    assert line in separated_lines(text)


def test_a_name_of_any_length_does_not_make_every_row_as_long():
    """Bound the names: 40 kB became 40 million characters."""
    name = "x" * 20_000
    for text in (
        f"| a | {name} |\n| --- | --- |\n" + "| b | c |\n" * 2_000,
        f"| a | {name} |\n| --- | --- |\n" + "| b | |\n" * 2_000,
    ):
        found = markdown_with_headers(text)
        assert name in found and len(found) < 2 * len(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.html"])
def test_names_of_many_columns_do_not_make_every_row_as_long(tmp_path, name):
    """Bound the rows: 200 names of 80 letters and 200 rows of 200 digits became 3 million characters."""
    names = [f"{i:03}" + "x" * 77 for i in range(200)]
    rows = [names, *[["7"] * 200] * 200]
    text = {"a.md": lambda: markdown(rows).replace("|---|:--:|---|", "|" + "---|" * 200)}
    text |= {"a.csv": lambda: separated(rows)}
    text |= {"a.html": lambda: markup(rows)}
    (tmp_path / name).write_text(text[name]())
    [document] = read_documents([tmp_path])
    assert set(names) <= set(document.text.split("\n")[0].removeprefix("| ").split(", "))
    assert len(document.text) < 2 * len(separated(rows, ", "))
    assert document.metadata["notes"] == [
        "199 long names of columns written once, not in every row"
    ]


def test_long_names_of_a_table_are_left_out_before_short_ones():
    rows = [["A", "B", "C" * 150], *[["1", "2", "3"]] * 20_000]
    noted = Counter()
    lines = table_lines(rows, has_header=True, noted=noted)
    assert lines[:2] == [f"| A, B, {'C' * 150}", "| 1, B: 2, 3"]
    assert noted == {NAMED_ONCE: 1}


def test_tables_that_an_empty_line_parts_have_their_own_names():
    first = "Town,Ships\nA,12\nB,9\n"
    assert separated_lines(first + "\nRoad,Length\nC,3.5\n\nD,4") == [
        "| Town, Ships",
        "| A, Ships: 12",
        "| B, Ships: 9",
        "| Road, Length",
        "| C, Length: 3.5",
        "| D, Length: 4",
    ]
    titled = separated_lines(first + ",\n,\nRoads,\nRoad,Length,Year\nC,3.5,1999")
    assert titled[3:] == ["| Roads", "| Road, Length, Year", "| C, Length: 3.5, Year: 1999"]


@pytest.mark.parametrize("rest", ["C,7\nD,8", "C,none\nD,8", "C,none\nD,some", "Sum,21"])
def test_rows_after_an_empty_line_belong_to_the_table_above_it(rest):
    found = separated_lines(f"Town,Ships\nA,12\nB,9\n\n{rest}")
    assert found[:3] == ["| Town, Ships", "| A, Ships: 12", "| B, Ships: 9"]
    assert all(": " in line for line in found[1:])
