"""RTF as a person sees it."""

import pytest

from hwdag_files.read import Skipped, read_documents
from hwdag_files.rtf import rtf_content

FONTS = (
    r"{\fonttbl{\f0\fswiss\fcharset0 Helvetica;}{\f1\fcharset204{\*\fname Arial;}Arial CYR;}"
    r"{\f2\fcharset2 Symbol;}{\f3\fcharset128 MS Mincho;}{\f4\fcharset238 Times CE;}}"
)
STYLES = r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 Kapitel;}{\s2\b heading 2;}{\*\cs3 Strong;}}"
HEAD = rf"{{\rtf1\ansi\ansicpg1252\deff0{FONTS}{{\colortbl;\red0;}}{STYLES}"


def read(body):
    return rtf_content((HEAD + body + "}").encode("latin-1"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"The caf\'e9 closes at {\b ten}.\par The m\u252\'fcller.\par", "The café closes at ten.\n\nThe müller."),
        ("Two\r\nlines of\r\n one\\\nparagraph\\\r\nends.", "Twolines of one\n\nparagraph\n\nends."),
        (r"\f1 \'c4\'ee\'e3\f0 -\'c4\f4 \'b3", "Дог-Äł"),
        (r"{\f3 \'8c\'5f\'96\'f1\'8fA}", "契約" + b"\x8fA".decode("cp932")),
        (r"\u1044?\u1086? \u-10179?\u-8704?", "До 😀"),
        (r"{\uc0\u1044}{\uc2\u1086\'cf\'cf}\u33 ?!", "До!!"),
        (r"a\line b\tab c \{x\} 5\~km co\-operate\_d \emdash \bullet", "a\nb\tc {x} 5 km cooperate\u2011d —•"),
        (r"m{\super 2}, H{\sub 2}O, {\up6 10}x, {\dn4 3}", "m², H₂O, ¹⁰x, ₃"),
        (r"{\field{\*\fldinst HYPERLINK x}{\fldrslt link}} {\*\bkmkstart a}end{\xe\v hidden}", "link end"),
        (r"{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt boxed\par}}{\shprslt boxed}", "boxed"),
        (r"{\bin4 }}}}after", "after"),
        (r"{\object\objemb{\*\objdata 0105}{\result shown}}", "shown"),
        (r"{\upr{old}{\*\ud{new}}}", "new"),
    ],
)  # fmt: skip
def test_text(body, text):
    assert read(body).text == text


def test_headings_by_style_and_level():
    body = r"\pard\plain\s1 One\par\pard\plain\s2{\listtext 1.1\tab}Two\par\pard Text\par\outlinelevel2 Three\par"
    assert read(body).text == "# One\n\n## 1.1 Two\n\nText\n\n### Three"


def test_items_of_lists():
    items = [(r"1.\tab", 0, "First"), (r"a)\tab", 1, "Inner"), (r"\f2 \'b7\tab", 0, "Dot")]
    body = "".join(rf"\pard{{\listtext {n}}}\ilvl{d} {text}\par" for n, d, text in items)
    assert read(body).text == "1. First\n  - a) Inner\n- Dot"


def test_rows_name_their_columns():
    rows = [("Town", "Cars"), ("Hamar", "18\\par places"), ("Lund", "{\\strike 20} 22")]
    body = "".join(rf"\trowd\cellx1\cellx2\pard\intbl {a}\cell {b}\cell\row" for a, b in rows)
    assert read(f"{body}\\pard After.\\par").text == (
        "| Town, Cars\n| Hamar, Cars: 18 places\n| Lund, Cars: ~~20~~ 22\n\nAfter."
    )


def row(*cells):
    """Return a row of cells: their right side, words of how they are merged, and text."""
    ends = "".join(rf"{merge}\cellx{side}" for side, merge, _ in cells)
    return rf"\trowd{ends}\pard\intbl " + "".join(rf"{text}\cell " for *_, text in cells) + r"\row"


@pytest.mark.parametrize(
    "head",
    [
        row((1000, r"\clvmgf", "Town"), (3000, "", "2024")),
        row((1000, r"\clvmgf", "Town"), (2010, r"\clmgf", "2024"), (3000, r"\clmrg", "")),
    ],
)
def test_merged_cells_are_in_all_their_rows_and_columns(head):
    body = (
        head
        + row((1000, r"\clvmgf", "Hamar"), (2000, "", "18"), (3000, "", "19"))
        + row((1000, r"\clvmrg", ""), (2000, "", "20"), (3000, "", "21"))
    )
    assert read(body + r"\pard After.\par").text == (
        "| Town, 2024, 2024\n| Hamar, 2024: 18, 2024: 19\n| Hamar, 2024: 20, 2024: 21\n\nAfter."
    )


def test_white_letters_are_noted():
    table = r"{\colortbl;\red255\green255\blue255;\red0\green0\blue0;}"
    content = read(table + r"The fee is 80. {\cf1 It was 10. {\cb2 Seen.}} {\cf2 Seen.}\par")
    assert content.text == "The fee is 80. It was 10. Seen. Seen."
    assert content.notes == ("1 passage read in white letters, which a person may not see",)


def test_a_table_within_a_cell_is_a_table():
    rows = "".join(
        rf"{a}\nestcell {b}\nestcell{{\*\nesttableprops\nestrow}}"
        for a, b in [("Town", "Cars"), ("Hamar", "18")]
    )
    body = rf"\pard\intbl\itap2 {rows}\pard\intbl\itap1 \cell Age: 40\cell\row\pard End.\par"
    assert read(body).text == "| Age: 40\n\n| Town, Cars\n| Hamar, Cars: 18\n\nEnd."


def test_what_nobody_sees_is_noted():
    body = (
        r"The fee is {\deleted 70}{\revised 80}{\v 90} euros.{\super\chftn{\footnote\pard{\super\chftn} By {\b us}.}}"
        r" It {\strike was} is.{\header Page}{\pict 0102}{\*\annotation no}{\info{\title Fees}{\author A}}\par"
    )
    content = read(body)
    assert content.text == "The fee is 80 euros.[1] It ~~was~~ is.\n\n- [1] By us."
    assert content.title == "Fees"
    assert content.notes == (
        "1 hidden passage left out",
        "1 passage left out that tracked changes delete or move away",
        "1 comment left out",
        "1 picture not read",
        "headers and footers left out",
    )


def test_damage_is_reported(tmp_path):
    cut = HEAD + r"Half a {\b tex"
    assert rtf_content(cut.encode()).notes == ("the file ends too early",)
    assert rtf_content(cut.encode()).text == "Half a tex"
    (tmp_path / "a.rtf").write_text("no RTF")
    (tmp_path / "b.rtf").write_text("{\\rtf1 " + "{" * 5_000)
    (tmp_path / "c.txt").write_text("{\\rtf1\\ansi Text.}")
    first, deep, named = read_documents([tmp_path / name for name in ("a.rtf", "b.rtf", "c.txt")])
    assert isinstance(first, Skipped) and isinstance(deep, Skipped)
    assert named.text == "Text." and "it is an RTF document" in named.metadata["notes"][0]
