"""Controllers: JSON, signals by hand, a fit that recovers what was planted, honest judgement."""

import dataclasses
import json

import evaluation_world as world
import numpy as np
import pytest
from scipy.optimize import minimize

from hwdag.config import BuildConfig
from hwdag.errors import InputError
from hwdag.lm.controller import CONTROLLERS, FEATURES, Controller, controllers_from
from hwdag.search.progress import LEAST, signals
from hwdag.types import Span
from hwdag_lab.eval.schema import Question
from hwdag_lab.heads.calibration import CONFIDENCES, Readings, calibrate, fit_logistic, report_lines
from hwdag_lab.heads.judging import auc, auc_interval, judged, reliability
from hwdag_lab.heads.observations import Trail, Visit, is_complete, observe
from hwdag_lab.scripted import ScriptedLM

PLAIN = Controller(
    ("p_yes", "nodes"), (0.5, 2.0), (2.0, 0.25), (1.5, -1.0), 0.3, "a/Model+x", "ours"
)


def visit(position, relevance, similarity, p_yes, tokens=5):
    return Visit(position, relevance, similarity, p_yes, tokens)


def test_a_controller_survives_json_and_computes_its_formula():
    again = Controller.from_json(json.loads(json.dumps(PLAIN.to_json())))
    assert again == PLAIN
    assert controllers_from({"calibrated": PLAIN.to_json()}) == {"calibrated": PLAIN}
    assert controllers_from(None) == {}
    odds = 0.3 + 1.5 * (0.1 - 0.5) / 2.0 - 1.0 * (2.5 - 2.0) / 0.25
    assert again.probability({"p_yes": 0.1, "nodes": 2.5}) == pytest.approx(1 / (1 + np.exp(-odds)))
    assert again.probability({"p_yes": -1e4, "nodes": 2.0}) == 0.0
    assert again.probability({"p_yes": 1e4, "nodes": 2.0}) == 1.0


def test_a_controller_belongs_to_a_model_and_its_adapter():
    assert PLAIN.fits("/some/folder/model+x/")
    assert not PLAIN.fits("a/Model")
    assert not PLAIN.fits("a/Model+y")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"features": ["p_yes", "mood"]},
            "the features of a controller are some of p_yes, p_yes_growth",
        ),
        ({"features": ["p_yes", "p_yes"]}, "each once; got 'p_yes', 'p_yes'"),
        ({"features": [], "means": [], "scales": [], "weights": []}, "got none"),
        ({"means": [1.0]}, "2 features needs as many means, scales and weights; got 1, 2, 2"),
        ({"scales": [1.0, 0.0]}, "scales above 0"),
        ({"bias": float("nan")}, "no controller: 'bias' must be a finite number"),
        ({"bias": 10**400}, "no controller: 'bias' must be a finite number"),
        ({"bias": True}, "'bias' must be a finite number, got True"),
        ({"weights": ["1", 1.0]}, "'weights' must be a list of finite numbers"),
        ({"weights": "12"}, "'weights' must be a list of finite numbers"),
        ({"reader": None}, "'reader' must be a text, got None"),
        ({"more": 1}, "no controller: unknown 'more'; it may have"),
    ],
)
def test_what_is_no_controller_is_told(changed, message):
    with pytest.raises(InputError, match=message):
        Controller.from_json(PLAIN.to_json() | changed)


def test_names_of_controllers_are_checked():
    with pytest.raises(InputError, match="may hold the controllers head_mass, calibrated; got 'x'"):
        controllers_from({"x": PLAIN.to_json()})
    with pytest.raises(InputError, match="this is no controller"):
        controllers_from({"calibrated": [1, 2]})


def test_signals_by_hand():
    trail = [visit(2, 0.4, 0.8, None), visit(3, 0.3, 1.0, 0.5, 7), visit(4, 1.2, 0.25, 0.8, 2)]
    found = signals(trail)
    assert tuple(found) == FEATURES
    assert found["p_yes"] == pytest.approx(np.log(0.8 / 0.2))
    assert found["p_yes_growth"] == pytest.approx(np.log(0.8 / 0.2) - np.log(0.5 / 0.5))
    assert found["head_mass"] == pytest.approx(np.log(0.2 + 0.3))
    assert found["similarity_gap"] == pytest.approx(0.75)
    assert found["nodes"] == pytest.approx(np.log(3))


def test_signals_of_nothing_are_finite():
    found = signals([visit(2, 0.0, 0.0, 0.0, 0)])
    expected = {"p_yes": np.log(LEAST / (1 - LEAST)), "head_mass": np.log(LEAST)}
    expected |= {"p_yes_growth": 0.0, "similarity_gap": 0.0, "nodes": 0.0}
    assert found == pytest.approx(expected)


def test_signals_do_not_depend_on_the_weight_or_scale_of_similarity():
    rng = np.random.default_rng(0)
    trail = [visit(i + 2, rng.random(), rng.random(), rng.random()) for i in range(6)]
    scaled = [dataclasses.replace(one, similarity=7 * one.similarity) for one in trail]
    assert signals(scaled) == pytest.approx(signals(trail))


def test_the_fit_is_the_minimum_of_its_loss():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3))
    labels = rng.random(200) < 1 / (1 + np.exp(-(x @ [2.0, -1.0, 0.0] - 1)))

    def loss(at):
        odds = x @ at[1:] + at[0]
        return np.logaddexp(0, odds).sum() - odds[labels].sum() + (at[1:] ** 2).sum()

    expected = minimize(loss, np.zeros(4), options={"gtol": 1e-8}).x
    weights, bias = fit_logistic(x, labels, penalty=2.0)
    np.testing.assert_allclose([bias, *weights], expected, atol=1e-5)


def test_the_fit_recovers_planted_weights():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 3))
    planted = np.array([1.5, -0.7, 0.0])
    labels = rng.random(len(x)) < 1 / (1 + np.exp(-(x @ planted + 0.4)))
    weights, bias = fit_logistic(x, labels)
    np.testing.assert_allclose(weights, planted, atol=0.06)
    assert bias == pytest.approx(0.4, abs=0.06)


@pytest.mark.parametrize("seed", range(20))
def test_the_fit_ends_on_whatever_data(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 4)) * rng.lognormal(size=4)
    x[:, 3] = x[:, 0]
    labels = x[:, 0] + rng.normal(scale=0.3 * seed, size=400) > 0
    weights, _ = fit_logistic(x, labels)
    assert weights[0] == pytest.approx(weights[3], rel=1e-4)


def test_separable_data_are_fitted_and_uniform_labels_refused():
    x = np.array([[-1.0], [-2.0], [1.0], [3.0]])
    weights, _ = fit_logistic(x, x[:, 0] > 0)
    assert 0 < weights[0] < 10
    with pytest.raises(InputError, match="False: enough was never read"):
        fit_logistic(x, np.zeros(4, bool))


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(1)
    for _ in range(10):
        scores, labels = rng.integers(0, 6, 30).astype(float), rng.random(30) < 0.4
        weights = rng.integers(0, 3, 30).astype(float)
        some = [(i, j) for i in np.flatnonzero(labels) for j in np.flatnonzero(~labels)]
        parts = [(weights[i] * weights[j], scores[i] - scores[j]) for i, j in some]
        ordered = sum(w * (0.5 if gap == 0 else gap > 0) for w, gap in parts)
        assert auc(scores, labels, weights) == pytest.approx(ordered / sum(w for w, _ in parts))
    assert np.isnan(auc(np.ones(3), np.ones(3, bool)))


def test_only_pairs_within_a_fold_are_compared():
    rng = np.random.default_rng(2)
    scores, labels, folds = rng.random(40), rng.random(40) < 0.5, rng.integers(0, 3, 40)
    parts = [folds == fold for fold in range(3)]
    pairs = [labels[part].sum() * (~labels[part]).sum() for part in parts]
    areas = [auc(scores[part], labels[part]) for part in parts]
    expected = np.average(areas, weights=pairs)
    assert auc(scores, labels, folds=folds.tolist()) == pytest.approx(expected)
    assert auc(scores + 10 * folds, labels, folds=folds.tolist()) == pytest.approx(expected)


def test_whole_documents_are_drawn():
    """Where documents are copies of one another, no draw changes the area."""
    scores, labels = np.tile([0.1, 0.4, 0.3, 0.9], 5), np.tile([False, False, True, True], 5)
    found = auc_interval(scores, labels, np.repeat(range(5), 4).tolist(), samples=50)
    assert (found.low, found.mean, found.high, found.n) == (0.75, 0.75, 0.75, 20)
    alone = auc_interval(scores, labels, ["one"] * 20)
    assert alone.mean == 0.75
    assert np.isnan(alone.low)


def test_reliability_counts_every_reading_once():
    told = np.array([0.0, 0.05, 0.31, 0.39, 1.0])
    labels = np.array([False, True, False, True, True])
    bins = reliability(told, labels)
    assert [(b.low, b.count, b.observed) for b in bins] == [(0, 2, 0.5), (0.3, 2, 0.5), (0.9, 1, 1)]
    assert bins[1].predicted == pytest.approx(0.35)
    one = judged("x", told, labels, list("abcde"), samples=20)
    assert one.brier == pytest.approx(np.mean((told - labels) ** 2))
    assert one.ece == pytest.approx((2 * 0.475 + 2 * 0.15 + 0) / 5)


def test_complete_means_all_gold_sentences_else_half_of_every_paragraph():
    spans = (Span(0, 10), Span(20, 30))
    sentences = Question("q", "?", ("a",), evidence=(Span(0, 40),), sentences=spans)
    assert not is_complete([Span(0, 10)], sentences)
    assert is_complete([Span(0, 10), Span(20, 29)], sentences)
    paragraphs = Question("q", "?", ("a",), evidence=spans)
    assert is_complete([Span(0, 25)], paragraphs)
    assert not is_complete([Span(0, 24)], paragraphs)


class Reading:
    """p_yes rises a little with the number of nodes; a scripted walk like any other."""

    def __call__(self, question, texts):
        return 0.3 + 0.01 * len(texts)


def walked(path, *, count=8, lm=None, **options):
    models = world.models(lm or ScriptedLM(p_yes=Reading()))
    options = {"token_budget": 60, "settings": {}} | options
    return observe(world.records(count, questions=3), models, path, **options)


def test_trails_are_what_the_walks_saw_and_survive_json(tmp_path):
    trails = walked(tmp_path / "walks.jsonl", count=2)
    assert walked(tmp_path / "walks.jsonl", count=2) == trails  # as they stand in the file
    assert [trail.key for trail in trails] == [
        ("towns", f"q{d}.{q}") for d in range(2) for q in range(3)
    ]
    for trail in trails:
        assert [one.position for one in trail.visits] == list(range(2, len(trail.visits) + 2))
        assert list(trail.complete) == sorted(trail.complete)  # what was read stays read
        assert trail.readings == list(range(1, len(trail.visits) + 1))


def test_interrupted_walks_end_as_if_they_had_not_been(tmp_path):
    whole = walked(tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    for kept in (1, 2, 7, len(lines)):
        (tmp_path / "some.jsonl").write_text("".join(lines[:kept]) + '{"torn')
        lm = ScriptedLM(p_yes=Reading())
        assert walked(tmp_path / "some.jsonl", lm=lm) == whole
        assert len(lm.sessions) == len(lines) - kept
        assert (tmp_path / "some.jsonl").read_text() == "".join(lines)


def test_walks_with_other_settings_are_refused(tmp_path):
    walked(tmp_path / "walks.jsonl", count=1)
    with pytest.raises(InputError, match="holds walks with other settings"):
        walked(tmp_path / "walks.jsonl", count=1, token_budget=50)
    with pytest.raises(InputError, match="holds walks with other settings"):
        walked(tmp_path / "walks.jsonl", count=1, settings={"weights": "0123"})
    listed = ScriptedLM(p_yes=Reading())
    listed.known_heads = ((0, 1),)
    with pytest.raises(InputError, match=r"'heads': \[\[0, 1\]\]"):
        walked(tmp_path / "walks.jsonl", count=1, lm=listed)


def test_walks_go_on_whatever_the_types_of_their_settings(tmp_path):
    """A JSON file has lists where settings have tuples."""
    options = {"build": BuildConfig(edge_heads=((0, 1),)), "settings": {"pairs": ((0, 1),)}}
    trails = walked(tmp_path / "walks.jsonl", count=1, **options)
    lm = ScriptedLM(p_yes=Reading())
    assert walked(tmp_path / "walks.jsonl", count=1, lm=lm, **options) == trails
    assert not lm.sessions


@pytest.mark.parametrize("line", ['{"dataset": "towns"}', '{"relevance": [1], "similarity": []}'])
def test_a_damaged_walk_is_named(line, tmp_path):
    file = tmp_path / "walks.jsonl"
    walked(file, count=1)
    file.write_text(file.read_text().splitlines()[0] + "\n" + line + "\n")
    with pytest.raises(InputError, match=r"walks\.jsonl:2: no line of this version"):
        walked(file, count=1)


def test_walks_that_cannot_be_written_are_told(tmp_path):
    with pytest.raises(InputError, match=r"cannot be written.*name a file in a folder that exists"):
        walked(tmp_path / "none" / "walks.jsonl", count=1)


def test_an_error_is_part_of_the_trail_and_counts_nowhere(tmp_path):
    lm = ScriptedLM(context_tokens=800, window_tokens=600)
    records = world.records(1, questions=1)
    long = dataclasses.replace(records[0].questions[0], id="long", text="Who was it? " * 200)
    records[0] = dataclasses.replace(records[0], questions=(*records[0].questions, long))
    fine, failed = observe(
        records, world.models(lm), tmp_path / "w.jsonl", token_budget=60, settings=None
    )
    assert fine.error is None
    assert failed.error.startswith("QuestionTooLong: ")
    assert failed.visits == ()


def planted(count=60, *, seed=0):
    """Walks whose evidence is complete once the attention says so; p_yes is noise."""
    rng = np.random.default_rng(seed)
    trails = []
    for number in range(count):
        found = int(rng.integers(1, 10))
        visits, complete = [], tuple(i >= found for i in range(12))
        for i in range(12):
            mass = rng.uniform(0.5, 0.6) if i == found else rng.uniform(0.01, 0.05)
            visits.append(visit(i + 2, mass * (i + 2), 1 / (i + 1), rng.random()))
        trails.append(Trail("d", f"doc{number}", f"q{number}", tuple(visits), complete))
    return trails


def test_calibration_finds_the_planted_signal():
    found = calibrate(planted(), reader="scripted", source="planted")
    assert set(found.controllers) == set(CONTROLLERS)
    assert found.judgement("p_yes").auc.low < 0.5 < found.judgement("p_yes").auc.high
    assert found.judgement("head_mass").auc.mean > 0.98
    assert found.judgement("calibrated").auc.mean > 0.98
    assert found.judgement("calibrated").ece < 0.05 < 0.2 < found.judgement("p_yes").ece
    controller = found.controllers["calibrated"]
    weights = dict(zip(controller.features, controller.weights, strict=True))
    assert weights["head_mass"] > 5 * abs(weights["p_yes"])
    assert (controller.reader, controller.source) == ("scripted", "planted")


def test_calibration_is_deterministic_and_knows_where_walks_would_stop():
    trails = planted(20)
    found = calibrate(trails, reader="scripted")
    assert calibrate(trails, reader="scripted") == found
    assert (found.questions, found.documents, found.failed) == (20, 20, 0)
    for name, told in found.stops.items():
        assert [one.confidence for one in told] == list(CONFIDENCES)
        tokens = [one.tokens for one in told]
        assert tokens == sorted(tokens), name
    best = found.stops["head_mass"][0]
    assert best.complete == 1.0
    assert best.tokens < 0.8 * found.budgets[1.0].tokens
    assert (found.budgets[1.0].stopped, found.budgets[1.0].tokens) == (0.0, 60.0)


def test_a_document_is_judged_by_controllers_that_never_saw_it():
    """Two kinds of documents that contradict each other: what is learnt of one fails on the other."""
    rng = np.random.default_rng(0)
    trails = []
    for document in ("a", "b"):
        for number in range(10):
            for i, mass in enumerate(rng.permutation(np.linspace(0.1, 0.9, 6))):
                found = bool(mass > 0.5) == (document == "a")
                one = visit(2, 2 * mass, 1.0, 0.5)
                trails.append(Trail("d", document, f"{document}{number}.{i}", (one,), (found,)))
    found = calibrate(trails, reader="x")
    assert found.judgement("head_mass").auc.mean == 0.0
    assert found.judgement("calibrated").auc.mean == 0.0


def test_number_of_nodes_is_judged_as_it_ranks_within_a_fold():
    trails = planted(20)
    one = calibrate(trails, reader="x").judgement("nodes")
    readings = Readings.of(trails)
    raw = auc(readings.features[:, FEATURES.index("nodes")], readings.labels)
    assert one.auc.mean == pytest.approx(raw, abs=0.05)


def test_one_document_is_too_few():
    trails = [dataclasses.replace(trail, document="same") for trail in planted(5)]
    with pytest.raises(InputError, match="got 1 with walked questions"):
        calibrate(trails, reader="x")
    with pytest.raises(InputError, match="got 0 with walked questions"):
        calibrate([Trail("d", "doc", "q", error="QuestionTooLong: x")], reader="x")


def test_readings_are_the_signals_of_the_walk(tmp_path):
    trails = walked(tmp_path / "walks.jsonl", count=3)
    readings = Readings.of(trails)
    at = 0
    for number, trail in enumerate(trails):
        for count in trail.readings:
            expected = signals(trail.visits[:count])
            assert readings.features[at].tolist() == list(expected.values())
            assert readings.labels[at] == trail.complete[count - 1]
            assert (readings.walks[at], readings.documents[at]) == (
                number,
                ("towns", trail.document),
            )
            at += 1
    assert at == len(readings.labels)


def test_the_report_tells_everything():
    text = "\n".join(report_lines(calibrate(planted(30), reader="x")))
    assert text.startswith("30 questions, 30 documents, 360 readings (0 questions failed)")
    for name in ("p_yes", "nodes", "head_mass", "calibrated"):
        assert f"\n{name} " in text
    assert "reliability of calibrated" in text
    assert text.splitlines()[-1].split() == ["budget", "100.0%", "0.00", "60", "1.00"]
