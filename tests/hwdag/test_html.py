"""Pages as a person sees them."""

import pytest

from hwdag_files.html import html_content


def lines(markup):
    return [line for line in html_content(markup.encode()).text.split("\n") if line]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("3.7 &times; 10<sup>10</sup> decays", "3.7 × 10¹⁰ decays"),
        ("10<sup>&minus;3</sup> mm", "10⁻³ mm"),
        ("45<sup>3</sup> million", "45³ million"),
        ("45<sup><a href='#n'>[3]</a></sup> million", "45[³] million"),
        ("45<sup>3, 4</sup> million", "45³, ⁴ million"),
        ("10<sup>3/2</sup> m", "10^(3/2) m"),
        ("H<sub>2</sub>O and log<sub>10</sub>100", "H₂O and log₁₀100"),
        ("2<sup>nd</sup> class", "2nd class"),
        ("20 m<span style='vertical-align: super'>2</span>", "20 m²"),
    ],
)
def test_raised_and_lowered_digits_are_none_of_the_number_before(markup, text):
    assert lines(f"<p>{markup}</p>") == [text]
    table = f"<table><tr><th>A<th>B<tr><td>x<td>{markup}<tr><td>y<td>1</table>"
    assert lines(table)[1] == f"| x{';' if ', ' in text else ','} B: {text}"


@pytest.mark.parametrize(
    "markup",
    [
        "<del>40 euros</del>",
        "<s>40 <b>euros</b></s>",
        "<strike>40 euros</strike>",
        "<span style='text-decoration: line-through red'>40 euros</span>",
    ],
)
def test_struck_out_text_is_marked(markup):
    assert lines(f"<p>It costs {markup} <ins>35 euros</ins>.</p>") == [
        "It costs ~~40 euros~~ 35 euros."
    ]


def test_struck_out_blocks_are_marked_line_by_line():
    assert lines("<del><p>One.</p><p>Two.</p></del><p>Three.</p>") == [
        "~~One.~~",
        "~~Two.~~",
        "Three.",
    ]


@pytest.mark.parametrize(
    "how",
    ["hidden", "style='display:none'", "style='visibility: hidden'", "style='font-size:0'"],
)
def test_what_is_hidden_is_left_out_and_noted(how):
    found = html_content(f"<p>Seen.</p><div {how}>NOT <b>SEEN</b></div><p {how}></p>".encode())
    assert (found.text, found.notes) == ("Seen.", ("1 hidden passage left out",))
    assert html_content(b"<p style='font-size:0.9em; opacity:0.5'>Seen.</p>").text == "Seen."


def test_boxes_and_fields_show_their_state():
    form = (
        "<p><input type=checkbox checked> Tea <input type=CHECKBOX>Milk</p>"
        "<p><input type=radio> post <input type=radio checked> hand</p>"
        "<p>Name <input value='Ada Lind'><input type=hidden value=SECRET><input type=submit value=Send></p>"
        "<select><option>Berg<option selected>Lund</select><select><option>A</select>"
        "<p><textarea>ring twice</textarea>"
    )
    assert lines(form) == [
        "[x] Tea [ ] Milk",
        "[ ] post [x] hand",
        "Name Ada Lind",
        "[ ] Berg",
        "[x] Lund",
        "A",
        "ring twice",
    ]


def test_an_item_is_indented_below_the_one_it_belongs_to():
    towns = "<ul><li>Oslo<ul><li>opens at 7<ol><li>daily</ol></ul><li>Hamar</ul><p>End.</p><ul><li>a</ul>"
    assert lines(towns) == ["- Oslo", "  - opens at 7", "    1. daily", "- Hamar", "End.", "- a"]
    assert lines("<dl><dt>berth<dd>has room<dt>quay<dd>is long</dl>") == [
        "- berth",
        "  - has room",
        "- quay",
        "  - is long",
    ]


@pytest.mark.parametrize(
    ("attributes", "numbers"),
    [
        ("", ["1.", "2.", "9.", "10."]),
        ("start=5", ["5.", "6.", "9.", "10."]),
        ("reversed", ["4.", "3.", "9.", "8."]),
        ("type=a", ["- a.", "- b.", "- i.", "- j."]),
        ("type=I", ["- I.", "- II.", "- IX.", "- X."]),
    ],
)
def test_items_have_the_numbers_that_a_browser_shows(attributes, numbers):
    found = lines(f"<ol {attributes}><li>x<li>x<li value=9>x<li>x</ol>")
    assert [line.removesuffix(" x") for line in found] == numbers


def test_inline_pictures_are_noted():
    found = html_content(b"<p>A seal.<img src=' data:image/png;base64,AAAA'><img src=a.png></p>")
    assert (found.text, found.notes) == ("A seal.", ("1 inline picture left out",))
