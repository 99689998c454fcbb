"""Styles of OpenDocument files: how text looks, and how the items of a list are numbered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hwdag_files.numbering import bullet, shown

_OASIS = "{urn:oasis:names:tc:opendocument:xmlns:"
OFFICE = _OASIS + "office:1.0}"
TEXT = _OASIS + "text:1.0}"
TABLE = _OASIS + "table:1.0}"
STYLE = _OASIS + "style:1.0}"
DRAW = _OASIS + "drawing:1.0}"
FORM = _OASIS + "form:1.0}"
FO = _OASIS + "xsl-fo-compatible:1.0}"
SVG = _OASIS + "svg-compatible:1.0}"
PRESENTATION = _OASIS + "presentation:1.0}"
LIBRE = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}"
XML = "{http://www.w3.org/XML/1998/namespace}"

_FORMS = {
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "1": "decimal",
    "①": "decimalEnclosedCircle",
    "一": "japaneseCounting",
    "甲": "ideographTraditional",
    "子": "ideographZodiac",
    "イ": "iroha",
    "ア": "aiueo",
    "가": "ganada",
    "ㄱ": "chosung",
    "А": "russianUpper",
    "а": "russianLower",
    "א": "hebrew2",
    "أ": "arabicAlpha",
    "ก": "thaiLetters",
    "१": "hindiNumbers",
    "๑": "thaiNumbers",
}
"""Word's formats of numbers by the first sign of the format in OpenDocument."""

_PLACE = re.compile("%([0-9]{1,2})%")
_MOST_LEVELS = 10


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a text; None for a property that neither its style nor one above sets."""

    hidden: bool | None = None
    struck: bool | None = None
    place: str | None = None  # "super", "sub" or ""
    faint: bool | None = None  # white on no ground of its own

    def within(self, outer: Look) -> Look:
        """Return the look of a text within another one."""
        return Look(
            outer.hidden if self.hidden is None else self.hidden,
            outer.struck if self.struck is None else self.struck,
            outer.place if self.place is None else self.place,
            outer.faint if self.faint is None else self.faint,
        )


@dataclass(frozen=True, slots=True)
class _Level:
    form: str | None = None  # None for a bullet or picture, "" for no number
    before: str = ""
    after: str = ""
    start: int = 1
    levels: int = 1  # how many levels the number shows
    whole: str = ""  # with places such as "%1%.%2%"

    def text(self, counts: list[int], forms: list[str]) -> str:
        """Return the number of an item, from the counts and formats of its level and those above."""
        if not self.form:
            return self.whole if self.form is None else ""
        numbers = [_shown(count, form) for count, form in zip(counts, forms, strict=True)]
        if self.whole:
            return _PLACE.sub(
                lambda place: numbers[int(place[1]) - 1] if int(place[1]) <= len(numbers) else "",
                self.whole,
            )
        numbers = [number for number in numbers[-max(1, self.levels) :] if number]
        return f"{self.before}{'.'.join(numbers)}{self.after}"


class Styles:
    """The styles of a file by family and name, and its styles of lists."""

    def __init__(self, *roots: Any) -> None:
        self._elements: dict[tuple[str, str], Any] = {}
        self._lists: dict[str, dict[int, _Level]] = {}
        self._looks: dict[tuple[str, str], Look] = {}
        self.outline: dict[int, _Level] = {}
        self.outline_name = ""
        for root in roots:
            for one in root.iter(f"{STYLE}style"):
                family = one.get(f"{STYLE}family", "")
                self._elements[family, one.get(f"{STYLE}name", "")] = one
            for one in root.iter(f"{TEXT}list-style"):
                self._lists[one.get(f"{STYLE}name", "")] = dict(map(_level, one))
            for one in root.iter(f"{TEXT}outline-style"):
                self.outline_name = one.get(f"{STYLE}name", "")
                self.outline = self._lists[self.outline_name] = dict(map(_level, one))

    def look(self, family: str, name: str) -> Look:
        """Return how text of a style looks."""
        if (key := (family, name)) not in self._looks:
            look = Look()
            for one in self._chain(family, name):
                look = look.within(_look(one.find(f"{STYLE}text-properties")))
            self._looks[key] = look
        return self._looks[key]

    def names(self, family: str, name: str) -> Iterator[str]:
        """Yield the name of a style as its program shows it, then of those it is based on."""
        for one in self._chain(family, name):
            yield one.get(f"{STYLE}display-name") or one.get(f"{STYLE}name", "")

    def list_of(self, name: str) -> str:
        """Return the style of lists that a style of paragraphs names."""
        found = (one.get(f"{STYLE}list-style-name") for one in self._chain("paragraph", name))
        return next((one for one in found if one is not None), "")

    def property(self, family: str, name: str, key: str) -> str:
        """Return a property of a style, of whatever kind; "" if it has none."""
        for one in self._chain(family, name):
            for properties in one:
                if (value := properties.get(key)) is not None:
                    return str(value)
        return ""

    def levels(self, name: str) -> dict[int, _Level]:
        """Return the levels of a style of lists."""
        return self._lists.get(name, {})

    def _chain(self, family: str, name: str) -> Iterator[Any]:
        seen = set[str]()
        while (family, name) in self._elements and name not in seen:
            seen.add(name)
            yield (one := self._elements[family, name])
            name = one.get(f"{STYLE}parent-style-name", "")


@dataclass(slots=True)
class Counts:
    """How far a list is counted, by level from 1."""

    style: str = ""
    counts: dict[int, int] = field(default_factory=dict)

    def next(self, levels: dict[int, _Level], level: int, start: int | None) -> str:
        """Count an item, and return its number; "" for a bullet."""
        level = min(level, _MOST_LEVELS)
        own = levels.get(level, _Level())
        before = self.counts.get(level, own.start - 1)
        self.counts[level] = before + 1 if start is None else start
        for deeper in [one for one in self.counts if one > level]:
            del self.counts[deeper]
        above = range(1, level + 1)
        counts = [self.counts.get(one, levels.get(one, _Level()).start) for one in above]
        return own.text(counts, [levels.get(one, _Level()).form or "" for one in above])


def integer(element: Any, key: str, default: int = 1) -> int:
    """Return a whole number that an attribute has."""
    text = element.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else default


def _look(properties: Any) -> Look:
    if properties is None:
        return Look()
    display = properties.get(f"{TEXT}display")
    style = properties.get(f"{STYLE}text-line-through-style")
    kind = properties.get(f"{STYLE}text-line-through-type")
    position = properties.get(f"{STYLE}text-position")
    colour, ground = properties.get(f"{FO}color"), properties.get(f"{FO}background-color")
    is_bare = ground in (None, "transparent")
    return Look(
        None if display is None else display in ("none", "condition"),
        None if style is None and kind is None else (style or kind) != "none",
        None if position is None else _place(position),
        (colour or "").lower() == "#ffffff" and is_bare if colour or ground else None,
    )


def _place(position: str) -> str:
    """Return "super", "sub" or "" for a position such as "super 58%", "-33% 58%" or "0% 100%"."""
    first = position.split()[0] if position.split() else ""
    if first in ("super", "sub"):
        return first
    height = first.rstrip("%")
    return "sub" if height.startswith("-") else "super" if height.strip("0.") else ""


def _level(element: Any) -> tuple[int, _Level]:
    level = integer(element, f"{TEXT}level")
    form = element.get(f"{STYLE}num-format")
    is_bullet = element.tag in (
        f"{TEXT}list-level-style-bullet",
        f"{TEXT}list-level-style-image",
    )
    return level, _Level(
        None if is_bullet else form or "",
        element.get(f"{STYLE}num-prefix", ""),
        element.get(f"{STYLE}num-suffix", ""),
        integer(element, f"{TEXT}start-value"),
        integer(element, f"{TEXT}display-levels"),
        bullet(element.get(f"{TEXT}bullet-char", ""))
        if is_bullet
        else element.get(f"{LIBRE}num-list-format", ""),
    )


def _shown(number: int, form: str) -> str:
    if not form:
        return ""
    if form in ("a", "A") and number > 26:  # "aa", then "ab"
        letters = ""
        while number:
            number, at = divmod(number - 1, 26)
            letters = chr(ord(form) + at) + letters
        return letters
    return shown(number, _FORMS.get(form[0], "decimal"))
