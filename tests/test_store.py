"""Store: what is put comes back to the last bit, or an error says what is wrong with the file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import document_of, graphs, random_graph, random_vectors

from hwdag.embedding.base import Vectors
from hwdag.errors import (
    HWDAGError,
    IndexCorrupt,
    IndexFileError,
    IndexVersionError,
    InputError,
    NotAnIndex,
)
from hwdag.graph.dag import HWDAG
from hwdag.store.sqlite import Entry, Header, Store, content_hash
from hwdag.types import Document, Node, Span

HEADER = Header(
    reader="reader", embedder="embedder", dimension=8, config={"batch_size": 4, "heads": [[1, 2]]}
)


def world(document_id: str = "doc", seed: int = 0) -> Entry:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=5, levels=3, document_id=document_id)
    return Entry(document_of(graph), graph, random_vectors(rng, len(graph)))


def assert_same(one: Entry, two: Entry) -> None:
    assert one.document == two.document
    assert one.graph.nodes == two.graph.nodes
    for a, b in ((one.graph.edges, two.graph.edges), (one.graph.raw, two.graph.raw)):
        assert np.array_equal(a.indptr, b.indptr)
        assert np.array_equal(a.indices, b.indices)
        assert np.array_equal(a.data, b.data)
    assert one.vectors.dtype == two.vectors.dtype == np.float32
    assert np.array_equal(one.vectors, two.vectors)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "an index?#%20.hwdag"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.create(path, HEADER) as store:
        yield store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_what_is_put_comes_back_to_the_last_bit(store: Store, graph: HWDAG, seed: int) -> None:
    vectors = random_vectors(np.random.default_rng(seed), len(graph))
    stored = Entry(document_of(graph), graph, vectors)
    store.put(*stored)
    assert_same(store.load("doc"), stored)


def test_any_text_survives(store: Store) -> None:
    text = "NUL \0, CR\r\n, 𝔘𝔫𝔦, \ufeff, quote ' and \N{ZERO WIDTH JOINER}"
    metadata = {"page": 3, "tags": ["a", None, 1.5], "ü": {"nested": True}}
    document = Document("id '; DROP TABLE nodes; --", text, "Ti\0tle", metadata)
    chunk = Node("n\0", document.id, 1, text, "chunk", 9, (Span(0, len(text)),))
    stored = Entry(document, HWDAG.from_rows([chunk], []), np.ones((1, 8), np.float32))
    store.put(*stored)
    assert_same(store.load(document.id), stored)
    assert list(store.documents()) == [document]


def test_a_reopened_file_has_header_and_documents_in_order(store: Store, path: Path) -> None:
    worlds = [world(name, seed) for seed, name in enumerate("cab")]
    for stored in worlds:
        store.put(*stored)
    store.close()
    with Store.open(path, readonly=True) as again:
        assert again.header == HEADER
        assert [d.id for d in again.documents()] == ["c", "a", "b"]
        for one, two in zip(again.load_all(), worlds, strict=True):
            assert_same(one, two)
        assert again.content_hashes() == {w.document.id: content_hash(w.document) for w in worlds}
        again.verify()
    assert list(path.parent.iterdir()) == [path]


def test_putting_again_replaces_in_place(store: Store) -> None:
    for name in "abc":
        store.put(*world(name))
    changed = world("b", seed=9)
    store.put(*changed)
    assert list(store.content_hashes()) == ["a", "b", "c"]
    assert_same(store.load("b"), changed)
    store.verify()


def test_deleting_leaves_nothing_behind_in_the_file(store: Store, path: Path) -> None:
    store.put(*world("kept"))
    secret = "Xyzzy the unmentionable. " * 2000
    chunk = Node("n", "gone", 1, secret, "chunk", 9, (Span(0, len(secret)),))
    graph = HWDAG.from_rows([chunk], [])
    store.put(Document("gone", secret), graph, np.ones((1, 8), np.float32))
    assert b"unmentionable" in path.read_bytes()
    assert store.delete("gone")
    assert not store.delete("gone")
    assert b"unmentionable" not in path.read_bytes()
    assert [d.id for d in store.documents()] == ["kept"]
    store.verify()


def test_a_missing_document_is_named(store: Store) -> None:
    with pytest.raises(InputError, match=r"no document 'x' in .*documents\(\) lists them"):
        store.load("x")


def test_the_content_hash_sees_all_but_the_id() -> None:
    document = Document("a", "text", "title", {"x": 1, "y": [1, 2]})
    same = [
        replace(document, id="b"),
        replace(document, metadata={"y": (1, 2), "x": 1}),
    ]
    other = [
        replace(document, text="titletext", title=""),
        replace(document, title="text", text="title"),
        replace(document, metadata={"x": 1}),
    ]
    assert {content_hash(d) for d in same} == {content_hash(document)}
    assert len({content_hash(d) for d in [document, *other]}) == 4


def put_parts(store: Store, **changes: Any) -> None:
    store.put(**(world()._asdict() | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": np.ones((1, 8), np.float32)}, r"float32 of shape \(\d+, 8\); got .*\(1, 8\)"),
        ({"vectors": world().vectors.astype(float)}, "got float64"),
        ({"vectors": world().vectors * np.float32("nan")}, "not finite"),
        ({"document": Document("other", world().document.text)}, "belongs to 'doc', not to 'oth"),
        ({"document": Document("doc", "short")}, "source beyond the end of 'doc'"),
        ({"document": Document("doc", "\ud800" * 999)}, "surrogate pair at character 0"),
        ({"document": replace(world().document, metadata={"x": {1}})}, "metadata of .* 'doc'"),
        ({"document": replace(world().document, metadata={"x": float("nan")})}, "metadata"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    store: Store, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        put_parts(store, **changes)
    assert store.load_all() == []


def test_a_broken_graph_is_refused_and_the_old_document_stays(store: Store) -> None:
    before = world()
    store.put(*before)
    broken = HWDAG(before.graph.nodes, before.graph.edges * 2, before.graph.raw)
    with pytest.raises(IndexCorrupt, match="do not sum to 1"):
        put_parts(store, graph=broken)
    assert_same(store.load("doc"), before)


# Files that are not what they should be


def test_create_refuses_what_is_there(store: Store, path: Path, tmp_path: Path) -> None:
    store.put(*world())
    with pytest.raises(InputError, match="exists; open it, or name a file"):
        Store.create(path, HEADER)
    with pytest.raises(InputError, match="exists"):
        Store.create(tmp_path, HEADER)
    with pytest.raises(InputError, match=r"make .*nowhere first"):
        Store.create(tmp_path / "nowhere" / "x.hwdag", HEADER)
    assert len(store.load_all()) == 1


def test_create_takes_an_empty_file_and_a_config_must_be_json(path: Path) -> None:
    path.touch()
    with pytest.raises(InputError, match="build config cannot be stored"):
        Store.create(path, replace(HEADER, config={"x": {1}}))
    with Store.create(path, HEADER) as store:
        assert store.header == HEADER


def test_files_that_are_no_index(path: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match=r"there is no file .*build an index first"):
        Store.open(path)
    with pytest.raises(NotAnIndex, match="is a folder"):
        Store.open(tmp_path)
    for content in (b"", b"%PDF-1.7 " * 500, b"SQLite format 3\0"):
        path.write_bytes(content)
        with pytest.raises(NotAnIndex, match=r"index.*check the path"):
            Store.open(path)
        assert path.read_bytes() == content


def test_a_foreign_database_is_left_alone(path: Path) -> None:
    change_file(path, "CREATE TABLE documents (id TEXT)")
    before = path.read_bytes()
    with pytest.raises(NotAnIndex, match="of something else, not an hwdag index"):
        Store.open(path)
    assert path.read_bytes() == before


def change_file(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.mark.parametrize(
    ("version", "message"),
    [(3, "format version 3, this hwdag reads version 2; upgrade hwdag"), (1, "rebuild the index")],
)
def test_other_versions(store: Store, path: Path, version: int, message: str) -> None:
    store.close()
    change_file(path, f"PRAGMA user_version = {version}")
    with pytest.raises(IndexVersionError, match=message):
        Store.open(path)


def test_every_truncation_is_noticed(store: Store, path: Path) -> None:
    store.put(*world())
    store.close()
    content = path.read_bytes()
    for size in range(0, len(content), 1024):
        path.write_bytes(content[:size])
        with pytest.raises(IndexFileError), Store.open(path) as truncated:
            truncated.load_all()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET text = 'X' || substr(text, 2)",
        "UPDATE documents SET title = x'00'",
        "UPDATE documents SET metadata = '{}'",
        "UPDATE documents SET vectors = zeroblob(length(vectors))",
        "UPDATE documents SET attention = x'00'",
        "UPDATE documents SET node_count = 3",
        "UPDATE documents SET id = 'doc2', checksum = 'x'",
        "UPDATE nodes SET tokens = tokens + 1 WHERE position = 2",
        "UPDATE nodes SET text = 'other' WHERE position = 0",
        "UPDATE nodes SET sources = x'' WHERE position = 0",
        "DELETE FROM nodes WHERE position = 1",
        "DROP TABLE nodes",
        "DELETE FROM header",
        "UPDATE header SET value = '9' WHERE name = 'dimension'",
    ],
)
def test_every_change_is_noticed(store: Store, path: Path, statement: str) -> None:
    store.put(*world())
    store.close()
    change_file(path, statement)
    with pytest.raises(IndexCorrupt, match="damaged"), Store.open(path) as damaged:
        damaged.load_all()


def test_a_damaged_document_is_named_and_can_be_deleted(store: Store, path: Path) -> None:
    for name in "ab":
        store.put(*world(name))
    change_file(path, "UPDATE documents SET text = 'x' WHERE id = 'b'")
    assert_same(store.load("a"), world("a"))
    with pytest.raises(IndexCorrupt, match=r"document 'b' of .* is damaged: its checksum"):
        store.load("b")
    with pytest.raises(IndexCorrupt, match=r"document 'b' of .* is damaged: its content hash"):
        list(store.documents())
    with pytest.raises(IndexCorrupt, match="'b'"):
        store.verify()
    assert store.delete("b")
    store.verify()


def test_orphaned_nodes_are_found(store: Store, path: Path) -> None:
    store.put(*world())
    change_file(
        path, "DELETE FROM documents"
    )  # without the foreign keys that our store switches on
    with pytest.raises(IndexCorrupt, match="nodes of a missing document"):
        store.verify()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an index with two documents."""
    path = tmp_path_factory.mktemp("sound") / "x.hwdag"
    with Store.create(path, HEADER) as store:
        for name in "ab":
            store.put(*world(name))
    return path.read_bytes()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200
)
@given(data=st.data())
def test_flipped_bits_give_the_truth_or_our_own_error(
    sound: bytes, path: Path, data: st.DataObject
) -> None:
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(sound) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for leftover in path.parent.iterdir():
        leftover.unlink()
    path.write_bytes(damaged)
    try:
        with Store.open(path, readonly=True) as store:
            assert store.header == HEADER
            for document in store.documents():
                assert document == world(document.id).document
            for stored in store.load_all():
                assert_same(stored, world(stored.document.id))
    except HWDAGError:
        pass


def signed(path: Path, statement: str) -> None:
    """Change a file and its checksums, as a forger would."""
    from hwdag.store import records, sqlite

    change_file(path, statement)
    connection = sqlite3.connect(path)
    row = connection.execute(sqlite._SELECT_DOCUMENTS).fetchone()
    record, _ = sqlite._record(connection, row)
    texts = record.texts[1:4]
    is_text = all(isinstance(value, str) for value in texts)
    hashed = records._content_hash(*texts) if is_text else "?"
    record = record._replace(texts=(*record.texts[:4], hashed))
    with connection:
        connection.execute(
            "UPDATE documents SET content_hash = ?, checksum = ?", (hashed, record.checksum)
        )
    connection.close()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE documents SET metadata = '['", "malformed"),
        ("UPDATE documents SET title = x'00'", "text column holds something else"),
        ("UPDATE documents SET vectors = x'0000803f'", "malformed"),
        ("UPDATE documents SET indptr = zeroblob(length(indptr))", "numbers of nodes and edges"),
        ("UPDATE documents SET indices = zeroblob(length(indices))", "not a valid HWDAG"),
        ("UPDATE documents SET attention = zeroblob(length(attention))", "sums to 0.0"),
        ("UPDATE documents SET text = 'short'", "source beyond the end"),
        ("UPDATE nodes SET level = 'high' WHERE position = 0", "malformed"),
        ("UPDATE nodes SET level = 9999999999 WHERE position = 0", "malformed"),
        ("UPDATE nodes SET text = x'20' WHERE position = 0", "malformed|not a valid HWDAG"),
        ("UPDATE nodes SET origin = 'stolen' WHERE position = 0", "unknown origin 'stolen'"),
        ("UPDATE nodes SET sources = x'01' WHERE position = 0", "malformed"),
        ("UPDATE nodes SET sources = x'' WHERE position = 0", "malformed|lacks text, tokens or so"),
    ],
)
def test_a_forged_file_is_refused_too(
    store: Store, path: Path, statement: str, reason: str
) -> None:
    store.put(*world())
    store.close()
    signed(path, statement)
    with pytest.raises(IndexCorrupt, match=f"document 'doc' .*({reason})"), Store.open(path) as bad:
        bad.load_all()


# Threads, processes, interruptions


def test_a_closed_and_a_readonly_store_say_so(store: Store, path: Path) -> None:
    with Store.open(path, readonly=True) as readonly:
        for write in (lambda: readonly.put(*world()), lambda: readonly.delete("doc")):
            with pytest.raises(IndexFileError, match="readonly=True; open it without"):
                write()
    readonly.close()
    with pytest.raises(IndexFileError, match="is closed; open it again"):
        readonly.load_all()


def test_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> Vectors:
        stored = world(f"doc{number % 6}", number % 6)
        store.put(*stored)
        assert_same(store.load(stored.document.id), stored)
        return store.load_all()[0].vectors

    with ThreadPoolExecutor(6) as pool:
        assert len(list(pool.map(work, range(24)))) == 24
    assert len(store.load_all()) == 6
    store.verify()


def test_an_interruption_keeps_the_finished_documents(path: Path) -> None:
    def build() -> None:
        with Store.create(path, HEADER) as store:
            store.put(*world("a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    with Store.open(path) as store:
        assert_same(store.load("a"), world("a"))
        with pytest.raises(KeyboardInterrupt), store._database.writing() as connection:
            connection.execute("DELETE FROM documents")
            raise KeyboardInterrupt
        assert_same(store.load("a"), world("a"))


def child(path: Path, code: str) -> subprocess.Popen[str]:
    """Another process that has `path`, `world` and `Store`."""
    preamble = (
        "import sys; from pathlib import Path; from test_store import *; path = Path(sys.argv[1])\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", preamble + code, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_another_process_reads_while_this_one_writes(store: Store, path: Path) -> None:
    code = """
for _ in range(30):
    with Store.open(path, readonly=True) as store:
        print(len(store.load_all()), flush=True)
"""
    seen = []
    with child(path, code) as reader:
        assert reader.stdout is not None
        for number, line in enumerate(reader.stdout):  # the next reading runs while we write
            seen.append(int(line))
            store.put(*world(f"doc{number}", number))
    assert reader.returncode == 0
    assert len(seen) == 30
    assert seen == sorted(seen)
    assert len(store.load_all()) == 30


def test_a_killed_writer_costs_at_most_what_was_unfinished(path: Path) -> None:
    code = """
with Store.create(path, HEADER) as store:
    for number in range(10**9):
        store.put(*world(f"doc{number}", number))
        print(number, flush=True)
"""
    with child(path, code) as writer:
        assert writer.stdout is not None
        finished = [int(writer.stdout.readline()) for _ in range(7)]
        writer.kill()
    with Store.open(path, readonly=True) as store:
        found = store.load_all()
        store.verify()
    assert len(found) >= len(finished)
    for number, stored in enumerate(found):
        assert_same(stored, world(f"doc{number}", number))


def test_a_journal_that_a_killed_writer_left_is_rolled_back(path: Path) -> None:
    code = """
import os
store = Store.create(path, HEADER)
store.put(*world("a"))
with store._database.writing() as connection:
    connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the commit
    connection.execute("DELETE FROM documents")
    connection.execute("CREATE TABLE big AS SELECT randomblob(1000000)")
    os._exit(0)
"""
    with child(path, code):
        pass
    assert path.with_name(path.name + "-journal").exists()
    with Store.open(path, readonly=True) as store:
        assert_same(store.load("a"), world("a"))
        store.verify()
    assert list(path.parent.iterdir()) == [path]
