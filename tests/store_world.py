"""Small index files that tests of the store share, and their contents."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from worlds import document_of, random_graph, random_vectors, under_headings

from hwdag.corpus.block import Block, Postings
from hwdag.graph.dag import HWDAG
from hwdag.store import records
from hwdag.store.records import ARRAY_COLUMNS, NODE_COLUMNS
from hwdag.store.sqlite import Entry, Header, Store
from hwdag.text.draft import Draft
from hwdag.text.headings import Outline
from hwdag.types import Document, Node, Span

HEADER = Header(
    reader="reader",
    embedder="embedder",
    dimension=8,
    config={"method": "evidence", "edge_heads": [[1, 2]], "leaves": "chunks"},
)


MEMORY = Path("/dev/shm")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Yield a folder in memory, if there is one: a disk takes its time for every `fsync`."""
    is_there = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=MEMORY if is_there else None) as made:
        yield Path(made)


def entry(document_id: str = "doc", seed: int = 0, chunks: int = 5) -> Entry:
    """Return a document of three levels; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=chunks, levels=3, document_id=document_id)
    document = replace(document_of(graph), title="Größe 灯塔", metadata={"n": seed, "größe": [1.5]})
    graph = under_headings(graph, Outline(document.text, document.title))
    return Entry(document, graph, random_vectors(rng, len(graph)))


def secret(document_id: str, sentence: str) -> Entry:
    """Return a document of one node that says a sentence many times."""
    text = sentence * 300
    node = Node(f"{document_id}#1", document_id, 1, text, "chunk", 9, (Span(0, len(text)),))
    return Entry(Document(document_id, text), HWDAG.from_rows([node], []), np.ones((1, 8), "f4"))


def fill(path: Path, *entries: Entry, header: Header = HEADER, calls: int = 2) -> None:
    """Return a new file with these documents, and as many cached calls of each."""
    with Store.create(path, header) as store:
        for one in entries:
            store.put(*one)
            store.calls(one.document.id).put_all(
                {bytes([i]) * 32: f"call {i} of {one.document.id}".encode() for i in range(calls)}
            )


def put_keeping(store: Store, one: Entry, *keys: bytes) -> None:
    """Put a document whose next version may need these calls."""
    calls = store.calls(one.document.id)
    calls.kept.update(keys)
    store.put(*one, calls=calls)


def change_file(path: Path, statement: str, *values: object) -> None:
    """Change a file without the store."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def sign(path: Path) -> None:
    """Make all checksums fit the documents, as a forger would."""
    connection = sqlite3.connect(path)
    names = dict(connection.execute("SELECT number, id FROM documents"))
    for table, columns in (("nodes", NODE_COLUMNS), ("arrays", ARRAY_COLUMNS)):
        signed = [name for name in columns if name != "checksum"]
        query = f"SELECT rowid, document, {', '.join(signed)} FROM {table}"
        for row, document, *values in connection.execute(query).fetchall():
            update = f"UPDATE {table} SET checksum = ? WHERE rowid = ?"
            connection.execute(update, (records.crc_of((names[document], *values)), row))
    for number in names:
        _sign_document(connection, number)
    connection.commit()
    connection.close()


def _sign_document(connection: sqlite3.Connection, number: int) -> None:
    found = records.read_rows(connection, number)
    assert found is not None
    slot, count, identity, title, metadata, _, text = found[0].document
    are_texts = all(isinstance(value, str) for value in (title, text, metadata))
    hashed = records.hash_of(title, text, metadata) if are_texts else "?"
    row = (slot, count, identity, title, metadata, hashed, text)
    checksum = found[0]._replace(document=row).checksum
    update = "UPDATE documents SET content_hash = ?, checksum = ? WHERE number = ?"
    connection.execute(update, (hashed, checksum, number))
    query = f"SELECT checksum, {', '.join(records.HEAD_COLUMNS)} FROM documents WHERE number = ?"
    head = connection.execute(query, [number]).fetchone()
    update = "UPDATE documents SET head_checksum = ? WHERE number = ?"
    connection.execute(update, (records.crc_of(head), number))


def load_all(store: Store) -> list[Entry]:
    """Return all documents with their graphs, in order."""
    return [store.load(name) for name in store.ids()]


def assert_same(one: Entry, two: Entry) -> None:
    """Check equality to the last bit."""
    assert one.document == two.document
    assert one.graph.nodes == two.graph.nodes
    for a, b in ((one.graph.edges, two.graph.edges), (one.graph.raw, two.graph.raw)):
        assert np.array_equal(a.indptr, b.indptr)
        assert np.array_equal(a.indices, b.indices)
        assert a.data.tobytes() == b.data.tobytes()
    assert one.vectors.dtype == two.vectors.dtype == np.float32
    assert one.vectors.tobytes() == two.vectors.tobytes()


def assert_same_entries(
    found: Mapping[str, Entry], expected: Mapping[str, Entry], *, atol: float = 0.0
) -> None:
    """Check the same documents in the same order, with the same graphs and vectors up to `atol`."""
    assert list(found) == list(expected)
    for name, one in found.items():
        two = expected[name]
        if atol == 0:
            assert_same(one, two)
            continue
        assert (one.document, one.graph.nodes) == (two.document, two.graph.nodes)
        for a, b in ((one.graph.edges, two.graph.edges), (one.graph.raw, two.graph.raw)):
            assert np.array_equal(a.indptr, b.indptr)
            assert np.array_equal(a.indices, b.indices)
            np.testing.assert_allclose(a.data, b.data, atol=atol)
        np.testing.assert_allclose(one.vectors, two.vectors, atol=atol)


def assert_holds(store: Store, *entries: Entry) -> None:
    """Check that these documents are there, in this order, with the blocks that a search reads."""
    assert store.ids() == [one.document.id for one in entries]
    for found, expected in zip(load_all(store), entries, strict=True):
        assert_same(found, expected)
    numbers = store.numbers()
    assert list(store.metadata(numbers)) == numbers
    for block, expected in zip(store.blocks(numbers), entries, strict=True):
        assert_same_block(block, block_of(block.number, expected))


def block_of(number: int, one: Entry) -> Block:
    """Return the parts of an entry that a search reads."""
    return Block.of(number, Draft(one.document), one.graph, one.vectors)


def assert_same_block(one: Block, two: Block) -> None:
    """Check all arrays; weights are summed in another order, the rest is equal to the last bit."""
    for name in (field.name for field in fields(Block)):
        a, b = getattr(one, name), getattr(two, name)
        if isinstance(a, Postings):
            assert all(np.array_equal(getattr(a, n), getattr(b, n)) for n in Postings.__slots__)
        elif name == "weights":
            np.testing.assert_allclose(a, b, rtol=1e-15, atol=0)
        else:
            assert np.array_equal(a, b), name
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), name


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Yield a disk that is full at that size of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
