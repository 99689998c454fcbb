"""Properties of any input of a parser; properties that the tests of the parsers do not have."""

import encodings.aliases
import json
import re

import numpy as np
import pytest
import sentencex
from hostile import ATTACKS, CONTROL_TOKENS, LINE_BREAKS
from hypothesis import given
from hypothesis import strategies as st
from test_chunking import COUNTERS
from worlds import assert_partition, random_text

from hwdag.errors import InputError
from hwdag.text import sentences as sentences_module
from hwdag.text.characters import disarmed, one_line, visible, without_surrogates
from hwdag.text.chunking import chunk, leaves
from hwdag.text.headings import LONGEST_HEADING, headings, in_context
from hwdag.text.points import parse_points
from hwdag.text.prompts import SearchPrompts, SummaryPrompt
from hwdag.text.sentences import SLAB, sentences
from hwdag.text.words import content_words, words
from hwdag.types import Document, Span
from hwdag_files import html
from hwdag_files.content import UnreadableError
from hwdag_files.html import html_content
from hwdag_files.read import read_documents
from hwdag_lab.eval.fields import MalformedRecord, decoded
from hwdag_lab.eval.schema import parse_record

PIECES = st.sampled_from(
    [
        *CONTROL_TOKENS[:6],
        *LINE_BREAKS,
        *"aB1.!?。“”()[]#*-|`=:<>&\"'\t \u200b\u200d\u202e\u0301\ufeff\0😀猫ก",
        *(
            "\ud800",
            "\udc00",
            "\U000e0041",
            "\r\n",
            "\n\n",
            "  ",
            "# ",
            "* ",
            "1. ",
            "```\n",
            "...",
        ),
        *("Dr. ", "word ", "A b. ", "{question}", "He said. "),
    ]
)
TEXTS = st.text(max_size=80) | st.lists(PIECES, max_size=60).map("".join)


# --- characters ---------------------------------------------------------------------------------


@given(TEXTS)
def test_replaced_characters_keep_every_offset(text):
    line, (sound, replaced) = one_line(text), without_surrogates(text)
    assert len(line) == len(sound) == len(text)
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line
    assert sum(a != b for a, b in zip(sound, text, strict=True)) == replaced
    sound.encode()


@given(TEXTS)
def test_a_shown_text_has_the_words_of_the_original(text):
    shown = visible(text)
    assert visible(shown) == shown
    quoted = json.loads(visible(json.dumps(text, ensure_ascii=False)))
    assert quoted.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


@given(st.lists(st.sampled_from([*CONTROL_TOKENS, *"<|>[]/ ab_"]), max_size=20).map("".join))
def test_disarming_adds_spaces_and_nothing_else(text):
    harmless = disarmed(text)
    assert harmless.replace(" ", "") == text.replace(" ", "")
    assert disarmed(harmless) == harmless


# --- sentences, chunks, headings ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("blank", [" ", "\n", "  "])
def test_slabs_do_not_show_in_plain_prose(seed, blank):
    rng = np.random.default_rng(seed)
    text = blank.join(random_text(rng, int(rng.integers(3, 20))) for _ in range(400))
    assert len(text) > 4 * SLAB
    expected = [part.strip() for part in sentencex.segment("en", text)]
    assert [text[span.start : span.end] for span in sentences(text)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["他。", "“", "```a", "<!", "「他。", "(Ab. ", "Mr. ", "a"])
def test_sentences_look_at_every_character_a_few_times(unit, monkeypatch):
    seen, original = [], sentencex.segment

    def segment(language, text):
        seen.append(len(text))
        return original(language, text)

    monkeypatch.setattr(sentences_module.sentencex, "segment", segment)
    text = unit * (50_000 // len(unit))
    assert_partition(text, sentences(text))
    assert max(seen) <= SLAB
    assert sum(seen) <= 5 * len(text)


@given(TEXTS, st.sampled_from(COUNTERS), st.integers(1, 12))
def test_chunks_and_leaves_are_the_same_for_a_text_and_its_copy_after_a_break(text, count, limit):
    """Where a text begins does not matter: offsets move, and nothing else."""
    for cut in (chunk, leaves):
        spans = cut(text, count_tokens=count, limit=limit)
        moved = cut("\n\n" + text, count_tokens=count, limit=limit)
        assert [Span(s.start + 2, s.end + 2) for s in spans] == moved


@given(TEXTS, st.lists(st.integers(0, 400), max_size=8))
def test_headings_are_short_pieces_of_the_text_before_what_follows(text, starts):
    spans = [Span(min(start, len(text)), len(text)) for start in starts]
    for span, heading in zip(spans, headings(text, spans), strict=True):
        assert heading in text
        assert len(heading) <= LONGEST_HEADING
        assert len(heading.splitlines()) <= 1
        assert not heading or text.find(heading) <= span.start + LONGEST_HEADING


@given(st.integers(0, 600), st.sampled_from(["a", "word ", "\t#", "é "]), st.integers(1, 6))
def test_a_markdown_heading_is_kept_up_to_a_limit(count, unit, rank):
    title = (unit * count).strip()
    [heading] = headings(f"{'#' * rank} {title}\n\nText.", [Span(len(title) + 8, len(title) + 8)])
    assert title.startswith(heading)
    assert len(heading) <= LONGEST_HEADING
    if len(title) <= LONGEST_HEADING and "#" not in title:
        assert heading == title


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("## Dogs ##", "Dogs"),
        ("# C#", "C#"),
        ("# C# #", "C#"),
        ("# #", ""),
        ("#\tTabs\t#", "Tabs"),
        ("#hashtag of mine", "#hashtag of mine"),
        ("# a" + " " * 300_000 + "b", "a"),
    ],
)
def test_markdown_headings(line, heading):
    assert headings(f"{line}\n\nText.", [Span(len(line) + 2, len(line) + 2)]) == [heading]


@given(TEXTS, TEXTS)
def test_a_passage_is_prefixed_with_its_heading_once(heading, passage):
    found = in_context(heading, passage)
    assert found.endswith(passage)
    assert in_context(heading, found) == found


# --- words --------------------------------------------------------------------------------------


@given(TEXTS)
def test_words_are_found_again_in_themselves(text):
    found = words(text)
    assert words(" ".join(found)) == found
    assert all(not re.search(r"\s", word) and word == word.lower() for word in found)
    assert sum(map(len, found)) <= len(text.lower())
    assert set(content_words(text)) <= set(found)


# --- points -------------------------------------------------------------------------------------


@given(TEXTS, st.lists(st.sampled_from(["one fact", "two facts"]), max_size=2, unique=True))
def test_text_before_the_points_does_not_change_them(before, points):
    plain = "".join(c for c in before if c.isalpha() and c.isascii())
    reply = f"{plain}\n\n" + "\n".join(f"* {point}" for point in points)
    assert parse_points(reply) == points


# --- prompts ------------------------------------------------------------------------------------


@given(TEXTS, TEXTS, TEXTS)
def test_a_summary_prompt_is_cut_at_its_field(before, after, language):
    template = before + "{information}" + after
    if template.count("{information}") != 1:
        with pytest.raises(InputError):
            SummaryPrompt(template)
        return
    assert SummaryPrompt(template).cut("same") == (before, after)
    head, tail = SummaryPrompt(template + "{language}").cut(language)
    assert (head, tail.startswith(after)) == (before, True)
    assert language in ("same", "") or tail.endswith(f" Write in {language}.")


@given(TEXTS, TEXTS)
def test_search_prompts_are_cut_or_refused(before, between):
    template = before + "{question}" + between + "{information}"
    try:
        prompts = SearchPrompts(opening=template)
    except InputError:
        assert "{question}" in before + between
        return
    assert prompts.cut() == (before, between, "")


# --- files --------------------------------------------------------------------------------------


def read(path, data):
    path.write_bytes(data)
    [found] = read_documents([path])
    return found


@given(text=TEXTS)
def test_text_files_are_read_as_they_are(tmp_path_factory, text):
    sound = without_surrogates(text)[0].replace("\0", "").lstrip("\ufeff")
    path = tmp_path_factory.getbasetemp() / "a.txt"
    found = read(path, sound.encode())
    assert found.text == sound.replace("\r\n", "\n").replace("\r", "\n")
    assert found.metadata["notes"] == []


@given(text=TEXTS)
def test_the_title_of_a_markdown_file_is_a_line_of_it(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "name.md"
    found = read(path, without_surrogates(text)[0].replace("\0", "").encode())
    assert found.title == "name" or found.title in found.text


TAGS = st.sampled_from(
    [
        *("<p>", "</p>", "<b>", "</b", "<a href='", '<a b="x>', "<br/>", "<pre>", "</pre>", "<td>"),
        *("<script>", "</script>", "<style>", "</style >", "<title>", "</title>", "<svg>", "<!--"),
        *(
            "-->",
            "--!>",
            "<!",
            "<!>",
            "<!DOCTYPE x [",
            "<![CDATA[",
            "]]>",
            "<![if x]>",
            "<?php",
            "?>",
        ),
        *(
            "&",
            "&#",
            "&#x",
            "&#1;",
            "&#27;",
            "&#xD800;",
            "&amp;",
            "&lt",
            "&#99999999999999;",
            "&nb",
        ),
        *(
            "<",
            ">",
            "</",
            "/>",
            "=",
            "'",
            '"',
            "\0x",
            "<textarea>",
            "<template>",
            "<body",
            "<html>",
        ),
    ]
)


@given(st.lists(TAGS | PIECES, max_size=40).map("".join))
def test_any_page_is_read_or_refused(markup):
    try:
        found = html_content(without_surrogates(markup)[0].encode())
    except UnreadableError as error:
        assert str(error)
        return
    found.text.encode()
    assert "\n\n\n" not in found.text or "<pre>" in markup
    assert found.title == " ".join(found.title.split())


WORDS = st.text("abcdefg", min_size=1, max_size=5)


def pages(inner):
    """Markup with the words that a reader sees of it."""
    hidden = st.sampled_from(["script", "style", "template", "nav", "title", "noscript"])
    shown = st.sampled_from(["p", "div", "b", "em", "li", "td", "h1", "pre", "span"])
    return st.lists(
        st.tuples(hidden, WORDS).map(lambda x: (f"<{x[0]}>{x[1]} h</{x[0]}>", []))
        | st.tuples(shown, inner).map(lambda x: (f"<{x[0]} a='>'>{x[1][0]}</{x[0]}>", x[1][1]))
        | WORDS.map(lambda word: (f" {word} <!-- c -->", [word]))
        | WORDS.map(lambda word: (f" {word}&#x; &#; ", [f"{word}&#x;", "&#;"])),
        max_size=5,
    ).map(lambda parts: (" ".join(m for m, _ in parts), [w for _, ws in parts for w in ws]))


@given(st.recursive(WORDS.map(lambda word: (word, [word])), pages, max_leaves=12))
def test_a_page_has_the_words_that_a_reader_sees(page):
    """Apart from the marks of headings and items."""
    markup, expected = page
    found = html_content(markup.encode()).text.split()
    assert [word for word in found if word.strip("#-")] == expected


@pytest.mark.parametrize(
    ("markup", "text", "lost"),
    [
        ("<p>kept</p><a href='x>gone <b>too</b>", "kept", 26),
        ("<p>kept</p><!-- gone <b>too</b>", "kept", 20),
        ("<p>kept</p><a <a <a", "kept", 8),
        ("<p>kept &#; and <b>this</b><script>x()</script>", "kept &#; and this", 0),
        ("<p>kept &#" + "1" * 5_000 + ";</p>", "kept &#" + "1" * 5_000 + ";", 0),
        ("<p>1 < 2 & 3 > 2 <", "1 < 2 & 3 > 2 <", 0),
    ],
)
def test_an_unclosed_end_of_a_page_is_left_out_and_noted(markup, text, lost):
    found = html_content(markup.encode())
    assert found.text == text
    assert found.notes == (
        (f"{lost} characters after a tag or comment that does not end left out",) if lost else ()
    )


@pytest.mark.parametrize(
    "unit",
    ["<a ", "<!--", "<!", "<?", "</", "</a ", "<a b='", "<![CDATA[", "<div>", "<a b=c ", "&#", "<"],
)
def test_every_tag_of_a_page_is_looked_for_once(unit, monkeypatch):
    """Return the work of a parser for a page that breaks off; it grows with the square of its length."""
    given_pages, parsed = [], html.parsed
    monkeypatch.setattr(html, "parsed", lambda page: given_pages.append(page) or parsed(page))
    html_content(("<p>text</p>" + unit * 10_000).encode())
    [page] = given_pages
    # the rest begins no tag that it does not end
    tail = page[page.rfind(">") + 1 :]
    assert not re.search("<[a-zA-Z/!?]", tail) or unit == "<"


@pytest.mark.parametrize(
    "name", sorted({*encodings.aliases.aliases.values(), "idna", "nope", "x-y"})
)
def test_any_declared_encoding_is_used_or_not(name):
    page = f"<meta charset='{name}'><p>Gr\u00fc\u00dfe</p>"
    assert html_content(page.encode()).text.startswith("Gr")


@given(st.binary(max_size=200))
def test_any_line_is_a_record_or_malformed(line):
    try:
        parse_record(decoded(line))
    except MalformedRecord as error:
        assert str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = ("dataset", "id", "title", "text", "paragraphs", "questions", "answers", "evidence")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8))
def test_any_row_is_a_record_or_malformed(row):
    try:
        parse_record(row)
    except MalformedRecord as error:
        assert str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "name"),
    [("pdf", "nuls"), *((suffix, name) for suffix in ("txt", "md", "html") for name in ATTACKS)],
)
def test_hostile_files_are_read_or_skipped(tmp_path, name, suffix):
    found = read(tmp_path / f"a.{suffix}", ATTACKS[name].encode("utf-8", "surrogatepass"))
    if isinstance(found, Document):
        found.text.encode()
        found.title.encode()
    else:
        assert found.reason
