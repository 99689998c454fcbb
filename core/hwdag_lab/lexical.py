"""Language without a model: tokens, content words, lexical attention and likelihood.

A token is a run of word characters, a single CJK ideograph, or a single other visible character.
Attention is lexical (`attention_between`):

    attention(query -> key) = (EPSILON + content words shared by both) / (tokens of the key)

Content words are lower-cased, without `STOPWORDS`, each counted once. A token that came before, in
whatever case, has probability 1/2; any other one 1 / (2 + its characters) (`logprobs_after`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from hwdag.arrays import Floats

EPSILON = 0.01
"""Attention mass of a pair without a shared word, so that every edge is positive."""

_STOPWORDS = """
a an and are as at be by can did do does for from had has have he her his how i in is it its me my
of on or she that the their they this to was we were what when where which who whom whose why will
with you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
TOKEN = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+|[^\w\s]")
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*")


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, in order; a text that is not blank has at least one."""
    return TOKEN.findall(text)


@lru_cache(maxsize=10_000)
def content_words(text: str) -> frozenset[str]:
    """Lower-cased words without stopwords and punctuation."""
    words = {token.lower() for token in tokens_of(text) if token[0].isalnum()}
    return frozenset(words - STOPWORDS)


def attention_between(query: str, key: str) -> float:
    """The formula at the top of this module; positive and finite for any two texts."""
    shared = content_words(query) & content_words(key)
    return (EPSILON + len(shared)) / max(1, len(tokens_of(key)))


def logprobs_after(before: str, text: str) -> Floats:
    """The formula at the top of this module for every token of `text`, (tokens,)."""
    seen, found = {token.lower() for token in tokens_of(before)}, list[float]()
    for token in tokens_of(text):
        found.append(-math.log(2 if token.lower() in seen else 2 + len(token)))
        seen.add(token.lower())
    return np.array(found, np.float64)


def pieces_of(text: str) -> Iterator[str]:
    """The tokens of a text, each with the white space before it."""
    end = 0
    for match in TOKEN.finditer(text):
        yield text[end : match.end()]
        end = match.end()


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, stripped."""
    return [sentence for match in _SENTENCE.findall(text) if (sentence := match.strip())]


def cut(text: str, max_tokens: int) -> str:
    """The text up to the end of its `max_tokens`-th token."""
    ends = [match.end() for match in islice(TOKEN.finditer(text), max_tokens + 1)]
    return text if len(ends) <= max_tokens else text[: ends[max_tokens - 1]]
