"""Key elements: finding them in a text without a model, and merging spellings.

The paper normalises elements after Lu et al. 2023, whose rules are for tags. Ours:

1. `key_of` ignores case, character width, punctuation, articles, possessives and the plural of the
   last word;
2. keys are embedded, and an element joins the first more frequent one at or above a cosine
   threshold. Elements with different digits never merge: 1871 is not 1872. Every element is
   compared with the head of a group only, so chains of similar elements do not merge.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.text.words import STOPWORDS, words

SHORTEST_TERM = 4  # letters; shorter lower-cased words are no elements

MOST_TERMS = 12
"""Default number of elements per sentence, about as many as the facts of the paper have."""

BLOCK = 512  # elements per matrix product

_ARTICLES = frozenset({"a", "an", "the"})
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")
_DIGITS = re.compile(r"\d+")
_STEMS_OF_ES = ("sses", "shes", "ches", "xes", "zes")


@dataclass(frozen=True, slots=True)
class Element:
    """A key element: its most frequent spelling, and the keys of all spellings."""

    name: str
    keys: tuple[str, ...]


def key_of(name: str) -> str:
    """Return the common key of all spellings of a name; empty without letters and digits."""
    found = words(unicodedata.normalize("NFKC", name))
    found = [word for word in found if word != "s"] or found
    if len(found) > 1 and found[0] in _ARTICLES:
        found = found[1:]
    return " ".join([*found[:-1], *map(singular, found[-1:])])


def singular(word: str) -> str:
    """Strip an English plural ending by rule; most other words stay the same."""
    if len(word) < SHORTEST_TERM or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > SHORTEST_TERM else word
    if word.endswith(_STEMS_OF_ES):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def terms_of(text: str) -> tuple[str, ...]:
    """Return the default elements of a sentence: names, then numbers and content words; at least one.

    A name is a run of capitalised words without stopwords at its ends; words within it are no
    elements of their own. Scripts without spaces give pairs of neighbouring characters.
    """
    names = list(_names(text))
    used = {word for name in names for word in words(name)}
    found = words(text)
    singles = (w for w in found if w not in used and w not in STOPWORDS and _is_term(w))
    pairs = (a + b for a, b in pairwise(found) if _is_unspaced(a) and _is_unspaced(b))
    terms = dict.fromkeys([*names, *singles, *pairs])
    chosen = [term for term in terms if key_of(term)][:MOST_TERMS]
    return tuple(chosen) or (" ".join(text.split())[: SHORTEST_TERM * MOST_TERMS],)


def merge_elements(
    names: Sequence[str], embed: Callable[[Sequence[str]], Vectors], threshold: float
) -> tuple[list[Element], dict[str, int], Vectors]:
    """Merge names into distinct elements, most frequent first.

    Args:
        names: as often as facts have them.
        embed: texts to vectors, (texts, dimension).
        threshold: cosine at which two elements merge.

    Returns:
        the elements, the index of the element of every name, and the vectors of the elements.
    """
    spellings: dict[str, Counter[str]] = {}
    for name in names:
        spellings.setdefault(key_of(name) or name, Counter())[name] += 1
    keys = sorted(spellings, key=lambda key: -spellings[key].total())
    shown = [spellings[key].most_common(1)[0][0] for key in keys]
    vectors = embed(shown)
    heads = _heads(keys, unit_rows(vectors), threshold)
    order = list(dict.fromkeys(heads))
    rank = {head: i for i, head in enumerate(order)}
    members: list[list[str]] = [[] for _ in order]
    for key, head in zip(keys, heads, strict=True):
        members[rank[head]].append(key)
    elements = [Element(shown[h], tuple(m)) for h, m in zip(order, members, strict=True)]
    index_of_key = {key: rank[head] for key, head in zip(keys, heads, strict=True)}
    index = {name: index_of_key[key] for key, several in spellings.items() for name in several}
    return elements, index, vectors[order]


def _heads(keys: Sequence[str], vectors: Vectors, threshold: float) -> list[int]:
    """Return the head of each key: the first similar enough one, or itself."""
    digits = [frozenset(_DIGITS.findall(key)) for key in keys]
    heads = list(range(len(keys)))
    for start in range(0, len(keys), BLOCK):
        similar = vectors[start : start + BLOCK] @ vectors[: start + BLOCK].T >= threshold
        for i, row in enumerate(similar, start):
            near = np.flatnonzero(row[:i]).tolist()
            heads[i] = next((h for h in near if heads[h] == h and digits[h] == digits[i]), i)
    return heads


def _names(text: str) -> Iterable[str]:
    """Yield runs of capitalised words on one line, with "of" and "the" within them."""
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        gap = text[run[-1].end() : word.start()] if run else ""
        goes_on = not run or gap == " "
        if not goes_on:
            yield from _trimmed(text, run)
            run = []
        if word[0][0].isupper() or (run and word[0] in ("of", "the")):
            run.append(word)
        else:
            yield from _trimmed(text, run)
            run = []
    yield from _trimmed(text, run)


def _trimmed(text: str, run: Sequence[re.Match[str]]) -> Iterable[str]:
    """Yield the run without stopwords at its ends ("The", "In", "of"), unless nothing is left."""
    kept = list(run)
    while kept and kept[0][0].lower() in STOPWORDS:
        kept.pop(0)
    while kept and kept[-1][0].lower() in STOPWORDS:
        kept.pop()
    if kept:
        yield text[kept[0].start() : kept[-1].end()]


def _is_term(word: str) -> bool:
    return len(word) >= SHORTEST_TERM or (word.isdigit() and len(word) > 1)


def _is_unspaced(word: str) -> bool:
    # why: `words` gives single characters only for scripts without spaces
    return len(word) == 1 and not word.isascii() and word.isalpha()
