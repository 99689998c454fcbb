"""Chunks of a splitter that repeat text of the chunk before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

MIN_OVERLAP = 20
"""Characters that two chunks must share. Fewer may be chance, such as a name that ends one and begins the next."""

LONGEST_OVERLAP = 20_000  # characters: a repetitive text takes the square of them

SHOWN = 60
"""Characters of an overlap that a warning quotes."""


def overlap(one: str, other: str) -> str:
    """Return `other` if it is within `one`, else the longest end of `one`, of `LONGEST_OVERLAP` at most, that begins it.

    Return "" for fewer than `MIN_OVERLAP` characters. Spaces around the texts do not count.
    """
    one, other = one.strip(), other.strip()
    head = other[:MIN_OVERLAP]
    if len(head) < MIN_OVERLAP:
        return ""
    if other in one:
        shared = other
    else:
        start = one.find(head, max(0, len(one) - min(len(other), LONGEST_OVERLAP)))
        while start >= 0 and not other.startswith(one[start:]):
            start = one.find(head, start + 1)
        shared = one[start:] if start >= 0 else ""
    # why: a rule of dashes or a row of zeros is no repeated sentence
    return shared if any(map(str.isalpha, shared)) else ""


def overlap_warning(sources: Iterable[Sequence[str]]) -> str:
    """Return one line about chunks that overlap, with the cost and the way out; "" if none do.

    Args:
        sources: the chunks of each source, in order.
    """
    pairs = [pair for chunks in sources for pair in pairwise(chunks)]
    found = [shared for one, other in pairs if (shared := overlap(one, other))]
    if not found:
        return ""
    return (
        f"{len(found)} of {len(pairs)} chunks repeat text of the chunk before them, the first "
        f"{found[0][:SHOWN]!r}: a repeated sentence is indexed more than once and takes the place of "
        "others in the results; split with chunk_overlap=0 and pass one level of a hierarchy, or pass "
        "whole documents"
    )
