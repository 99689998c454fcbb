"""Presentations as a person sees their slides."""

import io

import pytest

from hwdag_files.slides import slides_content

pptx = pytest.importorskip("pptx")
pytest.importorskip("markitdown")
pytestmark = pytest.mark.slow

A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def show():
    return pptx.Presentation()


def slide_of(deck, title="Harbour", layout=5):
    slide = deck.slides.add_slide(deck.slide_layouts[layout])
    if title:
        slide.shapes.title.text = title
    return slide


def box(shapes, text, top=100, left=0):
    shape = shapes.add_textbox(left, top, 99, 99)
    shape.text_frame.text = text
    return shape


def paragraph(shape, xml):
    """Replace the text of a shape by the XML of a paragraph."""
    body = shape.text_frame._txBody
    for one in body.findall(f"{{{A[9:-1]}}}p"):
        body.remove(one)
    body.append(pptx.oxml.parse_xml(f"<a:p {A} {M}>{xml}</a:p>"))


def content(deck):
    buffer = io.BytesIO()
    deck.save(buffer)
    return slides_content(buffer.getvalue())


def lines(deck):
    return [line for line in content(deck).text.split("\n") if line]


def test_hidden_slides_and_shapes_are_left_out_and_noted():
    deck = show()
    slide_of(deck)._element.set("show", "0")
    slide = slide_of(deck, "Roads")
    box(slide.shapes, "Open.")
    secret = box(slide.shapes, "Closed.")
    secret._element.nvSpPr.cNvPr.set("hidden", "1")
    found = content(deck)
    assert found.text == "# Roads\n\nOpen."
    assert found.notes == ("1 hidden slide left out", "1 hidden shape left out")


def test_the_title_comes_first_and_shapes_from_top_to_bottom_within_groups_too():
    deck = show()
    slide = slide_of(deck, "Tides")
    slide.shapes.title.top = 10_000
    box(slide.shapes, "third", top=900)
    group = slide.shapes.add_group_shape()
    box(group.shapes, "second", top=500)
    box(group.shapes, "first", top=300)
    box(slide.shapes, "fourth, right", top=950, left=80)
    box(slide.shapes, "fourth, left", top=950, left=10)
    wanted = ["# Tides", "first", "second", "third", "fourth, left", "fourth, right"]
    assert lines(deck) == wanted


def test_a_slide_without_a_title_is_not_read_below_that_of_another():
    deck = show()
    box(slide_of(deck, "", layout=6).shapes, "On pets.")
    slide_of(deck, "Dogs")
    box(slide_of(deck, "", layout=6).shapes, "They meow.")
    slide_of(deck, "", layout=6)
    assert lines(deck) == ["On pets.", "# Dogs", "# Slide 3", "They meow."]


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ('baseline="30000"', "Made of 10⁶ grains."),
        ('baseline="-25000"', "Made of 10₆ grains."),
        ('strike="sngStrike"', "Made of 10~~6~~ grains."),
        ('strike="noStrike" baseline="0"', "Made of 106 grains."),
    ],
)
def test_runs_are_read_as_they_look(properties, shown):
    deck = show()
    xml = (
        f"<a:r><a:t>Made of 10</a:t></a:r><a:r><a:rPr {properties}/><a:t>6</a:t></a:r>"
        "<a:r><a:t> grains.</a:t></a:r>"
    )
    paragraph(box(slide_of(deck).shapes, ""), xml)
    assert lines(deck) == ["# Harbour", shown]


def test_items_have_their_level_and_the_number_that_powerpoint_counts():
    deck = show()
    frame = slide_of(deck, layout=1).placeholders[1].text_frame
    plan = [
        ("Survey", 0, "arabicPeriod"),
        ("by boat", 1, "alphaLcParenBoth"),
        ("by air", 1, "alphaLcParenBoth"),
        ("Dredge", 0, "arabicPeriod"),
        ("by day", 1, "alphaLcParenBoth"),
        ("Notes", 0, ""),
        ("Anew", 0, "arabicPeriod"),
        ("Fifth", 0, 'romanUcPeriod" startAt="5'),
    ]
    for i, (text, level, kind) in enumerate(plan):
        one = frame.paragraphs[0] if i == 0 else frame.add_paragraph()
        one.text, one.level = text, level
        if kind:
            one._p.get_or_add_pPr().append(pptx.oxml.parse_xml(f'<a:buAutoNum {A} type="{kind}"/>'))
    assert lines(deck)[1:] == [
        "1. Survey",
        "  - (a) by boat",
        "  - (b) by air",
        "2. Dredge",
        "  - (a) by day",
        "- Notes",
        "1. Anew",
        "- V. Fifth",
    ]


def test_cells_of_a_table_may_span_columns():
    deck = show()
    table = slide_of(deck).shapes.add_table(3, 3, 0, 0, 99, 99).table
    rows = [["Town", "Ships", ""], ["Hamar", "12", "14"], ["Berg", "9", "8"]]
    for i, row in enumerate(rows):
        for k, text in enumerate(row):
            table.cell(i, k).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    assert lines(deck)[-2:] == ["| Hamar, Ships: 12, Ships: 14", "| Berg, Ships: 9, Ships: 8"]
    table.first_row = False
    assert lines(deck)[-1] == "| Berg, 9, 8"


def test_a_chart_is_its_titles_and_values():
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck, data = show(), CategoryChartData(number_format="0%")
    data.categories = ["Hamar", "Berg"]
    data.add_series("2024", (0.25, 0.5))
    data.add_series("2025", (0.3, None))
    shapes = slide_of(deck).shapes
    chart = shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 99, 99, data).chart
    chart.has_title = chart.value_axis.has_title = True
    chart.chart_title.text_frame.text = "Share of ships"
    chart.value_axis.axis_title.text_frame.text = "of all"
    assert lines(deck)[1:] == [
        "Share of ships, of all",
        "| Hamar, 2024: 25%, 2025: 30%",
        "| Berg, 2024: 50%",
    ]


def test_points_of_a_plane_are_rows():
    from pptx.chart.data import XyChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck, data = show(), XyChartData()
    series = data.add_series("Depth")
    series.add_data_point(1, 2.5)
    series.add_data_point(3, 4.5)
    slide_of(deck).shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, 99, 99, data)
    assert lines(deck)[-2:] == ["| 1, Depth: 2.5", "| 3, Depth: 4.5"]


def test_days_of_a_chart_are_dates():
    from datetime import date

    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck, data = show(), CategoryChartData()
    data.categories = [date(2002, 1, 5), date(2002, 1, 6)]
    data.add_series("Ships", (32, 28))
    slide_of(deck).shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, 99, 99, data)
    assert lines(deck)[1:] == ["| 2002-01-05, Ships: 32", "| 2002-01-06, Ships: 28"]


def test_notes_of_the_speaker_are_apart():
    deck = show()
    slide_of(deck).notes_slide.notes_text_frame.text = "Wait for\nthe mayor"
    slide_of(deck, "End").notes_slide.notes_text_frame.text = " "
    found = content(deck)
    assert found.text == "# Harbour\n\n### Notes\n\n- Wait for\n- the mayor\n\n# End"
    assert found.notes == ("speaker notes of 1 slide read under the heading Notes",)


def test_pictures_are_described_or_noted():
    image = pytest.importorskip("PIL.Image")
    buffer, deck = io.BytesIO(), show()
    image.new("RGB", (1, 1)).save(buffer, "png")
    shapes = slide_of(deck).shapes
    shapes.add_picture(buffer, 0, 0)._element.nvPicPr.cNvPr.set("descr", "A map of\nthe quay")
    shapes.add_picture(buffer, 0, 500)._element.nvPicPr.cNvPr.set("descr", "quay (2).PNG")
    found = content(deck)
    assert found.text == "# Harbour\n\nA map of the quay"
    assert found.notes == ("2 pictures not read",)


def test_formulas_are_read():
    deck = show()
    xml = "<a:r><a:t>So </a:t></a:r><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath>"
    paragraph(box(slide_of(deck).shapes, ""), xml)
    assert lines(deck)[1:] == ["So $x=1$"]


@pytest.mark.parametrize("chosen", ["Choice", "Fallback"])
def test_the_shape_of_two_alternatives_is_read_once(chosen):
    """PowerPoint writes content that earlier versions do not know in this way, such as a text box with a formula."""
    deck = show()
    shapes = slide_of(deck).shapes
    shape = box(shapes, "Mass and energy are one.")._element
    both = pptx.oxml.parse_xml(
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        '<mc:Choice Requires="a14"/><mc:Fallback/></mc:AlternateContent>'
    )
    shape.addprevious(both)
    if chosen == "Choice":
        both[1].append(box(shapes, "An old picture of it.")._element)
    both[["Choice", "Fallback"].index(chosen)].append(shape)
    assert lines(deck)[1:] == ["Mass and energy are one."]


def test_a_title_of_several_lines_is_one_heading():
    deck = show()
    slide_of(deck, "The harbour\vof Hamar")
    assert lines(deck) == ["# The harbour of Hamar"]


def test_a_diagram_is_the_tree_of_its_texts():
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    deck = show()
    slide = slide_of(deck)
    d = 'xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    texts = [("top", ""), ("b", "Repair"), ("a", "Survey"), ("c", "by boat")]
    points = "".join(
        f'<d:pt modelId="{name}" type="{"node" if text else "doc"}"><d:t><a:p><a:r><a:t>{text}</a:t>'
        "</a:r></a:p></d:t></d:pt>"
        for name, text in texts
    )
    edges = "".join(
        f'<d:cxn srcId="{above}" destId="{below}" srcOrd="{order}"/>'
        for above, below, order in [("top", "b", 1), ("top", "a", 0), ("a", "c", 0)]
    )
    xml = f"<d:dataModel {d} {A}><d:ptLst>{points}</d:ptLst><d:cxnLst>{edges}</d:cxnLst></d:dataModel>"
    part = Part(
        PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, xml.encode()
    )
    relation = slide.part.relate_to(part, "http://x/diagramData")
    table = slide.shapes.add_table(1, 1, 0, 0, 9, 9)._element
    data = table.graphic.graphicData
    data.clear()
    data.set("uri", "http://schemas.openxmlformats.org/drawingml/2006/diagram")
    r = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    data.append(pptx.oxml.parse_xml(f'<d:relIds {d} {r} r:dm="{relation}"/>'))
    assert lines(deck)[1:] == ["- Survey", "  - by boat", "- Repair"]
    data[0].set("{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm", "rId99")
    assert content(deck).notes == ("1 embedded object, chart or diagram not read",)


def test_shapes_outside_of_the_slide_are_left_out_and_noted():
    deck = show()
    slide = slide_of(deck)
    box(slide.shapes, "Seen.")
    box(slide.shapes, "To the right.", left=deck.slide_width + 1)
    box(slide.shapes, "Above.", top=-500)
    found = content(deck)
    assert found.text == "# Harbour\n\nSeen."
    assert found.notes == ("2 shapes left out next to the slide",)


@pytest.mark.parametrize("kind", ["slideshow.main", "template.main"])
def test_shows_and_templates_are_read_and_texts_of_their_layout_noted(kind):
    deck = show()
    slide = slide_of(deck, "Roads")
    below = box(slide.shapes, "Town of Hamar")
    slide.slide_layout.slide_master.shapes._spTree.append(below._element)
    box(slide.shapes, "Open.")
    before, main = deck.part.content_type, "presentation.main"
    deck.part._content_type = before.replace(main, kind)
    found = content(deck)
    assert found.text == "# Roads\n\nOpen."
    assert found.notes == ("footers, slide numbers and texts of the slide master left out",)
