"""The index: documents in, answers out; saved + loaded == original, resumed == uninterrupted."""

import dataclasses
import threading
from functools import partial

import index_world
import numpy as np
import pytest
from index_world import documents
from processes import python

from hwdag import BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    EmptyIndex,
    IndexFileError,
    IndexMismatch,
    InputError,
    ModelNotFound,
    NotAnIndex,
    ReaderRequired,
    UnknownOption,
)
from hwdag.scope import Scope
from hwdag.trace.provenance import provenance
from hwdag_files.read import read_documents
from hwdag_lab.scripted import ScriptedLM

CONFIG = dataclasses.replace(index_world.CONFIG, method="hwdag")
index_of = partial(index_world.index_of, config=CONFIG)
BUDGET = SearchConfig(token_budget=120, confidence=NEVER)


def same(one, two):
    assert one.graphs.keys() == two.graphs.keys()
    for key, graph in one.graphs.items():
        assert graph.nodes == two.graphs[key].nodes
        np.testing.assert_array_equal(graph.edges.toarray(), two.graphs[key].edges.toarray())
        np.testing.assert_array_equal(one.entries[key].vectors, two.entries[key].vectors)
    answers = [index.answer("Where is the silver dragon?", config=BUDGET) for index in (one, two)]
    assert answers[0].text == answers[1].text
    assert answers[0].citations == answers[1].citations
    assert answers[0].retrieval.steps == answers[1].retrieval.steps


def test_saved_and_loaded_equals_the_original(tmp_path):
    index = index_of(documents(3))
    index.save(tmp_path / "a.hwdag")
    same(index, HWDAGIndex.load(tmp_path / "a.hwdag", reader=ScriptedLM()))


@pytest.mark.parametrize("in_a_file", [False, True])
def test_the_bytes_of_an_index_are_its_file_and_are_opened_in_memory(in_a_file, tmp_path):
    index = index_of(documents(3), path=tmp_path / "a.hwdag" if in_a_file else None)
    again = HWDAGIndex.load(index.to_bytes(), reader=ScriptedLM())
    same(index, again)
    assert again.path is None
    again.delete("doc0")
    assert "doc0" in index.documents
    (tmp_path / "b.hwdag").write_bytes(again.to_bytes())
    same(again, HWDAGIndex.load(tmp_path / "b.hwdag", reader=ScriptedLM()))
    with pytest.raises(EmptyIndex):
        HWDAGIndex().to_bytes()
    for damaged in (b"", b"x" * 9999, again.to_bytes()[:5000]):
        with pytest.raises(IndexFileError):
            HWDAGIndex.load(damaged)


def test_loading_and_looking_needs_no_language_model(tmp_path):
    index_of(documents(1)).save(tmp_path / "a.hwdag")
    script = """
        import sys
        from hwdag import HWDAGIndex

        assert len(HWDAGIndex.load(sys.argv[1]).graphs["doc0"])
        assert not {"torch", "transformers"} & sys.modules.keys()
    """
    python(script, tmp_path / "a.hwdag")


def test_a_refresh_loads_models_only_for_changed_documents(tmp_path):
    path, docs = tmp_path / "a.hwdag", documents(3)
    index_of(docs, path=path).close()
    unloadable = {"reader": str(tmp_path / "no-reader"), "embedder": str(tmp_path / "no-embedder")}
    with HWDAGIndex.load(path, **unloadable) as index:
        kept = [*docs[:2], Document("blank", " ")]
        report = index.refresh(kept, prune=True, max_seconds=60)
        assert (report.unchanged, report.deleted) == (["doc0", "doc1"], ["doc2"])
        assert [key for key, _ in report.skipped] == ["blank"]
        assert index.insert(iter(docs[:2])).unchanged == ["doc0", "doc1"]
        with pytest.raises(ModelNotFound, match="no-reader"):
            index.refresh([Document("doc0", "Something else entirely.")])


def test_the_command_refresh_imports_torch_only_for_changed_files(tmp_path):
    (tmp_path / "a.txt").write_text("A dragon sleeps.")
    index_of(list(read_documents([tmp_path / "a.txt"])), path=tmp_path / "a.hwdag").close()
    script = """
        import sys
        from hwdag_app.main import main

        assert main(["refresh", *sys.argv[1:], "--quiet"]) == 0
        assert not {"torch", "transformers"} & sys.modules.keys()
    """
    python(script, tmp_path / "a.hwdag", tmp_path / "a.txt")


def test_a_bound_index_equals_one_in_memory(tmp_path):
    bound = index_of(documents(3), path=tmp_path / "a.hwdag")
    same(bound, index_of(documents(3)))
    same(bound, HWDAGIndex.load(tmp_path / "a.hwdag", reader=ScriptedLM()))


class Interrupted(ScriptedLM):
    """Ctrl-C at the n-th window."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def replay(self, requests, *, heads):
        if self.replays >= self.at:
            raise KeyboardInterrupt
        return super().replay(requests, heads=heads)


def test_ctrl_c_keeps_finished_documents_and_the_next_run_skips_them(tmp_path):
    path, docs, whole = tmp_path / "a.hwdag", documents(3), ScriptedLM()
    uninterrupted = index_of(docs, reader=whole)
    with pytest.raises(KeyboardInterrupt):
        index_of(docs, reader=Interrupted(at=whole.replays - 1), path=path)
    kept = HWDAGIndex.load(path, reader=ScriptedLM())
    assert list(kept.documents) == ["doc0", "doc1"]
    assert kept.answer("Where is the silver dragon?", config=BUDGET).text
    again = ScriptedLM()
    resumed = index_of(docs, reader=again, path=path)
    assert resumed.report.unchanged == ["doc0", "doc1"]
    assert resumed.report.built == ["doc2"]
    assert again.replays < whole.replays
    same(uninterrupted, resumed)


def test_an_interrupted_index_in_memory_keeps_what_was_finished():
    docs, whole = documents(3), ScriptedLM()
    index_of(docs, reader=whole)
    index = index_of([], reader=Interrupted(at=whole.replays - 1))
    with pytest.raises(KeyboardInterrupt):
        index.insert(docs)
    assert list(index.documents) == ["doc0", "doc1"]


def test_insert_refresh_and_delete(tmp_path):
    path = tmp_path / "a.hwdag"
    docs = documents(3)
    index = index_of(docs[:1], path=path)
    assert index.insert(docs).built == ["doc1", "doc2"]
    changed = Document("doc1", "Something else entirely.")
    with pytest.raises(InputError, match="refresh"):
        index.insert([changed])
    report = index.refresh([docs[0], changed])
    assert (report.unchanged, report.built) == (["doc0"], ["doc1"])
    index.delete("doc2")
    with pytest.raises(InputError, match="'doc2'"):
        index.delete("doc2")
    same(index, HWDAGIndex.load(path, reader=ScriptedLM()))
    same(index, index_of([docs[0], changed]))


def test_bare_texts_get_an_id_from_their_content():
    assert index_of(["Same.", "Same."]).documents.keys() == index_of(["Same."]).documents.keys()


def test_search_is_restricted_to_documents():
    index = index_of(documents(3))
    found = index.search("silver dragon", config=BUDGET, scope=Scope(["doc1"]))
    assert {step.node.document_id for step in found.steps} == {"doc1"}
    with pytest.raises(InputError, match="'nope'"):
        index.search("silver dragon", scope=Scope(["nope"]))


def test_answers_cite_exact_sentences_of_the_documents():
    index = index_of(documents(3))
    answer = index.answer("Where is the silver dragon?", config=BUDGET)
    assert answer.citations
    assert sum(citation.weight for citation in answer.citations) <= 1 + 1e-9
    for citation in answer.citations:
        text = index.documents[citation.document_id].text
        assert text[citation.span.start : citation.span.end] == citation.text
    weights = [citation.weight for citation in answer.citations]
    assert weights == sorted(weights, reverse=True)


def test_streamed_pieces_make_up_the_answer():
    index = index_of(documents(3))
    stream = index.stream("Where is the silver dragon?", config=BUDGET)
    assert stream.retrieval.steps
    assert "".join(stream).strip() == stream.answer.text
    assert stream.answer.text == index.answer("Where is the silver dragon?", config=BUDGET).text


def test_threads_search_one_index_without_disturbing_each_other():
    index = index_of(documents(6))
    questions = [f"Where is the {word}?" for word in ("dragon", "bridge", "amber", "temple")] * 4
    expected = [index.search(question, config=BUDGET).steps for question in questions]
    found = [None] * len(questions)

    def ask(i):
        found[i] = index.search(questions[i], config=BUDGET).steps

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_another_reader_may_search_but_not_extend(tmp_path):
    index_of(documents(1)).save(tmp_path / "a.hwdag")
    other = HWDAGIndex.load(tmp_path / "a.hwdag", reader=ScriptedLM(name="smaller"))
    assert other.search("dragon", config=BUDGET).steps
    with pytest.raises(IndexMismatch):
        other.insert(["More text."])


def test_who_makes_the_points_follows_from_the_reader_and_the_options():
    docs = documents(1)

    def origins(**options):
        (graph,) = index_of(docs, **options).graphs.values()
        return {node.origin for node in graph.nodes if node.level > 1}

    able, unable = ScriptedLM(writes=True), ScriptedLM()
    generated = dataclasses.replace(CONFIG, points="generated")
    extractive = dataclasses.replace(CONFIG, points="extractive")
    assert origins(reader=unable) == {"extractive"}
    assert origins(reader=able) == {"generated"}
    with pytest.raises(InputError, match="Points"):
        origins(reader=unable, config=generated)
    assert origins(reader=unable, config=generated, writer=unable) == {"generated"}
    assert origins(reader=able, config=extractive) == {"extractive"}
    assert origins(reader=unable, writer=lambda prompt: "* A point.") == {"generated"}
    papers = dataclasses.replace(CONFIG, method="garlic")
    assert origins(reader=able, config=papers) == {"generated"}
    with pytest.raises(InputError, match="garlic"):
        index_of(docs, reader=unable, config=papers)


def test_the_method_follows_from_the_reader_and_is_kept(tmp_path):
    able, unable = ScriptedLM(writes=True), ScriptedLM()
    auto = dataclasses.replace(CONFIG, method="auto")
    found = {}
    for name, options in {
        "unable": {"reader": unable},
        "able": {"reader": able},
        "writer": {"reader": unable, "writer": lambda prompt: "* A point."},
    }.items():
        path = tmp_path / f"{name}.hwdag"
        with index_of(documents(1), config=auto, path=path, **options) as index:
            assert index.config.method == HWDAGIndex.load(path, reader=unable).config.method
            found[name] = index.config.method
    assert found == {"unable": "evidence", "able": "hwdag", "writer": "hwdag"}
    with pytest.raises(InputError, match="Points"):
        index_of(documents(1), config=dataclasses.replace(auto, points="generated"), reader=unable)


def test_a_method_that_needs_edges_is_refused_without_edges():
    index = index_of(documents(1), config=dataclasses.replace(CONFIG, method="evidence"))
    assert {node.level for node in index.graphs["doc0"].nodes} == {1}
    for method in ("hwdag", "garlic", "pecan"):
        with pytest.raises(IndexMismatch, match=method):
            index.search("dragon?", config=SearchConfig(method=method))
    assert index.search("dragon?").steps
    edged = index_of(documents(1))
    assert edged.search("dragon?", config=SearchConfig(method="evidence")).usage.tokens == 0
    assert edged.search("dragon?", config=SearchConfig(method="garlic")).usage.tokens > 0


def test_a_word_or_another_config_in_the_place_of_a_config_is_reported():
    with pytest.raises(InputError, match="garlic"):
        index_of(documents(1)).search("dragon?", config="garlic")
    with pytest.raises(InputError, match="SearchConfig"):
        index_of(documents(1)).search("dragon?", config=BuildConfig())
    with pytest.raises(InputError, match="BuildConfig"):
        index_of(documents(1), config=SearchConfig())


@pytest.mark.parametrize(
    ("p_yes", "confidence", "reply"), [(0.9, 0.5, True), (0.1, 0.5, False), (0.1, NEVER, True)]
)
def test_the_session_gets_the_models_own_reply_if_p_yes_was_asked(p_yes, confidence, reply):
    lm = ScriptedLM(p_yes=[p_yes])
    config = SearchConfig(token_budget=120, confidence=confidence)
    index_of(documents(1), reader=lm).answer("dragon?", config=config)
    assert lm.sessions[-1].enough is reply


def test_lone_surrogates_are_replaced_and_counted():
    index = index_of([Document("odd", "Half a \ud83d pair. Another \ude00 half.")])
    assert index.report.notes[0] == "odd: 2 lone surrogates replaced"
    assert index.documents["odd"].text == "Half a \N{REPLACEMENT CHARACTER} pair. Another " + (
        "\N{REPLACEMENT CHARACTER} half."
    )
    assert index.search("What \ud83d?", config=BUDGET).steps


def test_an_empty_file_of_a_killed_build_is_filled(tmp_path):
    path = tmp_path / "a.hwdag"
    path.touch()
    same(index_of(documents(1), path=path), index_of(documents(1)))


def test_another_embedder_is_refused(tmp_path):
    index_of(documents(1)).save(tmp_path / "a.hwdag")
    other = HWDAGIndex.load(
        tmp_path / "a.hwdag", reader=ScriptedLM(), embedder=HashingEmbedder(dimension=64)
    )
    with pytest.raises(IndexMismatch, match="'hashing-256'"):
        other.search("dragon")


def test_another_config_is_refused(tmp_path):
    path = tmp_path / "a.hwdag"
    index_of(documents(1), path=path)
    with pytest.raises(IndexMismatch):
        index_of(documents(1), path=path, config=BuildConfig(chunk_tokens=50))


@pytest.mark.parametrize("question", ["", " \n", None, 12, b"who?", ["who?"]])
def test_a_blank_question_is_an_error(question):
    with pytest.raises(InputError, match="question"):
        index_of(documents(1)).search(question)


def test_an_empty_index_is_reported():
    with pytest.raises(InputError):
        index_of([]).search("who?")


def test_a_query_vector_that_does_not_compare_is_refused():
    index = index_of(documents(1))
    for vector in ([0.5] * 3, [float("nan")] * 256, ["a"], [[0.5] * 256]):
        with pytest.raises(InputError, match="query_vector"):
            index.search("Where?", query_vector=vector)
    own = index.embedder.embed_query("Where?")
    for ask in (index.answer, lambda *a, **o: index.stream(*a, **o).answer):
        assert ask("Where?", query_vector=own).text == index.answer("Where?").text


@pytest.mark.parametrize(
    "documents", ["one text", b"bytes", Document("a", "b"), {"a": "b"}, 5, None]
)
def test_one_document_is_no_list_of_documents(documents):
    """A text would be taken letter by letter, and to prune would delete all others."""
    index = index_of([Document("a", "First contract."), Document("b", "Second contract.")])
    for call in (index.insert, index.estimate, lambda one: index.refresh(one, prune=True)):
        with pytest.raises(InputError, match=type(documents).__name__):
            call(documents)
    assert set(index.documents) == {"a", "b"}


@pytest.mark.parametrize("fields", [(None, "x"), (5, "x"), ("a", None), ("a", b"x"), ("a", "x", 5)])
def test_what_a_document_is_made_of_is_text(fields):
    with pytest.raises(InputError, match="must be a text"):
        index_of([Document(*fields)])


def test_wrong_kinds_of_arguments_are_named():
    with pytest.raises(InputError, match="int"):
        index_of([3])
    index = index_of(documents(1))
    for scope in (["doc0"], "doc0", {"year": 1}):
        with pytest.raises(InputError, match="scope"):
            index.search("who?", scope=scope)
    for wrong in (None, ["doc0"]):
        with pytest.raises(InputError, match="doc0"):
            index.delete(wrong)
    for embedder in (5, "", len):
        with pytest.raises(InputError, match="embedder"):
            index_of(documents(1), embedder=embedder)
    with pytest.raises(ReaderRequired, match="reader"):
        _ = HWDAGIndex(reader=object()).reader
    with pytest.raises(InputError, match="writer"):
        HWDAGIndex(writer=3)
    with pytest.raises(InputError, match="writer"):
        HWDAGIndex(writer=str, config=BuildConfig(points="extractive"))


def test_unknown_options_and_values_are_refused_by_name():
    with pytest.raises(UnknownOption, match="'budget'"):
        SearchConfig.from_dict({"budget": 3})
    with pytest.raises(UnknownOption, match="method"):
        SearchConfig(method="sometimes")
    with pytest.raises(InputError, match="token_budget"):
        SearchConfig(token_budget=0)
    with pytest.raises(InputError, match="heads"):
        SearchConfig(heads=[(1, -1)])
    with pytest.raises(InputError, match="confidence"):
        SearchConfig(confidence=1.5)
    assert SearchConfig(heads=[[1, 2]]).heads == ((1, 2),)


def test_configs_survive_json(tmp_path):
    config = BuildConfig(chunk_tokens=30, window_tokens=400, edge_heads=((0, 0),))
    index_of(documents(1), config=config).save(tmp_path / "a.hwdag")
    assert HWDAGIndex.load(tmp_path / "a.hwdag", reader=ScriptedLM()).config == config.resolved(
        "evidence"
    )


def test_what_the_store_refuses_an_index_refuses(tmp_path):
    path = tmp_path / "a.hwdag"
    with pytest.raises(IndexFileError):
        HWDAGIndex.load(path)
    path.write_text("not a database, " * 100)
    with pytest.raises(NotAnIndex):
        HWDAGIndex.load(path)


def test_citations_and_nodes_have_their_page():
    document = Document("d", "Dogs bark.\n\nCats sleep.", metadata={"page_starts": [0, 12]})
    answer = index_of([document]).answer("Who sleeps?", config=BUDGET)
    pages = {citation.text: citation.page for citation in answer.citations}
    assert {text: page for text, page in pages.items() if page} == pages
    assert answer.to_dict()["citations"][0]["page"] == pages[answer.citations[0].text]
    [step] = [step for step in answer.retrieval.steps if "Cats" in step.node.text][:1]
    at = document.text.index("Cats")
    found = provenance(step, answer.retrieval)["pages"]
    assert found == [2 if span.start >= at else 1 for span in step.node.sources]
