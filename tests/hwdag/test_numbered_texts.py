"""Plain texts whose lines are numbered, as transcripts are, and others that begin with numbers."""

import textwrap

import pytest
from pdf_world import HARBOUR, RAILWAY, SCHOOL, WATERWORKS

from hwdag_files.texts import text_content

TEXT = " ".join([WATERWORKS, HARBOUR, SCHOOL, RAILWAY])


@pytest.mark.parametrize("form", ["{:4}   {}", "{}\t{}", "  {:>3}  {}"])
@pytest.mark.parametrize("page", [25, 100])
def test_numbers_of_lines_are_left_out(form, page):
    lines = textwrap.wrap(TEXT, 50)
    numbered = "\n".join(form.format(1 + i % page, line) for i, line in enumerate(lines))
    content = text_content(numbered.encode())
    assert content.text == "\n".join(lines)
    assert content.notes == (f"left out {len(lines)} numbers that count the lines",)


KEPT = {
    "rows": "\n".join(f"{i}   pump {i}   {i * 37} litres" for i in range(1, 20)),
    "names": "\n".join(f"{i}   {name}" for i, name in enumerate(["Aas", "Moe", "Lie"] * 4, 1)),
    "years": "\n".join(f"{1900 + 7 * i}  the mill was sold again" for i in range(12)),
    "a list": "\n".join(f"{i}. the pump of house {i} is tested" for i in range(1, 12)),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_numbers_at_the_start_of_lines_stay(name):
    content = text_content(KEPT[name].encode())
    assert content.notes == ()
    assert all(line.split()[0] in content.text for line in KEPT[name].splitlines())
