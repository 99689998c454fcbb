"""Several index files that are searched as one: the same as one file that holds all documents."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_world import fill
from test_corpus import random_document
from worlds import WORDS, random_text, random_vectors

from hwdag import Document, HWDAGIndex, Scope, SearchConfig
from hwdag.config import BuildConfig, Scoring
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, InputError
from hwdag.search import segments, sidecar
from hwdag.store.sqlite import Entry, Header
from hwdag.types import Answer
from hwdag_lab.scripted import ScriptedLM

EMBEDDER = HashingEmbedder(8)
HEADER = Header("scripted", EMBEDDER.name, 8, {})
TENANTS = Header("scripted", EMBEDDER.name, 8, {"tenant_key": "whose"})
CONFIGS = [
    SearchConfig(token_budget=60, progress="budget"),
    SearchConfig(token_budget=60, progress="budget", scoring=Scoring(sparse=0.5, paragraph=0.3)),
    SearchConfig(token_budget=40, progress="budget", scoring=Scoring.garlic()),
]


def entries(rng, count):
    found = []
    for i in range(count):
        document, graph = random_document(rng, f"d{i}")
        metadata = {"whose": f"t{i % 2}", "kind": i % 3}
        document = Document(document.id, document.text, document.title, metadata)
        found.append(Entry(document, graph, random_vectors(rng, len(graph))))
    return found


def files(folder, parts, header=HEADER):
    paths = [folder / f"{i}.hwdag" for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        fill(path, *part, header=header, calls=0)
    return paths


def opened(paths):
    return HWDAGIndex.open_all(paths, reader=ScriptedLM(), embedder=EMBEDDER)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from(CONFIGS),
    st.sampled_from([40, segments.SEGMENT_NODES]),
)
def test_a_search_finds_what_it_finds_in_one_file(tmp_path_factory, seed, sizes, config, size):
    folder, rng = tmp_path_factory.mktemp("several"), np.random.default_rng(seed)
    everything = entries(rng, sum(sizes))
    parts = [everything[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(len(sizes))]
    scopes = [
        None,
        Scope(filters={"kind": 1}),
        Scope(document_ids=[e.document.id for e in everything[1:3]]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_NODES", size)
        patch.setattr(sidecar, "LEAST_NODES", 10)
        (whole,) = files(folder, [everything])
        single = HWDAGIndex.load(whole, reader=ScriptedLM(), embedder=EMBEDDER)
        (folder / "parts").mkdir()
        paths = files(folder / "parts", parts)
        with single, opened(paths) as several, opened(paths) as again:
            for scope in scopes:
                question = random_text(rng, 5)
                found = single.search(question, config=config, scope=scope, k=30)
                assert found == several.search(question, config=config, scope=scope, k=30)
                assert found == again.search(question, config=config, scope=scope, k=30)
            assert list(several.documents) == list(single.documents)
            assert dict(several.documents) == dict(single.documents)
            assert len(several) == len(single)


@pytest.fixture
def parts():
    everything = entries(np.random.default_rng(3), 6)
    return [everything[:2], everything[2:4], everything[4:]]


def test_a_tenant_sees_its_own_documents_in_every_file(tmp_path, parts):
    with opened(files(tmp_path, parts, TENANTS)) as index:
        with pytest.raises(InputError, match="tenant"):
            index.search("Which dragon?")
        config = SearchConfig(token_budget=1000, progress="budget")
        found = index.search(" ".join(WORDS), config=config, scope=Scope(tenant="t0"), k=500)
        seen = {step.node.document_id for step in (*found.steps, *found.beyond)}
        assert seen == {"d0", "d2", "d4"}
        with pytest.raises(InputError, match="'d1'"):
            index.search("Which?", scope=Scope(tenant="t0", document_ids=["d1"]))


def test_what_changes_in_a_file_is_seen(tmp_path, parts):
    paths = files(tmp_path, parts)
    config = SearchConfig(token_budget=1000, progress="budget")
    with opened(paths) as index:
        before = index.search("Which dragon?", config=config)
        with HWDAGIndex.load(paths[1], reader=ScriptedLM(), embedder=EMBEDDER) as one:
            one.delete("d2")
        after = index.search("Which dragon?", config=config)
        assert "d2" in before.sources and "d2" not in after.sources
        assert "d2" not in index.documents
        assert isinstance(index.answer("Which dragon?", config=config), Answer)


def test_what_would_change_it_is_refused(tmp_path, parts):
    changes: list[Callable[[HWDAGIndex], object]] = [
        lambda index: index.insert(["A new text."]),
        lambda index: index.refresh([]),
        lambda index: index.delete("d0"),
        lambda index: index.compact(),
        lambda index: index.save(tmp_path / "new.hwdag"),
        lambda index: index.verify(),
        pickle.dumps,
    ]
    paths = files(tmp_path, parts)
    before = [path.read_bytes() for path in paths]
    with opened(paths) as index:
        assert repr(index).startswith("HWDAGIndex(6 documents")
        assert "3 index files" in repr(index)
        for change in changes:
            with pytest.raises(InputError, match=r"\b3\b"):
                change(index)
        index.export(tmp_path / "all.jsonl")
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 7
    assert [path.read_bytes() for path in paths] == before
    assert not (tmp_path / "new.hwdag").exists()


def test_files_that_do_not_belong_together_are_refused(tmp_path, parts):
    paths = files(tmp_path, parts)
    with pytest.raises(InputError, match="'d0'"):
        opened([paths[0], paths[0]])
    with pytest.raises(InputError):
        opened([])
    with pytest.raises(InputError):
        HWDAGIndex.open_all(str(paths[0]))
    for header, what in (
        (Header("scripted", "another", 8, {}), "'another'"),
        (TENANTS, "'whose'"),
    ):
        path = tmp_path / f"{header.embedder}.hwdag"
        fill(path, header=header)
        with pytest.raises(IndexMismatch, match=what):
            opened([paths[0], path])


def test_a_document_that_comes_to_a_second_file_is_noticed(tmp_path, parts):
    paths = files(tmp_path, parts)
    with opened(paths) as index:
        index.search("Which dragon?")
        with HWDAGIndex.load(paths[2], reader=ScriptedLM(), embedder=EMBEDDER) as one:
            one.insert([Document("d0", "A dragon guards the bridge.")])
        for _ in range(2):
            with pytest.raises(InputError, match="'d0'"):
                index.search("Which dragon?")


def test_edges_of_attention_are_followed_in_whatever_file_they_are(tmp_path):
    """The reader reads along where any file has them: relevance is known, without an answer."""
    paths = [tmp_path / "picked.hwdag", tmp_path / "attended.hwdag"]
    rng = np.random.default_rng(0)
    configs = BuildConfig(), BuildConfig(edges="attention")
    for path, built in zip(paths, configs, strict=True):
        sentences = (" ".join(rng.choice(WORDS, 6)).capitalize() + "." for _ in range(30))
        documents = [Document(path.stem, " ".join(sentences))]
        models = {"reader": ScriptedLM(), "embedder": EMBEDDER}
        HWDAGIndex.from_documents(documents, path=path, config=built, **models).close()
    for some, reads in ((paths[:1], False), (paths[1:], True), (paths, True)):
        steps = opened(some).search("which word?", config=SearchConfig(token_budget=300)).steps
        assert steps and all((step.relevance is not None) == reads for step in steps)
