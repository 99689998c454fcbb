"""EASY: which tokens of a long sequence belong to which sentence.

YOURA, section 3.2. With token offsets the answer is exact and takes one pass (`by_offsets`).
Algorithm 1, which only encodes, decodes and adjusts (`by_wiggling`), serves all other tokenizers.
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

TOLERANCE = 30  # `tol` of Algorithm 1: how far a boundary moves from the first guess


def by_offsets(tokens: Sequence[Span], sentences: Sequence[Span]) -> list[TokenRange]:
    """Return the token ranges of sentences, given the characters of both, in ascending order.

    A token across sentences goes to the one that holds most of it (the first of equals), a token
    between sentences to none. A sentence that gets no token, because others hold more of its only
    one, shares that token. The range of a sentence without characters in any token is empty.
    """
    owned: list[list[int]] = [[] for _ in sentences]
    shared: dict[int, tuple[int, int]] = {}  # by sentence: (characters, token) of its best token
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
    """Return algorithm 1: the token at which every sentence ends, (sentences,).

    The first guess is the number of tokens of the text up to the end of the sentence. It moves
    token by token until the tokens since the last boundary read like the sentence. If they never
    do, the guess stays.

    Args:
        ids: tokens of the whole text.
        sentences: its parts with the white space between them; joined, they are the text.
        encode: text to ids.
        decode: ids to text.
        clean: normalises two texts before they are compared.
        tolerance: most steps from the first guess.
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
    """Return ordinals of the sentences that share characters with a token, and how many."""
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
