"""Packed files: office files and books are zips of XML."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from hwdag_files.content import UnreadableError, said

UNPACKED_BYTES = 1 << 29  # of all members of a packed file together

_STRICT = b"http://purl.oclc.org/ooxml/"
_NAMES = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    b"http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": b"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    b"http://purl.oclc.org/ooxml/spreadsheetml/main": b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    b"http://purl.oclc.org/ooxml/officeDocument/math": b"http://schemas.openxmlformats.org/officeDocument/2006/math",
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
}
"""Namespaces of the strict form of office files, and those of the usual one."""


def check_packed(data: bytes) -> None:
    """Raise `UnreadableError` for bytes that are not a package, or whose unpacked size is too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(member.file_size for member in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"not a readable package: {said(error)}") from error
    if size > UNPACKED_BYTES:
        raise UnreadableError(
            f"it unpacks to {size:,} bytes, more than the {UNPACKED_BYTES:,} bytes that are read"
        )


class Package:
    """The parts of a packed file, and which of them belong together."""

    def __init__(self, data: bytes) -> None:
        self._packed = zipfile.ZipFile(io.BytesIO(data))
        # why: some programs write paths of Windows, and the case of a name does not count
        self._members = {name.replace("\\", "/"): name for name in self._packed.namelist()}
        self._by_case = {name.lower(): name for name in self._members}
        self.names = frozenset(self._members)

    def read(self, name: str) -> bytes:
        """Return a part, in the usual namespaces of office files."""
        data = self._packed.read(self._members[name])
        for strict, usual in _NAMES.items() if _STRICT in data else ():
            data = data.replace(strict, usual)
        return data

    def xml(self, name: str) -> Any:
        """Return the root of a part; entities are not resolved, and nothing is fetched."""
        return xml_root(self.read(name))

    def children(self, name: str, parent: str) -> Iterator[Any]:
        """Yield the children of one element of a part, each freed once the next one is asked for."""
        return children(self.read(name), parent)

    def related(self, name: str, kind: str) -> list[str]:
        """Return the parts of a kind that a part names, in its order; the kind is the end of its URL."""
        found = (
            self._part(posixpath.dirname(name), one.get("Target", ""))
            for one in self._relations(name)
            if _kind(one) == kind and one.get("TargetMode") != "External"
        )
        return [one for one in found if one]

    def by_id(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the kinds and parts that a part names, by the ids that it uses for them."""
        folder = posixpath.dirname(name)
        return {
            one.get("Id", ""): (_kind(one), self._part(folder, one.get("Target", "")))
            for one in self._relations(name)
        }

    def _part(self, folder: str, target: str) -> str:
        """Return the part that a relation names; "" if there is none."""
        name = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
        return self._by_case.get(name.lower(), "")

    def _relations(self, name: str) -> Iterator[Mapping[str, str]]:
        folder, file = posixpath.split(name)
        place = self._by_case.get(posixpath.join(folder, "_rels", f"{file}.rels").lower())
        for one in self.xml(place) if place else ():
            yield one.attrib


def children(data: bytes, parent: str) -> Iterator[Any]:
    """Yield the children of one element of an XML text, each freed once the next one is asked for."""
    from lxml import etree

    for _, element in etree.iterparse(io.BytesIO(data), ("end",), **_safe()):
        above = element.getparent()
        if above is not None and above.tag == parent:
            yield element
            element.clear()
            while element.getprevious() is not None:
                del above[0]


def _kind(relation: Mapping[str, str]) -> str:
    return relation.get("Type", "").rsplit("/", 1)[-1]


def xml_root(data: bytes) -> Any:
    """Parse XML from an untrusted source; raises the errors of lxml."""
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(**_safe()))


def _safe() -> dict[str, Any]:
    return {
        "resolve_entities": False,
        "no_network": True,
        "load_dtd": False,
        "remove_comments": True,
        "remove_pis": True,
    }
