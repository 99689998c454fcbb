"""LinearRAG: passages linked by the entities that they mention, without relations or model calls.

Zhuang et al., arXiv 2510.10114. The graph has sentences, their entities and passages, and nothing
else, so it costs no call and grows with the text. A question is answered in two steps:

1. Each entity of the question activates the most similar entity of the graph. An active entity
   passes its activation on to the other entities of one sentence: the sentence about it that is
   most similar to the question. Small activations stop.
2. Personalised PageRank over entities and passages restarts at active entities, and at passages
   that are similar to the question or mention active entities. It ranks the passages.

Ours, because there is no tagger: entities are names (runs of capitalised words), numbers, and words
of few passages (`elements.terms_of`). Neighbouring passages have no edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Any

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.embedding.checked import embedded, embedded_question
from hwdag.text.sentences import sentences
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.elements import key_of, terms_of
from hwdag_lab.methods.found import Found, SearchRequest, rank_by_score
from hwdag_lab.methods.passages import Granularity, PassageConfig, Passages

HOPS = 2  # most sentences that activation passes; as the next three, from the authors' code
LEAST_ACTIVATION = 0.5  # smaller activations are not passed on
RESTART = 0.5  # of PageRank: 1 - damping

SIMILARITY_SHARE = 1.5
"""Weight of the similarity of a passage, next to its active entities."""

PASSAGE_SHARE = 0.05  # weight of restarts at passages, next to those at entities
FEW_PASSAGES = 5  # a lower-cased word in more passages is no entity; our number

ITERATIONS = 100


@dataclass(frozen=True, slots=True, eq=False)
class LinkedPassages:
    """One document: its passages, their sentences, and the terms that these mention."""

    nodes: tuple[Node, ...]
    vectors: Vectors  # (nodes, d)
    passage_of: tuple[int, ...]  # of every sentence
    sentence_vectors: Vectors  # (sentences, d)
    mentions: tuple[tuple[str, ...], ...]  # terms of every sentence
    terms: Mapping[str, Vectors]  # (d,) by term


@dataclass(frozen=True, slots=True)
class LinearRagConfig(PassageConfig):
    """How a document is cut; see `PassageConfig`."""

    granularity: Granularity = "passage"
    contextual: bool = True


class LinearRagRetriever(DocumentRetriever[LinkedPassages]):
    """Passages by personalised PageRank over the entities that they share.

    A question without known entities falls back to dense retrieval.
    """

    name = "linear-rag"
    uses = ("reader", "prompts", "embedder", "cache")
    Config = LinearRagConfig
    config: LinearRagConfig

    def _build(self, document: Document) -> LinkedPassages:
        passages = Passages.of(document, self.config, self.reader)
        said = [
            (i, node.text[span.start : span.end])
            for i, node in enumerate(passages.nodes)
            for span in sentences(node.text)
        ]
        mentions = tuple(tuple(dict.fromkeys(terms_of(text))) for _, text in said)
        terms = list(dict.fromkeys(term for several in mentions for term in several))
        return LinkedPassages(
            passages.nodes,
            embedded(self.embedder, passages.indexed),
            tuple(i for i, _ in said),
            embedded(self.embedder, [text for _, text in said]),
            mentions,
            dict(zip(terms, embedded(self.embedder, terms), strict=True)),
        )

    def _retrieve(self, request: SearchRequest, built: Mapping[str, LinkedPassages]) -> Found:
        world = self._joined(built, LinkedWorld)
        asked = terms_of(request.question)
        vectors = embedded(self.embedder, asked)
        scores = world.scores(asked, vectors, embedded_question(self.embedder, request.question))
        nodes = [node for document in world.documents for node in document.nodes]
        return rank_by_score(nodes, scores)


class LinkedWorld:
    """The passages of several documents and their entities as one graph.

    Attributes:
        documents: its documents.
        entities: index of every entity, by key.
        mentions: indices of the entities of every sentence.
        counts: number of sentences that mention an entity, by passage and entity.
    """

    def __init__(self, documents: tuple[LinkedPassages, ...]) -> None:
        self.documents = documents
        self._vectors = np.concatenate([one.vectors for one in documents])
        self._sentences = np.concatenate([one.sentence_vectors for one in documents])
        firsts = np.cumsum([0, *(len(one.nodes) for one in documents)]).tolist()
        passage_of = [
            first + i for first, one in zip(firsts, documents, strict=False) for i in one.passage_of
        ]
        said = [terms for one in documents for terms in one.mentions]
        vectors = {term: vector for one in documents for term, vector in one.terms.items()}
        kept = _entities(said, passage_of)
        self.entities = {key: i for i, key in enumerate(kept)}
        self._entity_vectors = np.stack([vectors[term] for term in kept.values()]) if kept else None
        self.mentions = [
            tuple(dict.fromkeys(self.entities[k] for t in terms if (k := _key(t)) in self.entities))
            for terms in said
        ]
        self._about: list[list[int]] = [[] for _ in self.entities]
        for sentence, several in enumerate(self.mentions):
            for entity in several:
                self._about[entity].append(sentence)
        self.counts = Counter(
            (passage, entity)
            for passage, several in zip(passage_of, self.mentions, strict=True)
            for entity in several
        )
        self._transitions = _transitions(self.counts, len(self.entities), len(self._vectors))

    def scores(self, terms: Sequence[str], vectors: Vectors, question: Vectors) -> Floats:
        """Return PageRank of every passage, (passages,).

        `terms` are the terms of the question and `vectors` their embeddings, (terms, d); `question`
        is its embedding, (d,).
        """
        similarity = np.asarray(self._vectors @ question, np.float64)
        active = self.active(self.seeds(terms, vectors), question)
        if not active:
            return similarity
        spread = similarity.max() - similarity.min()
        near = (similarity - similarity.min()) / spread if spread > 0 else np.ones(len(similarity))
        held = np.zeros(len(near))
        for (passage, entity), count in self.counts.items():
            if entity in active:
                activation, hop = active[entity]
                held[passage] += activation * log1p(count) / hop
        restart = np.zeros(len(self.entities) + len(near))
        for entity, (activation, _) in active.items():
            restart[entity] = activation
        restart[len(self.entities) :] = PASSAGE_SHARE * (SIMILARITY_SHARE * near + np.log1p(held))
        return pagerank(self._transitions, restart)[len(self.entities) :]

    def seeds(self, terms: Sequence[str], vectors: Vectors) -> dict[int, float]:
        """Return the activation of the entities of the question: exact matches, else the most similar entity."""
        found: dict[int, float] = {}
        for term, vector in zip(terms, vectors, strict=True):
            if (key := _key(term)) in self.entities:
                found[self.entities[key]] = 1.0
            elif self._entity_vectors is not None:
                cosines = self._entity_vectors @ vector
                best = int(cosines.argmax())
                if cosines[best] >= LEAST_ACTIVATION:
                    found[best] = max(found.get(best, 0.0), float(cosines[best]))
        return found

    def active(self, seeds: Mapping[int, float], question: Vectors) -> dict[int, tuple[float, int]]:
        """Return the activation of entities, and the hop at which they were reached; that of the seeds is 1."""
        found = {entity: (activation, 1) for entity, activation in seeds.items()}
        used: set[int] = set()
        current = dict(seeds)
        for hop in range(2, HOPS + 2):
            reached: dict[int, float] = {}
            for entity, activation in current.items():
                if not (about := [i for i in self._about[entity] if i not in used]):
                    continue
                nearness = self._sentences[about] @ question
                best = int(nearness.argmax())
                used.add(about[best])
                passed = activation * float(nearness[best])
                if passed < LEAST_ACTIVATION:
                    continue
                for other in self.mentions[about[best]]:
                    if other not in found:
                        reached[other] = max(reached.get(other, 0.0), passed)
            found |= {entity: (activation, hop) for entity, activation in reached.items()}
            current = reached
        return found


def _transitions(counts: Mapping[tuple[int, int], int], entities: int, passages: int) -> Any:
    """Return transition matrix, (nodes, nodes), with columns that sum to 1; entities come first.

    The edge between a passage and an entity weighs the share of the entity in the mentions of the
    passage.
    """
    from scipy.sparse import coo_array, diags_array

    size = entities + passages
    total = Counter[int]()
    for (passage, _), count in counts.items():
        total[passage] += count
    rows = np.array([entities + passage for passage, _ in counts], np.intp)
    columns = np.array([entity for _, entity in counts], np.intp)
    weights = np.array([count / total[passage] for (passage, _), count in counts.items()])
    one_way = coo_array((weights, (rows, columns)), shape=(size, size)).tocsr()
    both = one_way + one_way.T
    degrees = np.asarray(both.sum(axis=0))
    scale = np.divide(1.0, degrees, out=np.zeros(size), where=degrees > 0)
    return both @ diags_array(scale)


def pagerank(transitions: Any, restart: Floats) -> Floats:
    """Return personalised PageRank, (nodes,).

    Each step restarts with probability `RESTART`, and always at a node without edges.
    """
    start = restart / restart.sum()
    rank = start
    for _ in range(ITERATIONS):
        moved = (1 - RESTART) * (transitions @ rank)
        rank, before = moved + (1 - moved.sum()) * start, rank
        if np.abs(rank - before).sum() < 1e-12:
            break
    return np.asarray(rank, np.float64)


def _entities(said: Sequence[Sequence[str]], passage_of: Sequence[int]) -> dict[str, str]:
    """Return the first spelling of every entity, by key: names, numbers, and words of few passages."""
    first: dict[str, str] = {}
    passages: dict[str, set[int]] = {}
    for passage, terms in zip(passage_of, said, strict=True):
        for term in terms:
            first.setdefault(_key(term), term)
            passages.setdefault(_key(term), set()).add(passage)
    return {
        key: term
        for key, term in first.items()
        if not term[:1].islower() or len(passages[key]) <= FEW_PASSAGES
    }


def _key(term: str) -> str:
    return key_of(term) or term
