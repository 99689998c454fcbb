"""Styles of a Word document: properties that a paragraph or a run inherits from its styles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hwdag_files.numbering import WORD

_HEADING = re.compile(r"heading ?([1-9])?", re.IGNORECASE)
_OFF = ("0", "false", "off")
_LEVELS = 6


@dataclass(frozen=True, slots=True)
class Style:
    """Properties of a style; None if neither it nor one that it is based on sets them."""

    name: str = ""
    heading: int = 0  # the level, from 1; 0 for none
    number_id: str = ""
    level: int | None = None
    hidden: bool | None = None
    struck: bool | None = None
    align: str | None = None


class Styles:
    """The styles of `styles.xml` by id."""

    def __init__(self, root: Any = None) -> None:
        self._elements: dict[str, Any] = {}
        self._found: dict[str, Style] = {}
        self.default = ""
        path = f"{WORD}docDefaults/{WORD}rPrDefault/{WORD}rPr/{WORD}lang"
        self.language = (value(root.find(path)) if root is not None else None) or "en"
        for one in () if root is None else root.iterchildren(f"{WORD}style"):
            name = one.get(f"{WORD}styleId", "")
            self._elements[name] = one
            is_default = one.get(f"{WORD}default") in ("1", "true", "on")
            if is_default and one.get(f"{WORD}type", "paragraph") == "paragraph":
                self.default = name

    def get(self, style_id: str | None) -> Style:
        """Return a style; an empty one if the document does not define it."""
        name = style_id or ""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def list_of(self, style_id: str) -> str:
        """Return the id of the list of a style of numbering."""
        return self.get(style_id).number_id

    def _chain(self, style_id: str) -> Iterator[Any]:
        seen = set[str]()
        while style_id in self._elements and style_id not in seen:
            seen.add(style_id)
            yield (one := self._elements[style_id])
            style_id = value(one.find(f"{WORD}basedOn")) or ""

    def _read(self, style_id: str) -> Style:
        chain = list(self._chain(style_id))
        if not chain:
            return Style(heading=1 if style_id == "Heading" else 0)

        def first(path: str) -> str | None:
            places = (value(one.find(path)) for one in chain)
            return next((one for one in places if one is not None), None)

        def toggle(*names: str) -> bool | None:
            states = (is_on(one.find(f"{WORD}rPr"), *names) for one in chain)
            return next((one for one in states if one is not None), None)

        level = first(f"{WORD}pPr/{WORD}numPr/{WORD}ilvl")
        return Style(
            value(chain[0].find(f"{WORD}name")) or "",
            self._heading(chain),
            first(f"{WORD}pPr/{WORD}numPr/{WORD}numId") or "",
            int(level) if level and level.isdigit() else None,
            toggle("vanish"),
            toggle("strike", "dstrike"),
            first(f"{WORD}rPr/{WORD}vertAlign"),
        )

    @staticmethod
    def _heading(chain: list[Any]) -> int:
        for one in chain:
            outline = value(one.find(f"{WORD}pPr/{WORD}outlineLvl"))
            if outline is not None and outline.isdigit():
                return min(int(outline) + 1, _LEVELS) if int(outline) < 9 else 0
            if match := _HEADING.fullmatch(value(one.find(f"{WORD}name")) or ""):
                return min(int(match[1] or 1), _LEVELS)
        return 0


def value(element: Any) -> str | None:
    """Return the `w:val` of an element, or None."""
    found = None if element is None else element.get(f"{WORD}val")
    return None if found is None else str(found)


def is_on(properties: Any, *names: str) -> bool | None:
    """Return whether one of some properties is switched on; None if none is named."""
    if properties is None:
        return None
    states = [
        (one.get(f"{WORD}val") or "1") not in _OFF
        for name in names
        if (one := properties.find(WORD + name)) is not None
    ]
    return any(states) if states else None
