"""OpenDocument files as a person sees them."""

import io
import zipfile

import pytest

from hwdag_files.content import UnreadableError
from hwdag_files.odf import odp_content, ods_content, odt_content
from hwdag_files.read import read_documents

pytest.importorskip("lxml")

OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
NAMES = " ".join(
    f'xmlns:{short}="{OASIS}{name}:1.0"'
    for short, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "style": "style",
        "draw": "drawing",
        "form": "form",
        "svg": "svg-compatible",
        "presentation": "presentation",
        "fo": "xsl-fo-compatible",
    }.items()
)
NAMES += (
    ' xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"'
    ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def odf(kind, body, *, automatic="", styles="", **parts):
    """Return a file of a kind; automatic styles are those of its content, `parts` are added to the package."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(
            "content.xml",
            f"<office:document-content {NAMES}><office:automatic-styles>{automatic}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
        )
        packed.writestr(
            "styles.xml",
            f"<office:document-styles {NAMES}><office:styles>{styles}</office:styles>"
            "</office:document-styles>",
        )
        for name, text in parts.items():
            packed.writestr(name, text)
    return buffer.getvalue()


def lines(body, **options):
    return [line for line in odt_content(odf("text", body, **options)).text.split("\n") if line]


def notes(body, **options):
    return odt_content(odf("text", body, **options)).notes


def p(text, style=""):
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def h(text, level=1, more=""):
    return f'<text:h text:outline-level="{level}" {more}>{text}</text:h>'


def items(*inner, style="L", more=""):
    listed = "".join(
        one if one.startswith("<text:list-") else f"<text:list-item>{one}</text:list-item>"
        for one in inner
    )
    return f'<text:list text:style-name="{style}" {more}>{listed}</text:list>'


def below(*inner):
    """Return a list within an item, which has the style of the outer one."""
    return items(*inner).replace(' text:style-name="L"', "", 1)


def levels(*kinds, name="L", tag="list"):
    return (
        f'<text:{tag}-style style:name="{name}">'
        + "".join(
            f"<text:{'outline-level-style' if tag == 'outline' else 'list-level-style-number'} "
            f'text:level="{level}" {kind}/>'
            for level, kind in enumerate(kinds, 1)
        )
        + f"</text:{tag}-style>"
    )


def look(name, properties, family="text", more=""):
    return (
        f'<style:style style:name="{name}" style:family="{family}" {more}>'
        f"<style:text-properties {properties}/></style:style>"
    )


LEGAL = levels(
    'style:num-format="1" style:num-suffix="."',
    'style:num-format="1" text:display-levels="2"',
    'style:num-format="a" style:num-prefix="(" style:num-suffix=")"',
)


def test_items_have_the_number_that_the_list_counts():
    body = items(
        p("Goods"),
        p("Payment")
        + below(p("The buyer pays."), p("Interest:") + below(p("eight percent"), p("eleven"))),
        p("End") + p("of it") + below(p("Law")),
    )
    assert lines(body, automatic=LEGAL) == [
        "1. Goods",
        "2. Payment",
        "  - 2.1 The buyer pays.",
        "  - 2.2 Interest:",
        "    - (a) eight percent",
        "    - (b) eleven",
        "3. End",
        "  of it",
        "  - 3.1 Law",
    ]


@pytest.mark.parametrize(
    ("more", "numbers"),
    [
        ("", ["1.", "1."]),
        ('text:continue-numbering="true"', ["1.", "2."]),
        ('text:continue-list="one"', ["1.", "2."]),
    ],
)
def test_a_list_continues_after_a_paragraph_if_marked(more, numbers):
    first = items(p("x"), more='xml:id="one"')
    found = lines(first + p("In winter:") + items(p("x"), more=more), automatic=LEGAL)
    assert [found[0].split()[0], found[2].split()[0]] == numbers


def test_an_outer_item_without_text_is_not_counted():
    body = items(p("x")) + items(below(p("y"), p("z")), more='text:continue-numbering="true"')
    assert lines(body, automatic=LEGAL) == ["1. x", "  - 1.1 y", "  - 1.2 z"]


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ('style:num-format="I"', ["I", "II", "III"]),
        ('style:num-format="A" style:num-suffix=")"', ["A)", "B)", "C)"]),
        ('style:num-format="a" text:start-value="26"', ["z", "aa", "ab"]),
        ('style:num-format="א, ב, ג, ..."', ["א", "ב", "ג"]),
        ('style:num-format="①, ②, ③, ..."', ["①", "②", "③"]),
        ('style:num-format="1" loext:num-list-format="§ %1%:"', ["§ 1:", "§ 2:", "§ 3:"]),
        ('style:num-format=""', ["", "", ""]),
    ],
)
def test_formats_of_numbers(form, numbers):
    found = lines(items(p("x"), p("x"), p("x")), automatic=levels(form))
    assert [line.removeprefix("- ").removesuffix("x").strip() for line in found] == numbers


def test_an_item_may_set_its_number_and_a_header_has_no_number():
    body = items(
        p("x"),
        f'<text:list-item text:start-value="7">{p("y")}</text:list-item>',
        f"<text:list-header>{p('none')}</text:list-header>",
        p("z"),
    )
    assert lines(body, automatic=LEGAL) == ["1. x", "7. y", "  none", "8. z"]


def test_bullets_have_no_number():
    bullets = levels('text:bullet-char="•"').replace("style-number", "style-bullet")
    assert lines(items(p("x") + below(p("y"))), automatic=bullets) == ["- x", "  - y"]
    boxes = bullets.replace("•", "☑")
    assert lines(items(p("x")), automatic=boxes) == ["- [x] x"]


def test_headings_are_numbered_by_the_outline():
    outline = levels(
        'style:num-format="1" style:num-suffix="."',
        'style:num-format="1" text:display-levels="2"',
        name="Outline",
        tag="outline",
    )
    body = h("Goods") + h("Pumps", 2) + h("Payment") + h("Annex", 1, 'text:is-list-header="true"')
    body += h("Later", 1, 'text:restart-numbering="true" text:start-value="9"') + h("Terms", 2)
    wanted = ["# 1. Goods", "## 1.1 Pumps", "# 2. Payment", "# Annex", "# 9. Later", "## 9.1 Terms"]
    assert lines(body, styles=outline) == wanted
    assert lines(body)[1] == "## Pumps"


def test_hidden_text_is_left_out_and_noted():
    styles = look("H", 'text:display="none"') + look("HP", 'text:display="none"', "paragraph")
    styles += look("C", "", "paragraph", 'style:parent-style-name="HP"')
    styles += look("V", 'text:display="true"')
    body = (
        p('The fee is 80. <text:span text:style-name="H">It was 10.</text:span>Pay.')
        + p('Draft. <text:span text:style-name="V">Seen.</text:span>', "C")
        + f'<text:section text:display="none">{p("Secret.")}</text:section>'
        + f"<text:section>{p('Open.')}</text:section>"
        + p('<text:hidden-text text:is-hidden="true">No.</text:hidden-text>Yes.')
    )
    assert lines(body, automatic=styles) == ["The fee is 80. Pay.", "Seen.", "Open.", "Yes."]
    assert notes(body, automatic=styles) == ("4 hidden passages left out",)


def test_tracked_deletions_and_comments_are_left_out():
    region = "<text:changed-region><text:{0}>{1}</text:{0}></text:changed-region>"
    deleted = region.format("deletion", p("It was 70."))
    inserted = region.format("insertion", "")
    comment = f"<office:annotation>{p('Check this.')}</office:annotation>"
    body = f"<text:tracked-changes>{deleted}{inserted}</text:tracked-changes>"
    body += p(f'The fee is 80.<text:change text:change-id="a"/>{comment} Pay.')
    assert lines(body) == ["The fee is 80. Pay."]
    assert notes(body) == (
        "1 passage left out that tracked changes delete",
        "1 comment left out",
    )


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ('style:text-position="super 58%"', "10⁶ grains"),
        ('style:text-position="33% 58%"', "10⁶ grains"),
        ('style:text-position="sub 58%"', "10₆ grains"),
        ('style:text-position="-33% 58%"', "10₆ grains"),
        ('style:text-position="0% 100%"', "106 grains"),
        ('style:text-line-through-style="solid"', "10~~6~~ grains"),
        ('style:text-line-through-type="single"', "10~~6~~ grains"),
        ('style:text-line-through-style="none"', "106 grains"),
    ],
)
def test_text_is_read_as_it_looks(properties, shown):
    body = p('10<text:span text:style-name="S">6</text:span> grains')
    assert lines(body, automatic=look("S", properties)) == [shown]
    table = f"<table:table>{row('Town', 'Grains')}{row('A', '')}</table:table>"
    table = table.replace("<text:p></text:p>", body)
    assert lines(table, automatic=look("S", properties))[-1] == f"| A, Grains: {shown}"


def test_notes_have_a_mark_and_their_text_at_the_end():
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>"
    body = p(f"The fee is 40{note.format(p('per month'))} euros.") + p(f"x{note.format(p('y'))}")
    assert lines(body) == ["The fee is 40[1] euros.", "x[2]", "- [1] per month", "- [2] y"]


def test_blanks_tabs_breaks_and_ruby():
    text = 'a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>  d\n e'
    assert lines(p(text)) == ["a b\tc", "d e"]
    ruby = "<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>かん</text:ruby-text></text:ruby>"
    assert lines(p(ruby + "字")) == ["漢字"]


def cell(text, more=""):
    return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"


def row(*cells, more=""):
    inner = "".join(one if one.startswith("<") else cell(one) for one in cells)
    return f"<table:table-row {more}>{inner}</table:table-row>"


def test_rows_of_a_table_name_their_columns():
    covered = "<table:covered-table-cell/>"
    table = (
        "<table:table><table:table-header-rows>"
        + row("Town", cell("Ships", 'table:number-columns-spanned="2"'), covered)
        + "</table:table-header-rows>"
        + row(cell("Hamar", 'table:number-rows-spanned="2"'), "12", "14")
        + row(covered, "9", "8")
        + "</table:table>"
    )
    wanted = ["| Hamar, Ships: 12, Ships: 14", "| Hamar, Ships: 9, Ships: 8"]
    assert lines(p("Before.") + table) == ["Before.", "| Town, Ships, Ships", *wanted]


def test_an_empty_table_is_no_text():
    table = f"<table:table>{row('', '') * 3}</table:table>"
    assert lines(p("Before.") + table) == ["Before."]


def test_text_boxes_and_pictures():
    box = f"<draw:frame><draw:text-box>{p('In the box.')}</draw:text-box></draw:frame>"
    image = '<draw:frame><draw:image xlink:href="a.png"/><svg:desc>A map</svg:desc></draw:frame>'
    body = p(f"Before {box}it. {image}") + f"<draw:custom-shape>{p('A note')}</draw:custom-shape>"
    assert lines(body) == ["Before it.", "In the box.", "A map", "A note"]
    assert notes(body) == ("1 picture not read",)


def test_formulas_are_read_in_their_words():
    math = '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mi>E</mi>{}</semantics></math>'
    words = '<annotation encoding="StarMath 5.0">E = m c^2</annotation>'
    body = p('So <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame> holds.')
    part = {"Object 1/content.xml": math.format(words)}
    assert lines(body, **part) == ["So E = m c^2 holds."]
    assert lines(body, **{"Object 1/content.xml": math.format("")}) == ["So E holds."]
    assert notes(body) == ("1 embedded object, chart or formula not read",)


def test_boxes_have_their_state():
    forms = (
        '<office:forms><form:form><form:checkbox form:id="a" form:label="Tea" form:current-state="checked"/>'
        '<form:radio form:id="b" form:label="Milk"/><form:text form:id="c" form:current-value="Ada"/>'
        "</form:form></office:forms>"
    )
    drawn = "".join(f'<draw:control draw:control="{name}"/>' for name in "abc")
    assert lines(forms + p(f"Order: {drawn}")) == ["Order: [x] Tea [ ] Milk Ada"]
    control = '<loext:content-control loext:checkbox="true" loext:checked="{}">☒</loext:content-control>Tea'
    assert lines(p(control.format("true")) + p(control.format("false"))) == ["[x] Tea", "[ ] Tea"]


def test_the_title_is_that_of_the_file_or_of_its_first_page():
    style = '<style:style style:name="T" style:display-name="Title" style:family="paragraph"/>'
    data = odf("text", p("The quay", "T"), styles=style)
    assert (odt_content(data).title, odt_content(data).text) == ("The quay", "The quay")
    meta = f"<office:document-meta {NAMES}><dc:title>The harbour</dc:title></office:document-meta>"
    assert odt_content(odf("text", p("x"), **{"meta.xml": meta})).title == "The harbour"


def test_encrypted_files_are_refused():
    manifest = {"META-INF/manifest.xml": "<a><b><encryption-data/></b></a>"}
    with pytest.raises(UnreadableError, match="encrypted"):
        odt_content(odf("text", "", **manifest))


def test_sheets_are_their_shown_values():
    hidden = (
        '<style:style style:name="no" style:family="table"><style:table-properties table:display="false"/>'
        "</style:style>" + look("S", 'style:text-line-through-style="solid"', "table-cell")
    )
    shown = '<table:table-cell office:value-type="percentage" office:value="0.4567"><text:p>46%</text:p></table:table-cell>'
    bare = '<table:table-cell office:value-type="float" office:value="7"/>'
    formula = '<table:table-cell table:formula="of:=[.B2]*2"/>'
    rows = (
        row("Town", "Share", "n", "Double")
        + row("Hamar", shown, bare, formula)
        + row("Gone", "1%", "1", "2", more='table:visibility="collapse"')
        + row(
            "Out", "1%", "1", "2", more='table:visibility="filter" table:number-rows-repeated="2"'
        )
        + row(
            cell("Berg", 'table:style-name="S"'),
            "2%",
            "3",
            "4",
            more='table:number-rows-repeated="2"',
        )
        + row("<table:table-cell/>", more='table:number-rows-repeated="1048576"')
    )
    sheets = f'<table:table table:name="Plan">{rows}</table:table>'
    sheets += f'<table:table table:name="Old" table:style-name="no">{row("a", "b")}</table:table>'
    found = ods_content(odf("spreadsheet", sheets, automatic=hidden))
    assert found.text.split("\n") == [
        "## Plan",
        "",
        "| Town, Share, n, Double",
        "| Hamar, Share: 46%, n: 7, Double: =[.B2]*2",
        *["| ~~Berg~~, Share: 2%, n: 3, Double: 4"] * 2,
    ]
    assert found.notes == (
        "1 hidden sheet left out",
        "3 hidden rows left out, some of them perhaps by a filter",
        "1 formula without a stored value: the formula is read",
    )


def test_columns_of_a_sheet_may_be_hidden_and_cells_merged():
    columns = '<table:table-column/><table:table-column table:visibility="collapse"/><table:table-column table:number-columns-repeated="3"/>'
    rows = (
        row("Part", "Code", "Item", "Cost")
        + row(cell("Water", 'table:number-rows-spanned="3"'), "X1", "Meter", "12")
        + row("<table:covered-table-cell/>", "X2", "Hose", "8") * 2
        + row("Air", "X3", "Fan", "5")
    )
    found = ods_content(
        odf("spreadsheet", f'<table:table table:name="A">{columns}{rows}</table:table>')
    )
    assert found.text.split("\n")[-4:] == [
        "| Water, Item: Meter, Cost: 12",
        *["| Water, Item: Hose, Cost: 8"] * 2,
        "| Air, Item: Fan, Cost: 5",
    ]
    assert found.notes == ("1 hidden column left out",)


def test_a_row_that_is_repeated_a_million_times_is_read_once():
    rows = row("a", "b", more='table:number-rows-repeated="1048576"') + row("c", "d")
    found = ods_content(odf("spreadsheet", f'<table:table table:name="A">{rows}</table:table>'))
    assert found.text == "## A\n\n| a, b\n| c, b: d"
    assert found.notes == ("1 repeated row or cell read once",)


def frame(*inner, kind="", y="0cm", more=""):
    inner = "".join(inner)
    named = f'presentation:class="{kind}"' if kind else ""
    return f'<draw:frame svg:y="{y}" {named} {more}><draw:text-box>{inner}</draw:text-box></draw:frame>'


def test_slides_have_their_title_first_and_shapes_from_top_to_bottom():
    hide = (
        '<style:style style:name="no" style:family="drawing-page"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style>'
    )
    first = (
        frame(p("last"), y="3in")
        + f"<draw:g>{frame(p('third'), y='60mm')}</draw:g>"
        + frame(p("The harbour"), kind="title", y="20cm")
        + frame(p("7"), kind="page-number")
        + frame(p("Click to add"), kind="outline", more='presentation:placeholder="true"')
        + frame(items(p("one") + below(p("deep")), p("two")), kind="outline", y="40mm")
        + f"<presentation:notes>{frame(p('Wait.'), kind='notes')}</presentation:notes>"
    )
    pages = f"<draw:page>{first}</draw:page>"
    pages += f'<draw:page draw:style-name="no">{frame(p("Old"))}</draw:page>'
    pages += f"<draw:page>{frame(p('Rain'), p('Wind'))}</draw:page>"
    pages += f"<draw:page>{frame(items(p('one'), p('two')), kind='outline')}</draw:page>"
    found = odp_content(odf("presentation", pages, automatic=hide + LEGAL))
    assert [line for line in found.text.split("\n") if line] == [
        "# The harbour",
        "1. one",
        "  - 1.1 deep",
        "2. two",
        "third",
        "last",
        "### Notes",
        "Wait.",
        "# Slide 3",
        "- Rain",
        "- Wind",
        "# Slide 4",
        "1. one",
        "2. two",
    ]
    assert found.notes == (
        "1 hidden slide left out",
        "speaker notes of 1 slide read under the heading Notes",
    )


@pytest.mark.slow
def test_files_of_all_three_kinds_are_documents(tmp_path):
    (tmp_path / "a.odt").write_bytes(odf("text", h("Quay") + p("It is long.")))
    sheet = f'<table:table table:name="A">{row("a", "b")}</table:table>'
    (tmp_path / "b.ods").write_bytes(odf("spreadsheet", sheet))
    page = f"<draw:page>{frame(p('Quay'), kind='title')}</draw:page>"
    (tmp_path / "c.odp").write_bytes(odf("presentation", page))
    texts = [document.text for document in read_documents(tmp_path)]
    assert texts == ["# Quay\n\nIt is long.", "## A\n\n| a, b", "# Quay"]


@pytest.mark.slow
def test_cells_that_repeat_others_are_bounded_and_those_of_a_large_sheet_are_not():
    far = '<table:table-cell table:number-columns-repeated="16384"><text:p>a</text:p></table:table-cell>'
    sheet = f'<table:table table:name="A">{row(far) * 66}</table:table>'
    found = ods_content(odf("spreadsheet", sheet))
    assert found.text.count("a") == 64 * 16384 + 2
    assert found.notes == ("2 repeated rows or cells read once",)
    twice = (
        '<table:table-cell table:number-columns-repeated="2"><text:p>0</text:p></table:table-cell>'
    )
    sheet = f'<table:table table:name="A">{row("Town", "in", "out")}{row("a", twice)}</table:table>'
    found = ods_content(odf("spreadsheet", sheet))
    assert (found.text.split("\n")[-1], found.notes) == ("| a, in: 0, out: 0", ())


@pytest.mark.parametrize(
    ("properties", "is_noted"),
    [
        ('fo:color="#FFFFFF"', True),
        ('fo:color="#ffffff" fo:background-color="#000000"', False),
        ('fo:color="#ffffff" fo:background-color="transparent"', True),
        ('fo:color="#ff0000"', False),
    ],
)
def test_white_letters_are_noted(properties, is_noted):
    body = p('The fee is 80. <text:span text:style-name="S">It was 10.</text:span>')
    note = "1 passage read in white letters, which a person may not see"
    assert notes(body, automatic=look("S", properties)) == ((note,) if is_noted else ())


def test_headers_with_words_are_noted():
    style = "<style:master-page><style:{0}><text:p>{1}</text:p></style:{0}></style:master-page>"
    note = ("headers and footers left out",)
    assert notes(p("x"), styles=style.format("header", "The harbour")) == note
    assert notes(p("x"), styles=style.format("footer-left", "The harbour")) == note
    assert notes(p("x"), styles=style.format("footer", "7")) == ()
