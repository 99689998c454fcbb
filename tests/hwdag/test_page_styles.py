"""Style sheets within a page hide, strike out and raise its text."""

import pytest
from test_epub import book

from hwdag_files.epub import epub_content
from hwdag_files.html import html_content


def text(sheet, body, media=""):
    page = f"<head><style {media}>{sheet}</style></head><body>{body}</body>"
    return html_content(page.encode()).text


@pytest.mark.parametrize(
    "sheet",
    [
        ".no { display: none }",
        "p.no{display:none}",
        "div .no { VISIBILITY : Hidden; color: red }",
        "div > p.no, .other { display:none; }",
        "body>div>.a.no { display:none; }",
        "#one { opacity: 0; }",
        "h1 { color: red } /* .no { */ .x { } .no { font-size: 0px }",
        "@media print { .no { display: block } } .no { display: none }",
        "@charset 'x'; .no { display: none }",
    ],
)
def test_a_rule_hides_what_it_selects(sheet):
    body = '<div><p class="a no" id="one">The fee was 10.</p><p>The fee is 80.</p></div>'
    assert text(sheet, body) == "The fee is 80."


@pytest.mark.parametrize(
    "sheet",
    [
        "@media print { .no { display: none } }",
        "@media (max-width: 600px) { .no { display: none } }",
        ".no:hover { display: none }",
        ".no::before { display: none }",
        ".other { display: none }",
        "body > .x > p, body > p > p, .no .no { display: none }",
        ".no { display: none } p.no { display: block }",
        "p.no { display: block } .no { display: none }",
        ".no { display: none } #one { display: inline }",
        ".no { display: none",
        ".no { displays: none }",
    ],
)
def test_a_rule_that_does_not_apply_hides_nothing(sheet):
    body = '<p class="no" id="one">The fee was 10.</p>'
    assert text(sheet, body) == "The fee was 10."


def test_the_style_of_the_tag_comes_after_all_rules():
    assert text(".a { display: none }", '<p class="a" style="display:block">Yes.</p>') == "Yes."
    assert text("p { display: none }", "<p>No.</p>", 'media="print"') == "No."


def test_rules_strike_out_and_raise():
    sheet = ".old { text-decoration: line-through } span.up { vertical-align: super }"
    body = '<p>It costs <span class="old">70</span> 80, 10<span class="up">6</span> grains.</p>'
    assert text(sheet, body) == "It costs ~~70~~ 80, 10⁶ grains."


@pytest.mark.slow
def test_hidden_text_is_noted_and_so_are_too_many_rules():
    page = "<style>.no{display:none}</style><p class=no>No.</p><p>Yes.</p>"
    assert html_content(page.encode()).notes == ("1 hidden passage left out",)
    rules = ".c p{display:none}" * 1_100
    many = f"<style>{rules}</style>" + "<p>Yes.</p>" * 1_000
    assert html_content(many.encode()).notes == (
        "the page has more styles than are applied, so hidden text may be read",
    )


def test_style_sheets_of_a_book_apply_to_its_chapters():
    chapter = "<link rel='stylesheet' href='../s.css'/><p class='no'>No.</p><p>Yes.</p>"
    data = book(
        {"c/a.xhtml": chapter, "s.css": "x {} .no { display: none } y {"}, spine=["c/a.xhtml"]
    )
    assert epub_content(data).text == "Yes."
