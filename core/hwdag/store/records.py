"""Documents, graphs and vectors as rows, and back. Nothing that a file holds is trusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np

from hwdag.embedding.base import Vectors
from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.store.schema import Header
from hwdag.types import Document, Node, Origin, Span

_MALFORMED = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What values of a wrong type, length or range raise where they are used; InputError is among it."""

Row = tuple[Any, ...]
"""Values in the order of the table's columns, whatever SQLite found there."""

TEXT_COLUMNS = ("id", "title", "text", "metadata", "content_hash")
ARRAY_COLUMNS = ("node_count", "indptr", "indices", "attention", "vectors")
NODE_COLUMNS = ("id", "level", "origin", "text", "tokens", "sources")


class Entry(NamedTuple):
    """A document with its graph and the embedding of every node, (nodes, dimension)."""

    document: Document
    graph: HWDAG
    vectors: Vectors


class Record(NamedTuple):
    """The rows of one document."""

    texts: Row
    arrays: Row
    nodes: Sequence[Row]

    @property
    def checksum(self) -> str:
        """SHA-256 of everything; types and lengths are part of it, and odd values do no harm."""
        digest = hashlib.sha256()
        for row in (self.texts, self.arrays, *self.nodes):
            for value in row:
                data = value if isinstance(value, bytes) else str(value).encode()
                digest.update(f"{type(value).__name__} {len(data)} ".encode())
                digest.update(data)
        return digest.hexdigest()


def content_hash(document: Document) -> str:
    """SHA-256 of title, text and metadata; the id is not part of it.

    Raises:
        InputError: the metadata is not JSON, or a text cannot be written as UTF-8.
    """
    return _content_hash(document.title, document.text, _metadata_json(document))


def encode(stored: Entry, *, dimension: int) -> Record:
    """The rows of a document.

    Raises:
        InputError: the parts do not belong together, or cannot be stored.
        IndexCorrupt: the graph violates one of its invariants.
    """
    document, graph, vectors = stored
    graph.check_integrity()
    _check_parts(stored, dimension)
    metadata = _metadata_json(document)
    for node in graph.nodes:
        _check_unicode(node.id + node.text, f"node {node.id!r}")
    return Record(
        texts=(
            document.id,
            document.title,
            document.text,
            metadata,
            _content_hash(document.title, document.text, metadata),
        ),
        arrays=(
            len(graph),
            graph.raw.indptr.astype("<i4").tobytes(),
            graph.raw.indices.astype("<i4").tobytes(),
            graph.raw.data.astype("<f8").tobytes(),
            vectors.astype("<f4").tobytes(),
        ),
        nodes=[_node_row(node) for node in graph.nodes],
    )


def decode(record: Record, *, checksum: str, dimension: int) -> Entry:
    """The document of these rows.

    Raises:
        IndexCorrupt: rows and checksum differ, or what they hold is not a document and its graph.
    """
    if record.checksum != checksum:
        raise IndexCorrupt("its checksum does not match")
    try:
        document = decode_document(record.texts)
        stored = Entry(document, _graph(record, document.id), _vectors(record.arrays, dimension))
        _check_parts(stored, dimension)
        stored.graph.check_integrity()
    except _MALFORMED as error:
        raise IndexCorrupt(f"its rows are malformed: {error}") from error
    return stored


def decode_document(texts: Row) -> Document:
    """The document alone, checked against its content hash; raises `IndexCorrupt`."""
    identity, title, text, metadata, recorded = texts
    if not all(isinstance(value, str) for value in texts):
        raise IndexCorrupt("a text column holds something else")
    if _content_hash(title, text, metadata) != recorded:
        raise IndexCorrupt("its content hash does not match")
    return Document(identity, text, title, json.loads(metadata))


def _content_hash(title: str, text: str, metadata: str) -> str:
    content = json.dumps([title, text, metadata], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def _metadata_json(document: Document) -> str:
    what = f"document {document.id!r}"
    for text in (document.id, document.title, document.text):
        _check_unicode(text, what)
    try:
        return json.dumps(dict(document.metadata), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"the metadata of {what} cannot be stored: {error}; use only strings, finite numbers, "
            "booleans, None, and lists and string-keyed dicts of them"
        ) from error


def _check_unicode(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds half of a surrogate pair at character {error.start}, which is not "
            "Unicode text; read the source with errors='replace'"
        ) from error


def _check_parts(stored: Entry, dimension: int) -> None:
    """Raise `InputError` unless document, graph and vectors belong together."""
    document, graph, vectors = stored
    if vectors.dtype != np.float32 or vectors.shape != (len(graph), dimension):
        raise InputError(
            f"document {document.id!r} has {len(graph)} nodes and the index embeddings of "
            f"dimension {dimension}, so its vectors must be float32 of shape "
            f"({len(graph)}, {dimension}); got {vectors.dtype} of shape {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise InputError(f"a vector of document {document.id!r} is not finite")
    for node in graph.nodes:
        if node.document_id != document.id:
            raise InputError(
                f"node {node.id} belongs to {node.document_id!r}, not to {document.id!r}"
            )
        if max(span.end for span in node.sources) > len(document.text):
            raise InputError(f"node {node.id} has a source beyond the end of {document.id!r}")


def _node_row(node: Node) -> Row:
    sources = np.array([(span.start, span.end) for span in node.sources], dtype="<i8")
    # int: SQLite does not take the integers of numpy
    return node.id, int(node.level), node.origin, node.text, int(node.tokens), sources.tobytes()


def _node(row: Row, document_id: str) -> Node:
    identity, level, origin, text, tokens, sources = row
    if origin not in get_args(Origin):
        raise InputError(f"node {identity} has the unknown origin {origin!r}")
    borders = np.frombuffer(sources, dtype="<i8").reshape(-1, 2).tolist()
    spans = tuple(Span(start, end) for start, end in borders)
    return Node(identity, document_id, level, text, origin, tokens, spans)


def _graph(record: Record, document_id: str) -> HWDAG:
    nodes = [_node(row, document_id) for row in record.nodes]
    count, indptr, indices, attention, _ = record.arrays
    begins = np.frombuffer(indptr, dtype="<i4")
    children = np.frombuffer(indices, dtype="<i4")
    raw = np.frombuffer(attention, dtype="<f8")
    if not len(nodes) == count == len(begins) - 1 or not len(children) == len(raw) == begins[-1]:
        raise InputError("numbers of nodes and edges differ between its columns")
    rows = [
        EdgeRow(parent, children[start:end], raw[start:end])
        for parent, (start, end) in enumerate(pairwise(begins.tolist()))
        if start != end
    ]
    return HWDAG.from_rows(nodes, rows)


def _vectors(arrays: Row, dimension: int) -> Vectors:
    count, *_, vectors = arrays
    # a copy: arrays over bytes are read-only, which torch and others warn about
    return np.frombuffer(vectors, dtype="<f4").reshape(count, dimension).astype(np.float32)


def encode_header(header: Header) -> list[tuple[str, str]]:
    """(name, JSON) rows, one of them a checksum. Raises `InputError` if the config is not JSON."""
    try:
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in asdict(header).items()]
    except (TypeError, ValueError) as error:
        raise InputError(f"the build config cannot be stored as JSON: {error}") from error
    return [*rows, (_CHECKSUM, _header_checksum(rows))]


def decode_header(rows: Iterable[Row]) -> Header:
    """The header of these rows; raises `IndexCorrupt`."""
    found: dict[str, Any] = dict(rows)
    checksum = found.pop(_CHECKSUM, None)
    if checksum != _header_checksum(found.items()):
        raise IndexCorrupt("the checksum of its header does not match")
    try:
        return Header(**{name: json.loads(value) for name, value in found.items()})
    except _MALFORMED as error:
        raise IndexCorrupt(f"its header is malformed: {error}") from error


_CHECKSUM = "checksum"


def _header_checksum(rows: Iterable[tuple[Any, Any]]) -> str:
    return hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()
