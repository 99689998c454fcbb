"""The heading of each passage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.text.headings import (
    LONGEST_HEADING,
    Outline,
    headings,
    in_context,
    read_texts,
    title_from,
)
from hwdag.text.sentences import sentences
from hwdag.types import Node, Span


def heading_of(text, passage):
    start = text.index(passage)
    return headings(text, [Span(start, start + len(passage))])[0]


LABELLED = """Passage 1:
Green Bay Packers
The team was founded in 1919 by Curly Lambeau and George Whitney Calhoun, both from the city.

Passage 2:
Jr.
A suffix.

It is used for sons."""

MARKDOWN = """Before any heading there is a line of prose that ends as prose does.

# Animals

Cats sleep.

## Dogs ##
Dogs bark.

Plants
======

Trees stand.
"""

PLAIN = """CHAPTER I

It was a dark night, and nobody was about.

The Legend of Sleepy Hollow
In the bosom of one of those spacious coves which indent the eastern shore of the Hudson there
lies a small market town.

"Yes," said he,
and went on in a long line that could be mistaken for prose below a title if one did not look.
"""

SPACED = """RED-TAPE MOUNTAIN

[Note: This text was produced from

Worlds of If, May 1962.

Extensive research did not uncover any evidence that

the copyright on this publication was renewed.]

Elected a god, the Omnipotent longed

for supernatural powers

and more. Nobody knew the answer, unless perhaps Martin—

Retief took the mail boat.

Main results

where they stand

iCarly

iCarly is a programme.
"""


@pytest.mark.parametrize(
    ("text", "passage", "heading"),
    [
        (SPACED, "the copyright", "RED-TAPE MOUNTAIN"),
        (SPACED, "Retief took", "RED-TAPE MOUNTAIN"),
        (SPACED, "where they", "Main results"),
        (SPACED, "iCarly is", "iCarly"),
        ("# A\n\nOne.\n\n## B\n\nMargaret Eaves\n\nTwo.", "Two.", "A > B"),
        ("# A\n\nMargaret Eaves\n\nTwo.", "Two.", "A > Margaret Eaves"),
        ("# A\n\n```\n# load the data\n```\n\nTwo.", "Two.", "A"),
        ("```\n\n# A\n\nTwo.", "Two.", "A"),
        ("# A\n\n~~~sh\n# load the data\n~~~\n\nTwo.", "Two.", "A"),
        ("# A\n\n````\n```\n# load\n````\n\nTwo.", "Two.", "A"),
        ("```x = 1``` is code.\n\n# A\n\nTwo.\n\n```\nx\n```", "Two.", "A"),
        (LABELLED, "The team was", "Green Bay Packers"),
        (LABELLED, "Passage 1:", "Green Bay Packers"),
        (LABELLED, "It is used", "Jr."),
        (MARKDOWN, "Before any", ""),
        (MARKDOWN, "Cats sleep", "Animals"),
        (MARKDOWN, "Dogs bark", "Animals > Dogs"),
        (MARKDOWN, "Trees stand", "Plants"),
        (PLAIN, "It was a dark", "CHAPTER I"),
        (PLAIN, "lies a small", "The Legend of Sleepy Hollow"),
        (PLAIN, "and went on", "The Legend of Sleepy Hollow"),
        ("猫について\n\n猫は眠る。", "猫は眠る", "猫について"),
        ("- item\n\nText.", "Text.", ""),
    ],
)
def test_the_heading_above(text, passage, heading):
    assert heading_of(text, passage) == heading


PAGE = "# Museum\n\nIt is old.\n\n## Prices\n\nTen.\n\n### Children\n\nFive.\n\n## Hours\n\nNine."


@pytest.mark.parametrize(
    ("text", "title", "found"),
    [
        (PAGE, "", ["Museum", "Museum > Prices", "Museum > Prices > Children", "Museum > Hours"]),
        (
            PAGE,
            "museum",
            ["Museum", "Museum > Prices", "Museum > Prices > Children", "Museum > Hours"],
        ),
        (
            "# Prices\n\nTen.\n\n## Children\n\nFive.",
            "Prices - The museum of Elm Hill",
            [
                "Prices - The museum of Elm Hill > Prices",
                "Prices - The museum of Elm Hill > Children",
            ],
        ),
        ("# A\n\nOne.\n\n# B\n\nTwo.\n\n## C\n\nThree.", "A", ["A", "B", "B > C"]),
        ("# A\n\nOne.\n\n# B\n\nTwo.", "Notes", ["Notes > A", "Notes > B"]),
        (
            "Deep\n----\n\nOne.\n\nTop\n===\n\nTwo.\n\n### Low\n\nThree.",
            "",
            ["Deep", "Top", "Top > Low"],
        ),
        (
            "KNAVES\n\nIllustrated by Ann\n\nIt rained.\n\nII\n\nIt snowed.",
            "Knaves",
            ["KNAVES", "Knaves > Illustrated by Ann", "Knaves > II"],
        ),
        (
            "# " + "long " * 30 + "\n\nOne.\n\n## " + "word " * 20 + "\n\nTwo.",
            "Title",
            ["Title > " + "long " * 29 + "long", "Title > " + "word " * 19 + "word"],
        ),
    ],
)
def test_headings_above_each_other(text, title, found):
    """Sections of other documents have the same names; where they do not fit, the title goes first."""
    outline, spans = Outline(text, title), sentences(text)
    assert list(dict.fromkeys(outline.heading_of(span) for span in spans)) == found


@given(st.text(alphabet="ab.#:\n =", max_size=200))
def test_any_text_has_one_heading_per_span_and_it_occurs_in_the_text(text):
    spans = sentences(text)
    found = headings(text, spans)
    assert len(found) == len(spans)
    assert all(heading in text for heading in found)


def test_a_passage_is_prefixed_with_its_heading_once():
    assert in_context("Dogs", "They bark.") == "Dogs: They bark."
    assert in_context("", "They bark.") == "They bark."
    assert in_context("Dogs", "Dogs\nThey bark.") == "Dogs\nThey bark."
    assert in_context("Animals > Dogs", "They bark.") == "Animals: Dogs: They bark."
    assert in_context("Animals > Dogs", "## Dogs\n\nThey bark.") == "Animals: ## Dogs\n\nThey bark."


def test_paragraphs_are_parted_by_blank_lines_and_begin_with_their_heading():
    text = (
        "Passage 1:\nTown\nIt has a port. It is old.\n\n  \nIt has ships.\n"
        "# Sea\n\n## Fish\n\nThey swim.\nThey sleep.\n\nHills\n=====\n\nThey are high."
    )
    spans = sentences(text)
    numbers = Outline(text).paragraphs_of(spans)
    found: dict[int, list[str]] = {}
    for span, number in zip(spans, numbers, strict=True):
        found.setdefault(number, []).append(text[span.start : span.end])
    assert [" ".join(" ".join(parts).split()) for parts in found.values()] == [
        "Passage 1: Town It has a port. It is old.",
        "It has ships.",
        "# Sea ## Fish They swim. They sleep.",
        "Hills ===== They are high.",
    ]
    assert list(found) == [1, 2, 3, 4]


@given(st.text(alphabet="ab .#=\n:") | st.text())
def test_paragraphs_never_go_back(text):
    numbers = Outline(text).paragraphs_of([Span(i, i) for i in range(len(text))])
    assert numbers == sorted(numbers)
    assert numbers[:1] in ([], [1])


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({"title": "Node.js"}, "Node.js"),
        ({"file_name": "docs/Albert_Einstein.pdf"}, "Albert Einstein"),
        (
            {"file_name": 3, "source": "https://a.org/wiki/Ada_Lovelace%27s_notes/"},
            "Ada Lovelace's notes",
        ),
        ({"title": " ", "source": "C:\\texts\\town.md"}, "town"),
        ({"name": "x"}, ""),
    ],
)
def test_a_title_comes_from_the_first_metadata_field_that_has_one(metadata, title):
    assert title_from(metadata, ("title", "file_name", "source")) == title


TABLES = """# Garden

| Plant | Height |
|:------|-------:|
| Beech | 80 cm |
  | Yew \\| box | 60 cm |
Beeches like chalk.

| no | table |
| Oak | 3 m |

# Kitchen
| Tool | |
| --- | --- |
| Spoon | 4 |"""


def test_the_header_of_a_table_is_the_last_heading_of_its_rows():
    for row in ("| Beech", "| Yew"):
        assert heading_of(TABLES, row) == "Garden > Plant | Height"
    for other in ("| Plant", "|:--", "Beeches like", "| no", "| Oak"):
        assert heading_of(TABLES, other) == "Garden"
    assert heading_of(TABLES, "| Spoon") == "Kitchen > Tool"
    signs = "| | x > y | p \\| q |\n|---|---|---|\n| Yew | 1 | 2 |"
    assert heading_of(signs, "| Yew") == " | x>y | p / q"
    assert headings("| a |\n|---|\n| b |", [Span(12, 17)]) == ["a"]
    assert headings("| a |\n|---|\n| b |", [Span(12, 17)], "Letters") == ["Letters > a"]


def test_a_long_header_of_a_table_is_cut_at_a_word():
    names = [f"column {i}" for i in range(100)]
    text = f"# Wide\n\n| {' | '.join(names)} |\n|{'---|' * 100}\n| first | second |"
    heading = heading_of(text, "| first")
    assert len(heading) <= LONGEST_HEADING
    assert " | ".join(names).startswith(heading.removeprefix("Wide > "))


def test_a_row_is_read_with_the_names_of_its_columns():
    def node(text, heading):
        return Node(text, "d", 1, text, "chunk", 1, (Span(0, len(text)),), heading)

    row = node("| Beech | 80 cm | |", "Shop > Garden > Plant | Height | Price")
    named = "| Beech, Height: 80 cm"
    assert read_texts(row) == (named, f"Garden: {named}", f"Shop: Garden: {named}")
    assert read_texts(node("| a, b | c |", "x | y"))[0] == "| a, b; y: c"
    assert read_texts(node("| Yew | 1 | 2 |", "Shop >  |  | 2022"))[0] == "| Yew, 1, 2022: 2"
    for other in (
        node("| a | b |", "One | two | three"),
        node("a | b", "x | y"),
        node("| a |", "x"),
    ):
        assert read_texts(other)[0] == other.text


FAQ = {
    "lines": "How do I pay?\n\nBy card.\n\nWhen do you open?\n\nAt nine.\n\nOn Mondays at ten.",
    "bold": "**How do I pay?**\n\nBy card.\n\n**When do you open?**\nAt nine.\n\nOn Mondays at ten.",
    "labels": "Q: How do I pay?\n\nBy card.\n\nQ2: When do you open?\n\nAt nine.\n\nOn Mondays at ten.",
    "words": "Question. How do I pay?\n\nBy card.\n\nQuestion. When do you open?\n\nAt nine.\n\nOn Mondays at ten.",
}


@pytest.mark.parametrize("form", FAQ)
@pytest.mark.parametrize("above", ["", "# Shop\n\n## Questions\n\n"])
def test_a_question_is_the_heading_of_its_answer(form, above):
    text = above + FAQ[form] + ("\n\n## Other\n\nThe end." if above else "")
    path = "Shop > Questions > " if above else ""
    for answer, heading in (
        ("By card.", f"{path}How do I pay?"),
        ("At nine.", f"{path}When do you open?"),
        ("On Mondays at ten.", f"{path}When do you open?"),
        *([("The end.", "Shop > Other")] if above else []),
    ):
        start = text.index(answer)
        assert headings(text, [Span(start, start + len(answer))]) == [heading]


@pytest.mark.parametrize(
    "text",
    [
        # one question in prose
        "Who would have thought it?\n\nThe mill burned.\n\nIt was rebuilt.",
        # questions among many paragraphs
        "Who knew?\n\n" + "It rained.\n\n" * 9 + "And then?\n\nIt rained.",
        # speech
        '"Where are you going?"\n\n"Home."\n\n"Why now?"\n\n"It is late."',
        # questions without answers
        "Who built it?\n\nWho sold it?\n\nWho owns it?",
    ],
)
def test_questions_of_prose_are_no_headings(text):
    end = text.rindex("\n") + 1
    assert headings(text, [Span(end, len(text))]) == [""]
