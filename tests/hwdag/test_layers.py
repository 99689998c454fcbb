"""Corpus layers: what holds of them after any change, what a change costs, and who sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_world import change_file
from worlds import random_text

from hwdag import Answer, BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.building.condensing import Tools
from hwdag.building.insertion import Insertion
from hwdag.building.layers import repair_layers
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.block import Block
from hwdag.graph.group import CorpusGroup, GroupFacts
from hwdag.lm.scripted import ScriptedLM
from hwdag.search.live import LiveCorpus, Scope
from hwdag.store.exchange import export_index
from hwdag.store.groups import Changed, Standing
from hwdag.store.integrity import compact, repair, verify
from hwdag.store.sqlite import Header, Store
from hwdag.text.prompts import Prompts
from hwdag.trace.progress import Silent
from hwdag.types import Node, Span

QUESTION = "Where is the silver dragon?"
WALK = SearchConfig(token_budget=400, progress="budget")
EVERYTHING = SearchConfig(token_budget=3800, progress="budget")
PICKED: dict[str, Any] = {"chunk_tokens": 30, "window_tokens": 400, "corpus_layers": True}
WRITTEN: dict[str, Any] = PICKED | {"points": "generated", "window_tokens": 600}
BOTH = pytest.mark.parametrize("options", [PICKED, WRITTEN], ids=["picked", "written"])


def documents(
    count: int, *, seed: int = 0, prefix: str = "doc", sentences: int = 8, **metadata: object
) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [
        Document(
            f"{prefix}{i}",
            " ".join(random_text(rng, 8) for _ in range(sentences)),
            metadata={"year": 2000 + i, **metadata},
        )
        for i in range(count)
    ]


def index_of(given: Sequence[Document], options: dict[str, Any], **more: Any) -> HWDAGIndex:
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder()} | more
    return HWDAGIndex.from_documents(given, config=BuildConfig(**options), **models)


def opened(path: Path) -> HWDAGIndex:
    return HWDAGIndex.load(path, reader=ScriptedLM(), embedder=HashingEmbedder())


class World:
    """Everything that an index holds, by number."""

    def __init__(self, index: HWDAGIndex) -> None:
        self.store: Store = index._store
        self.numbers = self.store.changes(0).added
        self.units: dict[int, Standing] = {n: self.store.standing(n) for n in self.numbers}
        self.blocks: dict[int, Block] = dict(
            zip(self.numbers, self.store.blocks(self.numbers), strict=True)
        )
        self.window = index._tools().plan.content_tokens

    @property
    def groups(self) -> list[int]:
        return [n for n in self.numbers if self.units[n].facts is not None]

    def nodes(self, number: int) -> list[Node]:
        found = self.store.nodes([(number, i) for i in range(len(self.blocks[number]))])
        return [node for node in found if node is not None]

    def beneath(self, number: int) -> list[str]:
        """Ids of the documents under a group, or of the document itself."""
        unit = self.units[number]
        if unit.facts is None:
            return [unit.name]
        return [name for member in unit.members for name in self.beneath(member)]

    def size(self, number: int) -> int:
        """Tokens of the top-level nodes as lines of a window."""
        _, nodes = self.store.top_nodes(number)
        return sum(ScriptedLM().count_tokens([f"* {node.text}\n" for node in nodes]))

    def check(self, key: str | None = None) -> None:
        """Everything that must hold of layers, whatever happened before."""
        parents: dict[int, int] = {}
        for number in self.groups:
            for member in self.units[number].members:
                assert parents.setdefault(member, number) == number
            self._check_group(number)
        ids = [node.id for number in self.numbers for node in self.nodes(number)]
        assert len(ids) == len(set(ids))
        self._check_tops([n for n in self.numbers if n not in parents], key)

    def _check_tops(self, tops: Sequence[int], key: str | None) -> None:
        """One for each tenant, but for what is too large for company."""
        assert tops == self.store.orphans()
        joinable = [n for n in tops if 2 * self.size(n) <= self.window]
        tenants = [self._tenant(n, key) for n in joinable]
        assert len(tenants) == len(set(tenants))
        assert sorted(name for n in tops for name in self.beneath(n)) == sorted(self.store.ids())

    def _tenant(self, number: int, key: str | None) -> object:
        unit = self.units[number]
        if unit.facts is not None:
            return unit.facts.tenant
        return None if key is None else unit.metadata[key]

    def _check_group(self, number: int) -> None:
        unit, block = self.units[number], self.blocks[number]
        assert unit.facts is not None
        members = [self.units[member] for member in unit.members]
        assert len(members) >= 2
        assert max(unit.members) < number
        assert unit.layer == 1 + max(member.layer for member in members)
        assert unit.facts.tokens == sum(map(self.size, unit.members)) <= self.window
        window = []
        for member in unit.members:
            first, nodes = self.store.top_nodes(member)
            window += [(member, first + i) for i in range(len(nodes))]
        edges = np.stack([block.owners, block.children], axis=1).reshape(len(block), -1, 2)
        assert all(np.array_equal(row, window) for row in edges)
        np.testing.assert_allclose(block.weights.reshape(len(block), -1).sum(axis=1), 1)
        levels = {int(self.blocks[n].levels[i]) for n, i in window}
        assert set(block.levels.tolist()) == {1 + max(levels)}
        for i, node in enumerate(self.nodes(number)):
            self._check_node(number, i, node)

    def _check_node(self, number: int, position: int, node: Node) -> None:
        block = self.blocks[number]
        assert node.id == f"{self.units[number].name}.{position}"
        assert (node.document_id, node.level) == ("", block.levels[position])
        assert {name for name, _ in node.places} <= set(self.beneath(number))
        texts = [self.store.slice(name, span) for name, span in node.places]
        assert all(texts)
        if node.origin == "extractive":
            assert texts == [node.text]
            [(name, span)] = node.places
            where = block.starts[position], block.ends[position], block.homes[position]
            assert where == (span.start, span.end, self.store.number_of(name))
        else:
            assert block.generated[position]
            assert (block.starts[position], block.homes[position]) == (-1, 0)


def steps(index: HWDAGIndex, config: SearchConfig = WALK, **scope: Any) -> list[Any]:
    found = index.search(QUESTION, config=config, **scope).steps
    return [(s.node, s.attention, s.similarity, s.reference, s.relevance) for s in found]


def close_to(one: list[Any], other: list[Any]) -> None:
    assert [step[0] for step in one] == [step[0] for step in other]
    np.testing.assert_allclose([s[1:] for s in one], [s[1:] for s in other], atol=1e-9)


# Whatever changes


@BOTH
@pytest.mark.parametrize("seed", range(2))
def test_layers_hold_after_any_change(options: dict[str, Any], seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    index = index_of(documents(int(rng.integers(1, 20)), seed=seed), options, path=tmp_path / "a")
    World(index).check()
    other = opened(tmp_path / "a")
    for turn in range(6):
        ids = list(index.documents)
        new = documents(int(rng.integers(1, 4)), seed=100 * seed + turn, prefix=f"new{turn}-")
        some = [str(name) for name in rng.permutation(ids)[:2]]
        match rng.integers(4):
            case 0:
                index.insert(new)
            case 1:
                index.upsert([Document(name, new[0].text) for name in some])
            case 2 if len(ids) > 1:
                index.delete(some[0])
            case _:
                index.refresh([*list(index.documents.values())[::2], *new], prune=True)
        World(index).check()
        close_to(steps(other), steps(index))
    assert index.verify().sound
    close_to(steps(opened(tmp_path / "a")), steps(index))


@BOTH
def test_saved_compacted_and_loaded_layers_are_the_same(
    options: dict[str, Any], tmp_path: Path
) -> None:
    index = index_of(documents(12), options, path=tmp_path / "a")
    index.delete("doc3")
    expected = steps(index)
    index.save(tmp_path / "b")
    compact(tmp_path / "b")
    assert verify(tmp_path / "b").sound
    copy = opened(tmp_path / "b")
    World(copy).check()
    close_to(steps(copy), expected)
    exported = export_index(tmp_path / "a", tmp_path / "folder")
    assert exported.nodes == sum(len(graph) for graph in index.graphs.values())
    again = HWDAGIndex.from_export(
        tmp_path / "folder", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    assert not World(again).groups
    again.refresh([])
    World(again).check()
    assert set(again.documents) == set(index.documents)


def test_a_damaged_file_keeps_the_layers_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    index = index_of(documents(40), PICKED, path=path)
    before = World(index)
    lost = {n for n in before.groups if "doc5" in before.beneath(n)}
    assert 0 < len(lost) < len(before.groups)
    index.close()
    change_file(path, "UPDATE documents SET text = 'other' WHERE id = 'doc5'")
    assert verify(path).damaged == ("doc5",)
    assert repair(path).lost == ("doc5",)
    mended = opened(path)
    assert set(World(mended).groups) == set(before.groups) - lost
    mended.refresh([])
    World(mended).check()
    assert mended.verify().sound


def test_a_damaged_group_is_told_and_made_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    index = index_of(documents(9), PICKED, path=path)
    [group] = World(index).groups
    index.close()
    change_file(
        path, "UPDATE nodes SET data = replace(data, '\"d', '\"x') WHERE document = ?", group
    )
    change_file(path, "UPDATE arrays SET homes = NULL WHERE document = ?", group)
    assert not verify(path).sound
    with pytest.raises(IndexCorrupt, match=r"a corpus layer of .* is damaged"):
        steps(opened(path))
    assert repair(path).lost == ()
    mended = opened(path)
    mended.refresh([])
    World(mended).check()
    assert len(mended.documents) == 9


def test_tenants_are_kept_apart() -> None:
    options = PICKED | {"tenant_key": "customer"}
    both = [
        document
        for name in ("a", "b", "c")
        for document in documents(9, seed=ord(name), prefix=name, customer=name)
    ]
    index = index_of(both, options)
    for change in ("none", "insert", "delete"):
        if change == "insert":
            index.insert(documents(5, seed=5, prefix="more", customer="b"))
        elif change == "delete":
            index.delete("a3")
        world = World(index)
        world.check("customer")
        for number in world.groups:
            facts = world.units[number].facts
            owners = {index.documents[n].metadata["customer"] for n in world.beneath(number)}
            assert facts is not None
            assert owners == {facts.tenant}
    stray = index.entries["b1"]
    nodes = tuple(replace(node, document_id="stray") for node in stray.graph.nodes)
    for metadata in ({}, {"customer": 1}):  # as an import may bring them
        document = Document("stray", stray.document.text, metadata=metadata)
        index._store.put(document, replace(stray.graph, nodes=nodes), stray.vectors)
        assert not index.insert([]).groups
    alone = index_of([d for d in both if d.metadata["customer"] == "c"], options)
    close_to(steps(index, tenant="c"), steps(alone, tenant="c"))


def test_without_the_option_there_are_no_layers() -> None:
    index = index_of(documents(9), PICKED | {"corpus_layers": False})
    assert not World(index).groups
    assert index.report is not None
    assert index.report.groups == 0


def test_what_is_too_large_for_company_stands_beside_the_layers() -> None:
    class Verbose(ScriptedLM):
        """Repeats everything, so that points are as long as there is room."""

        def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
            replies = super().write(prompts, max_new_tokens=max_new_tokens)
            return [reply if "silver" in reply else reply.split("\n")[0] for reply in replies]

    options = WRITTEN | {"window_tokens": 400, "summary_tokens": 0.5}
    large = Document("large", " ".join(f"The silver dragon number {i} sleeps." for i in range(20)))
    small = [Document(f"small{i}", f"The old bridge number {i} is closed.") for i in range(9)]
    index = index_of([*small[:5], large, *small[5:]], options, reader=Verbose())
    world = World(index)
    world.check()
    [beside] = [n for n in world.store.orphans() if not world.units[n].members]
    assert world.units[beside].name == "large"


def test_a_group_that_is_none_is_refused() -> None:
    node = Node("g.0", "", 2, "text", "generated", 1, (Span(0, 1),), ("a",))
    good: dict[str, Any] = {
        "name": "g",
        "facts": GroupFacts(1, 9),
        "members": (1, 2),
        "nodes": (node,),
        "owners": np.array([1, 2]),
        "children": np.array([0, 0], np.int32),
        "attention": np.ones((1, 2)),
        "vectors": np.ones((1, 8), np.float32),
    }
    CorpusGroup(**good).check_integrity()
    for bad in (
        {"nodes": ()},
        {"members": (1,)},
        {"owners": np.array([1, 3])},
        {"attention": np.zeros((1, 2))},
        {"attention": np.array([[1, np.nan]])},
        {"attention": np.ones((2, 2))},
        {"nodes": (Node("g.0", "", 2, " ", "generated", 1, (Span(0, 1),), ("a",)),)},
    ):
        with pytest.raises(IndexCorrupt):
            CorpusGroup(**good | bad).check_integrity()
    for values in ({}, {"layer": 0, "tokens": 1}, {"layer": 1, "tokens": 1, "tenant": 2}):
        with pytest.raises(InputError):
            GroupFacts.from_json(values)


# What a change costs


@BOTH
def test_a_change_costs_a_window_or_two_per_layer(options: dict[str, Any]) -> None:
    most = {}
    for count in (20, 80):
        reader = ScriptedLM()
        index = index_of(documents(count, sentences=4), options, reader=reader)
        before = World(index)
        height = max(unit.layer for unit in before.units.values())
        index.insert(documents(1, seed=9, prefix="new", sentences=4))
        index.delete("doc7")
        index.upsert([Document("doc11", documents(1, seed=8, sentences=4)[0].text)])
        after = World(index)
        new = [n for n in after.groups if n not in before.groups]
        most[count] = reader.replays
        assert len(new) <= 3 * 2 * height
        for number in set(before.groups) & set(after.groups):
            assert before.units[number] == after.units[number]
    assert most[20] < most[80]


def test_many_single_inserts_make_a_shallow_tree() -> None:
    """One by one as all at once: as many layers, or one more, and not many more groups."""
    given = documents(40, sentences=4)
    index = index_of(given[:1], PICKED)
    for document in given[1:]:
        index.insert([document])
    world, fresh = World(index), World(index_of(given, PICKED))
    world.check()
    layers = [max(unit.layer for unit in each.units.values()) for each in (world, fresh)]
    assert layers[0] <= layers[1] + 1
    assert len(world.groups) <= 2 * len(fresh.groups)


def test_nothing_to_do_is_nothing_done(tmp_path: Path) -> None:
    reader = ScriptedLM()
    index = index_of(documents(9), PICKED, reader=reader, path=tmp_path / "a")
    version, replays = index._store.data_version(), reader.replays
    report = index.refresh(documents(9))
    assert (index._store.data_version(), reader.replays) == (version, replays)
    assert (report.groups, report.nodes) == (0, 0)


# Interrupted


class Killed(BaseException):
    """Stands in for the end of the process: nothing may catch it."""


class Tape:
    """Every call that was finished; a call after the last that may be made ends the build."""

    def __init__(self, at: int | None = None) -> None:
        self.made: list[object] = []
        self.at = at

    def note(self, *call: object) -> None:
        if len(self.made) == self.at:
            raise Killed
        self.made.append(call)


class Taped(ScriptedLM):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def replay(self, requests: Any, *, heads: Any) -> Any:
        self.tape.note("replay", *(request.segments for request in requests))
        return super().replay(requests, heads=heads)

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        self.tape.note("write", *prompts)
        return super().write(prompts, max_new_tokens=max_new_tokens)


class TapedEmbedder(HashingEmbedder):
    def __init__(self, tape: Tape) -> None:
        super().__init__(64)
        self.tape = tape

    def embed(self, texts: Sequence[str]) -> Any:
        self.tape.note("embed", *texts)
        return super().embed(texts)


def tools_with(tape: Tape, options: dict[str, Any]) -> Tools:
    reader, config = Taped(tape), BuildConfig(batch_size=1, **options)
    writer = reader if config.points == "generated" else None
    return Tools(reader, writer, TapedEmbedder(tape), config, Prompts())


def content(store: Store) -> list[Any]:
    """Nodes and edges of all groups."""
    numbers = store.changes(0).added
    return [
        (unit, store.nodes([(n, i) for i in range(len(block))]), block.weights.tolist())
        for n, block in zip(numbers, store.blocks(numbers), strict=True)
        if (unit := store.standing(n)).facts is not None
    ]


def stored() -> Store:
    return Store.create(None, Header("scripted", "hashing", 64, {}))


@BOTH
def test_a_killed_repair_goes_on_where_it_was(options: dict[str, Any]) -> None:
    given = documents(30 if options is PICKED else 12, sentences=5)
    more = documents(2, seed=3, prefix="new", sentences=5)

    def prepared() -> Store:
        """Layers over some documents, and then others without."""
        store, plain = stored(), options | {"corpus_layers": False}
        Insertion(tools_with(Tape(), options), store, replace=True).run(given, Silent())
        Insertion(tools_with(Tape(), plain), store, replace=True).run(more, Silent())
        assert store.delete("doc4")
        return store

    whole, store = Tape(), prepared()
    repair_layers(store, tools_with(whole, options), Silent())
    expected = content(store)
    assert len(expected) > 2
    for at in range(len(whole.made)):
        store, first = prepared(), Tape(at)
        with pytest.raises(Killed):
            repair_layers(store, tools_with(first, options), Silent())
        second = Tape()
        repair_layers(store, tools_with(second, options), Silent())
        assert content(store) == expected
        assert first.made + second.made == whole.made


def test_a_limit_stops_the_layers_and_the_same_command_goes_on() -> None:
    given = documents(14)
    expected = World(index_of(given, PICKED))
    index = index_of(given, PICKED, max_tokens=1)
    stopped = []
    while (report := index.refresh(given, max_tokens=1)).stopped is not None:
        stopped.append(report.pending)
        assert len(stopped) < 500
    assert 0 in stopped  # all documents were there, and the layers were not
    assert content(index._store) == content(expected.store)


def test_a_repair_begins_anew_when_a_document_is_deleted_under_it(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "a", Header("scripted", "hashing", 64, {}))
    options = WRITTEN | {"batch_size": 1}
    plain = options | {"corpus_layers": False}
    given = [*documents(6), secret()]

    class Meddling(ScriptedLM):
        """Another process deletes a document while its text is in the model."""

        def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
            if any(WORD in prompt for prompt in prompts):
                store.delete("secret")
            return super().write(prompts, max_new_tokens=max_new_tokens)

    for config, reader in ((plain, ScriptedLM()), (options, Meddling())):
        tools = Tools(reader, reader, HashingEmbedder(64), BuildConfig(**config), Prompts())
        Insertion(tools, store, replace=True).run(given if config is plain else [], Silent())
    assert "secret" not in store.ids()
    assert len(store.orphans()) == 1
    assert WORD.encode() not in (tmp_path / "a").read_bytes()
    store.close()


def test_calls_of_layers_are_not_kept_once_a_document_is_gone() -> None:
    index = index_of(documents(4), PICKED)
    store = index._store
    calls = store.group_calls(store.sequence())
    calls.put_all({b"1": b"one"})
    assert calls.get(b"1") == b"one"
    store.delete("doc1")
    assert calls.get(b"1") is None
    with pytest.raises(Changed):
        calls.put_all({b"2": b"two"})
    with pytest.raises(Changed):
        store.exchange_groups([], [], since=0)
    assert calls.get(b"2") is None


# Deleted


WORD = "Xylophagous"


def secret() -> Document:
    return Document("secret", " ".join(f"{WORD} beetles ate beam {i}." for i in range(6)))


@BOTH
def test_nothing_of_a_deleted_document_is_left(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a"
    index = index_of([secret(), *documents(9)], options, path=path)
    world = World(index)
    above = {n.text for g in world.groups for n in world.nodes(g) if WORD in n.text}
    assert above
    assert WORD.encode() in path.read_bytes()
    index.delete("secret")
    assert WORD.encode() not in path.read_bytes()
    assert not [node for node, *_ in steps(index, EVERYTHING) if WORD in node.text]
    World(index).check()
    assert index.verify().sound


def test_nothing_of_a_deleted_document_is_left_of_an_unfinished_repair(tmp_path: Path) -> None:
    path = tmp_path / "a"
    tape, options = Tape(), WRITTEN | {"corpus_layers": False}
    store = Store.create(path, Header("scripted", "hashing", 64, {}))
    given = [*documents(6), secret()]
    Insertion(tools_with(tape, options), store, replace=True).run(given, Silent())
    length = path.stat().st_size
    with pytest.raises(Killed):
        repair_layers(store, tools_with(Tape(6), WRITTEN), Silent())
    assert path.stat().st_size > length
    store.delete("secret")
    assert WORD.encode() not in path.read_bytes()
    store.close()


def test_without_models_layers_wait_for_the_next_change(tmp_path: Path) -> None:
    index_of(documents(12), PICKED, path=tmp_path / "a").close()
    with HWDAGIndex.load(tmp_path / "a") as bare:  # nothing but names
        bare.delete("doc5")
    index = opened(tmp_path / "a")
    assert len(World(index).store.orphans()) > 1
    reached = {name for node, *_ in steps(index, EVERYTHING) for name, _ in node.places}
    assert reached == set(index.documents)
    assert index.insert([]).groups
    World(index).check()
    assert index.verify().sound


# Searching


@BOTH
def test_a_group_is_seen_only_with_all_documents_beneath_it(options: dict[str, Any]) -> None:
    index = index_of(documents(12, sentences=4), options)
    world = World(index)
    live = LiveCorpus(world.store)
    corpus = live.current()
    for names in (["doc0"], ["doc1", "doc2", "doc7"], world.beneath(world.groups[0])):
        mask = live.visible(corpus, Scope(names))
        assert mask is not None
        seen = {node.id for node in corpus.fetch(np.flatnonzero(mask).tolist())}
        expected = {
            node.id
            for number in world.numbers
            if set(world.beneath(number)) <= set(names)
            for node in world.nodes(number)
        }
        assert seen == expected
        shown = {node.id for node, *_ in steps(index, EVERYTHING, document_ids=names)}
        assert shown <= expected


def test_what_a_filter_hides_of_the_layers_shows_in_no_score() -> None:
    few = documents(5)
    index = index_of([*few, *documents(9, seed=1, prefix="other", hidden=True)], PICKED)
    world = World(index)
    names = {document.id for document in few}
    assert not any(set(world.beneath(n)) <= names for n in world.groups)
    plain = index_of(few, PICKED | {"corpus_layers": False})
    close_to(steps(index, document_ids=names), steps(plain))


def test_a_walk_begins_with_the_points_of_the_highest_layer() -> None:
    index = index_of(documents(12), WRITTEN)
    world = World(index)
    [top] = world.store.orphans()
    initial = [step for step in index.search(QUESTION, config=EVERYTHING).steps if step.initial]
    assert initial
    assert {step.node.id for step in initial} <= {node.id for node in world.nodes(top)}


@BOTH
def test_answers_cite_documents_through_the_layers(options: dict[str, Any]) -> None:
    index = index_of([*documents(8), secret()], options)
    retrieval = index.search(f"What did {WORD} beetles eat?", config=WALK)
    assert any(not step.node.document_id for step in retrieval.steps) or options is PICKED
    answer: Answer = index.answer(f"What did {WORD} beetles eat?", config=WALK)
    assert answer.citations
    for citation in answer.citations:
        text = index.documents[citation.document_id].text
        assert citation.text == text[citation.span.start : citation.span.end]


def slices(world: World) -> Iterator[tuple[str, str, Span]]:
    """Id, document and span of every node that is a slice of a document."""
    for number in world.numbers:
        for node in world.nodes(number):
            if node.origin != "generated":
                [(name, span)] = node.places
                yield node.id, name, span


def test_a_picked_point_of_a_layer_is_a_copy_of_what_it_was_picked_from() -> None:
    """Fast against every pair of nodes, before and after a change, over several segments."""
    index = index_of(documents(12), PICKED)
    live = LiveCorpus(index._store)
    live.current()
    index.insert(documents(3, seed=4, prefix="new"))
    live.current()
    index.delete("doc2")
    corpus, world = live.current(), World(index)
    alive = corpus.alive
    rows = range(len(corpus)) if alive is None else np.flatnonzero(alive).tolist()
    ids = [node.id for node in corpus.fetch(list(rows))]
    row_of = dict(zip(ids, rows, strict=True))
    found = list(slices(world))
    assert any(not name.startswith(("doc", "new")) for name, _, _ in found)
    for one, home, span in found:
        same = [o for o, h, s in found if o != one and h == home and s == span]
        held = [o for o, h, s in found if o != one and h == home and s.overlap(span) == len(s)]
        assert corpus.copies(row_of[one]).tolist() == sorted(row_of[o] for o in same)
        assert corpus.inside(row_of[one]).tolist() == sorted(row_of[o] for o in held)


def test_no_walk_reads_twice_what_stands_in_a_document_once() -> None:
    index = index_of(documents(12), PICKED)
    read: list[tuple[str, Span]] = []
    for node, *_ in steps(index, EVERYTHING):
        [(name, span)] = node.places
        assert not any(other == name and s.overlap(span) == len(span) for other, s in read)
        read.append((name, span))
    assert len(read) > 50


def test_the_report_counts_layers() -> None:
    index = index_of(documents(9), PICKED)
    assert index.report is not None
    world = World(index)
    assert index.report.groups == len(world.groups)
    assert index.report.nodes == sum(map(len, world.blocks.values()))
    assert f"{len(world.groups)} groups of corpus layers" in str(index.report)
