"""Words of any script, cut at token borders: the smallest pieces to keep or drop."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from hwdag.text.chunking import ZERO_WIDTH_JOINER
from hwdag.types import Span

LONGEST_WORD = 64
"""Characters; a longer run is no word (an address, a script not named here)."""

# Thai to Myanmar, Khmer, Chinese, Japanese, their punctuation and full-width forms
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff00-\uff65\U00020000-\U0003ffff]"
)
_RUN = re.compile(r"\S+")


def words(text: str, tokens: Sequence[Span]) -> list[Span]:
    """Return words of a text, given the characters of its tokens: ascending and disjoint.

    A word is a run of visible characters. In scripts without spaces between words, and in runs of
    more than `LONGEST_WORD` characters, runs are cut between tokens, but never before a combining
    mark, within an emoji sequence, or within a token.
    """
    within = {i for token in tokens for i in range(token.start + 1, token.end)}
    borders = {token.start for token in tokens} - within
    return [word for run in _RUN.finditer(text) for word in _cut(text, Span(*run.span()), borders)]


def tokens_of(spans: Sequence[Span], tokens: Sequence[Span]) -> list[list[int]]:
    """Return indices of the tokens that share a character with each of these disjoint spans."""
    span_of = {i: at for at, span in enumerate(spans) for i in range(span.start, span.end)}
    found: list[list[int]] = [[] for _ in spans]
    for index, token in enumerate(tokens):
        for at in sorted({span_of[i] for i in range(token.start, token.end) if i in span_of}):
            found[at].append(index)
    return found


def _cut(text: str, run: Span, borders: set[int]) -> Iterator[Span]:
    start = run.start
    for at in range(run.start + 1, run.end):
        if at in borders and _may_part(text, at, everywhere=len(run) > LONGEST_WORD):
            yield Span(start, at)
            start = at
    yield Span(start, run.end)


def _may_part(text: str, at: int, *, everywhere: bool) -> bool:
    before, after = text[at - 1], text[at]
    if unicodedata.category(after)[0] == "M" or ZERO_WIDTH_JOINER in (before, after):
        return False
    return everywhere or bool(_UNSPACED.match(before) or _UNSPACED.match(after))
