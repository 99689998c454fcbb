"""The scorer of a navigator and the features that it ranks by."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from worlds import corpus_of, random_graph, random_vectors

from hwdag.config import Scoring
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.errors import InputError, ModelNotFound
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.search.budget import Budget
from hwdag.search.features import FEATURES, LEAST_SPREAD, MAX_DEVIATIONS, NodeFeatures
from hwdag.search.frontier import RERANK_CANDIDATES, Frontier
from hwdag.search.navigator import WEIGHTS, FeatureRanker
from hwdag.search.question import Question
from hwdag.text.headings import read_texts
from hwdag.text.words import content_words
from hwdag.types import Node, Span

QUESTION = "Which dragon guards the silver bridge of the castle?"
COUNT = len(FEATURES)


def a_scorer(seed=0, features=COUNT, hidden=(5, 3)):
    rng = np.random.default_rng(seed)
    sizes = (2 * features, *hidden, 1)
    layers = tuple(
        (rng.normal(size=(a, b)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    mean, scale = rng.normal(size=features), rng.uniform(0.5, 2, features)
    return FeatureRanker(mean.astype(np.float32), scale.astype(np.float32), layers)


def one_by_one(scorer, features):
    """Return the scores, number by number."""
    found = []
    for row in features:
        x = []
        for j, value in enumerate(row):
            x.append((value - scorer.mean[j]) / scorer.scale[j])
        for j, value in enumerate(row):
            column = features[:, j]
            x.append((value - column.mean()) / (column.std() + LEAST_SPREAD))
        x = [min(max(value, -MAX_DEVIATIONS), MAX_DEVIATIONS) for value in x]
        for i, (weight, bias) in enumerate(scorer.layers):
            if i:
                x = [max(value, 0.0) for value in x]
            x = [
                sum(v * w for v, w in zip(x, weight[:, out], strict=True)) + bias[out]
                for out in range(len(bias))
            ]
        found.append(x[0])
    return np.array(found)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_scorer_is_a_small_network_over_signals_and_their_deviations(count):
    scorer, rng = a_scorer(features=4), np.random.default_rng(count)
    features = rng.normal(size=(count, 4)) * [1, 10, 0, 3]
    np.testing.assert_allclose(scorer(features), one_by_one(scorer, features), rtol=1e-4, atol=1e-4)


def test_a_saved_scorer_judges_as_before(tmp_path):
    scorer, features = a_scorer(), np.random.default_rng(1).normal(size=(7, COUNT))
    scorer.save(tmp_path)
    assert (FeatureRanker.load(tmp_path)(features) == scorer(features)).all()


def test_a_file_that_is_no_scorer_of_these_signals_is_refused(tmp_path):
    with pytest.raises(ModelNotFound, match="scorer"):
        FeatureRanker.load(tmp_path)
    path = tmp_path / WEIGHTS
    path.write_bytes(b"nothing")
    with pytest.raises(InputError):
        FeatureRanker.load(tmp_path)
    a_scorer(features=COUNT + 1).save(tmp_path)
    with pytest.raises(InputError, match=str(COUNT)):
        FeatureRanker.load(tmp_path)
    a_scorer().save(tmp_path)
    tensors = load_file(path)
    for changed, message in (
        ({k: v for k, v in tensors.items() if k != "mean"}, "'mean'"),
        ({k: v for k, v in tensors.items() if k != "bias1"}, "'bias1'"),
        (tensors | {"weight1": tensors["weight1"][:2]}, "version"),
        (tensors | {"bias1": np.array(1.0, np.float32)}, "features"),
        (tensors | {"bias1": tensors["bias1"][None]}, "features"),
        (tensors | {"weight0": np.array(1.0, np.float32)}, "features"),
        (tensors | {"scale": 0 * tensors["scale"]}, "positive"),
        (tensors | {"bias0": np.full_like(tensors["bias0"], np.nan)}, "finite"),
        ({k: tensors[k] for k in ("mean", "scale")}, "features"),
    ):
        save_file(changed, path)
        with pytest.raises(InputError, match=message):
            FeatureRanker.load(tmp_path)


def world(seed, chunks=9, levels=3):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=chunks, levels=levels)
    corpus = corpus_of([graph], [random_vectors(rng, len(graph))])
    return corpus, graph, rng


def a_walk(corpus, vector, scoring=None, ranker=None):
    scoring = scoring or Scoring(attention=0.0)
    view, question = View.of(corpus), Question.of(QUESTION, vector)
    similarity = Similarity(view, question.asked_words, vector, scoring)
    frontier = Frontier.of(view, question, similarity.values, scoring, ranker=ranker)
    return similarity, frontier, NodeFeatures(view, question, similarity, corpus.fetch)


@pytest.mark.parametrize("seed", range(3))
def test_features_have_the_values_of_their_definitions(seed):
    corpus, graph, rng = world(seed)
    similarity, frontier, features = a_walk(corpus, random_vectors(rng, 1)[0])
    read = rng.permutation(9)[:3].tolist()
    for index in read:
        frontier.visit(index, graph.nodes[index])
        features.visit(index)
    similarity.add(random_vectors(rng, 1))
    frontier.set_similarity(similarity.values)
    rows = np.flatnonzero(frontier.open)
    scores = rng.random(len(rows))
    found = features.of(frontier, rows, scores)
    assert found.shape == (len(rows), COUNT)
    vectors = corpus.vectors(range(len(corpus)))
    asked = set(content_words(QUESTION))
    covered = {w for i in read for w in content_words(graph.nodes[i].text)} & asked
    rarity = View.of(corpus).lexicon.rarity(asked)
    for values, row, score in zip(found, rows.tolist(), scores, strict=True):
        named = dict(zip(FEATURES, values.tolist(), strict=True))
        words = asked & set(content_words(graph.nodes[row].text))
        nearest = max(float(vectors[row] @ vectors[i]) for i in read)
        mean, spread = similarity.first.mean(), similarity.first.std()
        expected = {
            "score": score,
            "top": scores.max(),
            "similarity": frontier.similarity[row],
            "cosine": similarity.first[row],
            "cosine_z": (similarity.first[row] - mean) / spread,
            "navigated": max(similarity.first[row], similarity.latest[row]),
            "echoes": frontier.echoes[row],
            "nearest": nearest,
            "reads": np.log(4),
            "nodes": np.log(len(corpus)),
            "asked": sum(rarity[w] for w in words) / sum(rarity.values()),
            "asked_new": sum(rarity[w] for w in words - covered) / sum(rarity.values()),
        }
        for name, value in expected.items():
            assert named[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_features_know_how_much_of_a_paragraph_was_read():
    corpus, graph, rng = world(5, levels=1)  # one paragraph
    _, frontier, features = a_walk(corpus, random_vectors(rng, 1)[0])
    sizes = [len(node.text) for node in graph.nodes]
    order = rng.permutation(len(sizes)).tolist()
    for count, index in enumerate(order):
        share = sum(sizes[i] for i in order[:count]) / sum(sizes)
        rows = np.array(order[count:])
        for values, row in zip(
            features.of(frontier, rows, np.zeros(len(rows))), rows.tolist(), strict=True
        ):
            named = dict(zip(FEATURES, values.tolist(), strict=True))
            own = sizes[row] / sum(sizes)
            assert named["paragraph_reads"] == count
            assert named["paragraph_read"] == pytest.approx(share)
            assert named["share"] == pytest.approx(own)
            assert named["would_half"] == (share < 0.5 <= share + own)
            assert named["would_touch"] == (share < 0.1 <= share + own)
        frontier.visit(index, graph.nodes[index])
        features.visit(index)


def test_a_point_may_be_picked_from_a_paragraph_that_no_leaf_begins_in():
    text = "The castle has a bridge.\n\nA dragon guards the bridge."
    spans = (Span(0, len(text)), Span(26, len(text)))
    leaf, point = (
        Node(f"doc#{level}.0", "doc", level, text[span.start :], "chunk", 5, (span,))
        for level, span in enumerate(spans, start=1)
    )
    graph = HWDAG.from_rows(
        [leaf, replace(point, origin="extractive")], [EdgeRow(1, np.zeros(1, np.int32), np.ones(1))]
    )
    corpus = corpus_of([graph], [random_vectors(np.random.default_rng(0), 2)], [text])
    assert [corpus.paragraph(i).tolist() for i in (0, 1)] == [[0], [1]]
    assert corpus.lengths(np.array([0, 1])).tolist() == [len(text), len(text) - 26]
    _, frontier, features = a_walk(corpus, random_vectors(np.random.default_rng(1), 1)[0])
    for values in features.of(frontier, np.array([0, 1]), np.zeros(2)):
        assert dict(zip(FEATURES, values.tolist(), strict=True))["share"] == 1.0


class Judge:
    """A ranker that judges by a function of nodes and scores, and that visits do not change."""

    def __init__(self, judge):
        self._judge = judge

    def rank(self, frontier, nodes, scores):
        return self._judge(nodes, scores)

    def visit(self, index, node):
        return None


def test_a_bound_of_a_cost_fits_if_the_cost_does():
    """Nodes under headings, whose tokens by which reading were counted before, or of some of them."""
    _, graph, rng = world(1, chunks=40, levels=1)

    def count(texts):
        return [len(text) for text in texts]

    nodes = [replace(node, heading=f"Castle > {i // 5}") for i, node in enumerate(graph.nodes)]
    nodes = [
        replace(n, line_tokens=(*count(read_texts(n)[:2]), i % 2 * 999))
        for i, n in enumerate(nodes)
    ]
    corpus = corpus_of([HWDAG.from_rows(nodes, [])], [random_vectors(rng, len(nodes))])
    budget = Budget(corpus, count, 700, by_section=True, counted=True)
    for index in rng.permutation(len(nodes)).tolist():
        every = list(range(len(nodes)))
        fits = [
            [cost <= budget.room for cost in some(every)] for some in (budget.bounds, budget.costs)
        ]
        assert fits[0] == fits[1]
        if fits[0][index]:
            budget.take(index)
    assert not all(fits[0])


def costs(indices):
    return [1 + index % 3 for index in indices]


@pytest.mark.parametrize("seed", range(4))
def test_a_judge_chooses_among_the_best_nodes_that_fit(seed):
    corpus, graph, rng = world(seed, chunks=70, levels=2)
    vector = random_vectors(rng, 1)[0]
    liked = rng.random(len(corpus))
    asked = []

    def judge(rows, scores):
        assert (np.diff(scores) <= 0).all()
        asked.append(rows.tolist())
        return liked[rows] - 7

    _, frontier, _ = a_walk(corpus, vector, ranker=Judge(judge))
    for room in (50, 2, 1):
        before = frontier.ranking(len(corpus)).tolist()
        best = frontier.best(costs, room)
        shown = asked[-1]
        assert len(shown) <= RERANK_CANDIDATES and len(set(shown)) == len(shown)
        assert all(costs([i])[0] <= room for i in shown)
        assert best == max(shown, key=lambda i: liked[i])
        assert shown == [i for i in before if i in shown]
        runners_up = sorted(shown, key=lambda i: -liked[i])
        copies = {best, *corpus.inside(best).tolist(), *corpus.copies(best).tolist()}
        expected = [i for i in runners_up if i not in copies][:2]
        assert frontier.runners_up(best, 2) == expected
        frontier.visit(best, graph.nodes[best])
