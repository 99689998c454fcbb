"""Electronic books to text: the chapters of the spine, each read as a page."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import unquote, urldefrag

from hwdag_files.content import Content, UnreadableError, as_notes
from hwdag_files.html import HTML_NOTES, html_content
from hwdag_files.packages import Package

_DC = "{http://purl.org/dc/elements/1.1/}"
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")


def epub_content(data: bytes) -> Content:
    """Read an EPUB in the order of its spine; notes list chapters that are missing or left out.

    Raises:
        UnreadableError: chapters are encrypted, or there are none.
    """
    package = Package(data)
    main = _main(package)
    root = package.xml(main)
    noted = Counter[str]()
    places = list(_spine(root, main, noted))
    if locked := _encrypted(package) & set(places):
        raise UnreadableError(
            f"{len(locked)} of its {len(places)} chapters are encrypted; give an EPUB without copy protection"
        )
    texts, notes, missing = list[str](), list[str](), 0
    for place in places:
        if place not in package.names:
            missing += 1
            continue
        found = html_content(package.read(place), partial(_sheet, package, place), noted)
        texts.append(found.text)
        notes += [f"{note} ({posixpath.basename(place)})" for note in found.notes]
    if missing:
        notes.insert(0, f"{missing} of {len(places)} chapters are missing in the file")
    notes += as_notes(noted, HTML_NOTES)
    if not any(texts):
        raise UnreadableError("no chapter in it has text; give another file of the book")
    title = next((one.text or "" for one in root.iter(f"{_DC}title")), "")
    return Content("\n\n".join(filter(None, texts)), " ".join(title.split()), tuple(notes))


def _sheet(package: Package, place: str, address: str) -> str:
    """Return a style sheet that a chapter names, "" if there is none."""
    folder, target = posixpath.dirname(place), unquote(urldefrag(address)[0])
    name = posixpath.normpath(posixpath.join(folder, target))
    return package.read(name).decode(errors="replace") if name in package.names else ""


def _main(package: Package) -> str:
    """Return the path of the part that lists the others."""
    if (container := "META-INF/container.xml") in package.names:
        for one in _named(package.xml(container), "rootfile"):
            if (path := unquote(one.get("full-path", ""))) in package.names:
                return path
    return next(name for name in sorted(package.names) if name.endswith(".opf"))


def _spine(root: Any, main: str, noted: Counter[str]) -> Iterator[str]:
    """Yield the paths of all chapters in their order, also those outside the main text; count pictures."""
    items = {one.get("id"): one for one in _named(root, "item")}
    for one in _named(root, "itemref"):
        item = items.get(one.get("idref"))
        if item is None:
            continue
        if item.get("media-type", _PAGES[0]).strip().lower() not in _PAGES:
            noted["picture"] += 1
        else:
            target = unquote(urldefrag(item.get("href", ""))[0])
            yield posixpath.normpath(posixpath.join(posixpath.dirname(main), target))


def _encrypted(package: Package) -> set[str]:
    """Return the paths of the encrypted parts."""
    if (name := "META-INF/encryption.xml") not in package.names:
        return set()
    return {unquote(one.get("URI", "")) for one in _named(package.xml(name), "CipherReference")}


def _named(root: Any, name: str) -> Iterator[Any]:
    """Yield the elements of a name, whatever their namespace."""
    yield from root.iter("{*}" + name)
