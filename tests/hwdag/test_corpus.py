"""A corpus that documents come to and go from: the same as one made afresh, whatever happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import DenseWorld, reference_parts, reference_prior
from worlds import WORDS, corpus_of, question_of, random_text, random_vectors, walk

from hwdag.config import NEVER, Scoring, SearchConfig
from hwdag.corpus import lexicon as lexicons
from hwdag.corpus import segments
from hwdag.corpus.block import Block
from hwdag.corpus.corpus import Corpus, Vanished
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.search import frontier as frontiers
from hwdag.search.frontier import Frontier, highest
from hwdag.search.references import References
from hwdag.text.draft import Draft
from hwdag.text.headings import Outline, searched_text
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Node, Span
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Which dragon guards the silver bridge?"
SCORINGS = [
    (Scoring(), "peak"),
    (Scoring.papers(), "share"),
    (Scoring.papers(), "none"),
    (Scoring(attention=1.0), "peak"),
    (Scoring(bm25_weight=0.5), "share"),
    (Scoring(attention=1.0, similarity=0.0), "peak"),
    (Scoring(bm25_weight=1.0, references=0.0, paragraph_weight=0.3), "peak"),
]
"""Weights, and how attention and similarity are scaled."""
SEEDS = st.integers(0, 2**32 - 1)


class Library:
    """Documents in order of number, as a store would have them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.blocks: dict[int, Block] = {}
        self.nodes: dict[int, Sequence[Node]] = {}
        self.last = 0

    def fetch(self, addresses: Iterable[tuple[int, int]]) -> list[Node | None]:
        return [self.nodes[n][position] if n in self.nodes else None for n, position in addresses]

    def corpus(self) -> Corpus:
        """Everything that is there, made afresh."""
        return Corpus(self.fetch).extended(self.blocks.values())

    def add(self) -> Block:
        """Return a document with sections, sentences and pairs of them, extractive and generated points."""
        document, graph = random_document(self.rng, f"d{self.last + 1}")
        vectors = random_vectors(self.rng, len(graph))
        block = Block.of(self.last + 1, Draft(document), graph, vectors)
        return self.put(block, graph.nodes)

    def remove(self, number: int) -> None:
        del self.blocks[number], self.nodes[number]

    def put(self, block: Block, nodes: Sequence[Node]) -> Block:
        """Take a block in as the last one."""
        self.last = block.number
        self.blocks[self.last] = block
        self.nodes[self.last] = nodes
        return block


def random_document(rng, name):
    text, spans = "", list[Span]()
    for _ in range(rng.integers(1, 4)):
        text += f"# {' '.join(rng.choice(WORDS, rng.integers(1, 3)))}\n\n"
        for _ in range(rng.integers(1, 4)):
            sentence = random_text(rng, int(rng.integers(2, 7)))
            spans.append(Span(len(text), len(text) + len(sentence)))
            text += sentence + " "
        text += "\n\n"
    pairs = [Span(first.start, second.end) for first, second in pairwise(spans)]
    heading_of = Outline(text).heading_of
    nodes = [
        Node(f"{name}#1.{i}", name, 1, text[s.start : s.end], "chunk", 5, (s,), heading_of(s))
        for i, s in enumerate([*spans, *pairs])
    ]
    rows, below = list[EdgeRow](), range(len(nodes))
    for level in range(2, rng.integers(2, 5)):
        above = range(len(nodes), len(nodes) + int(rng.integers(1, 4)))
        for parent in above:
            picked = nodes[rng.choice(below)].sources[0]
            inner = [
                span for span in spans if picked.start <= span.start and span.end <= picked.end
            ]
            span, identity = inner[rng.integers(len(inner))], f"{name}#{parent}"
            extractive = rng.random() < 0.6
            point = text[span.start : span.end] if extractive else random_text(rng, 4)
            origin = "extractive" if extractive else "generated"
            nodes.append(Node(identity, name, level, point, origin, 5, (span,), heading_of(span)))
            size = int(rng.integers(1, len(below) + 1))
            children = np.sort(rng.choice(below, size, replace=False)).astype(np.int32)
            rows.append(EdgeRow(parent, children, rng.uniform(0.1, 1, size)))
        below = above
    return Document(name, text), HWDAG.from_rows(nodes, rows)


def top_of(block):
    return np.flatnonzero(block.levels == block.levels.max()).tolist()


def history(seed, choices):
    """Yield a library and a corpus that follows it: documents come one by one or several at once, and go."""
    library = Library(seed)
    corpus, waiting = library.corpus(), list[Block]()
    for choice in choices:
        if choice % 4 < 2:
            waiting += [library.add() for _ in range(1 + choice // 4)]
        elif library.blocks:
            corpus, waiting = corpus.extended(waiting), []
            gone = int(library.rng.choice(list(library.blocks)))
            library.remove(gone)
            corpus = corpus.without([gone])
        yield library, corpus.extended(waiting)
    yield library, corpus.extended(waiting)


CHOICES = st.lists(st.integers(0, 11), min_size=1, max_size=14)
SIZES = st.sampled_from([1, 12, 40, 150, segments.SEGMENT_NODES])


def living(corpus):
    alive = corpus.alive
    return list(range(len(corpus))) if alive is None else np.flatnonzero(alive).tolist()


def addresses(corpus, indices):
    """Ids of nodes, to compare corpora in which the same nodes have other indices."""
    return [node.id for node in corpus.fetch([int(index) for index in indices])]


def assert_same(one, other, words, query):
    """Check equality to the bit, up to the places of rows."""
    ours, theirs = living(one), living(other)
    assert one.numbers == other.numbers
    assert addresses(one, ours) == addresses(other, theirs)
    assert one.has_points == other.has_points
    mine, yours = View.of(one), View.of(other)
    assert addresses(one, mine.top) == addresses(other, yours.top)
    assert one.any_generated(mine.top) == other.any_generated(yours.top)
    for i, j in zip(ours, theirs, strict=True):
        (mine, weights), (yours, expected) = one.children(i), other.children(j)
        assert addresses(one, mine) == addresses(other, yours)
        np.testing.assert_array_equal(weights, expected)
        assert addresses(one, one.inside(i)) == addresses(other, other.inside(j))
        assert addresses(one, one.copies(i)) == addresses(other, other.copies(j))
    np.testing.assert_array_equal(one.similarity(query)[ours], other.similarity(query)[theirs])
    mine, yours = View.of(one).lexicon, View.of(other).lexicon
    np.testing.assert_array_equal(mine.scores(words)[ours], yours.scores(words)[theirs])
    text = " ".join(words)
    assert addresses(one, mine.named_in(text)) == addresses(other, yours.named_in(text))


def retrieval(corpus, query, config, allowed=None, **rules):
    return walk(
        corpus,
        QUESTION,
        reader=ScriptedLM(),
        embedder=Asked(query),
        config=config,
        prompts=SearchPrompts(),
        allowed=allowed,
        rules=rules,
        k=20,
    ).retrieval


class Asked:
    """Gives one vector for the question."""

    name, dimension = "asked", 8

    def __init__(self, query: np.ndarray) -> None:
        self._query = query

    def embed(self, texts):
        raise AssertionError("a walk embeds nothing but the question")

    def embed_query(self, text):
        return self._query


@given(SEEDS, CHOICES, SIZES)
def test_nothing_depends_on_how_the_documents_came_to_be_there(seed, choices, size):
    rng = np.random.default_rng(seed)
    query, words = random_vectors(rng, 1)[0], set(rng.choice(WORDS, 6).tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_NODES", size)
        before = []
        for library, corpus in history(seed, choices):
            before.append((corpus, tuple(library.blocks)))
        assert_same(corpus, library.corpus(), words, query)
        assert all(snapshot.numbers == numbers for snapshot, numbers in before)


@pytest.mark.slow
@given(SEEDS, CHOICES, SIZES, st.sampled_from(SCORINGS))
def test_walks_do_not_depend_on_it_either(seed, choices, size, scoring):
    rng = np.random.default_rng(seed)
    query = random_vectors(rng, 1)[0]
    config = SearchConfig(
        token_budget=int(rng.integers(10, 200)),
        confidence=NEVER,
        scoring=scoring[0],
    )
    rules = {"scale": scoring[1], "initial_share": 0.5 if rng.random() < 0.5 else 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_NODES", size)
        *_, (library, corpus) = history(seed, choices)
    fresh = library.corpus()
    assert retrieval(corpus, query, config, **rules) == retrieval(fresh, query, config, **rules)
    numbers = [number for number in corpus.numbers if rng.random() < 0.6]
    only = those_of(library, numbers).corpus()
    masks = corpus.within(numbers), fresh.within(numbers)
    found = retrieval(corpus, query, config, masks[0], **rules)
    assert found == retrieval(fresh, query, config, masks[1], **rules)
    assert found == retrieval(only, query, config, **rules)


def those_of(library, documents):
    """Show only these documents."""
    kept = Library(0)
    seen = set(documents)
    for number, block in library.blocks.items():
        if number in seen:
            kept.put(block, library.nodes[number])
    return kept


@given(SEEDS, CHOICES)
def test_the_top_represents_every_document_once(seed, choices):
    *_, (library, corpus) = history(seed, choices)
    rng = np.random.default_rng(seed)
    numbers = {number for number in corpus.numbers if rng.random() < 0.7}
    visible = those_of(library, numbers).blocks
    expected = [
        library.nodes[number][i].id for number, block in visible.items() for i in top_of(block)
    ]
    mask = corpus.within(numbers)
    assert addresses(corpus, View.of(corpus, mask).top) == expected
    levels = [int(block.levels.max()) for block in library.blocks.values()]
    assert corpus.has_points == (max(levels, default=0) > 1)


def dense(library, corpus, visible):
    """Return the visible nodes as a dense world, and their indices in the corpus."""
    rows = np.flatnonzero(visible).tolist()
    everything = [node for n in library.blocks for node in library.nodes[n]]
    index = dict(zip(living(corpus), everything, strict=True))
    nodes = [index[row] for row in rows]
    edges = np.zeros((len(rows), len(rows)))
    position = {row: i for i, row in enumerate(rows)}
    for row in rows:
        for child, weight in zip(*corpus.children(row), strict=True):
            if int(child) in position:
                edges[position[row], position[int(child)]] = weight
    searched, names = map(searched_text, nodes), [node.heading for node in nodes]
    return DenseWorld(nodes, names, list(searched), edges), rows


@pytest.mark.slow
@given(SEEDS, CHOICES, st.sampled_from(SCORINGS), st.sampled_from([2, 1000]))
def test_the_frontier_equals_the_dense_reference(seed, choices, scored, few):
    scoring, scale = scored
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_NODES", 40)
        patch.setattr(frontiers, "MOST_MISFITS", 10**6)  # the reference tries all nodes
        patch.setattr(lexicons, "RARE_IN_NODES", few)
        patch.setattr(lexicons, "RARE_SHARE", 0.0)
        *_, (library, corpus) = history(seed, choices)
        rng = np.random.default_rng(seed)
        allowed = rng.random(len(corpus)) < rng.choice([0.5, 1.0])
        view = View.of(corpus, allowed)
        visible = view.mask
        if not visible.any():
            return
        world, rows = dense(library, corpus, visible)
        query = random_vectors(rng, 1)[0]
        question = question_of(QUESTION, query)
        similarity = Similarity(view, question.asked_words, query, scoring).values
        vectors = np.concatenate([block.vectors for block in library.blocks.values()])
        cosine = vectors[visible[living(corpus)]].astype(float) @ query.astype(float)
        places = [(n, int(p)) for n, block in library.blocks.items() for p in block.paragraphs]
        seen = [
            place for place, is_seen in zip(places, visible[living(corpus)], strict=True) if is_seen
        ]
        expected = reference_prior(world, cosine, QUESTION, scoring, seen)
        np.testing.assert_allclose(similarity[rows], expected, atol=1e-6)
        references = References(view, question) if scoring.references else None
        frontier = Frontier(view, similarity, scoring=scoring, scale=scale, references=references)
        costs, room = rng.integers(1, 12, len(corpus)), int(rng.integers(10, 120))
        visited = list[tuple[int, float]]()
        while True:
            expected = reference_parts(
                world, similarity[rows], visited, QUESTION, scoring, scale, few
            )
            parts = [frontier.parts(row) for row in rows]
            found = np.array([(p.attention, p.similarity, p.reference) for p in parts]).T
            np.testing.assert_allclose(found, expected, atol=1e-12)
            was_open = frontier.open[rows]
            chosen = frontier.best(lambda indices: costs[list(indices)].tolist(), room)
            position = None if chosen is None else rows.index(chosen)
            check_choice(
                expected.sum(0),
                costs[rows],
                room,
                position,
                was_open,
                was_open & ~frontier.open[rows],
            )
            check_ranking(frontier, world, rows, expected.sum(0), [i for i, _ in visited])
            if chosen is None:
                return
            visited.append((position, float(rng.choice([0, rng.random()]))))
            frontier.visit(chosen, world.nodes[position])
            frontier.pass_on(chosen, visited[-1][1])
            room -= costs[chosen]


def check_choice(scores, costs, room, chosen, was_open, closed):
    """Check that it fits, and that no better node does, or no node without a choice."""
    better = was_open
    if chosen is not None:
        assert was_open[chosen] and costs[chosen] <= room
        better = was_open & (scores > scores[chosen] + 1e-9)
    assert closed[better].all()
    assert (costs[closed] > room).all()


def check_ranking(frontier, world, rows, scores, visited):
    read = {j for i in visited for j in world.inside(i)}
    unread = [i for i in range(len(rows)) if i not in read]
    ranked = [rows.index(index) for index in frontier.ranking(3)]
    assert not read & set(ranked)
    np.testing.assert_allclose(scores[ranked], np.sort(scores[unread])[::-1][:3], atol=1e-12)


@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, 3.0, -np.inf]), max_size=40), st.integers(1, 45))
def test_the_highest_values_are_those_of_a_stable_sort(values, count):
    array = np.array(values)
    expected = [i for i in np.argsort(-array, kind="stable") if array[i] > -np.inf][:count]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontiers, "BLOCK", 3)
        assert highest(array, count).tolist() == expected


def test_a_walk_ends_when_too_many_nodes_do_not_fit(monkeypatch):
    monkeypatch.setattr(frontiers, "MOST_MISFITS", 5)
    library = Library(0)
    corpus = library.corpus().extended([library.add() for _ in range(4)])
    frontier = Frontier(View.of(corpus), np.linspace(1, 0.1, len(corpus)))
    short = len(corpus) - 1
    costs = [100] * short + [1]
    assert frontier.best(lambda indices: [costs[i] for i in indices], 10) is None
    assert np.flatnonzero(~frontier.open).tolist() == [0, 1, 2, 3, 4]
    assert frontier.left_out
    assert frontier.ranking(2).tolist() == [0, 1]


def test_one_more_document_leaves_all_but_the_last_segments_alone(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_NODES", 100)
    library = Library(1)
    corpus, copied = library.corpus(), 0
    for _ in range(300):
        larger = corpus.extended([library.add()])
        new = [part for part in larger.segments if part not in corpus.segments]
        assert sum(map(len, new)) <= 100
        copied += sum(map(len, new))
        corpus = larger
    assert copied <= 6 * len(corpus)  # each node is in about log2(100 / 20) of the segments
    assert len(corpus.segments) <= 2 * len(corpus) / 100 + 4
    removed = corpus.without([corpus.numbers[150]])
    assert sum(part not in corpus.segments for part in removed.segments) == 1


def test_segments_with_few_survivors_are_joined(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_NODES", 100)
    library = Library(2)
    corpus = library.corpus().extended([library.add() for _ in range(100)])
    assert len(corpus.segments) >= 10
    for number in corpus.numbers[:-5]:
        corpus = corpus.without([number])
    assert len(corpus.segments) <= 3
    assert len(corpus) < 2 * len(living(corpus))
    assert not corpus.without(corpus.numbers).segments


def test_numbers_that_are_not_there_do_not_matter():
    library = Library(4)
    corpus = library.corpus().extended([library.add() for _ in range(3)])
    assert corpus.without([0, 7]).numbers == corpus.numbers
    assert corpus.without([2]).without([2, 9]).numbers == (1, 3)
    assert not corpus.within([5]).any()
    assert len(library.corpus().without([1, 2])) > 0 == len(Corpus(library.fetch).without([1]))


def test_a_node_whose_document_was_deleted_meanwhile_has_vanished():
    library = Library(5)
    corpus = library.corpus().extended([library.add(), library.add()])
    library.remove(2)
    with pytest.raises(Vanished, match=r"\b2\b"):
        corpus.fetch([0, len(corpus) - 1])
    with pytest.raises(Vanished):
        retrieval(corpus, np.ones(8, np.float32), SearchConfig(confidence=NEVER))


def test_a_corpus_of_nothing_has_nothing():
    corpus = corpus_of([], [])
    assert (len(corpus), corpus.numbers, corpus.has_points, corpus.alive) == (0, (), False, None)
    assert View.of(corpus).top.size == corpus.similarity(np.ones(3, np.float32)).size == 0
    found = retrieval(corpus, np.ones(8, np.float32), SearchConfig())
    assert (found.steps, found.stop) == ((), "exhausted")
