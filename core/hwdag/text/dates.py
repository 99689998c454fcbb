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
_DATE = re.compile(
    rf"(?<!\d)(?:(?P<y1>{_YEAR})(?P<sign>[-_./]?)(?P<m1>0[1-9]|1[0-2])(?:(?P=sign)(?P<d1>0[1-9]|[12]\d|3[01])|(?<=[-_./]\d\d))"
    rf"|(?P<d2>{_DAY})(?:st|nd|rd|th|er|[.º])? {_OF}(?P<n2>{_MONTH})\.?,? {_OF}(?P<y2>{_YEAR})"
    rf"|(?P<d3>{_DAY})[./](?P<m3>0?[1-9]|1[0-2])[./](?P<y3>{_YEAR})"
    rf"|\b(?P<n4>{_MONTH})\.? (?:(?P<d4>{_DAY})(?:st|nd|rd|th)?,? )?{_OF}(?P<y4>{_YEAR})"
    rf"|(?P<y5>{_YEAR}))(?!\d)",
    re.I,
)
_FROM = re.compile(
    r"\b(?:effective|(?:with effect|effective|in force|valid|applies|apply)? ?(?:from|as of)|dated?|(?:made|signed) on|mit wirkung (?:vom|zum|ab)|"
    r"(?:gültig |wirkung )?ab|stand|datum|en vigueur (?:le|depuis)|(?:à|a) (?:compter|partir) (?:du|de|del)|"
    r"con efecto|desde|vigente|fecha)\b[:\s]{1,3}(?:the |dem |der |den |le |el |del |desde )*",
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


def asks_for_present(question: str) -> bool:
    """Return whether a question asks for the latest state ("now", "aktuell", "hoy"), and names no date."""
    return _PRESENT.search(question) is not None and not any(dates_in(question))


def dates_in(text: str) -> Iterator[str]:
    """Yield the dates of a text, such as "2024-05-03", "2024-05" or "2024"."""
    return map(_iso, _DATE.finditer(text))


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
    for line in beginning:
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
