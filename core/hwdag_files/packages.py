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
    b"http://purl.oclc.org/ooxml/officeDocument/math": b"http://schemas.openxmlformats.org/officeDocument/2006/math",
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
}
"""Namespaces of the strict form of office files, and those of the usual one."""


def check_packed(data: bytes) -> None:
    """Raise `UnreadableError` for what is no package, or unpacks to too much."""
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
        self.names = frozenset(self._packed.namelist())

    def read(self, name: str) -> bytes:
        """Return a part, in the usual namespaces of office files."""
        data = self._packed.read(name)
        for strict, usual in _NAMES.items() if _STRICT in data else ():
            data = data.replace(strict, usual)
        return data

    def xml(self, name: str) -> Any:
        """Return the root of a part; entities are not resolved, and nothing is fetched."""
        return xml_root(self.read(name))

    def children(self, name: str, parent: str) -> Iterator[Any]:
        """Yield the children of one element of a part, each freed once the next one is asked for."""
        from lxml import etree

        events = etree.iterparse(io.BytesIO(self.read(name)), ("end",), **_safe())
        for _, element in events:
            above = element.getparent()
            if above is not None and above.tag == parent:
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del above[0]

    def related(self, name: str, kind: str) -> list[str]:
        """Return the parts of a kind that a part names, in its order; the kind is the end of its URL."""
        folder, file = posixpath.split(name)
        found = []
        for target, mode, of in self._relations(posixpath.join(folder, "_rels", f"{file}.rels")):
            if of.rsplit("/", 1)[-1] == kind and mode != "External":
                joined = posixpath.normpath(posixpath.join("/", folder, unquote(target)))
                found.append(joined.lstrip("/"))
        return [one for one in found if one in self.names]

    def _relations(self, name: str) -> Iterator[tuple[str, str, str]]:
        if name in self.names:
            for one in self.xml(name):
                get: Mapping[str, str] = one.attrib
                yield get.get("Target", ""), get.get("TargetMode", ""), get.get("Type", "")


def xml_root(data: bytes) -> Any:
    """Parse XML that may be anybody's; raises what lxml raises."""
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
