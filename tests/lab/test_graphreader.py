"""GraphReader: chunks, facts, and the graph of elements; several documents; statistics."""

from itertools import pairwise

import numpy as np
from graphreader_world import (
    PARAGRAPHS,
    QUESTION,
    SMALL,
    TEXT,
    Script,
    act,
    count,
    graph_of,
    in_two,
    retriever,
    write_facts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import random_text

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.scope import Scope
from hwdag.types import Document
from hwdag_lab.methods.graphreader import GraphReaderConfig, GraphReaderRetriever
from hwdag_lab.methods.graphreader.graph import FactGraph, paragraph_chunks
from hwdag_lab.scripted import ScriptedLM

PLENTY = SearchConfig(token_budget=500)


def names(graph, indices):
    return [graph.elements[i].name for i in indices]


# the graph


def test_facts_that_were_written_and_their_elements():
    graph = graph_of()
    assert [node.text for node in graph.chunks] == list(PARAGRAPHS)
    assert [node.text for node in graph.facts][:2] == [
        "Clara Holm built the harbour in 1871",
        "The harbour has two walls",
    ]
    assert list(graph.chunk_of) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert names(graph, graph.elements_of[0]) == ["Clara Holm", "harbour", "built"]
    for fact, chunk in zip(graph.facts, graph.chunk_of, strict=True):
        [source] = fact.sources  # the most similar sentence of its chunk
        assert fact.origin == "generated"
        assert TEXT[source.start : source.end] in PARAGRAPHS[chunk]
    first, second = (graph.facts[i].sources[0] for i in (0, 1))
    assert TEXT[first.start : first.end] == "The harbour was built by Clara Holm in 1871."
    assert TEXT[second.start : second.end] == "It has two walls."


def test_elements_are_joined_if_a_fact_has_both():
    graph = graph_of()
    for i, _ in enumerate(graph.elements):
        shared = {
            j: sum(i in several and j in several for several in graph.elements_of)
            for j in range(len(graph.elements))
            if j != i
        }
        expected = sorted((j for j in shared if shared[j]), key=lambda j: (-shared[j], j))
        assert graph.neighbors(i) == expected
        assert len(graph.facts_of[i]) == sum(i in several for several in graph.elements_of)


def test_a_small_reader_does_not_write_facts_but_explores():
    reader = ScriptedLM()
    built = retriever(reader=reader, writer=None)
    graph = built.graphs["doc"]
    assert reader.writes == 0
    assert {node.origin for node in graph.facts} == {"extractive"}
    for fact in graph.facts:
        assert fact.text == TEXT[fact.sources[0].start : fact.sources[0].end]
    assert "Clara Holm" in {element.name for element in graph.elements}
    assert graph.notes == ("the facts of all 4 chunks are their sentences; no writer was asked",)
    assert built.search(QUESTION).steps
    assert reader.writes > 0
    written = GraphReaderConfig(chunk_tokens=16, facts="written")
    graph = graph_of(reader=ScriptedLM(), writer=None, config=written)
    assert {node.origin for node in graph.facts} == {"generated"}


def test_a_reply_without_facts_costs_one_retry_and_then_its_sentences():
    replies = ["nothing", "nothing", write_facts, write_facts, "nothing", write_facts]
    script = Script(build=replies)
    report = GraphReaderRetriever(
        reader=ScriptedLM(), embedder=HashingEmbedder(), writer=script, config=SMALL
    ).insert([Document("doc", TEXT)])
    assert len(script.prompts("build")) == 4 + 2
    assert report.retries == 2
    assert report.fallbacks == 1
    assert report.notes == [
        "doc: the facts of 1 of 4 chunks are their sentences, because script wrote none that could "
        "be read, twice"
    ]
    retried = [p for p in script.prompts("build") if p.endswith("and its key elements.")]
    assert len(retried) == 2


def test_a_fact_without_elements_gets_its_names_and_words():
    graph = graph_of(script=Script(build="* Clara Holm built the harbour"))
    assert names(graph, graph.elements_of[0]) == ["Clara Holm", "built", "harbour"]


def test_facts_without_a_word_of_their_chunk_are_dropped():
    script = Script(build="* A summary of everything | summary\n* Clara swam | Clara")
    graph = graph_of(script=script)
    assert [fact.text for fact in graph.facts][:2] == ["Clara swam", "Clara swam"]
    [note] = graph.notes
    assert "2 of 4 chunks" in note  # Clara is not in the other two


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(8, 30),
    st.integers(0, 9),
)
def test_chunks_are_whole_paragraphs_if_they_fit(lengths, limit, seed):
    rng = np.random.default_rng(seed)
    paragraphs = [" ".join(random_text(rng, n) for n in sentences) for sentences in lengths]
    text = "\n \n".join(paragraphs)
    spans = paragraph_chunks(text, count_tokens=count, limit=limit)
    found = [text[span.start : span.end] for span in spans]
    assert max(count(found)) <= limit
    assert "".join("".join(found).split()) == "".join(text.split())
    whole = [p for p in paragraphs if count([p])[0] <= limit]
    for paragraph in whole:
        assert any(paragraph in one for one in found)
    for one, other in pairwise(found):  # none could have taken the next paragraph too
        first = other.split("\n \n")[0]
        last = one.split("\n \n")[-1]
        if first in whole and last in whole:
            gaps = one.count("\n \n") + 1  # each is taken for a token
            assert count([one])[0] + count([first])[0] + gaps > limit


# several documents


def test_elements_of_several_documents_are_one_and_chunks_are_numbered_through():
    script = Script(
        initial="* Clara Holm",
        facts=[act("stop_and_read_neighbor"), act("read_chunk([3])")],
        chunk=[act("read_previous_chunk", "a"), act("termination()", "b")],
        neighbors=act("read_neighbor_node(Arden)"),
    )
    built = in_two(script=script)
    [path] = built.explore(QUESTION).paths
    assert path.chunks == (2,)  # the chunk before it is of another document
    graphs = built.graphs
    world = FactGraph.joined(list(graphs.values()))
    found = [element.name for element in world.elements]
    arden = found.index("Arden")
    assert {world.facts[fact].document_id for fact in world.facts_of[arden]} == {"a", "b"}
    assert len(found) == len(set(found))
    assert world.element_vectors.shape[0] == len(found)
    assert set(found) == {element.name for element in graph_of().elements}


def test_an_alias_in_one_document_joins_two_elements_of_another():
    class Aliases(HashingEmbedder):
        def embed(self, texts):
            return super().embed(["Otto Brill" if text == "Otto B" else text for text in texts])

    documents = [
        Document("a", "One."),
        Document("b", "Two."),
    ]
    script = Script(
        build=lambda p: "* One | Otto Brill; bell" if "One." in p else "* Two | Otto B; ferry"
    )
    joint = Script(build="* Three | Otto Brill; Otto B; bell")
    built = retriever(script, documents, embedder=Aliases(4096))
    assert len(FactGraph.joined(list(built.graphs.values())).elements) == 4
    third = retriever(joint, [Document("c", "Three.")], embedder=Aliases(4096)).graphs["c"]
    assert third.elements[0].keys == ("otto brill", "otto b")
    world = FactGraph.joined([*built.graphs.values(), third])
    assert [element.name for element in world.elements] == ["Otto Brill", "bell", "ferry"]
    assert world.facts_of[0] == [0, 1, 2]


def test_many_documents_with_a_default_are_one_note():
    documents = [Document(str(i), f"Otto {i} swam. {TEXT}") for i in range(3)]
    found = retriever(Script(build="nothing"), documents).search(QUESTION)
    assert found.notes[0] == "in 3 of 3 documents the facts of some chunks are their sentences"


def test_a_search_sees_the_chosen_documents_alone():
    built = in_two(script=Script(initial="* ferry"))
    for scope in (Scope(["b"]), Scope(filters={"kind": "river"})):
        found = built.search(QUESTION, config=PLENTY, scope=scope)
        assert {step.node.document_id for step in found.steps} == {"b"}
        assert set(built.explore(QUESTION, scope=scope).paths[0].chunks) <= {0, 1}


def test_an_exploration_counts_the_calls_of_all_paths():
    script = Script(
        initial="* ferry",
        facts=act("read_chunk([4])"),
        chunk=[act("read_previous_chunk()"), act("search_more()")],
        neighbors="no idea",
    )
    built = retriever(script)
    explored = built.explore(QUESTION)
    assert [call.function for call in explored.calls] == [
        "read_chunk",
        "read_previous_chunk",
        "search_more",
        "termination",
    ]
