"""Chunks of a splitter that repeat the end of the chunk before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

SHORTEST = 20
"""Characters that two chunks must share. Fewer may be chance, such as a name that ends one and begins the next."""

SHOWN = 60
"""Characters of an overlap that a warning quotes."""


def overlap(one: str, other: str) -> str:
    """Return the longest end of `one` that begins `other`; "" if it is too short or has no letter.

    Spaces around the texts do not count, and a text does not overlap with its equal. Takes time linear
    in both lengths (Knuth, Morris and Pratt 1977).
    """
    one, other = one.strip(), other.strip()
    head = other[:SHORTEST]
    if len(head) < SHORTEST or one == other or (start := one.find(head)) < 0:
        return ""
    borders = _borders(other)
    length = 0  # of the longest beginning of `other` that ends at the character
    for character in one[start:]:
        if length == len(other):
            length = borders[-1]
        while length and character != other[length]:
            length = borders[length - 1]
        length += character == other[length]
    shared = other[:length]
    # why: a rule of dashes or a row of zeros is no repeated sentence
    return shared if length >= SHORTEST and any(map(str.isalpha, shared)) else ""


def overlap_warning(sources: Iterable[Sequence[str]]) -> str:
    """Return one line about chunks that overlap, with what it costs and the way out; "" if none do.

    Args:
        sources: the chunks of each source, in order.
    """
    pairs = [pair for chunks in sources for pair in pairwise(chunks)]
    found = [shared for one, other in pairs if (shared := overlap(one, other))]
    if not found:
        return ""
    return (
        f"{len(found)} of {len(pairs)} chunks begin with the end of the chunk before them, the first with "
        f"{found[0][:SHOWN]!r}: a repeated sentence is indexed more than once and takes the place of "
        "others in the results; split with chunk_overlap=0, or pass whole documents"
    )


def _borders(text: str) -> list[int]:
    """Return for each beginning of a text the length of its longest proper end that begins it too."""
    borders = [0] * len(text)
    length = 0
    for i in range(1, len(text)):
        while length and text[i] != text[length]:
            length = borders[length - 1]
        length += text[i] == text[length]
        borders[i] = length
    return borders
