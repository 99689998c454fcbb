"""Word files as a person sees them."""

import pytest
from word_world import docx, numbered, paragraph, run

from hwdag_files.word import word_content

pytest.importorskip("markitdown")
pytest.importorskip("lxml")

LEGAL = [("decimal", "%1.", ""), ("decimal", "%1.%2", ""), ("lowerLetter", "(%3)", "")]


def lines(data):
    return [line for line in word_content(data).text.split("\n") if line]


def counted(levels, *places, **options):
    """Return the marks before the texts of paragraphs at some levels, or (level, list)."""
    body = "".join(
        paragraph("x", num=num, level=level)
        for level, num in ((one, 1) if isinstance(one, int) else one for one in places)
    )
    found = lines(docx(body, numbering=numbered(levels, **options)))
    return [line.strip().removeprefix("- ").removesuffix("x").strip() for line in found]


def test_clauses_have_their_numbers_across_other_paragraphs_and_headings():
    body = (
        paragraph("Definitions", style="H1", num=1)
        + paragraph("Goods are pumps.", num=1, level=1)
        + paragraph("Payment", style="H1", num=1)
        + paragraph("The buyer pays.", num=1, level=1)
        + paragraph("In winter:")
        + paragraph("Interest is due of", num=1, level=1)
        + paragraph("eight percent, and", num=1, level=2)
        + paragraph("eleven percent.", num=1, level=2)
    )
    assert lines(docx(body, numbering=numbered(LEGAL))) == [
        "# 1. Definitions",
        "- 1.1 Goods are pumps.",
        "# 2. Payment",
        "- 2.1 The buyer pays.",
        "In winter:",
        "- 2.2 Interest is due of",
        "  - (a) eight percent, and",
        "  - (b) eleven percent.",
    ]


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("upperRoman", ["I", "II", "III", "IV"]),
        ("lowerLetter", ["a", "b", "c", "d"]),
        ("decimalZero", ["01", "02", "03", "04"]),
        ("ordinal", ["1st", "2nd", "3rd", "4th"]),
        ("cardinalText", ["One", "Two", "Three", "Four"]),
        ("ordinalText", ["First", "Second", "Third", "Fourth"]),
        ("russianUpper", ["А", "Б", "В", "Г"]),
        ("hebrew2", ["א", "ב", "ג", "ד"]),
        ("japaneseCounting", ["一", "二", "三", "四"]),
        ("decimalEnclosedCircle", ["①", "②", "③", "④"]),
        ("thaiNumbers", ["๑", "๒", "๓", "๔"]),
        ("none", ["", "", "", ""]),
        ("noSuchFormat", ["1", "2", "3", "4"]),
    ],
)
def test_formats_of_numbers(form, numbers):
    wanted = [f"Clause {number}".strip() for number in numbers]
    assert counted([(form, "Clause %1", "")], 0, 0, 0, 0) == wanted


def test_letters_continue_after_z():
    assert counted([("upperLetter", "%1", "")], *[0] * 28)[-3:] == ["Z", "AA", "BB"]


def test_levels_restart_unless_the_list_excludes_it():
    assert counted(LEGAL, 0, 1, 2, 0, 1, 2) == ["1.", "1.1", "(a)", "2.", "2.1", "(a)"]
    never = [LEGAL[0], ("decimal", "%1.%2", '<w:lvlRestart w:val="0"/>')]
    assert counted(never, 0, 1, 0, 1) == ["1.", "1.1", "2.", "2.2"]


def test_legal_numbers_are_digits():
    levels = [("upperRoman", "%1.", ""), ("decimal", "%1.%2", "<w:isLgl/>")]
    assert counted(levels, 0, 1, 0, 1) == ["I.", "1.1", "II.", "2.1"]


def test_two_lists_of_one_kind_count_on_unless_one_starts_anew():
    anew = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
    assert counted(LEGAL, 0, 0, (0, 11), (0, 11)) == ["1.", "2.", "3.", "4."]
    assert counted(LEGAL, 0, 0, (0, 11), (0, 11), overrides=anew) == ["1.", "2.", "1.", "2."]


def test_a_number_that_comes_with_the_style_or_one_it_is_based_on():
    listed = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    styles = (
        f'<w:style w:type="paragraph" w:styleId="C"><w:name w:val="Clause"/>{listed}</w:style>'
        '<w:style w:type="paragraph" w:styleId="D"><w:name w:val="D"/><w:basedOn w:val="C"/></w:style>'
    )
    body = (
        paragraph("One", style="C")
        + paragraph("Two", style="D")
        + paragraph("No", style="D", num=0)
    )
    found = lines(docx(body, numbering=numbered([("decimal", "Art. %1", "")]), styles=styles))
    assert found == ["- Art. 1 One", "- Art. 2 Two", "No"]


def test_bullets_have_no_numbers():
    bullets = [("bullet", "\uf0b7", ""), ("bullet", "o", "")]
    assert counted(bullets, 0, 1, 0) == ["", "", ""]


def test_hidden_text_is_left_out_and_noted():
    styles = (
        '<w:style w:type="paragraph" w:styleId="S"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr>'
        "</w:style>"
    )
    body = paragraph(
        "The fee is 80.", run(" HIDDEN", "<w:vanish/>"), run(" Pay.", '<w:vanish w:val="0"/>')
    )
    found = word_content(docx(body + paragraph("STYLED", style="S"), styles=styles))
    assert (found.text, found.notes) == ("The fee is 80. Pay.", ("2 hidden passages left out",))


def test_struck_out_text_is_marked():
    body = paragraph(
        "It costs ", run("70 ", "<w:strike/>"), run("euros", "<w:dstrike/>"), " 80 euros."
    )
    assert lines(docx(body)) == ["It costs ~~70 euros~~ 80 euros."]


def test_raised_and_lowered_digits_are_not_part_of_the_number_before():
    up, down = ('<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>')
    body = paragraph(
        "10", run("-10", up), " m", run("2", up), " H", run("2", down), "O 2", run("nd", up)
    )
    assert lines(docx(body)) == ["10⁻¹⁰ m² H₂O 2nd"]


def test_boxes_and_choices_show_their_state():
    def control(state, sign):
        return (
            f'<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="{state}"/></w14:checkbox></w:sdtPr>'
            f"<w:sdtContent>{run(sign)}</w:sdtContent></w:sdt>"
        )

    def field(inner):
        return (
            f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{inner}</w:ffData></w:fldChar></w:r>'
            '<w:r><w:instrText>X</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
        )

    entries = (
        '<w:ddList><w:result w:val="1"/><w:listEntry w:val="A"/><w:listEntry w:val="B"/></w:ddList>'
    )
    old = '<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>'
    symbol = '<w:r><w:sym w:font="Wingdings" w:char="F0A8"/></w:r>'
    body = paragraph(control(1, "☒"), " Tea") + paragraph(control(0, "☐"), " Bread")
    body += (
        paragraph(field(old), "Milk")
        + paragraph(symbol, "Eggs")
        + paragraph("Room ", field(entries))
    )
    assert lines(docx(body)) == ["[x] Tea", "[ ] Bread", "[x] Milk", "[ ] Eggs", "Room B"]


def test_what_holds_text_is_read_through_and_what_was_moved_away_is_not():
    held = [
        '<w:fldSimple w:instr=" SEQ ">{}</w:fldSimple>',
        "<w:moveTo>{}</w:moveTo>",
        "<w:ins>{}</w:ins>",
        '<w:customXml w:element="e">{}</w:customXml>',
        '<w:bdo w:val="rtl">{}</w:bdo>',
        '<w:dir w:val="rtl">{}</w:dir>',
        "<w:smartTag>{}</w:smartTag>",
        "<w:hyperlink>{}</w:hyperlink>",
        "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>",
        "<w:r><w:ruby><w:rt>{}</w:rt><w:rubyBase>{}</w:rubyBase></w:ruby></w:r>",
    ]
    for holder in held:
        inner = holder.format(*[run("held"), run("held")][: holder.count("{}")])
        assert lines(docx(paragraph("a ", inner, " b"))) == ["a held b"], holder
    for holder in ("<w:moveFrom>{}</w:moveFrom>", "<w:del>{}</w:del>"):
        found = word_content(docx(paragraph("a", holder.format(run("gone")), " b")))
        assert (found.text, len(found.notes)) == ("a b", 1)
    breaks = "<w:r><w:t>a</w:t><w:cr/><w:t>b</w:t><w:br/><w:t>c</w:t><w:tab/><w:t>d</w:t></w:r>"
    assert lines(docx(paragraph(breaks))) == ["a", "b", "c\td"]


def test_a_paragraph_whose_end_is_deleted_continues_in_the_next():
    body = paragraph("One ", mark="<w:del/>") + paragraph("sentence.")
    assert lines(docx(body)) == ["One sentence."]


def test_a_formula_that_cannot_be_read_leaves_the_others():
    good = "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>"
    bad = "<m:oMath><m:nary><m:e><m:r><m:t>y</m:t></m:r></m:e></m:nary><m:limLow><m:e/></m:limLow></m:oMath>"
    found = word_content(docx(paragraph("a ", good, " b ", bad, " c ", good)))
    assert found.text == "a $x$ b y c $x$"
    assert found.notes == ("1 formula not understood: read as plain letters",)


@pytest.mark.parametrize(
    "look", ["", '<w:vertAlign w:val="superscript"/>', '<w:position w:val="6"/>']
)
def test_footnotes_follow_and_comments_are_noted(look):
    footnote = f'<w:footnote w:id="2">{paragraph("Of 2024.")}</w:footnote>'
    body = paragraph(
        "It cost 45",
        f'<w:r><w:rPr>{look}</w:rPr><w:footnoteReference w:id="2"/></w:r>',
        " million.",
    )
    comment = f'<w:comment w:id="0">{paragraph("Really?")}</w:comment>'
    found = word_content(docx(body, footnotes=footnote, comments=comment))
    assert found.text == "It cost 45[1] million.\n\n- [1] Of 2024."
    assert found.notes == ("1 comment left out",)


def test_a_text_box_is_read_once_and_a_picture_by_its_description():
    inner = f"<w:txbxContent>{paragraph('In the box.')}</w:txbxContent>"
    both = (
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing>{inner}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{inner}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert lines(docx(paragraph("Around it.", both))) == ["Around it.", "In the box."]
    old = both.replace("mc:Choice>", "mc:Choice>", 1).replace(inner, "", 1)
    assert lines(docx(paragraph("Around it.", old))) == ["Around it.", "In the box."]
    picture = '<w:r><w:drawing><wp:docPr descr="A pump"/><a:blip/></w:drawing></w:r>'
    found = word_content(docx(paragraph("See ", picture)))
    assert (found.text, found.notes) == ("See A pump", ("1 picture not read",))


def test_merged_cells_are_repeated_in_all_rows_and_columns():
    def cell(text, more=""):
        return f"<w:tc><w:tcPr>{more}</w:tcPr>{paragraph(text)}</w:tc>"

    rows = [
        cell("Land") + cell("2022", '<w:gridSpan w:val="2"/>'),
        cell("Norway", '<w:vMerge w:val="restart"/>') + cell("11") + cell("12"),
        cell("", "<w:vMerge/>") + cell("21") + cell("22"),
    ]
    body = f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"
    assert lines(docx(body)) == [
        "| Land, 2022, 2022",
        "| Norway, 2022: 11, 2022: 12",
        "| Norway, 2022: 21, 2022: 22",
    ]


@pytest.mark.parametrize(
    ("properties", "is_noted"),
    [
        ('<w:color w:val="FFFFFF"/>', True),
        ('<w:color w:val="ffffff"/>', True),
        ('<w:sz w:val="2"/>', True),
        ('<w:color w:val="FF0000"/>', False),
        ('<w:sz w:val="20"/>', False),
        ('<w:color w:val="FFFFFF"/><w:shd w:val="clear" w:fill="000000"/>', False),
    ],
)
def test_white_and_tiny_letters_are_noted(properties, is_noted):
    found = word_content(docx(paragraph("The fee is 80. ", run("It was 10.", properties))))
    assert found.text == "The fee is 80. It was 10."
    note = "1 passage read in white or tiny letters, which a person may not see"
    assert found.notes == ((note,) if is_noted else ())


def test_white_letters_on_the_dark_ground_of_a_cell_are_seen():
    white = paragraph(run("Town", '<w:color w:val="FFFFFF"/>'))
    cells = "<w:tc><w:tcPr><w:shd w:fill='000000'/></w:tcPr>" + white + "</w:tc>"
    assert word_content(docx(f"<w:tbl><w:tr>{cells * 2}</w:tr></w:tbl>")).notes == ()


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("A map of the quay", ["A map of the quay"]),
        ("A map Description automatically generated with low confidence", ["A map"]),
        ("A map AI-generated content may be incorrect.", ["A map"]),
        ("IMG 0017.JPEG", []),
    ],
)
def test_descriptions_of_pictures_are_those_of_people(description, shown):
    drawing = f'<w:drawing><wp:inline xmlns:wp="x"><wp:docPr descr="{description}"/></wp:inline></w:drawing>'
    assert lines(docx(paragraph(f"<w:r>{drawing}</w:r>"))) == shown


def test_a_large_initial_belongs_to_the_paragraph_after_it():
    frame = '<w:p><w:pPr><w:framePr w:dropCap="{}"/></w:pPr><w:r><w:t>T</w:t></w:r></w:p>'
    rest = paragraph("he quay is old.")
    assert lines(docx(frame.format("drop") + rest)) == ["The quay is old."]
    assert lines(docx(frame.format("margin") + rest)) == ["The quay is old."]
    assert lines(docx(frame.format("none") + rest)) == ["T", "he quay is old."]


def test_bullets_that_are_boxes_show_their_state():
    assert counted([("bullet", "☐", "")], 0) == ["[ ]"]
    assert counted([("bullet", "☒", "")], 0) == ["[x]"]
