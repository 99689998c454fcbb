"""From a folder to an index. Nothing that the folder holds is trusted.

Files are known by their names, never by what another file says, and are not read through links;
every one has the size and the hash of the manifest, and every value is checked for type and range.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NoReturn, get_args

import numpy as np
from safetensors import SafetensorError, safe_open

from hwdag.errors import HWDAGError, IndexCorrupt, IndexVersionError, InputError, NotAnIndex
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.store.exchange.layout import (
    DOCUMENTS,
    FORMAT,
    HEADER,
    KIND,
    MANIFEST,
    NODES,
    Array,
    arrays_name,
    hash_of,
    refuse,
)
from hwdag.store.exchange.tensors import Tensors
from hwdag.store.placing import beside, explained, settle
from hwdag.store.records import Entry, encode
from hwdag.store.schema import Header
from hwdag.store.sqlite import Store
from hwdag.store.units import write_unit
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Document, Node, Origin, Span

LARGEST_JSON = 16 << 20
"""Bytes of a manifest or a header; a longer one is none of ours."""

_MALFORMED = (ValueError, TypeError, ArithmeticError, RecursionError, HWDAGError)
"""What values of a wrong type, length or range raise where they are used."""


def import_index(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    show_progress: bool | Reporter = False,
) -> Store:
    """Make an index of an exported folder; its file appears when it is complete.

    Args:
        folder: what `export_index` wrote.
        path: a file that does not exist yet; None for an index in memory.
        show_progress: `True` for a bar, or your own.

    Raises:
        InputError: there is something at `path` already.
        NotAnIndex: the folder is not an export.
        IndexVersionError: its layout is of another version.
        IndexCorrupt: it was damaged or changed.
        IndexFileError: it cannot be read, or the index cannot be written.
    """
    with explained():
        export = _Export.of(Path(folder))
        if path is None:
            return _filled(Store.create(None, export.header()), export, show_progress)
        path = Path(path).resolve()
        if path.exists():
            raise InputError(f"{path} exists; name a file that does not exist yet")
        with beside(path) as unfinished:
            _filled(Store.create(unfinished, export.header()), export, show_progress).close()
            settle(unfinished, path)
        return Store.open(path)


def _filled(store: Store, export: _Export, show_progress: bool | Reporter) -> Store:
    """The store with all documents; closed where one of them is refused."""
    dimension = store.header.dimension
    try:
        with (
            store._database.writing() as connection,  # one transaction: nobody else knows the file
            as_reporter(show_progress).stage("import", export.documents, "documents") as advance,
        ):
            for entry in export.entries(dimension):
                write_unit(connection, encode(entry, dimension=dimension))
                advance()
    except BaseException:
        store.close()
        raise
    return store


@dataclass(frozen=True, slots=True)
class _Export:
    """A folder whose files are what its manifest says."""

    folder: Path
    documents: int
    shards: int

    @classmethod
    def of(cls, folder: Path) -> _Export:
        """Compare every file with the manifest."""
        if not (folder / MANIFEST).exists():
            raise NotAnIndex(f"{folder} is not an exported index: it has no {MANIFEST}")
        manifest = _json_of(folder / MANIFEST)
        if manifest.get("kind") != KIND:
            raise NotAnIndex(f"{folder / MANIFEST} is not of an exported index; check the path")
        if manifest.get("format") != FORMAT:
            raise IndexVersionError(
                f"{folder} has layout version {manifest.get('format')!r}, this hwdag reads version "
                f"{FORMAT}; import it with the hwdag that wrote it, or a newer one"
            )
        files, documents = manifest.get("files"), manifest.get("documents")
        if not isinstance(files, dict) or type(documents) is not int:
            refuse(folder / MANIFEST, "it does not list files and number of documents")
        shards = len(files) - 3
        if set(files) != {HEADER, DOCUMENTS, NODES, *map(arrays_name, range(1, shards + 1))}:
            refuse(folder / MANIFEST, "it lists other files than an export has")
        for name, recorded in files.items():
            _check_file(folder / name, recorded)
        return cls(folder, documents, shards)

    def header(self) -> Header:
        path, kinds = self.folder / HEADER, dict.fromkeys(("reader", "embedder", "hwdag_version"))
        found = _json_of(path)
        if not all(isinstance(found.get(name), str) for name in kinds):
            refuse(path, f"{', '.join(kinds)} must be texts")
        if type(found.get("dimension")) is not int or found["dimension"] < 1:
            refuse(path, "dimension must be a whole number of at least 1")
        if not isinstance(found.get("config"), dict):
            refuse(path, "config must be an object")
        return Header(**{name: found[name] for name in (*kinds, "dimension", "config")})

    def entries(self, dimension: int) -> Iterator[Entry]:
        """The documents in their order."""
        seen = set[str]()
        with ExitStack() as stack:
            documents, nodes = (
                _Lines(self.folder / name, stack.enter_context((self.folder / name).open("rb")))
                for name in (DOCUMENTS, NODES)
            )
            for count, arrays in self._arrays(dimension):
                document = documents.document()
                if document.id in seen:
                    documents.refuse(f"there are two documents with the id {document.id!r}")
                seen.add(document.id)
                yield _entry(document, [nodes.node(document.id) for _ in range(count)], arrays)
            documents.expect_end()
            nodes.expect_end()

    def _arrays(self, dimension: int) -> Iterator[tuple[int, tuple[Array, ...]]]:
        for number in range(1, self.shards + 1):
            path = self.folder / arrays_name(number)
            try:
                with safe_open(path, framework="numpy") as file:
                    yield from Tensors.of(file, path, dimension).documents()
            except SafetensorError as error:
                refuse(path, error)


@dataclass(slots=True)
class _Lines:
    """A file of JSON lines, read line by line."""

    path: Path
    file: IO[bytes]
    number: int = 0

    def document(self) -> Document:
        return Document(**self._next({"id": str, "text": str, "title": str, "metadata": dict}))

    def node(self, document_id: str) -> Node:
        texts = dict.fromkeys(("id", "document_id", "text", "origin"), str)
        found = self._next({**texts, "level": int, "tokens": int, "sources": list})
        if found["document_id"] != document_id:
            self.refuse(f"it belongs to {found['document_id']!r}, not to {document_id!r}")
        if found["origin"] not in get_args(Origin):
            self.refuse(f"unknown origin {found['origin']!r}")
        if not 0 < found["level"] < 1 << 31 or not 0 < found["tokens"] < 1 << 63:
            self.refuse("level or tokens are out of range")
        try:
            found["sources"] = tuple(_span(pair) for pair in found["sources"])
        except _MALFORMED as error:
            self.refuse(error)
        return Node(**found)

    def expect_end(self) -> None:
        if self.file.read(1):
            self.refuse("the file goes on after the last line that belongs")

    def _next(self, kinds: Mapping[str, type]) -> dict[str, Any]:
        self.number += 1
        try:
            found = _parsed(self.file.readline())
        except _MALFORMED as error:
            self.refuse(error)
        if set(found) != set(kinds) or any(type(found[name]) is not kinds[name] for name in kinds):
            names = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
            self.refuse(f"a line has exactly {names}")
        return found

    def refuse(self, reason: object) -> NoReturn:
        refuse(self.path, f"line {self.number}: {reason}")


def _entry(document: Document, nodes: list[Node], arrays: tuple[Array, ...]) -> Entry:
    degrees, indices, attention, vectors = arrays
    borders = pairwise([0, *np.cumsum(degrees, dtype=np.int64).tolist()])
    rows = [
        EdgeRow(parent, indices[start:end], attention[start:end])
        for parent, (start, end) in enumerate(borders)
        if start != end
    ]
    try:
        entry = Entry(document, HWDAG.from_rows(nodes, rows), vectors)
        entry.graph.check_integrity()
    except _MALFORMED as error:
        raise IndexCorrupt(
            f"document {document.id!r} is damaged: {error}; export the index again"
        ) from error
    return entry


def _span(pair: Any) -> Span:
    if type(pair) is not list or len(pair) != 2 or any(type(end) is not int for end in pair):
        raise InputError(f"a source is [start, end], got {pair!r}")
    return Span(*pair)


def _parsed(line: bytes) -> dict[str, Any]:
    found = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise InputError("it is not a JSON object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not JSON")


def _json_of(path: Path) -> dict[str, Any]:
    _check_plain(path)
    if path.stat().st_size > LARGEST_JSON:
        refuse(path, f"it has more than {LARGEST_JSON} bytes")
    try:
        return _parsed(path.read_bytes())
    except _MALFORMED as error:
        refuse(path, error)


def _check_file(path: Path, recorded: Any) -> None:
    _check_plain(path)
    if not isinstance(recorded, dict) or recorded.get("bytes") != path.stat().st_size:
        refuse(path, "its size is not that in the manifest")
    if recorded.get("sha256") != hash_of(path):
        refuse(path, "its SHA-256 is not that in the manifest")


def _check_plain(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        refuse(path, error)
    if not stat.S_ISREG(mode):
        refuse(path, "it is a link, a folder or a device")
