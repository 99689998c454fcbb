"""EASY: which tokens of one long token sequence belong to which sentence.

YOURA, section 3.2. With a tokenizer that tells the characters of its tokens the answer is exact and
takes one pass (`by_offsets`); Algorithm 1, which only encodes, decodes and wiggles (`by_wiggling`),
is for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hwdag.types import Span

Ids = NDArray[np.int32]
"""Tokens, (tokens,)."""

TokenRange = tuple[int, int]
"""A half-open range of tokens."""

TOLERANCE = 30  # `tol` of Algorithm 1: how far a boundary is moved from the first guess


def by_offsets(tokens: Sequence[Span], sentences: Sequence[Span]) -> list[TokenRange]:
    """The tokens of every sentence, given the characters of both; all in ascending order.

    A token that straddles sentences goes to the one that holds most of it, the first of equals; one
    between sentences (white space) to none. A sentence left without any, because others hold more
    of its only token, shares that token with them. The range of one without a single character in
    a token is empty.
    """
    owned: list[list[int]] = [[] for _ in sentences]
    shared: dict[int, tuple[int, int]] = {}  # sentence -> (characters, token) of its best token
    first = 0
    for index, token in enumerate(tokens):
        while first < len(sentences) and sentences[first].end <= token.start:
            first += 1
        parts = _parts(token, sentences, first)
        for sentence, size in parts:
            if size > shared.get(sentence, (0, 0))[0]:
                shared[sentence] = size, index
        if parts:
            owned[max(parts, key=lambda part: part[1])[0]].append(index)
    return [_range(own, shared.get(i)) for i, own in enumerate(owned)]


def by_wiggling(
    ids: Sequence[int],
    sentences: Sequence[str],
    *,
    encode: Callable[[str], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    clean: Callable[[str], str] = str.strip,
    tolerance: int = TOLERANCE,
) -> list[int]:
    """Algorithm 1: the token at which every sentence ends, (sentences,).

    The first guess is the number of tokens of the text up to the end of the sentence; it moves one
    token at a time until the tokens since the last boundary read like the sentence. Where they never
    do, the guess stays.

    Args:
        ids: tokens of the whole text.
        sentences: its parts, which joined are the text, the white space between them included.
        encode: text to ids.
        decode: ids to text.
        clean: what two texts are compared after.
        tolerance: of the wiggling.
    """
    ends: list[int] = []
    text, start = "", 0
    for sentence in sentences:
        text += sentence
        guess = min(max(len(encode(text)), start), len(ids))
        start = _wiggled(ids, start, guess, clean(sentence), decode, clean, tolerance)
        ends.append(start)
    return ends


def _wiggled(
    ids: Sequence[int],
    start: int,
    guess: int,
    wanted: str,
    decode: Callable[[Sequence[int]], str],
    clean: Callable[[str], str],
    tolerance: int,
) -> int:
    end, visited = guess, set[int]()
    while end not in visited and start <= end <= len(ids) and abs(end - guess) <= tolerance:
        visited.add(end)
        read = clean(decode(ids[start:end]))
        if read == wanted:
            return end
        end += 1 if read in wanted else -1
    return guess


def _parts(token: Span, sentences: Sequence[Span], first: int) -> list[tuple[int, int]]:
    """Ordinals of the sentences that share characters with a token, and how many."""
    found = []
    while first < len(sentences) and sentences[first].start < token.end:
        if size := token.overlap(sentences[first]):
            found.append((first, size))
        first += 1
    return found


def _range(own: Sequence[int], best: tuple[int, int] | None) -> TokenRange:
    if own:
        return own[0], own[-1] + 1
    return (0, 0) if best is None else (best[1], best[1] + 1)
