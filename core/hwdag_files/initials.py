"""Large initial letters of a PDF's page, put before the first of the lines next to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from hwdag_files.words import WORD_GAP, Word

MIN_TYPE_RATIO = 1.7  # type of an initial, at least, over that of the lines next to it
MAX_LETTERS = 2  # letters, such as a quotation mark and a letter
CAPITAL_HEIGHT = 0.7  # of a capital over its baseline, in sizes of its type
DESCENT = 0.21  # below it
MOST_INITIALS = 20  # of a page; a drawing may have any number of large letters
FEWEST_LINES = 2  # next to an initial; else it is on the line itself


def with_initials(words: Sequence[Word]) -> list[Word]:
    """Return the words of a page, in which each large initial letter is one of its first word."""
    if not words:
        return []
    usual = median(word.size for word in words)
    large = [word for word in words if word.size > MIN_TYPE_RATIO * usual and _may_begin(word)]
    if not large or len(large) > MOST_INITIALS:
        return list(words)
    left_out, changed = set[int](), dict[int, Word]()
    for initial in large:
        lines = _lines_beside(initial, words)
        if len(lines) >= FEWEST_LINES and _is_level(initial, first := lines[0]):
            is_part = first.text[:1].islower() or first.text.isupper()
            is_word = initial.text in _WORDS and first.x0 - lines[1].x0 > WORD_GAP * first.size
            if is_part or initial.text in _WORDS:
                blank = " " if is_word or not is_part else ""
                changed[id(first)] = first._replace(text=initial.text + blank + first.text)
                left_out.add(id(initial))
    return [changed.get(id(word), word) for word in words if id(word) not in left_out]


_WORDS = frozenset("AIOÀYaio")  # letters that are words in some language


def _may_begin(word: Word) -> bool:
    return len(word.text) <= MAX_LETTERS and word.text[-1].isalpha()


def _lines_beside(initial: Word, words: Iterable[Word]) -> list[Word]:
    """Return the words that follow an initial, one for each line, from the top."""
    base = initial.bottom - DESCENT * initial.size
    top = base - CAPITAL_HEIGHT * initial.size
    found = [
        word
        for word in words
        if MIN_TYPE_RATIO * word.size < initial.size
        and -0.2 * word.size < word.x0 - initial.x1 < word.size
        and top < word.bottom - DESCENT * word.size < base + 0.3 * word.size
    ]
    return sorted(found, key=lambda word: word.bottom)


def _is_level(initial: Word, first: Word) -> bool:
    """Return whether the upper sides of an initial and of its first line are at one height."""
    above = initial.bottom - (DESCENT + CAPITAL_HEIGHT) * initial.size
    line = first.bottom - (DESCENT + CAPITAL_HEIGHT) * first.size
    return abs(above - line) < 0.8 * first.size
