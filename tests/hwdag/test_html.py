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
def test_raised_and_lowered_digits_are_not_part_of_the_number_before(markup, text):
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


def test_pictures_and_recordings_are_noted_unless_they_are_decoration():
    found = html_content(
        b"<p>A seal.<img src=' data:image/png;base64,AAAA'><img src=a.png alt='A'><img src=b.png alt=''>"
        b"<img src=c.png width=1><svg><path/></svg><svg><text>No.</text></svg></p><video src=a></video>"
    )
    assert found.text == "A seal."
    assert found.notes == ("3 pictures not read", "1 recording or embedded page left out")


@pytest.mark.parametrize("begin", ["</strong><body>", "<body>", "<h1>Fees</h1>", ""])
def test_a_head_without_its_end_tag_does_not_hide_the_page(begin):
    page = f"<html><head><title>T</title><style>p {{}}</style>{begin}<p>The fee is 80.<title>no</title>"
    found = html_content(page.encode())
    assert found.text.endswith("The fee is 80.") and found.title == "T"


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<msup><mn>10</mn><mn>10</mn></msup>", "10¹⁰"),
        ("<msub><mi>x</mi><mn>12</mn></msub>", "x₁₂"),
        ("<msup><mi>x</mi><mi>n</mi></msup>", "x^n"),
        ("<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x₁²"),
        ("<mfrac><mn>3</mn><mn>4</mn></mfrac>", "3/4"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mn>4</mn></mfrac>", "(a+1)/4"),
        ("<msqrt><mn>2</mn></msqrt>", "√(2)"),
        ("<mrow>\n <mi>E</mi>\n <mo>=</mo>\n <mi>m</mi></mrow>", "E=m"),
        (
            "<semantics><msup><mi>c</mi><mn>2</mn></msup>"
            "<annotation encoding='application/x-tex'>c^2</annotation></semantics>",
            "$c^2$",
        ),
        (
            "<semantics><msup><mi>c</mi><mn>2</mn></msup>"
            "<annotation encoding='StarMath 5.0'>c ^ 2</annotation></semantics>",
            "c²",
        ),
    ],
)
def test_formulas_keep_their_powers(formula, shown):
    page = f"<p>So <math>{formula}</math> holds.</p>"
    assert html_content(page.encode()).text == f"So {shown} holds."


def test_formulas_may_have_a_prefix():
    formula = "<m:math><m:msup><m:mn>10</m:mn><m:mn>6</m:mn></m:msup></m:math>"
    assert html_content(f"<p>So {formula} grains.</p>".encode()).text == "So 10⁶ grains."


def test_a_formula_of_any_depth_is_read():
    page = f"<p>So <math>{'<mrow>' * 3000}x{'</mrow>' * 3000}</math> holds.</p>"
    assert html_content(page.encode()).text == "So x holds."


@pytest.mark.parametrize(
    "hidden",
    [
        "<dialog>No.</dialog>",
        "<p style='position:absolute;left:-9999px'>No.</p>",
        "<p style='text-indent: -5000px'>No.</p>",
        "<p style='font-size: 1px'>No.</p>",
        "<p style='font-size:0.5pt'>No.</p>",
        "<p style='clip: rect(0, 0, 0, 0)'>No.</p>",
        "<div style='overflow: hidden; height: 0'>No.</div>",
        "<div style='max-height:0px;overflow:hidden'>No.</div>",
        "<p style='opacity: 0.0'>No.</p>",
    ],
)
def test_text_that_is_hidden_in_other_ways_is_left_out_and_noted(hidden):
    found = html_content(f"<p>Yes.</p>{hidden}".encode())
    assert (found.text, found.notes) == ("Yes.", ("1 hidden passage left out",))


@pytest.mark.parametrize(
    "shown",
    [
        "<dialog open>Yes.</dialog>",
        "<p style='left:-10px'>Yes.</p>",
        "<p style='font-size: 10px'>Yes.</p>",
        "<p style='font-size: 1.5em'>Yes.</p>",
        "<div style='height: 0'>Yes.</div>",
        "<div style='overflow: hidden; height: 10px'>Yes.</div>",
        "<p style='opacity: 0.9'>Yes.</p>",
        "<p style='background-color: white; color: black'>Yes.</p>",
        "<div style='background: navy'><p style='color: #FFF'>Yes.</p></div>",
        "<style>.n {background: navy} i {color: white}</style><p class=n><i>Yes.</i></p>",
        "<table bgcolor=navy><tr><td><font color=white>Yes.</font></table>",
    ],
)
def test_text_that_is_seen_is_read_without_a_note(shown):
    found = html_content(shown.encode())
    assert (found.text, found.notes) == ("Yes.", ())


@pytest.mark.parametrize(
    "tag",
    [
        "span style='color: white'",
        "span style='color: #FFF'",
        "span style='background: #fff; color:rgb(255, 255, 255)'",
        "span style='color:transparent'",
        "span style='background-color: navy; color: Navy'",
        "font color='#FFFFFF'",
        "span class=w",
    ],
)
def test_letters_in_the_colour_of_their_ground_are_noted(tag):
    page = f"<style>.w {{ color: #ffffff }} .b {{ background: none }}</style><p class=b>The fee is 80. <{tag}>It was 10.</{tag.split()[0]}>"
    found = html_content(page.encode())
    assert found.text == "The fee is 80. It was 10."
    assert found.notes == ("1 passage read in white letters, which a person may not see",)


def test_what_only_other_browsers_show_is_left_out():
    page = (
        "<p>He said <q>no</q>.</p><video>Your browser is old.</video><datalist><option>x</datalist>"
    )
    assert html_content(page.encode()).text == "He said “no”."
