"""Documents, graphs and vectors as rows, and back. Nothing in a file is trusted."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple, get_args
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Vectors
from hwdag.corpus.block import Block, Postings, demand, is_indptr
from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.dag import HWDAG, EdgeRow, row_shares
from hwdag.store.erasure import insert_guarded
from hwdag.store.schema import NODES_PER_ROW, PAGE_SIZE, Header
from hwdag.text.draft import Draft, check_unicode, hash_of
from hwdag.types import Document, Node, Origin, Span

MALFORMED = (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RecursionError)
"""Exceptions that values of a wrong type, length or range raise in use; ValueError covers InputError."""


@contextmanager
def naming(
    document_id: object, file: str, kinds: tuple[type[Exception], ...] = (IndexCorrupt,)
) -> Iterator[None]:
    """Turn an error of a damaged document into an `IndexCorrupt` that names it."""
    try:
        yield
    except kinds as error:
        raise IndexCorrupt(
            f"document {document_id!r} of {file} is damaged: {error}; restore a copy of the file, run "
            "`hwdag repair`, or delete this document and insert it again"
        ) from error


Row = tuple[Any, ...]  # values in the order of the columns, of any type

DOCUMENT_COLUMNS = ("slot", "node_count", "id", "title", "metadata", "content_hash", "text")
HEAD_COLUMNS = ("slot", "last_call", "node_count", "id", "title", "metadata", "content_hash")
NODE_COLUMNS = ("position", "checksum", "data")
CALL_COLUMNS = ("owner_slot", "key_slot", "owner", "key", "checksum", "value")

_TYPES = {
    "levels": "<i4",
    "generated": "u1",
    "starts": "<i8",
    "ends": "<i8",
    "paragraphs": "<i4",
    "lengths": "<i4",
    "words": "u1",  # postings, see below
    "names": "u1",
    "indptr": "<i4",
    "children": "<i4",
    "attention": "<f8",
    "vectors": "<f4",
}
ARRAY_COLUMNS = ("checksum", *_TYPES)


class Entry(NamedTuple):
    """A document with its graph and the embedding of every node, (nodes, dimension)."""

    document: Document
    graph: HWDAG
    vectors: Vectors


class Head(NamedTuple):
    """Values of `HEAD_COLUMNS`."""

    slot: int
    last_call: int
    node_count: int
    id: str
    title: str
    metadata: str
    content_hash: str


class DocumentRows(NamedTuple):
    """The rows of one document; `nodes` are rows of `NODE_COLUMNS`."""

    document: Row
    nodes: Sequence[Row]
    arrays: Row

    @property
    def id(self) -> str:
        """Of the document."""
        return str(self.document[DOCUMENT_COLUMNS.index("id")])

    @property
    def size(self) -> int:
        """Bytes and characters in all rows, with a guard for each."""
        rows = (self.document, *self.nodes, self.arrays)
        values = (value for row in rows for value in row if isinstance(value, str | bytes))
        return len(rows) * PAGE_SIZE + sum(map(len, values))

    @property
    def checksum(self) -> str:
        """SHA-256 of all rows."""
        all_rows = (self.document, *self.nodes, self.arrays)
        return digest_of(value for row in all_rows for value in (len(row), *row)).hex()


def digest_of(values: Iterable[object]) -> bytes:
    """Hash values of any type with SHA-256, including types and lengths."""
    digest = hashlib.sha256()
    for data in _framed(values):
        digest.update(data)
    return digest.digest()


def crc_of(values: Iterable[object]) -> int:
    """Hash values like `digest_of`, but with CRC-32: fast enough for every row that a search reads."""
    found = 0
    for data in _framed(values):
        found = crc32(data, found)
    return found


def _framed(values: Iterable[object]) -> Iterator[bytes]:
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        yield f"{type(value).__name__} {len(data)} ".encode()
        yield data


def slot_of(identity: str | bytes) -> int:
    """Return the 64-bit hash to find a row by."""
    data = identity if isinstance(identity, bytes) else identity.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def encode(draft: Draft, graph: HWDAG, vectors: Vectors, *, dimension: int) -> DocumentRows:
    """Encode a document as rows. Raises `InputError` or `IndexCorrupt` if its parts do not fit."""
    document = draft.document
    graph.check_integrity()
    _check_parts(Entry(document, graph, vectors), dimension)
    metadata = draft.metadata
    arrays = vars(Block.of(0, draft, graph, vectors)) | {"attention": graph.raw.data}
    columns = [_column(arrays[name], dtype) for name, dtype in _TYPES.items()]
    for node in graph.nodes:
        check_unicode(node.id + node.text + node.heading, f"node {node.id!r}")
    return DocumentRows(
        document=(
            slot_of(document.id),
            len(graph),
            document.id,
            document.title,
            metadata,
            draft.content_hash,
            document.text,
        ),
        nodes=_node_rows(document.id, graph.nodes),
        arrays=(crc_of((document.id, *columns)), *columns),
    )


def decode(rows: DocumentRows, *, checksum: object, dimension: int) -> Entry:
    """Decode a document from its rows. Raises `IndexCorrupt` if they are damaged."""
    if rows.checksum != checksum:
        raise IndexCorrupt("its checksum does not match")
    try:
        document = decode_document(rows.document)
        stored = Entry(document, *_graph(rows, document.id, dimension))
        _check_parts(stored, dimension)
        stored.graph.check_integrity()
    except MALFORMED as error:
        raise IndexCorrupt(f"its rows are malformed: {error}") from error
    return stored


def decode_document(row: Row) -> Document:
    """Decode the document alone and check its content hash; raises `IndexCorrupt`."""
    slot, _, *texts = row
    if not all(isinstance(value, str) for value in texts):
        raise IndexCorrupt("a text column does not hold text")
    identity, title, metadata, recorded, text = texts
    if hash_of(title, text, metadata) != recorded:
        raise IndexCorrupt("its content hash does not match")
    if slot != slot_of(identity):
        raise IndexCorrupt("its slot does not match its id")
    return Document(identity, text, title, decode_metadata(metadata))


def decode_metadata(metadata: object) -> Mapping[str, Any]:
    """Decode the metadata of a document; raises `IndexCorrupt`."""
    try:
        found = json.loads(metadata)  # type: ignore[arg-type] # other types raise, see below
    except MALFORMED as error:
        raise IndexCorrupt(f"its metadata is malformed: {error}") from error
    if not isinstance(found, dict):
        raise IndexCorrupt("its metadata is malformed: it is not a JSON object")
    return found


def read_nodes(row: Row, first: int, places: Sequence[int]) -> list[Node]:
    """Decode the nodes at these places of a row that begins with node `first`; raises `IndexCorrupt`."""
    document_id, checksum, data = row
    if checksum != crc_of((document_id, first, data)):
        named = ", ".join(str(first + place) for place in places)
        raise IndexCorrupt(f"the checksum of its node {named} does not match")
    return decode_nodes(data, document_id, places)


def decode_nodes(data: object, document_id: str, places: Sequence[int] | None = None) -> list[Node]:
    """Decode the nodes at these places of one row, None for all; raises `IndexCorrupt`."""
    try:
        rows = json.loads(data)  # type: ignore[arg-type] # other types raise, see below
        if places is not None:
            if max(places, default=-1) >= len(rows):
                raise InputError("a node is missing")
            rows = [rows[place] for place in places]
        return [_node(fields, document_id) for fields in rows]
    except MALFORMED as error:
        raise IndexCorrupt(f"its nodes are malformed: {error}") from error


def _check_parts(stored: Entry, dimension: int) -> None:
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


# Nodes


def _node_rows(document_id: str, nodes: Sequence[Node]) -> list[Row]:
    fields = [
        # int: JSON refuses numpy's integers
        [
            node.id,
            int(node.level),
            node.origin,
            node.text,
            int(node.tokens),
            [[int(span.start), int(span.end)] for span in node.sources],
            node.heading,
            list(map(int, node.line_tokens)),
        ]
        for node in nodes
    ]
    rows = [
        (first, json.dumps(fields[first : first + NODES_PER_ROW], ensure_ascii=False))
        for first in range(0, len(nodes), NODES_PER_ROW)
    ]
    return [(first, crc_of((document_id, first, data)), data) for first, data in rows]


def _node(fields: Row, document_id: str) -> Node:
    identity, level, origin, text, tokens, sources, heading, counts = fields
    if not all(isinstance(value, str) for value in (identity, text, heading)):
        raise InputError("an id, a text or a heading is not text")
    check_unicode(identity + text + heading, f"node {identity!r}")
    alone, behind_one, behind_all = counts
    line_tokens = alone, behind_one, behind_all
    if {type(number) for number in (level, tokens, *line_tokens)} != {int}:
        raise InputError(f"level or tokens of node {identity} are not whole numbers")
    if min(line_tokens) < 0:
        raise InputError(f"node {identity} has a negative number of tokens")
    if origin not in get_args(Origin):
        raise InputError(f"node {identity} has the unknown origin {origin!r}")
    spans = tuple(Span(start, end) for start, end in sources)
    return Node(identity, document_id, level, text, origin, tokens, spans, heading, line_tokens)


# Graph


def _graph(rows: DocumentRows, document_id: str, dimension: int) -> tuple[HWDAG, Vectors]:
    positions = [position for position, *_ in rows.nodes]
    if positions != list(range(0, NODES_PER_ROW * len(positions), NODES_PER_ROW)):
        raise InputError("rows of nodes are missing")
    nodes = [node for *_, data in rows.nodes for node in decode_nodes(data, document_id)]
    if len(nodes) != rows.document[DOCUMENT_COLUMNS.index("node_count")]:
        raise InputError("its number of nodes is wrong")
    arrays = arrays_of(rows.arrays)
    indptr, children, raw = (arrays[name] for name in ("indptr", "children", "attention"))
    if len(indptr) != len(nodes) + 1 or not len(children) == len(raw) == indptr[-1]:
        raise InputError("numbers of nodes and edges differ between its columns")
    edges = [
        EdgeRow(parent, children[start:end], raw[start:end])
        for parent, (start, end) in enumerate(pairwise(indptr.tolist()))
        if start != end
    ]
    vectors = arrays["vectors"].reshape(len(nodes), dimension)
    # why a copy: arrays over bytes are read-only, and torch warns about that
    return HWDAG.from_rows(nodes, edges), vectors.astype(np.float32)


# Arrays


def arrays_of(row: Row) -> dict[str, NDArray[Any]]:
    """Return the columns as arrays of their types. Raises one of `MALFORMED` if one is not."""
    columns = zip(_TYPES.items(), row[1:], strict=True)
    return {name: np.frombuffer(value, dtype) for (name, dtype), value in columns}


def _column(array: NDArray[Any] | Postings, dtype: str) -> bytes:
    if not isinstance(array, Postings):
        return array.astype(dtype).tobytes()
    numbers = np.concatenate([[len(array.keys)], array.keys, array.indptr]).astype("<i8")
    return numbers.tobytes() + np.concatenate([array.rows, array.counts]).astype("<i4").tobytes()


def decode_block(number: int, document_id: str, row: Row, dimension: int) -> Block:
    """Decode the arrays of a document for a search. Raises `IndexCorrupt`.

    Checks shapes and ranges too, so that no search can fail in a forged file.
    """
    checksum, *columns = row
    if checksum != crc_of((document_id, *columns)):
        raise IndexCorrupt("the checksum of its arrays does not match")
    try:
        found: dict[str, Any] = arrays_of(row)
        count, attention = len(found["levels"]), found.pop("attention")
        indptr = found["indptr"].astype(np.int64)
        demand(is_indptr(indptr, count, len(attention)), "the row pointers of its edges")
        found["indptr"], found["weights"] = indptr, row_shares(attention, indptr)
        found["generated"] = found["generated"].astype(bool)
        found["vectors"] = found["vectors"].reshape(count, dimension)
        for name in ("words", "names"):
            found[name] = _postings(found[name])
        block = Block(number=number, **found)
        block.check(np.array([0, count]))
        demand(bool((np.diff(block.levels) >= 0).all()), "the order of its levels")
        demand(bool(np.isfinite(block.vectors).all()), "a vector that is not finite")
    except MALFORMED as error:
        raise IndexCorrupt(f"its arrays are malformed: {error}") from error
    return block


def _postings(data: NDArray[np.uint8]) -> Postings:
    numbers = data.view("<i8")
    k = int(numbers[0])
    demand(0 <= k <= len(numbers) - 2 * k - 2, "the length of its postings")
    entries = numbers[2 * k + 2 :].view("<i4")
    return Postings(numbers[1 : k + 1], numbers[k + 1 : 2 * k + 2], *entries.reshape(2, -1))


# Calls


def encode_call(owner: str | None, key: bytes, value: bytes) -> Row:
    """Encode a finished call as a row. Raises `InputError` if the owner is not Unicode text."""
    check_unicode(owner or "", f"document {owner!r}")
    checksum = digest_of((owner, key, value))
    return (owner_slot(owner), slot_of(key), owner, key, checksum, value)


def owner_slot(owner: str | None) -> int | None:
    """Return the hash to find the calls of a document by; None for calls of no document."""
    return None if owner is None else slot_of(owner)


# Header


def encode_header(header: Header) -> list[tuple[str, str]]:
    """Encode as (name, JSON) rows with a checksum. Raises `InputError` if the config is not JSON."""
    try:
        rows = [(name, json.dumps(value, sort_keys=True)) for name, value in asdict(header).items()]
    except (TypeError, ValueError) as error:
        raise InputError(f"the build config cannot be stored as JSON: {error}") from error
    return [*rows, (_CHECKSUM, header_checksum(rows))]


def decode_header(rows: Iterable[Row]) -> Header:
    """Decode the header of these rows; raises `IndexCorrupt`."""
    found: dict[str, Any] = dict(rows)
    checksum = found.pop(_CHECKSUM, None)
    if checksum != header_checksum(found.items()):
        raise IndexCorrupt("the checksum of its header does not match")
    try:
        return Header(**{name: json.loads(value) for name, value in found.items()})
    except MALFORMED as error:
        raise IndexCorrupt(f"its header is malformed: {error}") from error


_CHECKSUM = "checksum"


def header_checksum(rows: Iterable[tuple[Any, Any]]) -> str:
    """Hash (name, JSON) rows of any type with SHA-256, regardless of their order."""
    return hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()


# Rows in the tables

_SELECT_DOCUMENT = f"SELECT checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
_SELECT_HEAD = (
    f"SELECT head_checksum, checksum, {', '.join(HEAD_COLUMNS)} FROM documents WHERE number = ?"
)
_SELECT_NODES = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE document = ? ORDER BY position"
_ARRAYS = ", ".join(f"arrays.{name}" for name in ARRAY_COLUMNS)
# why LEFT JOIN: lost arrays of a document must not look like a deleted document
_SELECT_ARRAYS = (
    f"SELECT documents.id, {_ARRAYS} FROM documents "
    "LEFT JOIN arrays ON arrays.document = documents.number WHERE documents.number = ?"
)
SELECT_NODE_ROW = (  # by number of the document and position of the first node
    "SELECT documents.id, nodes.checksum, nodes.data FROM documents LEFT JOIN nodes "
    "ON nodes.document = documents.number AND nodes.position = ?2 WHERE documents.number = ?1"
)


def ascending(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of a table by number. Raises `IndexCorrupt` if its pages form a cycle."""
    last: Any = 0
    for row in rows:
        if not (isinstance(row[0], int) and row[0] > last):
            raise IndexCorrupt(
                "the file is damaged: the numbers of its documents are not in order; restore a copy of "
                "the file, or run `hwdag repair`"
            )
        last = row[0]
        yield row


def checksums_of(connection: sqlite3.Connection, first: int, last: int) -> tuple[list[int], bytes]:
    """Return the numbers of the documents in a range, and a SHA-256 of numbers and checksums."""
    query = "SELECT number, checksum FROM documents WHERE number BETWEEN ? AND ? ORDER BY number"
    rows = list(ascending(connection.execute(query, [first, last])))
    return [number for number, _ in rows], hashlib.sha256(repr(rows).encode()).digest()


def find(connection: sqlite3.Connection, document_id: str) -> int | None:
    """Return the number of a document; None if there is none. Raises `IndexCorrupt` for a damaged id."""
    slot = slot_of(document_id)
    rows = connection.execute("SELECT number, id FROM documents WHERE slot = ?", [slot])
    # why here: SQLite refuses strings that are not Unicode
    return next((number for number, found in rows if checked_id(slot, found) == document_id), None)


def checked_id(slot: object, document_id: object) -> str:
    """Return an id from the file. Raises `IndexCorrupt` if its slot does not belong to it."""
    if not isinstance(document_id, str) or slot_of(document_id) != slot:
        raise IndexCorrupt(
            f"the file is damaged: the id of document {document_id!r} does not match its slot; restore "
            "a copy of the file, or run `hwdag repair`"
        )
    return document_id


def check_slots(connection: sqlite3.Connection) -> None:
    """Raise `IndexCorrupt` unless every document is found by its slot."""
    query = "SELECT number, slot FROM documents"
    by_number = connection.execute(f"{query} NOT INDEXED")
    by_slot = connection.execute(f"{query} INDEXED BY documents_by_slot")
    if set(ascending(by_number)) != set(by_slot):
        raise IndexCorrupt(
            "the file is damaged: not every document is found by its id; restore a copy of the file, "
            "or run `hwdag repair`"
        )


def read_head(connection: sqlite3.Connection, number: int | None) -> Head | None:
    """Read the head of a document, without its text; None if there is none; raises `IndexCorrupt`."""
    row = connection.execute(_SELECT_HEAD, [number]).fetchone()
    if row is None:
        return None
    checksum, document, *head = row
    if checksum != crc_of((document, *head)):
        raise IndexCorrupt(
            f"document {row[-4]!r} is damaged: the checksum of its title, metadata and numbers does not "
            "match; restore a copy of the file, or run `hwdag repair`"
        )
    return Head(*head)


def find_document(connection: sqlite3.Connection, document_id: str) -> tuple[int, Row] | None:
    """Read the number of a document and its row of `DOCUMENT_COLUMNS`; None if there is none."""
    number = find(connection, document_id)
    row = connection.execute(_SELECT_DOCUMENT, [number]).fetchone()
    return None if number is None or row is None else (number, row[1:])


def read_rows(connection: sqlite3.Connection, number: int) -> tuple[DocumentRows, object] | None:
    """Read the rows of a document and its recorded checksum; None if there is none."""
    row = connection.execute(_SELECT_DOCUMENT, [number]).fetchone()
    if row is None:
        return None
    checksum, *document = row
    nodes = []
    for at, found in enumerate(connection.execute(_SELECT_NODES, [number])):
        nodes.append(found)
        if found[0] != at * NODES_PER_ROW:
            break  # the checksum will not match; the pages may form a cycle
    _, *arrays = read_arrays(connection, number) or ("",)
    return DocumentRows(tuple(document), nodes, tuple(arrays)), checksum


def read_arrays(connection: sqlite3.Connection, number: int) -> Row | None:
    """Read (id of the document, its arrays...); None if there is none."""
    row: Row | None = connection.execute(_SELECT_ARRAYS, [number]).fetchone()
    return row


def write_rows(connection: sqlite3.Connection, rows: DocumentRows, last_call: int) -> int:
    """Add a document; returns its number."""
    slot, count, identity, title, metadata, content, text = rows.document
    head = Head(slot, last_call, count, identity, title, metadata, content)
    checksum = rows.checksum
    number = insert_guarded(
        connection,
        "documents",
        ("checksum", "head_checksum", *HEAD_COLUMNS, "text"),
        [(checksum, crc_of((checksum, *head)), *head, text)],
    )
    nodes = [(number, *row) for row in rows.nodes]
    insert_guarded(connection, "nodes", ("document", *NODE_COLUMNS), nodes)
    insert_guarded(connection, "arrays", ("document", *ARRAY_COLUMNS), [(number, *rows.arrays)])
    return number
