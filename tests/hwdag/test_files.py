import codecs
import inspect
import io
import json
import os
import re
import sys
import zipfile
from contextlib import suppress
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
)

from hwdag.errors import InputError
from hwdag.text.headings import headings
from hwdag.text.sentences import sentences
from hwdag.types import Document
from hwdag_files import converting, packages
from hwdag_files.content import UnreadableError
from hwdag_files.pdf import pdf_content
from hwdag_files.read import Skipped, read_documents


def read(path):
    [result] = read_documents([path])
    return result


def read_bytes(tmp_path, data, name="a.txt"):
    path = tmp_path / name
    path.write_bytes(data)
    return read(path)


def notes(document):
    return document.metadata["notes"]


def make_pdf(*pages):
    writer = PdfWriter()
    kinds = {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica"}
    font = DictionaryObject({NameObject(f"/{k}"): NameObject(f"/{v}") for k, v in kinds.items()})
    for text in pages:
        page = writer.add_blank_page(200, 200)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def test_text(tmp_path):
    document = read_bytes(tmp_path, "Grüße\r\nan\ralle\n".encode(), "a letter.TXT")
    assert document.text == "Grüße\nan\nalle\n"
    assert document.title == "a letter"
    assert document.id == (tmp_path / "a letter.TXT").as_posix()
    assert json.loads(json.dumps(document.metadata)) == {"path": document.id, "notes": []}


@pytest.mark.parametrize(
    ("markdown", "title"),
    [
        ("text\n\n## The *title* ##\n# Later", "The *title*"),
        ("```\n# code\n```\nTitle\n===\n", "Title"),
        ("no heading", "a"),
        ("#\n", "a"),
    ],
)
def test_title_of_markdown_is_its_first_heading(tmp_path, markdown, title):
    assert read_bytes(tmp_path, markdown.encode(), "a.md").title == title


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_byte_order_marks(tmp_path, mark, encoding):
    document = read_bytes(tmp_path, mark + "Ένα 😀\r\n".encode(encoding))
    assert document.text == "Ένα 😀\n"
    assert notes(document) == []


def test_undecodable_bytes_are_replaced_and_counted(tmp_path):
    document = read_bytes(tmp_path, "é à ".encode() + b"caf\xe9 \xff\xfe bar, far")
    assert document.text == "é à caf\ufffd \ufffd\ufffd bar, far"
    assert notes(document) == ["3 undecodable bytes replaced"]
    truncated = read_bytes(tmp_path, codecs.BOM_UTF16_LE + "abcdefgh".encode("utf-16-le")[:-1])
    assert truncated.text == "abcdefg\ufffd"
    assert notes(truncated) == ["1 undecodable byte replaced"]


@given(st.binary())
def test_any_bytes_give_a_document_or_a_reason(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    for name in ("x.txt", "x.html"):
        result = read_bytes(folder, data, name)
        if isinstance(result, Document):
            result.text.encode()  # no lone surrogates
        else:
            assert result.reason


def test_binary_is_skipped(tmp_path):
    skipped = read_bytes(tmp_path, b"\x89PNG\0\0\0")
    assert skipped == Skipped((tmp_path / "a.txt").as_posix(), skipped.reason)
    assert "NUL bytes" in skipped.reason


@pytest.mark.parametrize("data", [b"", b" \n "])
def test_blank_files_are_documents(tmp_path, data):
    assert read_bytes(tmp_path, data).text == data.decode()


HTML = b"""<!DOCTYPE html><html><head><title> A
 page </title><style>p {}</style></head><body><nav>Home</nav><script>x()</script>
<h1>Head</h1><p>One <b>bold</b>
line.<br>Two &amp; three.</p><!-- no --><ul><li>first</li><li>second</li></ul>
<table><tr><th>Name</th><th>Age</th></tr><tr><td>Bob</td><td>5</td></tr></table>
<pre>if x:
    y</pre></body></html>"""


def test_headings_and_items_of_html_are_marked(tmp_path):
    page = b"""<h2>Expenses</h2><p>We pay:</p><ul><li>hotels up to 140 euros<li><p>a desk once</p>
<li></li><li>books<ul><li>novels</ul></li></ul><ol><li><h3>Ask</h3>Ada.</li><li>Pay.</li></ol>"""
    text = read_bytes(tmp_path, page, "a.html").text
    lines = [
        "## Expenses",
        "We pay:",
        "- hotels up to 140 euros",
        "- a desk once",
        "- books",
        "  - novels",
        "### Ask",
        "Ada.",
        "2. Pay.",
    ]
    assert [line for line in text.split("\n") if line] == lines
    assert headings(text, sentences(text)) == [
        *["Expenses"] * 5,
        "Expenses > books",
        *["Expenses > Ask"] * 3,
    ]


def test_html_keeps_its_blocks(tmp_path):
    document = read_bytes(tmp_path, HTML, "a.HTM")
    assert document.title == "A page"
    assert document.text == (
        "# Head\n\nOne bold line.\nTwo & three.\n\n- first\n\n- second\n\n| Name, Age\n| Bob, Age: 5\n\n"
        "if x:\n    y"
    )


@pytest.mark.parametrize(
    ("head", "encoding", "told"),
    [
        (b'<meta charset="iso-8859-1">', "iso-8859-1", 0),
        (b'<meta charset="no-such">', "utf-8", 0),
        (b'<meta charset="hex">', "utf-8", 0),
        (b'<meta charset="utf-16">', "utf-8", 0),
        (b"", "iso-8859-1", 1),
        (b'<?xml version="1.0" encoding="iso-8859-1"?>', "iso-8859-1", 0),
    ],
)
def test_html_declares_its_encoding(tmp_path, head, encoding, told):
    document = read_bytes(tmp_path, head + "<p>Ähre".encode(encoding), "a.xhtml")
    assert document.text == "Ähre"
    assert len(notes(document)) == told


def test_html_that_is_hidden_is_left_out(tmp_path):
    markup = b"""<p>Seen.</p><div hidden>A<div>B</div></div><p style="color: red; DISPLAY : none">C</p>
    <p hidden>never closed<p>Also seen.<div hidden="until-found">Folded.</div>
    <table><tr><th>Name</th><th>Age</th></tr><tr hidden><td>D</td><td>1</td></tr>
    <tr><td>Bob <i hidden>E</i></td><td>5</td></tr></table>"""
    text = read_bytes(tmp_path, markup, "a.html").text
    assert text.split("\n\n") == [
        "Seen.",
        "never closed",
        "Also seen.",
        "Folded.",
        "| Name, Age\n| Bob, Age: 5",
    ]


@pytest.mark.parametrize("unit", ["<meta.charset=", "<meta charset= ", "<?xml encoding=\"'"])
def test_declarations_without_end_are_left_out(tmp_path, unit):
    assert read_bytes(tmp_path, ("<p>text</p>" + unit).encode(), "a.html").text == "text"


def test_deeply_nested_html(tmp_path):
    markup = b"<div>" * 100 + b"deep" + b"</div>" * 100
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 90)  # less than the elements
    try:
        assert read_bytes(tmp_path, markup, "a.html").text == "deep"
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.slow
def test_pdf(tmp_path):
    document = read_bytes(tmp_path, make_pdf("First page", "", "Third page"), "paper.pdf")
    assert document.text == "First page\n\nThird page"
    assert document.title == "paper"
    assert notes(document) == ["nothing to read on page 2"]
    assert [document.page_of(document.text.index(word)) for word in ("First", "Third")] == [1, 3]
    assert read_bytes(tmp_path, b"No pages.").page_of(0) is None


@pytest.mark.parametrize("starts", ["0", [0, "1"], {"0": 1}, None])
def test_invalid_page_starts_are_ignored(starts):
    assert Document("d", "text", metadata={"page_starts": starts}).page_of(2) is None


@pytest.mark.slow
def test_a_file_is_bounded_by_bytes_and_seconds(tmp_path):
    for name, data in (("a.txt", b"x" * 20), ("b.pdf", make_pdf("First page"))):
        (tmp_path / name).write_bytes(data)
    (large,) = read_documents([tmp_path / "a.txt"], max_bytes=19)
    assert large.reason == "larger than 19 bytes; allow more with max_bytes"
    assert [d.text for d in read_documents([tmp_path / "a.txt"], max_bytes=20)] == ["x" * 20]
    (slow,) = read_documents([tmp_path / "b.pdf"], max_seconds=0.001)
    assert "longer than 0.001 s; allow more with max_seconds" in slow.reason


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems may not limit memory")
def test_a_file_that_needs_more_memory_than_is_allowed_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(converting, "MEMORY_BYTES", 1 << 22)
    found = read_bytes(tmp_path, make_pdf("First page"), "a.pdf")
    assert "needs more than 4 MB" in found.reason


def test_a_package_that_unpacks_to_too_much_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(packages, "UNPACKED_BYTES", 1000)
    with pytest.raises(UnreadableError, match=r"unpacks to .* more than the 1,000 bytes"):
        packages.check_packed(word(BODY))


BODY = (
    "<w:body><w:p><w:pPr><w:pStyle w:val='Heading1'/></w:pPr><w:r><w:t>Dogs</w:t></w:r></w:p>"
    + ("<w:p><w:r><w:t>They bark.</w:t></w:r></w:p></w:body>")
)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
DOCX = {
    "[Content_Types].xml": "<Types xmlns='http://schemas.openxmlformats.org/package/2006/"
    "content-types'><Default Extension='xml' ContentType='application/xml'/></Types>",
    "_rels/.rels": f"<Relationships xmlns='{RELATIONS}'><Relationship Id='r1' Type='{OFFICE}' "
    "Target='word/document.xml'/></Relationships>",
    "word/document.xml": f"<w:document xmlns:w='{WORD}'>{BODY}</w:document>",
    "word/styles.xml": f"<w:styles xmlns:w='{WORD}'><w:style w:type='paragraph' w:styleId="
    "'Heading1'><w:name w:val='heading 1'/></w:style><w:style w:type='paragraph' w:styleId='Top'>"
    "<w:name w:val='Title'/></w:style></w:styles>",
    "word/_rels/document.xml.rels": f"<Relationships xmlns='{RELATIONS}'><Relationship Id='r2' "
    "Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles' "
    "Target='styles.xml'/></Relationships>",
}


def word(body):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, text in DOCX.items():
            packed.writestr(name, text.replace(BODY, body))
    return buffer.getvalue()


@pytest.mark.slow
def test_office_files_keep_their_headings(tmp_path):
    pytest.importorskip("markitdown")
    (tmp_path / "a.docx").write_bytes(word(BODY))
    (tmp_path / "c.xlsx").write_bytes(b"PK no package")
    document, broken = read_documents([tmp_path])
    assert (document.title, document.text) == ("Dogs", "# Dogs\n\nThey bark.")
    assert "not a readable package" in broken.reason


@pytest.mark.slow
def test_the_title_of_a_word_document_is_no_chapter_of_it(tmp_path):
    pytest.importorskip("markitdown")
    top = "<w:p><w:pPr><w:pStyle w:val='Top'/></w:pPr><w:r><w:t>On pets</w:t></w:r></w:p>"
    data = word(BODY.replace("<w:body>", f"<w:body>{top}"))
    found = read_bytes(tmp_path, data, "a.docx")
    assert (found.title, found.text) == ("On pets", "On pets\n\n# Dogs\n\nThey bark.")


@pytest.mark.slow
def test_slides_have_no_numbers_in_their_text(tmp_path):
    pytest.importorskip("markitdown")
    pptx, buffer = pytest.importorskip("pptx"), io.BytesIO()
    show = pptx.Presentation()
    for title in ("Dogs", "Cats"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, f"{title} sleep."
    show.save(buffer)
    found = read_bytes(tmp_path, buffer.getvalue(), "a.pptx")
    assert [line for line in found.text.split("\n") if line] == [
        "# Dogs",
        "Dogs sleep.",
        "# Cats",
        "Cats sleep.",
    ]


@pytest.mark.slow
def test_lines_of_a_slide_are_items_of_a_list(tmp_path):
    pytest.importorskip("markitdown")
    pptx, buffer = pytest.importorskip("pptx"), io.BytesIO()
    slide = (show := pptx.Presentation()).slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Risks"
    slide.placeholders[1].text = "Dredging is late\nThe contractor was insolvent in June"
    cells = slide.shapes.add_table(2, 2, 0, 0, 99, 99).table
    for i, cell in enumerate(cells.iter_cells()):
        cell.text = ("Pier", "Ships", "North", "12")[i]
    show.save(buffer)
    lines = read_bytes(tmp_path, buffer.getvalue(), "a.pptx").text.split("\n")
    items = ["- Dredging is late", "- The contractor was insolvent in June"]
    assert lines[-2:] == items and "| North, Ships: 12" in lines and "# Risks" in lines


@pytest.mark.slow
def test_a_word_document_is_read_as_it_looks(tmp_path):
    pytest.importorskip("markitdown")

    def cell(text, more=""):
        text = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
        return f"<w:tc><w:tcPr>{more}</w:tcPr>{text}</w:tc>"

    rows = [
        cell("Land") + cell("River") + cell("Length"),
        cell("Norway", "<w:vMerge w:val='restart'/>") + cell("Glomma|Lågen") + cell("604 km"),
        cell("", "<w:vMerge/>") + cell("Otra") + cell("245 km"),
    ]
    table = "".join(f"<w:tr>{row}</w:tr>" for row in rows)
    prose = "<w:p><w:r><w:t>1. snake_case * and _more_</w:t></w:r></w:p>"
    body = f"<w:body>{prose}<w:tbl>{table}</w:tbl></w:body>"
    assert read_bytes(tmp_path, word(body), "a.docx").text.split("\n") == [
        "1. snake_case * and _more_",
        "",
        "| Land, River, Length",
        "| Norway, River: Glomma|Lågen, Length: 604 km",
        "| Norway, River: Otra, Length: 245 km",
    ]


@pytest.mark.slow
def test_a_notebook_keeps_what_its_cells_put_out(tmp_path):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mhi\x1b[0m\n", "there\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
        {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "iVBO"}},
        {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\x1b[31mE"]},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Dogs\n", "They bark."]},
        {"cell_type": "code", "metadata": {}, "source": ["print(1)"], "outputs": outputs},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = read_bytes(tmp_path, json.dumps(notebook).encode(), "b.ipynb")
    assert document.title == "Dogs"
    assert document.text == (
        "# Dogs\nThey bark.\n\n```\nprint(1)\n```\n\n```\nhi\nthere\n```\n\n```\n42\n```"
    )
    assert "not a readable .ipynb" in read_bytes(tmp_path, b'{"cells": [', "c.ipynb").reason


@pytest.mark.slow
def test_a_package_with_the_wrong_suffix_is_not_unpacked(tmp_path):
    """Refuse a zip of another kind, whose files MarkItDown lists."""
    pytest.importorskip("markitdown")
    for name in ("a.docx", "c.epub"):
        with zipfile.ZipFile(tmp_path / name, "w") as packed:
            packed.writestr("secret.txt", "inner text")
    for found in read_documents([tmp_path]):
        assert "not a readable" in found.reason


def workbook(**cells):
    openpyxl = pytest.importorskip("openpyxl")
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active.title = "Dogs"
    for place, value in cells.items():
        book.active[place] = value
    book.save(buffer)
    return buffer.getvalue()


@pytest.mark.slow
def test_a_sheet_is_its_filled_rows(tmp_path):
    data = workbook(A1="name", B1="age", A2="Rex", B2=3, A4="a\nb", D4=0.5)
    assert read_bytes(tmp_path, data, "a.xlsx").text == (
        "## Dogs\n\n| name, age\n| Rex, age: 3\n| a b, 0.5"
    )


@pytest.mark.slow
def test_values_of_a_sheet_are_shown_as_in_its_program(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "a.xlsx"
    values = [datetime(2024, 3, 1), datetime(2024, 3, 1, 9, 30), 0.1 + 0.2, 0.2315, 1, True, 1e7]
    for column, value in enumerate(values, 1):
        cell = book.active.cell(1, column, value)
        if column in (4, 5):
            cell.number_format = "0.0%"
    book.save(path)
    shown = "2024-03-01, 2024-03-01 09:30:00, 0.3, 23.2%, 100.0%, TRUE, 10000000"
    assert read(path).text == f"## Sheet\n\n| {shown}"


@pytest.mark.slow
def test_a_formula_without_a_value_is_shown(tmp_path):
    array = pytest.importorskip("openpyxl.worksheet.formula").ArrayFormula("C3", "=SUM(B2:B3)")
    data = workbook(A1="name", B1="n", C1="sum", A2="Rex", B2=3, C2="=B2*2", A3="Tom", C3=array)
    assert read_bytes(tmp_path, data, "a.xlsx").text == (
        "## Dogs\n\n| name, n, sum\n| Rex, n: 3, sum: =B2*2\n| Tom, sum: =SUM(B2:B3)"
    )
    # as Excel stores what it has computed: a number, and an empty text
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for name in old.namelist():
            part = old.read(name).replace(b'r="C3"', b'r="C3" t="str"')
            new.writestr(name, re.sub(rb"(B2\*2</f>)<v ?(/>|></v>)", rb"\1<v>6</v>", part))
    assert read(tmp_path / "b.xlsx").text.endswith("| Rex, n: 3, sum: 6\n| Tom")


@pytest.mark.slow
def test_a_far_cell_of_a_sheet_is_read_without_the_empty_ones(tmp_path):
    document = read_bytes(tmp_path, workbook(A1="near", AZ2000="far"), "a.xlsx")
    assert document.text == "## Dogs\n\n| near\n| far"


def test_a_name_that_is_not_utf_8_is_spelled_out(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("Coffee.")
    [document] = read_documents([tmp_path])
    assert document.id == f"{tmp_path.as_posix()}/caf\\xe9.txt"
    assert document.title == "caf\\xe9"
    json.dumps(document.metadata).encode()


def test_a_pdf_without_text_is_an_error():
    content = pdf_content(make_pdf(""))
    assert content.text == ""
    assert "no text" in content.notes[0]


def test_pages_that_can_be_read_are_read():
    data = make_pdf("First page", "Second page", "Third page")
    second = PdfReader(io.BytesIO(data)).pages[1]["/Contents"].indirect_reference.idnum
    start = data.index(b"%d 0 obj" % second)
    end = data.index(b"endobj", start)
    broken = (
        data[:start] + b"%d 0 obj" % second + b" << /Length".ljust(end - start - 7) + data[end:]
    )
    content = pdf_content(broken)
    assert content.text.startswith("First page")
    assert content.text.endswith("Third page")
    assert content.notes


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_truncated_pdf_is_read_with_a_note_or_refused(caplog, share):
    data = make_pdf("First page", "Second page")
    with suppress(UnreadableError):
        content = pdf_content(data[: int(len(data) * share)])
        assert "First page" in content.text
        assert content.notes
    assert not caplog.records


@given(st.data())
def test_damaged_pdf_is_read_or_refused(data):
    pdf = bytearray(make_pdf("First page"))
    for _ in range(data.draw(st.integers(1, 20))):
        pdf[data.draw(st.integers(0, len(pdf) - 1))] = data.draw(st.integers(0, 255))
    try:
        result = pdf_content(bytes(pdf))
    except UnreadableError as error:
        assert str(error)
    else:
        json.dumps(result.text).encode()


def test_directories_are_walked_in_sorted_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ["d/b.txt", "d/a.MD", "d/c.png", "d/.hidden.txt", "d/sub/z.rst", "d/.git/x.txt"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = list(read_documents(["d"]))
    documents = [d for d in found if isinstance(d, Document)]
    assert [d.id for d in documents] == ["d/a.MD", "d/b.txt", "d/sub/z.rst"]
    skipped = Skipped("d/c.png", ".png is no known kind; name the file to have it read")
    assert [item for item in found if item not in documents] == [skipped]
    explicit = [d for d in read_documents(["d/c.png", "d"]) if isinstance(d, Document)]
    assert [(d.id, d.text) for d in explicit[:1]] == [("d/c.png", "d/c.png")]
    assert len({d.id for d in explicit}) == 4


def test_a_file_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.txt").write_text("x")
    first, second = read_documents(["d/a.txt", "d"])
    assert (first.id, second) == ("d/a.txt", Skipped("d/a.txt", "already read as 'd/a.txt'"))


def test_a_directory_without_documents_is_an_error(tmp_path):
    assert "no file with a known suffix (.bash, " in read(tmp_path).reason


def test_links_do_not_loop(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self.txt").symlink_to("self.txt")
    results = list(read_documents([tmp_path]))
    reasons = [r.reason.split(",")[0] for r in results if isinstance(r, Skipped)]
    assert [r.text for r in results if isinstance(r, Document)] == ["x"]
    assert reasons == ["not a regular file", "a link to a directory; name it to have it read"]


def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    assert "not a regular file" in read(tmp_path / "a.txt").reason


@pytest.mark.parametrize("name", ["absent.txt", "nul\0.txt"])
def test_a_path_that_does_not_exist_is_named_before_anything_is_read(tmp_path, name):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError) as caught:
        read_documents([tmp_path / "a.txt", tmp_path / name])
    assert repr((tmp_path / name).as_posix()) in str(caught.value)


@pytest.mark.parametrize("paths", ["", 5, None, b"notes", ["notes", ""], [3]])
def test_what_is_no_path_is_refused(paths, tmp_path, monkeypatch):
    """Refuse an empty path, which would be the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match="path"):
        list(read_documents(paths))


@pytest.mark.parametrize("name", ["a.docm", "a.dotx"])
def test_a_word_file_with_macros_and_a_template_are_read_as_such(tmp_path, name):
    pytest.importorskip("markitdown")
    found = read_bytes(tmp_path, word(BODY), name)
    assert found.text == "# Dogs\n\nThey bark." and found.metadata["notes"] == []
