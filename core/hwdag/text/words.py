"""Words of a text for lexical search, the same for every script and on every machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from unicodedata import category, normalize

# why: scripts without spaces between words are taken character by character
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_STOPWORDS = """
a about after also an and any are as at be been before being but by can did do does for from had
has have he her his how i if in into is it its me my no not of on or our she so than that the
their them then there these they this those to was we were what when where which while who whom
whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())
"""Common English words, which occur in texts on any subject."""

_MONTH_NAMES = """
january januar janvier januari enero gennaio janeiro
february februar février februari febrero febbraio fevereiro
march märz mars maart marzo março
april avril abril aprile
may mai mei maj mayo maggio maio
june juni juin junio giugno junho
july juli juillet julio luglio julho
august août augusti augustus agosto
september septembre septiembre settembre setembro
october oktober octobre octubre ottobre outubro
november novembre noviembre novembro
december dezember décembre desember diciembre dicembre dezembro
"""
MONTHS = {
    name: f"{number:02}"
    for number, names in enumerate(_MONTH_NAMES.strip().splitlines(), 1)
    for name in names.split()
}
"""The number of each month in a date, by its names."""
_VERBS = ("may", "march")
_CODE = re.compile(r"(?<![\w.:/-])(?=[\w.:/-]*\d)\w+(?:[.:/-]\w+)+")

_SECTION = r"(?:§+|\b(?:sections?|clauses?|articles?|art\.|chapters?|paragraphs?|abschnitt|ziffer|artikel|kapitel|punkt)\b)\s*"
_REFERENCE = re.compile(_SECTION + r"(\d{1,4}(?:\.\d{1,4}){0,5})", re.I)
_NUMBERED = re.compile(
    rf"[\s#*_]*(?:{_SECTION}(\d[\d.]*)|(\d{{1,4}}(?:\.\d{{1,4}}){{1,5}})\b|(\d{{1,4}})[.)]?\s)",
    re.I,
)

_NUMBER_NAMES = """
zero one two three four five six seven eight nine
ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety
"""
_BELOW_TEN, _TEENS, _TENS = (line.split() for line in _NUMBER_NAMES.strip().splitlines())
_VALUES = {
    **{word: value for value, word in enumerate(_BELOW_TEN + _TEENS)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    "a": 1,
}
_MULTIPLES = {"hundred": 100, "thousand": 1000}
_TO_99 = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_BELOW_TEN[1:])}))?|{'|'.join(_BELOW_TEN + _TEENS)})"
_TO_9999 = rf"(?:(?:{_TO_99}|a) hundred(?:(?: and)? {_TO_99})?|{_TO_99})"
_NUMBER = re.compile(
    rf"\b(?:(?:{_TO_9999}|a) thousand(?:(?: and)? {_TO_9999})?|{_TO_9999})\b", re.I
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")

_UNSEEN = re.compile("[\xad\u180e\u200b\u2060\ufeff]")
_COMPATIBLE = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc\uff01-\uffdc]+")
"""Ligatures, forms of Arabic letters, and signs of full and half width."""


def plain(text: str) -> str:
    """Return a text as people type it: composed, without soft hyphens, ligatures and signs of full width.

    Raised digits stay: 10² is not 102.
    """
    if text.isascii():
        return text
    text = _COMPATIBLE.sub(lambda found: normalize("NFKC", found[0]), _UNSEEN.sub("", text))
    return normalize("NFC", text)


def words(text: str) -> list[str]:
    """Find lower-cased runs of letters and digits, in order, with repetitions; see `plain`."""
    return _word().findall(plain(text).lower())


def codes(text: str) -> list[str]:
    """Find numbers and codes of several parts, lower-cased: "4.2", "2022-03-05", "vx-7-40-2"."""
    return _CODE.findall(plain(text).lower())


def section_references(text: str) -> list[str]:
    """Find the numbers of the sections that a text refers to: "9.3" in "see section 9.3" or "§ 9.3"."""
    return _REFERENCE.findall(text)


def section_number(text: str) -> str:
    """Return the number that a heading or a clause begins with: "9.3" of "9.3 The landlord waits"; else ""."""
    found = _NUMBERED.match(text)
    return (found[1] or found[2] or found[3]).rstrip(".") if found else ""


def content_words(text: str) -> list[str]:
    """Find the `words` without common English ones."""
    return without_stopwords(words(text))


def without_stopwords(found: Iterable[str]) -> list[str]:
    """Drop common English words."""
    return [word for word in found if word not in STOPWORDS]


def with_month_numbers(found: list[str], question: str) -> list[str]:
    """Add to the words of a question the numbers of its months: a table has 2026-01 for January."""
    months = (word for word in found if word not in _VERBS or word.capitalize() in question[1:])
    return found + [MONTHS[word] for word in months if word in MONTHS]


def in_digits(text: str) -> str:
    """Write English numbers as digits alone: "twenty-six" as 26, "two thousand" and "2,000" as 2000."""
    return _THOUSANDS.sub(lambda found: found[0].replace(",", ""), _NUMBER.sub(_value, text))


def _value(found: re.Match[str]) -> str:
    total = last = 0
    for word in re.findall(r"[a-z]+", found[0].lower()):
        if word in _MULTIPLES:
            last *= _MULTIPLES[word]
            if word == "thousand":
                total, last = last, 0
        elif word != "and":
            last += _VALUES[word]
    return str(total + last)


@cache
def _word() -> re.Pattern[str]:
    r"""Letters and digits with the marks on them: `\w` leaves out the vowel signs of Indic scripts."""
    marks = "".join(c for c in map(chr, range(0x300, 0x1E00)) if category(c)[0] == "M")
    letter = rf"[^\W{UNSPACED}]"
    return re.compile(rf"[{UNSPACED}]|{letter}(?:{letter}|[{marks}])*")
