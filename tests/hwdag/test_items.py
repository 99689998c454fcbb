"""An item of an inner list knows the items that it belongs to."""

import pytest

from hwdag.embedding.hashing import HashingEmbedder
from hwdag.index import HWDAGIndex
from hwdag.text.chunking import leaves
from hwdag.text.headings import headings, searched_text
from hwdag.text.items import LONGEST_PARENT, Items
from hwdag.types import Document

TOWNS = [("Oslo", 7), ("Bergen", 8), ("Narvik", 6), ("Hamar", 9), ("Lund", 10)]


def listed(mark, inner, indent):
    return "# Branches\n\n" + "".join(
        f"{mark} {town}\n{indent}{inner} opens every day at {o} in the morning\n"
        f"{indent}{inner} has parking for {2 * o} cars in the yard\n"
        for town, o in TOWNS
    )


def tokens(texts):
    return [len(text.split()) for text in texts]


def headed(text):
    spans = leaves(text, count_tokens=tokens, limit=100)
    pairs = zip(spans, headings(text, spans, "Firm"), strict=True)
    return {text[span.start : span.end]: heading for span, heading in pairs}


@pytest.mark.parametrize(
    "marks", [("-", "*", "  "), ("*", "-", "\t"), ("1.", "a)", "   "), ("•", "◦", " ")]
)
def test_an_item_is_below_its_parent(marks):
    found = headed(listed(*marks))
    of = {
        text.partition("parking")[2]: heading
        for text, heading in found.items()
        if "parking" in text
    }
    assert of == {
        f" for {2 * o} cars in the yard": f"Firm > Branches > {town}" for town, o in TOWNS
    }


def test_lists_of_three_levels_and_what_ends_them():
    text = "- a:\n  - b\n\n    More of b.\n    - c\n  - d\nlazy\n  - h\n\nProse.\n  - e\n```\n- f\n  - g\n```\n"
    items = Items(text)
    assert {letter: items.above(text.index(f"- {letter}")) for letter in "abcdeg"} == {
        "a": (),
        "b": ("a",),
        "c": ("a", "b"),
        "d": ("a",),
        "e": (),
        "g": (),
    }
    assert items.above(text.index("More")) == ("a",)
    assert items.above(text.index("Prose")) == ()
    assert items.above(text.index("- h")) == ("a",)


def test_a_long_parent_is_cut_between_words():
    [parent] = Items("- " + "word " * 99 + "\n  - inner").above(500)
    assert parent == "word " * (LONGEST_PARENT // 5 - 1) + "word"


def test_the_right_item_is_found():
    index = HWDAGIndex.from_documents(
        [Document("b", listed("-", "-", "  "))], embedder=HashingEmbedder(), method="evidence"
    )
    best = index.search("How many cars have parking in Hamar?").best(1)[0].node
    assert "parking for 18" in best.text and "Hamar" in searched_text(best)
