"""XML to text: data as records that name their elements, running text as paragraphs below their titles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hwdag.text.headings import LONGEST_HEADING
from hwdag.text.tables import table_lines
from hwdag_files.blocks import joined, no_heading
from hwdag_files.content import Content, as_notes
from hwdag_files.html import html_content
from hwdag_files.packages import xml_root
from hwdag_files.records import NOTES, record_lines

_TITLES = frozenset({"title", "head", "heading"})
_TITLE_PATHS = ("{*}title", "{*}channel/{*}title", "{*}info/{*}title")
_CAPTIONS = _TITLES | {"caption", "info"}
_PARAGRAPHS = frozenset({"p", "para", "simpara"})
_ITEMS = frozenset({"item", "li", "listitem"})
_ROWS, _CELLS = frozenset({"tr", "row"}), frozenset({"td", "th", "entry", "cell"})
_SETTINGS = frozenset({"schemaLocation", "noNamespaceSchemaLocation", "space"})
"""Attributes that control how XML is read, and hold no content."""

_IS_PAGE = re.compile(r"</[a-z]|<br\b", re.I)
_NOTES = {**NOTES, "entity": "{} reference{s} to entities left out"}


def xml_content(data: bytes) -> Content:
    """Read XML; entities are not resolved and nothing is fetched."""
    root = xml_root(data)
    if _name(root) == "html":
        return html_content(data)
    noted = Counter({"entity": sum(1 for one in root.iter() if _name(one) == "&")})
    if _is_running_text(root):
        text = joined(list(_blocks(root, 1)))
    else:
        text = "\n".join(record_lines(_value(root), noted))
    found = (root.find(path) for path in _TITLE_PATHS)
    title = next((_text(one) for one in found if one is not None), "")
    return Content(text, title, as_notes(noted, _NOTES))


def _name(element: Any) -> str:
    """Return the name of an element without its namespace; "&" of an entity."""
    tag = element.tag
    return str(tag).rpartition("}")[2] if isinstance(tag, str) else "&"


def _text(element: Any) -> str:
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if _name(child) != "&":
            yield from _pieces(child)
        yield child.tail or ""


def _has_own_text(element: Any) -> bool:
    return bool((element.text or "").strip() or any((one.tail or "").strip() for one in element))


def _is_running_text(root: Any) -> bool:
    """Return whether elements are within sentences, or there are paragraphs."""
    paragraphs = 0
    for element in root.iter("*"):
        paragraphs += _name(element) in _PARAGRAPHS
        if paragraphs > 1 or (len(element) and _has_own_text(element)):
            return True
    return False


def _blocks(element: Any, level: int) -> Iterator[str]:
    """Yield headings, paragraphs, items and tables of a running text."""
    name = _name(element)
    if name == "&":
        return
    if name == "table" and (rows := _rows(element)):
        yield from (_text(child) for child in element if _name(child) in _CAPTIONS)
        yield "\n".join(table_lines(rows))
    elif len(element) and not _has_own_text(element):
        inner = level + any(_name(child) in _TITLES for child in element)
        for child in element:
            yield from _blocks(child, level if _name(child) in _TITLES else inner)
    elif text := _text(element):
        if name in _TITLES and len(text) <= LONGEST_HEADING:
            yield f"{'#' * min(level, 6)} {text}"
        else:
            parent = element.getparent()
            is_item = name in _ITEMS or (parent is not None and _name(parent) in _ITEMS)
            yield f"- {text}" if is_item else no_heading(text)


def _rows(table: Any) -> list[list[str]]:
    rows = (
        [_text(cell) for cell in row if _name(cell) in _CELLS]
        for row in table.iter("*")
        if _name(row) in _ROWS
    )
    return [row for row in rows if row]


def _value(element: Any) -> Any:
    """Return an element as JSON has it: a text, or a mapping of its text, attributes and children."""
    text = (element.text or "").strip()
    if _IS_PAGE.search(text):
        text = html_content(text.encode()).text
    found = dict[str, Any]()
    if text:
        found[""] = text
    for key, value in element.attrib.items():
        if (name := str(key).rpartition("}")[2]) not in _SETTINGS:
            found[name] = value
    children = dict[str, list[Any]]()
    for child in element:
        if (name := _name(child)) != "&":
            children.setdefault(name, []).append(_value(child))
    for name, values in children.items():
        key = name if name not in found else f"{name}.{name}"
        found[key] = values if len(values) > 1 else values[0]
    return text if found.keys() <= {""} else found
