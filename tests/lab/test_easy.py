"""EASY: exact offsets equal brute force; Algorithm 1 finds the same wherever tokens allow it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tokenizer
from transformers import PreTrainedTokenizerFast
from worlds import random_text

from hwdag.lm.tokens import Codec
from hwdag.text.sentences import sentences
from hwdag.types import Span
from hwdag_lab.methods.longllmlingua.likelihood import tokens_with_spans
from hwdag_lab.methods.youra.columns import BLOCK, wiggled
from hwdag_lab.methods.youra.easy import by_offsets, by_wiggling


class WithoutOffsets(PreTrainedTokenizerFast):
    """The same tokenizer, without offsets."""

    is_fast = False


def slow_codec() -> Codec:
    return Codec(WithoutOffsets(tokenizer_object=tokenizer()._tokenizer, eos_token="<|im_end|>"))


def spans(*pairs):
    return [Span(*pair) for pair in pairs]


def brute_force(tokens, found):
    """Return the owner of every token by counting characters; the range of the tokens of each sentence."""
    owners = []
    for token in tokens:
        shared = [len(set(range(*s)) & set(range(*token))) for s in found]
        owners.append(int(np.argmax(shared)) if max(shared, default=0) else None)
    ranges = []
    for i, sentence in enumerate(found):
        own = [t for t, owner in enumerate(owners) if owner == i]
        sizes = [len(set(range(*sentence)) & set(range(*token))) for token in tokens]
        if not own and max(sizes, default=0):
            own = [int(np.argmax(sizes))]
        ranges.append((own[0], own[-1] + 1) if own else (0, 0))
    return ranges


@st.composite
def cuts(draw):
    """Tokens that cover a text, some characters of several tokens, and sentences with gaps."""
    borders = sorted(draw(st.sets(st.integers(0, 30), min_size=2)))
    tokens = list(pairwise(borders))
    doubled = draw(st.sets(st.integers(0, 30)))
    tokens = [token for token in tokens for _ in range(2 if token[0] in doubled else 1)]
    ends = sorted(draw(st.sets(st.integers(0, 30), min_size=2)))
    pairs = list(pairwise(ends))
    return tokens, [pair for pair in pairs if draw(st.booleans())]


@given(cuts())
@settings(max_examples=300, deadline=None)
def test_offsets_equal_counting_characters(world):
    tokens, found = world
    if len(set(tokens)) == len(tokens):
        assert by_offsets(spans(*tokens), spans(*found)) == brute_force(tokens, found)
    else:  # a sentence within a character of two tokens may have either
        ranges = by_offsets(spans(*tokens), spans(*found))
        assert [a < b for a, b in ranges] == [a < b for a, b in brute_force(tokens, found)]


def test_straddling_tokens_by_hand():
    # "It is red.The end." with a token ".Th" that belongs to the second sentence
    tokens = spans((0, 2), (2, 5), (5, 9), (9, 12), (12, 13), (13, 17), (17, 18))
    assert by_offsets(tokens, spans((0, 10), (10, 18))) == [(0, 3), (3, 7)]
    # a token of equal parts goes to the first; a sentence within a token shares it
    assert by_offsets(spans((0, 4), (4, 6)), spans((0, 2), (2, 4), (4, 6))) == [
        (0, 1),
        (0, 1),
        (1, 2),
    ]
    # white space between sentences belongs to none
    assert by_offsets(spans((0, 2), (2, 4), (4, 6)), spans((0, 2), (4, 6))) == [(0, 1), (2, 3)]
    assert by_offsets([], spans((0, 2))) == [(0, 0)]
    assert by_offsets(spans((0, 2)), []) == []


def text_of(seed: int, count: int) -> str:
    rng = np.random.default_rng(seed)
    gaps = [" ", "\n", "\n\n", "  "]
    parts = [
        random_text(rng, int(rng.integers(2, 9))) + str(rng.choice(gaps)) for _ in range(count)
    ]
    return "".join(parts)


@pytest.mark.parametrize("seed", range(5))
def test_wiggling_equals_offsets_if_tokens_end_with_sentences(seed):
    text = text_of(seed, 3 * BLOCK + 5)
    found = sentences(text)
    ids, tokens = tokens_with_spans(Codec(tokenizer()), text)
    exact = by_offsets(tokens, found)
    same_ids, ranges = wiggled(slow_codec(), text, found)
    codec = Codec(tokenizer())
    # white space between blocks is left out, so tokens move; the texts that they read do not
    assert [codec.decode(same_ids[a:b]).strip() for a, b in ranges] == [
        codec.decode(ids[a:b]).strip() for a, b in exact
    ]
    assert [codec.decode(same_ids[a:b]).strip() for a, b in ranges] == [
        text[s.start : s.end] for s in found
    ]


def test_wiggling_within_one_block_gives_the_ranges_of_the_offsets():
    text = text_of(7, BLOCK)
    found = sentences(text)
    ids, tokens = tokens_with_spans(Codec(tokenizer()), text.rstrip())
    assert wiggled(slow_codec(), text, found) == (ids, by_offsets(tokens, found))


def characters(text):
    return [ord(char) for char in text]


def joined(ids):
    return "".join(map(chr, ids))


def test_wiggling_moves_to_both_sides_and_gives_up():
    ids = characters("aa.bbb.cc.")
    parts = ["aa.", "bbb.", "cc."]

    def run(encode, **options):
        return by_wiggling(ids, parts, encode=encode, decode=joined, **options)

    assert run(characters) == [3, 7, 10]
    assert run(lambda text: characters(text)[:-2]) == [3, 7, 10]  # the guess is too small
    assert run(lambda text: [*characters(text), 0, 0]) == [3, 7, 10]  # too large, or beyond the end
    # beyond the tolerance the first guess stays, cut to the tokens that there are
    assert run(lambda text: characters(text)[:-2], tolerance=1)[0] == 1
    assert by_wiggling(ids, ["xx"], encode=characters, decode=joined) == [2]
    assert by_wiggling(ids, ["x" * 40], encode=characters, decode=joined) == [10]
    assert by_wiggling([], [], encode=characters, decode=joined) == []


def test_what_a_tokenizer_changes_can_be_cleaned():
    ids = characters("aa.bb.")  # lower-cased, without the space
    parts = ["Aa. ", "BB."]

    def encode(text):
        return characters(text.replace(" ", "") + "?")

    bare = by_wiggling(
        ids, parts, encode=encode, decode=joined, clean=lambda t: "".join(t.split()).casefold()
    )
    assert bare == [3, 6]
