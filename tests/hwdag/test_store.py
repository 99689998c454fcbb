"""Store: documents come back to the last bit, or an error names the fault of the file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from processes import started
from store_world import (
    HEADER,
    assert_same,
    assert_same_block,
    change_file,
    entry,
    load_all,
    put_keeping,
    sign,
)
from worlds import document_of, graphs, random_graph, random_vectors

from hwdag.corpus.block import Block
from hwdag.errors import (
    HWDAGError,
    IndexCorrupt,
    IndexFileError,
    IndexVersionError,
    InputError,
    NotAnIndex,
)
from hwdag.graph.dag import HWDAG
from hwdag.store import records, sqlite
from hwdag.store.schema import SCHEMA_VERSION
from hwdag.store.sqlite import Entry, Store, StoreView
from hwdag.store.verify import verify
from hwdag.text.draft import Draft
from hwdag.types import Document, Node, Span


@pytest.fixture
def path(tmp_path):
    return tmp_path / "an index?#%20.hwdag"


@pytest.fixture
def store(path):
    with Store.create(path, HEADER) as store:
        yield store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_what_is_put_comes_back_to_the_last_bit(store, graph, seed):
    vectors = random_vectors(np.random.default_rng(seed), len(graph))
    stored = Entry(document_of(graph), graph, vectors)
    store.put(*stored)
    assert_same(store.load("doc"), stored)


def test_any_text_survives(store):
    text = "NUL \0, CR\r\n, 𝔘𝔫𝔦, \ufeff, quote ' and \N{ZERO WIDTH JOINER}"
    metadata = {"page": 3, "tags": ["a", None, 1.5], "ü": {"nested": True}}
    document = Document("id '; DROP TABLE nodes; --", text, "Ti\0tle", metadata)
    chunk = Node("n\0", document.id, 1, text, "chunk", 9, (Span(0, len(text)),))
    stored = Entry(document, HWDAG.from_rows([chunk], []), np.ones((1, 8), np.float32))
    store.put(*stored)
    assert_same(store.load(document.id), stored)
    assert store.document(document.id) == document


def test_a_reopened_file_has_header_and_documents_in_order(store, path):
    worlds = [entry(name, seed) for seed, name in enumerate("cab")]
    for stored in worlds:
        store.put(*stored)
    store.close()
    with Store.open(path, readonly=True) as again:
        assert again.header == HEADER
        assert again.ids() == ["c", "a", "b"]
        for one, two in zip(load_all(again), worlds, strict=True):
            assert_same(one, two)
        for one, _, _ in worlds:
            assert again.content_hash_of(one.id) == Draft(one).content_hash
        assert list(path.parent.iterdir()) == [path]


def marked(name, seed):
    """Return a world with finished calls, and bytes that occur in nothing else: words, vectors, hashes."""
    rng = np.random.default_rng(seed)
    chunks = int(rng.choice([1, 5, 40]))
    graph = random_graph(rng, chunks=chunks, levels=int(rng.integers(1, 4)), document_id=name)
    text = " ".join(f"text{seed}x{i}." for i in range(rng.integers(1, 300)))
    plain = document_of(graph)
    document = replace(
        plain, text=text + plain.text, title=f"title{seed}.", metadata={"m": f"meta{seed}."}
    )
    words = [f"node{seed}x{i}." for i in range(len(graph))]
    nodes = [
        replace(node, text=word + node.text * int(rng.integers(1, 20)))
        for node, word in zip(graph.nodes, words, strict=True)
    ]
    entry = Entry(
        document, HWDAG(tuple(nodes), graph.edges, graph.raw), random_vectors(rng, len(graph))
    )
    calls = {rng.bytes(32): rng.bytes(int(rng.integers(20, 9000))) for _ in range(3)}
    texts = [*text.split(), document.title, f"meta{seed}.", *words, Draft(document).content_hash]
    arrays = [*entry.vectors, *([graph.raw.data] if len(graph.raw.data) > 1 else [])]
    marks = [t.encode() for t in texts] + [a.tobytes() for a in arrays] + [*calls]
    return entry, calls, marks + [part for v in calls.values() for part in (v[:20], v[-20:])]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happened_before_nothing_is_left_of_what_is_gone(store, path, seed):
    """SQLite leaves copies of rows in the gaps of shared pages; ours are not on such pages."""
    rng = random.Random(seed)
    living: dict[str, list[bytes]] = {}
    with Store.open(path) as other:
        for round_ in range(30):
            name = rng.choice([*living, f"new{round_}"])
            gone = living.pop(name, [])
            if gone and rng.random() < 0.5:
                assert store.delete(name)
            else:
                entry, calls, living[name] = marked(name, 1000 * seed + round_)
                store.calls(name).put_all(calls)
                put_keeping(store, entry, *calls)
            content = path.read_bytes()
            assert not [mark for mark in gone if mark in content]
            if rng.random() < 0.2:  # another connection has the old pages in its cache, and writes
                assert len(load_all(other)) == len(living)
                other.calls("unfinished").put_all({b"key": rng.randbytes(5000)})
        present = [mark in path.read_bytes() for marks in living.values() for mark in marks[:50]]
        assert np.mean(present) > 0.9  # not all: some go across the border of two pages


def test_the_content_hash_sees_all_but_the_id():
    document = Document("a", "text", "title", {"x": 1, "y": [1, 2]})
    same = [replace(document, id="b"), replace(document, metadata={"y": (1, 2), "x": 1})]
    other = [
        replace(document, text="titletext", title=""),
        replace(document, title="text", text="title"),
        replace(document, metadata={"x": 1}),
    ]
    assert {Draft(d).content_hash for d in same} == {Draft(document).content_hash}
    assert len({Draft(d).content_hash for d in [document, *other]}) == 4


def put_parts(store, **changes):
    store.put(**(entry()._asdict() | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": np.ones((1, 8), np.float32)}, r"\(1, 8\)"),
        ({"vectors": entry().vectors.astype(float)}, "float64"),
        ({"vectors": entry().vectors * np.float32("nan")}, "finite"),
        ({"document": Document("other", entry().document.text)}, "'other'"),
        ({"document": Document("doc", "short")}, "'doc'"),
        ({"document": Document("doc", "\ud800" * 999)}, "surrogate"),
        ({"document": replace(entry().document, metadata={"x": {1}})}, "metadata"),
        ({"document": replace(entry().document, metadata={"x": float("nan")})}, "metadata"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(store, changes, message):
    with pytest.raises(InputError, match=message):
        put_parts(store, **changes)
    assert load_all(store) == []


def test_a_broken_graph_is_refused_and_the_old_document_stays(store):
    before = entry()
    store.put(*before)
    broken = HWDAG(before.graph.nodes, before.graph.edges * 2, before.graph.raw)
    with pytest.raises(IndexCorrupt):
        put_parts(store, graph=broken)
    assert_same(store.load("doc"), before)


# Reads of a search


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graphs(max_chunks=80), st.integers(0, 2**32 - 1))
def test_blocks_and_nodes_are_those_of_the_document(store, graph, seed):
    vectors = random_vectors(np.random.default_rng(seed), len(graph))
    document = document_of(graph)
    document = replace(document, text=f"# A heading\n\n{document.text}")
    number = store.put(document, graph, vectors)
    (block,) = store.blocks([number])
    assert_same_block(block, Block.of(number, Draft(document), graph, vectors))
    addresses = [(number, i) for i in reversed(range(len(graph)))]
    assert store.nodes(addresses) == list(reversed(graph.nodes))


def test_what_is_gone_is_left_out(store):
    numbers = [store.put(*entry(name, seed)) for seed, name in enumerate("abc")]
    store.delete("b")
    blocks = list(store.blocks([numbers[2], 99, numbers[1], numbers[0], np.int64(numbers[2])]))
    assert [block.number for block in blocks] == [3, 1, 3]
    nodes = store.nodes([(2, 0), (np.int64(3), np.int64(1)), (1, 0), (99, 7)])
    assert nodes == [None, entry("c", 2).graph.nodes[1], entry("a").graph.nodes[0], None]
    assert store.nodes([]) == []
    assert store.metadata([1, 2]) == {1: entry("a").document.metadata}
    assert store.ids() == ["a", "c"]
    assert len(store) == 2


def test_one_document(store):
    one = entry("a")
    assert store.number_of("a") is store.content_hash_of("a") is None
    number = store.put(*one)
    assert store.number_of("a") == number
    assert store.content_hash_of("a") == Draft(one.document).content_hash
    assert store.document("a") == one.document
    assert store.versions(["b", "a"]) == {"a": (number, one.document)}
    assert store.content_hash_of("a") == Draft(one.document).content_hash
    assert store.content_hash_of("a") != Draft(replace(one.document, title="other")).content_hash
    assert not store.delete("\ud800")
    with pytest.raises(InputError, match="'x'"):
        store.document("x")


@pytest.mark.parametrize("read", [lambda view: dict(view.items()), dict])
def test_all_documents_are_read_while_somebody_deletes(store, read):
    """Before every look of the mapping into the store, in turn."""
    looks = 0
    for when in range(1, 10):
        for name in "abc":
            store.put(*entry(name))
        looks = 0

        def deleting(at: int = when) -> Store:
            nonlocal looks
            looks += 1
            if looks == at:
                store.delete("c")
            return store

        view = StoreView(deleting, Store.document)
        found = read(view)
        assert list(found)[:2] == ["a", "b"]
        assert found == {name: entry(name).document for name in found}
        store.delete("c")
        assert [document.id for document in view.values()] == ["a", "b"]
        assert "c" not in view
    assert looks > 3


def test_blocks_are_read_in_bounded_batches(store, monkeypatch):
    numbers = [store.put(*entry(str(i), i)) for i in range(5)]
    monkeypatch.setattr(sqlite, "BATCH_BYTES", 1)
    seen = []
    for block in store.blocks(numbers):
        seen.append(block.number)
        store.delete(str(block.number))  # the name of the document that would have come next
    assert seen == [1, 3, 5]


class World(RuleBasedStateMachine):
    """Documents that come and go; the content of the store is compared with the changes."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store.create(None, HEADER)
        self.expected: dict[str, tuple[int, Entry]] = {}  # in order of number
        self.last = 0

    @rule(name=st.sampled_from("abcdef"), seed=st.integers(0, 3))
    def put(self, name: str, seed: int) -> None:
        self.expected.pop(name, None)
        number = self.store.put(*entry(name, seed))
        assert number > self.last
        self.expected[name] = number, entry(name, seed)
        self.last = number

    @rule(name=st.sampled_from("abcdef"))
    def delete(self, name: str) -> None:
        assert self.store.delete(name) == (self.expected.pop(name, None) is not None)

    @invariant()
    def what_exists_is_what_was_put(self) -> None:
        assert self.store.ids() == list(self.expected)
        assert self.store.numbers() == [number for number, _ in self.expected.values()]
        assert len(self.store) == len(self.expected)
        for one, (_, two) in zip(load_all(self.store), self.expected.values(), strict=True):
            assert_same(one, two)

    def teardown(self) -> None:
        self.store.close()


TestWorld = pytest.mark.slow(World.TestCase)
TestWorld.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


def test_the_data_version_changes_with_writes_here_and_elsewhere(store, path):
    versions = [store.data_version(), store.data_version()]
    assert len(set(versions)) == 1
    store.put(*entry("a"))
    versions.append(store.data_version())
    with Store.open(path) as other:
        other.put(*entry("b"))
        versions.append(store.data_version())
        other.delete("missing")
        assert other.ids() == ["a", "b"]
    versions.append(store.data_version())
    assert len(set(versions[:4])) == 3
    store.delete("a")
    assert store.data_version() not in versions


def test_the_cost_of_a_change_does_not_grow_with_the_file(store, path):
    """No statement of a put or a delete reads a table from end to end."""
    statements: list[str] = []
    store.put(*entry())
    with store.database.reading() as connection:
        connection.set_trace_callback(statements.append)
    store.calls("doc").put_all({b"key": b"value"})
    put_keeping(store, entry(), b"key")
    store.delete("doc")
    plain = sqlite3.connect(path)
    plans = [
        step[3]
        for statement in statements
        if statement.startswith(("SELECT", "DELETE", "INSERT"))
        for step in plain.execute(f"EXPLAIN QUERY PLAN {statement}")
    ]
    plain.close()
    assert len(plans) > 10
    scans = [plan for plan in plans if plan.startswith("SCAN") and "sqlite_sequence" not in plan]
    assert set(scans) <= {"SCAN CONSTANT ROW"}


# Finished calls


def test_calls_come_back_and_belong_to_their_document(store):
    for owner in ("a", "b", None):
        calls = store.calls(owner)
        assert calls.get(b"key") is None
        calls.put_all({b"key": str(owner).encode(), b"\0": b""})
        calls.put_all({b"other": b"x" * 50_000})
        calls.put_all({})
    for owner in ("a", "b", None):
        calls = store.calls(owner)
        assert calls.get(b"key") == str(owner).encode()
        assert calls.get(b"\0") == b""
        assert calls.get(b"other") == b"x" * 50_000
    store.calls("a").put_all({b"key": b"new"})
    assert store.calls("a").get(b"key") == b"new"
    with pytest.raises(InputError, match="surrogate"):
        store.calls("\ud800").put_all({b"key": b"value"})


def test_a_put_keeps_the_calls_that_it_names(store):
    for owner in ("doc", "other", None):
        store.calls(owner).put_all({b"1": b"one", b"2": b"two", b"3": b"three"})

    def kept(owner: str | None) -> list[bytes]:
        return [key for key in (b"1", b"2", b"3") if store.calls(owner).get(key) is not None]

    put_keeping(store, entry(), b"2", b"3", b"never made")
    assert kept("doc") == [b"2", b"3"]
    put_keeping(store, entry(), b"3")
    assert kept("doc") == [b"3"]
    store.put(*entry())
    assert kept("doc") == []
    assert kept("other") == kept(None) == [b"1", b"2", b"3"]


def test_calls_of_a_version_that_is_not_wanted_any_more_are_dropped(store):
    calls = store.calls("doc")
    calls.put_all({b"1": b"one"})
    put_keeping(store, entry(), b"1")
    calls.put_all({b"2": b"two"})
    store.calls("other").put_all({b"2": b"two"})
    store.abandon("doc")
    store.abandon("other")
    assert (calls.get(b"1"), calls.get(b"2")) == (b"one", None)
    assert store.calls("other").get(b"2") == b"two"


@pytest.mark.parametrize("column", ["owner", "key", "value", "checksum"])
def test_a_damaged_call_is_like_a_missing_one(store, path, column):
    calls = store.calls("doc")
    calls.put_all({b"key": b"value"})
    change_file(path, f"UPDATE calls SET {column} = 'other'")
    assert calls.get(b"key") is None
    calls.put_all({b"key": b"value"})
    assert calls.get(b"key") == b"value"


# Files that are not what they should be


def test_create_refuses_what_is_there(store, path, tmp_path):
    store.put(*entry())
    with pytest.raises(InputError, match="exists"):
        Store.create(path, HEADER)
    with pytest.raises(InputError, match="exists"):
        Store.create(tmp_path, HEADER)
    with pytest.raises(InputError, match="nowhere"):
        Store.create(tmp_path / "nowhere" / "x.hwdag", HEADER)
    assert len(load_all(store)) == 1


def test_create_takes_an_empty_file_and_a_config_must_be_json(path):
    path.touch()
    with pytest.raises(InputError, match="config"):
        Store.create(path, replace(HEADER, config={"x": {1}}))
    with Store.create(path, HEADER) as store:
        assert store.header == HEADER


def test_files_that_are_no_index(path, tmp_path):
    with pytest.raises(IndexFileError):
        Store.open(path)
    with pytest.raises(NotAnIndex, match="folder"):
        Store.open(tmp_path)
    for content in (b"", b"%PDF-1.7 " * 500, b"SQLite format 3\0"):
        path.write_bytes(content)
        with pytest.raises(NotAnIndex):
            Store.open(path)
        assert path.read_bytes() == content
    path.unlink()
    change_file(path, "CREATE TABLE documents (id TEXT)")
    before = path.read_bytes()
    with pytest.raises(NotAnIndex):
        Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "way_out"),
    [(SCHEMA_VERSION + 1, "upgrade"), (SCHEMA_VERSION - 1, "build"), (0, "build")],
)
def test_another_format_is_refused_by_name(store, path, version, way_out):
    store.close()
    change_file(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    expected = rf"{version}\b.*{SCHEMA_VERSION}\b.*{way_out}"
    for readonly in (False, True):
        with pytest.raises(IndexVersionError, match=expected):
            Store.open(path, readonly=readonly)
    assert path.read_bytes() == before


def test_every_truncation_is_noticed(store, path):
    store.put(*entry())
    store.close()
    content = path.read_bytes()
    for size in range(0, len(content), 1024):
        path.write_bytes(content[:size])
        with pytest.raises(IndexFileError), Store.open(path) as truncated:
            load_all(truncated)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET text = 'X' || substr(text, 2)",
        "UPDATE arrays SET vectors = zeroblob(length(vectors))",
        "DELETE FROM arrays",
        "UPDATE nodes SET data = replace(data, ', 1, ', ', 2, ')",
        "DROP TABLE nodes",
        "DELETE FROM header",
    ],
)
def test_every_change_is_noticed(store, path, statement):
    store.put(*entry())
    store.close()
    change_file(path, statement)
    with pytest.raises(IndexCorrupt, match="damaged"), Store.open(path) as damaged:
        load_all(damaged)


def test_a_damaged_document_is_named_and_can_be_deleted(store, path):
    for name in "ab":
        store.put(*entry(name))
    change_file(path, "UPDATE documents SET text = 'x' WHERE id = 'b'")
    assert_same(store.load("a"), entry("a"))
    with pytest.raises(IndexCorrupt, match="'b'"):
        store.load("b")
    with pytest.raises(IndexCorrupt, match="'b'"):
        store.document("b")
    assert store.delete("b")
    assert store.ids() == ["a"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of an index with two documents."""
    path = tmp_path_factory.mktemp("sound") / "x.hwdag"
    with Store.create(path, HEADER) as store:
        for name in "ab":
            store.put(*entry(name))
    return path.read_bytes()


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100
)
@given(data=st.data())
def test_flipped_bits_give_the_truth_or_our_own_error(sound, path, data):
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(sound) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for leftover in path.parent.iterdir():
        leftover.unlink()
    path.write_bytes(damaged)
    try:
        with Store.open(path, readonly=True) as store:
            assert store.header == HEADER
            for name in store.ids():
                assert store.document(name) == entry(name).document
            for stored in load_all(store):
                assert_same(stored, entry(stored.document.id))
            numbers = store.numbers()
            addresses = [(b.number, i) for b in store.blocks(numbers) for i in range(len(b))]
            assert None not in store.nodes(addresses)
            assert store.metadata(numbers).keys() == set(numbers)
    except HWDAGError:
        pass


def beginning(column, number):
    return f"UPDATE arrays SET {column} = CAST({number} || substr({column}, 5) AS BLOB)"


def read_like_a_search(store):
    (block,) = store.blocks([1])
    store.nodes([(1, i) for i in range(len(block))])
    store.metadata([1])


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM arrays", "checksum"),
        ("UPDATE arrays SET vectors = substr(vectors, 5)", "arrays"),
        (beginning("levels", "x'00000000'"), "levels"),
        ("UPDATE arrays SET generated = x''", "nodes"),
        ("UPDATE arrays SET starts = ends, ends = starts", "slices"),
        (beginning("paragraphs", "x'ffffffff'"), "paragraphs"),
        ("UPDATE arrays SET lengths = replace(hex(lengths), '0', 'F')", "malformed"),
        ("UPDATE arrays SET attention = zeroblob(length(attention))", "attention"),
        ("UPDATE arrays SET indptr = zeroblob(length(indptr))", "edges"),
        ("UPDATE arrays SET children = zeroblob(length(children) - 4)", "edges"),
        (beginning("children", "x'ffffffff'"), "child"),
        (beginning("children", "x'ffffff7f'"), "exist"),
        (beginning("children", "x'05000000'"), "level"),
        ("UPDATE arrays SET words = x''", "arrays"),
        ("UPDATE arrays SET words = x'00000000000000ff'", "postings"),
        ("UPDATE arrays SET words = zeroblob(length(words))", "postings"),
        ("DELETE FROM nodes", "node"),
        ("UPDATE nodes SET data = '[]'", "node"),
        ("UPDATE nodes SET data = '7'", "nodes"),
        ("UPDATE documents SET metadata = 'x'", "metadata"),
    ],
)
def test_a_search_names_a_damaged_document_too(store, path, statement, reason):
    store.put(*entry())
    read_like_a_search(store)
    change_file(path, statement)
    with pytest.raises(IndexCorrupt, match=r"'doc'.*checksum"):
        read_like_a_search(store)
    sign(path)
    with pytest.raises(IndexCorrupt, match=f"'doc'.*{reason}"):
        read_like_a_search(store)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_arrays_are_refused_or_safe_to_search(data):
    row = list(UNIT.arrays[1:])
    for _ in range(data.draw(st.integers(1, 3))):
        column = data.draw(st.integers(0, len(row) - 1))
        if row[column]:
            content = bytearray(row[column])
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
            row[column] = bytes(content)[: data.draw(st.none() | st.integers(0, len(content)))]
    try:
        signed = (records.crc_of(("doc", *row)), *row)
        block = records.decode_block(1, "doc", signed, 8)
    except IndexCorrupt:
        return
    assert len(block.children) == block.indptr[-1] == len(block.weights)
    assert (block.levels[block.children] < np.repeat(block.levels, np.diff(block.indptr))).all()
    assert np.isfinite(block.weights).all()
    for postings in (block.words, block.names):
        assert len(postings.rows) == len(postings.counts) == postings.indptr[-1]
        assert set(postings.rows.tolist()) <= set(range(len(block)))


def changed(value):
    """Something else in the place of a value, of the same type or not."""
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    other = st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | text | st.binary()
    if not isinstance(value, str | bytes):
        return other
    new = text | st.integers(-3, 9).map(str) if isinstance(value, str) else st.binary(max_size=8)
    cut = st.tuples(st.integers(0, len(value)), st.integers(0, 16), new)
    return other | cut.map(lambda c: value[: c[0]] + c[2] + value[c[0] + c[1] :])


@st.composite
def changed_row(draw, row, most=1):
    values = list(row)
    for at in draw(st.lists(st.integers(0, len(row) - 1), max_size=most)):
        values[at] = draw(changed(values[at]))
    return tuple(values)


def consistent(row):
    """Return a document's row with the hashes that belong to it, if any."""
    _, count, identity, title, metadata, _, text = row
    try:
        hashed = records.hash_of(title, text, metadata)
        return (records.slot_of(identity), count, identity, title, metadata, hashed, text)
    except (TypeError, ValueError, AttributeError):
        return row


def encoded(one):
    return records.encode(Draft(one.document), one.graph, one.vectors, dimension=8)


UNIT = encoded(entry())


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    changed_row(UNIT.document),
    st.tuples(*map(changed_row, UNIT.nodes)),
    changed_row(UNIT.arrays, 2),
    st.tuples(*map(changed_row, records.encode_header(HEADER)[:-1])),
)
def test_rows_that_somebody_signed_are_refused_or_whole(document, nodes, arrays, header):
    unit = records.DocumentRows(consistent(document), nodes, arrays)
    with suppress(IndexCorrupt):
        stored = records.decode(unit, checksum=unit.checksum, dimension=8)
        again = encoded(stored)
        assert records.decode(again, checksum=again.checksum, dimension=8).graph.nodes
    with suppress(IndexCorrupt):
        records.decode_header([*header, ("checksum", records.header_checksum(header))])


def signed(path, statement):
    """Change a file and its checksums, as a forger would."""
    change_file(path, statement)
    sign(path)


def of_nodes(old, new):
    return f"UPDATE nodes SET data = replace(data, '{old}', '{new}')"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE documents SET metadata = '['", "malformed"),
        ("UPDATE documents SET metadata = '[]'", "JSON"),
        ("UPDATE documents SET title = x'00'", "column"),
        ("UPDATE documents SET node_count = 3", "nodes"),
        ("UPDATE documents SET text = 'short'", "source"),
        ("UPDATE arrays SET vectors = x'0000803f'", "malformed"),
        ("UPDATE arrays SET vectors = 7", "malformed"),
        ("UPDATE arrays SET indptr = zeroblob(length(indptr))", "edges"),
        ("UPDATE arrays SET children = zeroblob(length(children))", "HWDAG"),
        ("UPDATE arrays SET attention = zeroblob(length(attention))", r"\b0\.0"),
        ("UPDATE nodes SET position = 32", "nodes"),
        ("UPDATE nodes SET data = '[]'", "nodes"),
        ("UPDATE nodes SET data = '[1]'", "malformed"),
        (of_nodes(', 1, "chunk"', ', "high", "chunk"'), "numbers"),
        (of_nodes(', 1, "chunk"', ', 9999999999, "chunk"'), "malformed"),
        (of_nodes(', 1, "chunk"', ', 1, "stolen"'), "'stolen'"),
        (of_nodes('"chunk", "', '"chunk", "\\ud800'), "surrogate"),
        (of_nodes("[[0,", "[[-1,"), "span"),
        (of_nodes(", [[", ", [[[], ["), "malformed"),
        (of_nodes("]]", "], 7]"), "malformed"),
    ],
)
def test_a_forged_file_is_refused_too(store, path, statement, reason):
    store.put(*entry())
    store.close()
    signed(path, statement)
    with pytest.raises(IndexCorrupt, match=f"'doc'.*{reason}"), Store.open(path) as bad:
        load_all(bad)


@pytest.mark.parametrize(("change", "reason"), [(change_file, "checksum"), (signed, "slot")])
def test_a_wrong_slot_is_found_by_verify(store, path, change, reason):
    store.put(*entry())
    store.close()
    change(path, "UPDATE documents SET slot = slot + 1")
    with Store.open(path) as damaged, pytest.raises(IndexCorrupt, match="slot"):
        damaged.ids()
    assert any(reason in problem.what for problem in verify(path).problems)


# Threads, processes, interruptions


def test_writes_to_a_closed_or_readonly_store_name_its_state(store, path):
    with Store.open(path, readonly=True) as readonly:
        for write in (lambda: readonly.put(*entry()), lambda: readonly.delete("doc")):
            with pytest.raises(IndexFileError, match="readonly"):
                write()
    readonly.close()
    with pytest.raises(IndexFileError, match="closed"):
        load_all(readonly)


def test_an_interruption_keeps_the_finished_documents(path):
    def build() -> None:
        with Store.create(path, HEADER) as store:
            store.put(*entry("a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    with Store.open(path) as store:
        assert_same(store.load("a"), entry("a"))
        with pytest.raises(KeyboardInterrupt), store.database.writing() as connection:
            connection.execute("DELETE FROM documents")
            raise KeyboardInterrupt
        assert_same(store.load("a"), entry("a"))


def child(path, code):
    """Another process that has `path`, and all names of `store_world`."""
    return started(f"import sys\nfrom store_world import *\npath = Path(sys.argv[1])\n{code}", path)


@pytest.mark.slow
def test_a_journal_that_a_killed_writer_left_is_rolled_back(path):
    code = """
import os
store = Store.create(path, HEADER)
store.put(*entry("a"))
with store.database.writing() as connection:
    connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the commit
    connection.execute("DELETE FROM documents")
    connection.execute("CREATE TABLE big AS SELECT randomblob(1000000)")
    os._exit(0)
"""
    with child(path, code):
        pass
    assert path.with_name(path.name + "-journal").exists()
    with Store.open(path, readonly=True) as store:
        assert_same(store.load("a"), entry("a"))
        assert list(path.parent.iterdir()) == [path]
