"""Formulas of pages as the LaTeX that they carry, or in letters with raised and lowered ones marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwdag_files.marks import lowered, raised

if TYPE_CHECKING:
    from bs4.element import Tag

_TEX = ("application/x-tex", "application/x-latex", "text/x-tex", "latex", "tex")
_LEFT_OUT = frozenset({"annotation", "annotation-xml", "mphantom"})
MAX_DEPTH = 50  # elements within each other; the text of those below is read as it is


def mathml(formula: Tag) -> str:
    """Return a `math` element as "$x^2$" if it has its LaTeX, else as "x²" or "3/4"."""
    for one in formula.find_all(lambda tag: tag.name.rpartition(":")[2] == "annotation"):
        if str(one.get("encoding", "")).lower() in _TEX and (
            tex := " ".join(one.get_text().split())
        ):
            return f"${tex}$"
    return _text(formula, MAX_DEPTH)


def _text(tag: Tag, depth: int) -> str:
    from bs4.element import NavigableString, Tag

    if depth == 0:
        return tag.get_text()
    parts = [
        str(child).strip() if isinstance(child, NavigableString) else _text(child, depth - 1)
        for child in tag.contents
        if isinstance(child, Tag | NavigableString)
        and (child.name or "").rpartition(":")[2] not in _LEFT_OUT
    ]
    parts = [part for part in parts if part]
    name = tag.name.rpartition(":")[2]
    if name == "mfrac" and len(parts) == 2:
        return "/".join(part if len(part) == 1 or part.isalnum() else f"({part})" for part in parts)
    if name in ("msup", "mover") and len(parts) == 2:
        return parts[0] + (raised(parts[1]) if _has_digit(parts[1]) else f"^{parts[1]}")
    if name in ("msub", "munder") and len(parts) == 2:
        return parts[0] + (lowered(parts[1]) if _has_digit(parts[1]) else f"_{parts[1]}")
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return parts[0] + lowered(parts[1]) + raised(parts[2])
    if name == "msqrt":
        return f"√({''.join(parts)})"
    return "".join(parts)


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))
