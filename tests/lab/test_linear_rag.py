"""LinearRAG and DOS RAG: small worlds whose order is derived by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from worlds import random_prose

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.types import Document
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.methods.dos_rag import DosRagRetriever
from hwdag_lab.methods.linear_rag import (
    FEW_PASSAGES,
    RESTART,
    LinearRagConfig,
    LinearRagRetriever,
    LinkedWorld,
    pagerank,
)
from hwdag_lab.methods.passages import Passages
from hwdag_lab.scripted import ScriptedLM

BRIDGE = "Elm Bridge was built by Clara Holm."
CLARA = "Clara Holm grew old near a lake in Lyon."
FAIR = "In Dover a fair was held upon the water."
MARKET = "Fish is sold at dawn."
QUESTION = "In which town did the builder of Elm Bridge live?"
TOWN = "\n\n".join([MARKET, FAIR, CLARA, BRIDGE])


class Pictured(HashingEmbedder):
    """The question is like the sentence about Elm Bridge, and less like that about the fair."""

    def __init__(self):
        super().__init__(256)

    def embed(self, texts):
        known = {QUESTION: [1, 0, 0], BRIDGE: [0.8, 0.6, 0], FAIR: [0.6, 0, 0.8]}
        rows = super().embed(["" if text in known else text for text in texts])
        for row, text in zip(rows, texts, strict=True):
            row[:3] = known.get(text, [0, 0, 0])
        return rows

    def embed_query(self, text):
        return self.embed([text])[0]


def found_by(cls, documents, question, **options):
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(256)} | options
    made = cls.from_documents(documents, **options)
    return [step.node for step in made.search(question, k=9).best(9)]


def test_an_entity_leads_to_the_passage_that_is_not_like_the_question():
    """Elm Bridge is active (1.0) and passes 0.8 on to Clara Holm, who is in the second passage."""
    dense, linked = (
        [
            node.text
            for node in found_by(cls, [TOWN], QUESTION, embedder=Pictured(), granularity="passage")
        ]
        for cls in (DenseRetriever, LinearRagRetriever)
    )
    assert dense == [BRIDGE, FAIR, MARKET, CLARA]
    assert linked[:2] == [BRIDGE, CLARA]


def linked(*documents, embedder=None):
    made = LinearRagRetriever.from_documents(
        documents, reader=ScriptedLM(), embedder=embedder or HashingEmbedder(256)
    )
    return made, LinkedWorld(tuple(map(made.built, made.documents)))


def test_activation_is_passed_through_the_sentence_most_like_the_question():
    made, world = linked(TOWN, embedder=Pictured())
    bridge, clara, lyon = (world.entities[key] for key in ("elm bridge", "clara holm", "lyon"))
    seeds = world.seeds(["Elm Bridge"], np.zeros((1, 3), np.float32))
    assert seeds == {bridge: 1.0}
    active = world.active(seeds, made.embedder.embed_query(QUESTION))
    assert active[bridge] == (1.0, 1)
    assert active[clara] == (pytest.approx(0.8), 2)
    assert lyon not in active  # its sentence is not like the question: 0.8 * 0 is too little


def test_entities_are_shared_by_documents_and_words_of_many_passages_are_no_entities():
    _, world = linked(
        Document("a", "Clara Holm sold the lantern."),
        Document(
            "b", "\n\n".join(f"The lantern of number {i} hung near Clara Holm." for i in range(6))
        ),
    )
    assert world.counts[(0, world.entities["clara holm"])] == 1
    assert {
        passage for passage, entity in world.counts if entity == world.entities["clara holm"]
    } == set(range(7))
    assert "lantern" not in world.entities  # seven passages have it
    assert FEW_PASSAGES < 7


def test_pagerank_is_the_solution_of_its_equation():
    """r = RESTART s + (1 - RESTART) T r, solved by hand for two entities and three passages."""
    weights = np.array(
        [[0, 0, 1, 0.5, 0], [0, 0, 0, 0.5, 0], [1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0] * 5]
    )
    sums = weights.sum(axis=0)
    transitions = weights / np.where(sums > 0, sums, 1)
    restart = np.array([0.7, 0.0, 0.1, 0.1, 0.1])
    whole = transitions + np.outer(restart, sums == 0)  # at a dead end it restarts
    expected = np.linalg.solve(np.eye(5) - (1 - RESTART) * whole, RESTART * restart)
    found = pagerank(csr_array(transitions), 3 * restart)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.sum() == pytest.approx(1)


def test_a_question_without_an_entity_is_answered_by_dense_retrieval():
    question = "zzyzx quux?"
    expected = found_by(DenseRetriever, [TOWN], question, granularity="passage", contextual=True)
    assert [n.text for n in found_by(LinearRagRetriever, [TOWN], question)] == [
        n.text for n in expected
    ]


def test_dos_rag_reads_what_dense_retrieval_finds_in_the_order_of_the_documents():
    rng = np.random.default_rng(4)
    documents = [Document(f"d{i}", random_prose(rng, 30, words=(7, 7))) for i in range(2)]
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)}
    dense = DenseRetriever.from_documents(documents, **options, granularity="sentence")
    ordered = DosRagRetriever.from_documents(documents, **options, granularity="sentence")
    config = SearchConfig(token_budget=80)
    for question in ("amber bridge", "castle dragon forest"):
        best_first, in_order = (
            one.search(question, config=config, k=60) for one in (dense, ordered)
        )
        read = [step.node for step in in_order.steps]
        assert {n.id for n in read} == {step.node.id for step in best_first.steps}
        assert read == sorted(read, key=lambda n: (n.document_id, n.sources[0].start))
        assert [s.node for s in in_order.unread] == [s.node for s in best_first.unread]
        assert in_order.stop == "budget"


def test_passages_keep_to_the_borders_of_paragraphs():
    text = (
        "# The harbour\n\nClara Holm built it. It has two walls.\n\nElm Bridge\n\n"
        "It is old.\n\n" + "A long line goes on. " * 90 + "\n\nThe end"
    )
    reader = ScriptedLM()
    cut = Passages.of(Document("d", text, "Town"), LinearRagConfig(), reader)
    texts = [node.text for node in cut.nodes]
    assert texts[:2] == [
        "# The harbour\n\nClara Holm built it. It has two walls.",
        "Elm Bridge\n\nIt is old.",
    ]
    assert texts[-1] == "The end"
    assert len(texts) > 4 and all("long line" in piece for piece in texts[2:-1])
    assert max(reader.count_tokens(texts)) <= 300
    assert [text[s.start : s.end] for n in cut.nodes for s in n.sources] == texts
    assert cut.indexed[2].startswith("Town: The harbour: Elm Bridge: A long line")
