"""The benchmarks that a release is measured by run to their end, with a tiny model."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiny import saved

from hwdag.text.words import words

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_every_benchmark_can_be_loaded(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    assert all(import_module(path.stem).__doc__ for path in BENCHMARKS.glob("*.py"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(saved(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def run(checkpoint, tmp_path, monkeypatch):
    """Run a benchmark with the tiny model and return its JSON."""
    monkeypatch.setenv("HWDAG_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(BENCHMARKS)
    found = tmp_path / "found.json"

    performance = import_module("performance")
    monkeypatch.setattr(performance, "TEXT", performance.TEXT[:600])
    for name, value in (("AT_ONCE", 2), ("SHORT_DOCUMENTS", 2), ("SHORT_WORDS", 12)):
        monkeypatch.setattr(performance, name, value)

    def run(name, *options):
        program = import_module(name)
        small = replace(program.QUICK, rounds=1, tokens=96, new_tokens=2, batches=(1, 2))
        monkeypatch.setattr(program, "QUICK", small)
        options = ["--quick", "--device", "cpu", "--reader", checkpoint, *options]
        monkeypatch.setattr(sys, "argv", [name, *options, "-o", str(found)])
        assert not program.main()
        measured = json.loads(found.read_text("utf-8"))
        assert all(row["value"] >= 0 for row in measured["rows"])
        return measured

    return run


def test_performance_prints_its_ratios(run):
    """Reading files is left out: it compares with an old version, from the history of the repository."""
    parts = [part for part in import_module("performance").PARTS if part != "files"]
    found = run("performance", "--only", *parts)
    claims = " ".join(row["claim"] for row in found["rows"])
    for part in ("prefill", "captured", "walk", "replies", "`write`"):
        assert part in claims
    assert found["machine"]


def test_the_run_for_a_gpu_does_all_its_parts(run):
    found = run("gpu", "--tests")
    assert found["left_out"] == []
    assert found["tests"] is None
    claims = " ".join(row["claim"] for row in found["rows"])
    for part in ("prefill", "captured", "walk", "batch of 2 ", "`write`"):
        assert part in claims


def test_the_run_for_a_gpu_leaves_out_what_there_is_no_time_for(run):
    found = run("gpu", "--minutes", "0", "--tests")
    assert found["rows"] == []
    assert len(found["left_out"]) == 4


@pytest.mark.parametrize(
    ("name", "files", "asked"),
    [("own_documents", 20, 100), ("more_documents", 20, 100), ("table_documents", 12, 70)],
)
def test_answers_about_own_documents_occur_in_their_files(name, files, asked, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("own_documents")
    folder = benchmark.OWN.parent / name
    texts = {Path(one.id).name: one.text for one in benchmark.documents(folder)}
    questions = benchmark.rows_of(folder / "questions.jsonl")
    assert len(texts) == files
    assert len({row["id"] for row in questions}) == asked
    questions += benchmark.rows_of(folder / "refusals.jsonl")
    assert len({row["id"] for row in questions}) == asked + 30
    assert sum(row["kind"] == "answerable" for row in questions) == 15
    for row in questions:
        if row["kind"] == benchmark.UNANSWERABLE:
            assert not (row["answers"] or row["file"] or row["evidence"])
        else:
            assert row["answers"]
            assert set(words(row["evidence"])) <= set(words(texts[row["file"]])), row["id"]


@pytest.mark.parametrize("name", ["interview_documents", "faq_documents"])
def test_every_evidence_has_a_place_in_its_file(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    own, read = import_module("own_documents"), import_module("own_evidence")
    folder = own.OWN.parent / name
    documents = {one.id: one for one in own.documents(folder)}
    questions = own.rows_of(folder / "questions.jsonl")
    assert len({row["id"] for row in questions}) == 60
    for row in questions:
        if row["kind"] in (own.UNANSWERABLE, own.NEAR_MISS):
            assert not (row["answers"] or row["file"] or row["evidence"])
            continue
        places = list(read.places_of(row, documents))
        assert row["answers"]
        assert len(places) == len(own.places_of(row)), row["id"]
        assert read.covers(places, {key: [span] for key, span in places[:1]}, documents) == (
            len(places) == 1
        )
        assert not read.covers(places, {}, documents)


def test_rows_of_the_same_questions_are_compared(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("own_documents")
    rows = [{"id": "a", "f1": 0.9}, {"id": "b", "f1": 0.5}, {"id": "c"}, {"id": "d", "f1": 1.0}]
    others = [{"id": "b", "f1": 0.5}, {"id": "a", "f1": 0.5}, {"id": "c"}]
    said = benchmark.difference(rows, others)
    assert said == "F1 minus the other: 0.20 [0.00, 0.40], 2 questions"


def test_refusals_and_right_replies_are_separated_by_rank(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("own_documents")
    chance = np.random.default_rng(0)
    said = chance.integers(0, 5, 40) / 4
    labels = chance.random(40) < 0.3 + 0.4 * said
    found = benchmark.auc(labels, said)
    assert found.startswith(f"{roc_auc_score(labels, said):.2f} [")
    assert found.endswith("], 40 questions")
    answered = {"answerability": 0.9, "f1": 0.2, "holds": True, "confidence": 0.8}
    wrong = {"answerability": 0.8, "f1": 0.2, "holds": False, "confidence": 0.3}
    refused = {"answerability": 0.1, "confidence": 0.1}
    follow_up = {"answerability": None, "f1": 1.0, "holds": True, "confidence": None}
    told = benchmark.separated([answered, wrong, refused, refused, follow_up])
    assert told.count("1.00 [1.00, 1.00], 4 questions") == 2


def test_weights_of_signals_reproduce_the_fitted_model(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("found")
    chance = np.random.default_rng(0)
    matrix = chance.normal(size=(60, 2)) * [0.1, 5] + [0.6, 40]
    labels = matrix[:, 0] + 0.02 * matrix[:, 1] + chance.normal(size=60) * 0.05 > 1.4
    signals = [{"near": near, "far": far} for near, far in matrix]
    found, unseen = benchmark.fitted(signals, labels, [str(i) for i in range(60)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.5)).fit(matrix, labels)
    total = found["intercept"] + matrix @ [found["weights"]["near"], found["weights"]["far"]]
    wanted = model.predict_proba(matrix)[:, 1]
    np.testing.assert_allclose(1 / (1 + np.exp(-total)), wanted, atol=1e-3)
    assert roc_auc_score(labels, unseen) > 0.8


def test_calibration_and_coverage_of_a_small_world(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("found")
    labels = np.array([True] * 9 + [False] * 11)
    assert benchmark.calibration_error(labels, labels * 0.9) == pytest.approx(0.1 * 9 / 20)
    assert benchmark.calibration_error(labels[:2], labels[:2] * 0.9) == pytest.approx(0.1)
    said = np.linspace(1, 0, 20)
    assert benchmark.coverage(labels, said) == 10 / 20  # nine of ten
    assert benchmark.coverage(~labels, said) == 0


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
def test_a_power_loss_within_a_copy_leaves_whole_files(tmp_path):
    program = [sys.executable, BENCHMARKS / "power_copies.py", "--losses", "12"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*program, "--folder", tmp_path / "copies"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
