"""Dates in a text, in the form of ISO 8601, and questions that ask for the present (not in the papers)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from hwdag.text.words import MONTHS

DATED = [
    "date",
    "updated",
    "modified",
    "last_modified_date",
    "published",
    "created",
    "creation_date",
]
"""Metadata that date a document, the first that is there."""

DATE_LINE = 8
"""Words of a line with a date that is the date of its text, at most: "Berlin, 3 May 2024"."""

_SHORT = [
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "okt",
    "nov",
    "dec",
    "dez",
]
_NUMBERS = MONTHS | {
    short: MONTHS[name] for short in _SHORT for name in MONTHS if name.startswith(short)
}
_MONTH = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_OF = r"(?:of |de |del )?"
_DATE_PATTERN = (
    rf"(?<!\d)(?:(?P<y1>{_YEAR})(?P<sign>[-_./]?)(?P<m1>0[1-9]|1[0-2])(?:(?P=sign)(?P<d1>0[1-9]|[12]\d|3[01])|(?<=[-_./]\d\d))"
    rf"|(?P<d2>{_DAY})(?:st|nd|rd|th|er|[.º])? {_OF}(?P<n2>{_MONTH})\.?,? {_OF}(?P<y2>{_YEAR})"
    rf"|(?P<d3>{_DAY})[./](?P<m3>0?[1-9]|1[0-2])[./](?P<y3>{_YEAR})"
    rf"|\b(?P<n4>{_MONTH})\.? (?:(?P<d4>{_DAY})(?:st|nd|rd|th)?,? )?{_OF}(?P<y4>{_YEAR})"
    rf"|(?P<y5>{_YEAR}))(?!\d)"
)
_DATE = re.compile(_DATE_PATTERN, re.I)
_LINE_BEGINS = re.compile(rf"^[\s#*>-]{{0,8}}{_DATE_PATTERN}\s?[:–—-]\s", re.I | re.M)
"""An entry of a log: "12 March 2025: The deadline was extended."."""

_DAY_AND_MONTH = re.compile(
    rf"\b{_DAY}(?:st|nd|rd|th|er|[.º])? {_OF}(?:{_MONTH})\b|\b(?:{_MONTH}) {_DAY}(?:st|nd|rd|th)?\b",
    re.I,
)
_FROM = re.compile(
    r"\b(?:effective|(?:with effect|effective|in force|valid|applies|apply)? ?(?:from|as of)|dated?|(?:made|signed) on|mit wirkung (?:vom|zum|ab)|"
    r"(?:gültig |wirkung )?ab|stand|datum|en vigueur (?:le|depuis)|(?:à|a) (?:compter|partir) (?:du|de|del)|"
    r"con efecto|desde|vigente|fecha)\b[:\s]{1,3}(?:the |dem |der |den |le |el |del |desde )*"
    r"(?:[^\W\d_]{2,10}\.?,? (?=\d))?",  # a weekday
    re.I,
)
_PRESENT = re.compile(
    r"\b(?:now(?:adays)?|current(?:ly)?|today|still|latest|newest|at (?:the moment|present)|up to date|in force|"
    r"jetzt|heute|heutig\w*|aktuell\w*|derzeit\w*|gegenwärtig\w*|momentan|zurzeit|zur zeit|noch|"
    r"ahora|hoy|actualmente|todavía|aún|vigentes?|(?:el|la|los|las) [^\W\d_]+ actual(?:es)?|"
    r"maintenant|aujourd['’]hui|actuel\w*|encore|toujours|en vigueur|"
    r"adesso|oggi|attual\w*|ancora|momenteel|vandaag|huidige?|agora|hoje|atual\w*|ainda)\b",
    re.I,
)

_IS = re.compile(
    r"\W*(?:is|are|does|do|has|have|will|can|ist|sind|gilt|gelten|hat|haben|wird|kann|bleibt|findet|es|está|son|están|"
    r"sigue|siguen|hay|est|sont|est-ce|a-t-il|è|sono|is|zijn|geldt|heeft|é|são|ainda)\b",
    re.I,
)

_CHANGES = re.compile(
    r"\b(?:(?:postpon|cancel|withdr[ae]w|replac|supersed|chang|extend|increas|rais|lower|reduc|abolish|suspend|amend|"
    r"delay|resign|appoint|elect|verschob|verschieb|abgesagt|zurückgezogen|ersetz|geändert|änderung|verläng|erhöh|"
    r"gesenkt|senkung|verleg|gestrichen|reporté|annul|retiré|remplac|modifi|prolong|augment|baiss|aplaz|cancel|"
    r"retir|sustitu|cambi|prorrog|aument|reduc|rinvi|sostitu|uitgesteld|afgelast|vervang|gewijzigd|verleng|verhoog|"
    r"adiad|substitu|alterad)\w*|put off|called off|no longer|any ?more|instead|new|unchanged|mov(?:ed|es)|slipped|"
    r"remains?|stays?|nicht mehr|neu\w*|bleib\w*|ne \w+ plus|nouveau|nouvelle|ya no|nuev[oa]s?|non più|nuov[oa]|niet meer)\b",
    re.I,
)


def says_change(text: str) -> bool:
    """Return whether a statement changes, postpones, cancels or confirms something."""
    return _CHANGES.search(text) is not None or effective_date(text) != ""


def asks_for_present(question: str) -> bool:
    """Return whether a question asks for the latest state ("now", "aktuell", "hoy"), and names no date."""
    return _PRESENT.search(question) is not None and not any(dates_in(question))


def asks_to_confirm(question: str) -> bool:
    """Return whether the answer to a question is yes or no: "Is it still on 14 June?"."""
    return _IS.match(question) is not None


def dates_in(text: str) -> Iterator[str]:
    """Yield the dates of a text, such as "2024-05-03", "2024-05" or "2024"."""
    return map(_iso, _DATE.finditer(text))


def without_days(text: str) -> str:
    """Return a text without its days of a year: "14 June"."""
    return _DAY_AND_MONTH.sub(" ", text)


def entry_date(text: str) -> str:
    """Return the date, with its month, that a line of a text begins with, as those of a log do; else ""."""
    dates = (_iso(line) for line in _LINE_BEGINS.finditer(text))
    return next((date for date in dates if "-" in date), "")


def effective_date(text: str) -> str:
    """Return the first date, with its month, from which a text says that something is valid; else ""."""
    for start in _FROM.finditer(text):
        if (found := _DATE.match(text, start.end())) and "-" in (date := _iso(found)):
            return date
    return ""


def document_date(key: str, metadata: Mapping[str, Any], beginning: Iterable[str]) -> str:
    """Return the date of a document by its metadata, the name of its file, or its first lines; "" if unknown."""
    for name in DATED:
        if found := re.match(r"\d{4}-\d\d(?:-\d\d)?(?!\d)", str(metadata.get(name, ""))):
            return found[0]
    for date in dates_in(PurePath(key).name):
        return date
    for line in (line for text in beginning for line in text.splitlines()):
        short = dates_in(line) if len(line.split()) <= DATE_LINE else ()
        if date := effective_date(line) or next((date for date in short if "-" in date), ""):
            return date
    return ""


def _iso(found: re.Match[str]) -> str:
    year, month, name, day = (
        next((value for key in keys.split() if (value := found[key])), "")
        for keys in ("y1 y2 y3 y4 y5", "m1 m3", "n2 n4", "d1 d2 d3 d4")
    )
    month = month or _NUMBERS.get(name.lower(), "")
    return "-".join(part.zfill(2) for part in (year, month, day) if part)
