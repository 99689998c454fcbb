"""Numbers of a run against numbers by hand; the report, the figures, and the comparison of runs."""

import json
import shutil
from dataclasses import replace

import evaluation_world as world
import numpy as np
import pytest

from hwdag.errors import InputError
from hwdag.types import Usage
from hwdag_lab.eval.compare import compare
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import RECORDS, Journal, read_builds, read_results, write_json
from hwdag_lab.eval.report import report
from hwdag_lab.eval.run import run
from hwdag_lab.eval.settings import SETTINGS, read_settings
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.summary import SUMMARY, gain, headlines, summarise, write_summary
from hwdag_lab.eval.text_metrics import corpus_bleu

PLAN = Plan(
    systems=("hwdag", "hwdag-no-attention", "bm25@sentence", "bm25@100"),
    budgets=(20, 40),
    limit=None,
    max_new_tokens=8,
)

METRICS = {"f1", "em", "rouge_l", "bleu4"}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Makes runs whose results are replaced by `change(result, number of its question)`."""
    runs = {}

    def made(folder, change, *, plan=PLAN, data=None):
        data = data or world.records(8)
        key = plan, tuple((record.id, len(record.questions)) for record in data)
        if key not in runs:  # the others are the same every time
            runs[key] = tmp_path_factory.mktemp("run")
            run(data, world.models(), plan, runs[key])
        shutil.copytree(runs[key], folder, dirs_exist_ok=True)
        results = list(read_results(folder).values())
        numbers = {key: i for i, key in enumerate(dict.fromkeys(r.key[2:] for r in results))}
        (folder / RECORDS).unlink()
        with Journal(folder / RECORDS) as journal:
            for result in results:
                journal.append(change(result, numbers[result.key[2:]]))
        return folder

    return made


def with_f1(result, value):
    return replace(result, metrics={"f1": value})


def test_means_and_costs_are_those_by_hand(tmp_path, planted):
    def change(result, number):
        if number == 3 and result.system == "hwdag":
            return replace(result, metrics={"f1": 0.0}, error="InputError: no", search=Usage(999))
        used = replace(result, search=Usage(number, number / 2, 1.0), answer=Usage(10, 1.0, 2.0))
        return with_f1(used, number / 16)

    planted(tmp_path, change)
    (towns,) = summarise(tmp_path)
    row = towns.row("hwdag", 20)
    numbers = [n for n in range(16) if n != 3]
    assert (row.questions, row.documents, row.errors, row.answered) == (16, 8, 1, 16)
    assert row.scores["f1"].mean == pytest.approx(sum(numbers) / 16 / 16)
    assert row.scores["f1"].n == 16
    assert row.scores["f1"].low < row.scores["f1"].mean < row.scores["f1"].high
    assert row.costs["search_tokens"].mean == pytest.approx(np.mean(numbers))
    assert row.costs["tflops"].mean == pytest.approx(np.mean([n / 2 + 1 for n in numbers]))
    assert row.costs["seconds"].mean == pytest.approx(3.0)
    assert row.costs["search_tokens"].n == 15
    assert set(row.scores) == {"f1", "f1_of_the_surer_half"}

    builds = [b for b in read_builds(tmp_path).values() if b.build == "hwdag"]
    built = next(b for b in towns.builds if b.build == "hwdag")
    words = sum(len(record.text.split()) for record in world.records(8))
    tokens = sum(build.usage.tokens for build in builds)
    assert built.documents == len(builds) == 8
    assert built.tokens == pytest.approx(tokens / 8)
    assert built.tokens_per_1k_words == pytest.approx(1000 * tokens / words)


def test_intervals_resample_documents(tmp_path, planted):
    # both questions of a document have its value: the interval is that of 8 values, not of 16
    planted(tmp_path, lambda result, number: with_f1(result, number // 2 % 2))
    wide = summarise(tmp_path)[0].row("hwdag", 20).scores["f1"]
    planted(tmp_path / "other", lambda result, number: with_f1(result, number % 2))
    narrow = summarise(tmp_path / "other")[0].row("hwdag", 20).scores["f1"]
    assert (wide.mean, narrow.mean) == (0.5, 0.5)
    assert (narrow.low, narrow.high) == (0.5, 0.5)  # every document has the same mean
    assert wide.high - wide.low > 0.3


def test_questions_about_one_document_are_resampled_themselves(tmp_path, planted):
    data = world.records(1, questions=8)

    def half(result, number):
        return with_f1(result, float(result.system == "hwdag" and number % 2))

    summary = summarise(planted(tmp_path, half, data=data))[0]
    scores = [float(number % 2) for number in range(8)]
    assert summary.row("hwdag", 20).scores["f1"] == bootstrap(scores)
    results = read_results(tmp_path).values()
    ours, theirs = ([r for r in results if r.system == name] for name in ("hwdag", "bm25@100"))
    assert gain(ours, theirs, "f1").low > 0


F1 = {
    ("hwdag", 20): 0.5,
    ("hwdag", 40): 0.9,
    ("hwdag-no-attention", 20): 0.4,
    ("hwdag-no-attention", 40): 0.9,
    ("bm25@sentence", 20): 0.7,
    ("bm25@sentence", 40): 0.6,
    ("bm25@100", 20): 0.2,
    ("bm25@100", 40): 0.8,
}


def by_table(result, number):
    """Return the means of `F1`, with the same swing for all systems, so that pairs differ by a constant."""
    return with_f1(result, F1[result.system, result.budget] + 0.05 * (-1) ** (number // 2))


def test_hwdag_is_compared_with_the_best_baseline_of_each_budget(tmp_path, planted):
    planted(tmp_path, by_table)
    (towns,) = summarise(tmp_path)
    gains = [(g.budget, g.system, g.against, round(g.difference.mean, 6)) for g in towns.gains]
    assert gains == [(20, "hwdag", "bm25@sentence", -0.2), (40, "hwdag", "bm25@100", 0.1)]
    assert all(gain.difference.p_value < 0.001 for gain in towns.gains)


def test_the_report_lists_data_sets_that_hwdag_loses(tmp_path, planted):
    planted(tmp_path, by_table)
    text = report(tmp_path).read_text()
    losses = text[text.index("## Where HWDAG loses") : text.index("## towns")]
    assert "of 2 comparisons it wins 1 and loses 1" in losses
    assert (
        "| towns | f1 | 20 | `hwdag` | `bm25@sentence` | -0.20 [-0.20, -0.20], p < 0.001 |"
        in losses
    )
    assert "bm25@100" not in losses
    table = text[text.index("### f1:") : text.index("### f1_of_the_surer_half")]
    assert "| `bm25@sentence` | **0.70** [0.66, 0.74] | 0.60" in table
    assert table.count("**") == 6  # the best of 20, and the two best of 40
    assert "16 questions about 8 documents." in text
    assert "| reader | scripted |" in text
    assert "(called from Python)" in text


def test_a_row_that_is_not_complete_is_reported(tmp_path, planted):
    planted(tmp_path, by_table)
    lines = (tmp_path / RECORDS).read_text().splitlines(keepends=True)
    (tmp_path / RECORDS).write_text("".join(lines[:-3]))
    assert "Not every row has all of them yet" in report(tmp_path).read_text()


def test_the_summary_is_strict_json(tmp_path, planted):
    planted(tmp_path, by_table, data=world.records(1, questions=1))
    write_summary(tmp_path)

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads((tmp_path / SUMMARY).read_text(), parse_constant=refuse)
    row = found["towns"]["rows"][0]
    assert row["scores"]["f1"] == {"mean": 0.55, "low": None, "high": None, "n": 1}


def test_compare_finds_a_planted_difference_and_no_other(tmp_path, planted):
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.3, 0.6, 40)
    jitter = rng.normal(0, 0.05, 40)
    made = {"data": world.records(20), "plan": replace(PLAN, systems=("hwdag", "bm25@100"))}
    a = planted(tmp_path / "a", lambda r, i: with_f1(r, noise[i]), **made)
    b = planted(tmp_path / "b", lambda r, i: with_f1(r, noise[i] + 0.1 + jitter[i]), **made)
    even = jitter - jitter.mean()
    same = planted(tmp_path / "c", lambda r, i: with_f1(r, noise[i] + even[i]), **made)

    found = compare([a, b], systems=["hwdag"], metrics=["f1"])
    assert [(one.budget, one.verdict, one.difference.n) for one in found] == [
        (20, "differs", 40),
        (40, "differs", 40),
    ]
    assert found[0].difference.mean == pytest.approx(-0.1 - jitter.mean())
    assert {one.verdict for one in compare([a, same])} == {"no difference shown"}
    assert {one.a.system for one in compare([a, b])} == {"hwdag", "bm25@100"}


def test_two_systems_of_one_run_are_compared(tmp_path, planted):
    planted(tmp_path, by_table)
    found = compare([tmp_path], systems=["hwdag", "bm25@100"])
    assert [round(one.difference.mean, 6) for one in found] == [0.3, 0.1]
    across = compare([tmp_path, tmp_path], systems=["hwdag", "bm25@100"], metrics=["f1"])
    assert [one.difference for one in across] == [one.difference for one in found]


def test_a_row_that_reads_everything_is_compared_at_each_budget(tmp_path, planted):
    scores = {20: 0.5, 40: 0.7, None: 0.3}
    planted(
        tmp_path,
        lambda result, _: with_f1(result, scores[result.budget]),
        plan=replace(PLAN, systems=("hwdag", "full-context")),
    )

    def differences(*systems):
        found = compare([tmp_path], systems=systems, metrics=["f1"])
        return [(one.budget, round(one.difference.mean, 6)) for one in found]

    assert differences("hwdag", "full-context") == [(20, 0.2), (40, 0.4)]
    assert differences("full-context", "hwdag") == [(20, -0.2), (40, -0.4)]
    assert differences("full-context", "full-context") == [(None, 0.0)]


def test_comparisons_without_sense_are_reported(tmp_path, planted):
    a = planted(tmp_path / "a", by_table)
    other = [replace(record, id=f"other {record.id}") for record in world.records(8)]
    b = planted(tmp_path / "b", by_table, data=other)
    only = replace(PLAN, systems=("truncate-middle",))
    c = planted(tmp_path / "c", lambda result, _: result, plan=only)
    with pytest.raises(InputError, match="question"):
        compare([a, b])
    with pytest.raises(InputError, match="accuracy"):
        compare([a, a], metrics=["accuracy"])
    with pytest.raises(InputError, match="system"):
        compare([a, c])
    with pytest.raises(InputError, match="'bm25'"):
        compare([a], systems=["hwdag", "bm25"])
    with pytest.raises(InputError, match="folder"):
        compare([a], systems=["hwdag"])
    with pytest.raises(InputError, match="folder"):
        compare([a, tmp_path / "nothing"])


def test_headlines_are_one_of_answers_and_one_of_evidence():
    assert headlines(["paragraph_half", "em", "f1", "accuracy"]) == ["accuracy", "paragraph_half"]
    assert headlines(["paragraph_half", "sentence_recall"]) == ["sentence_recall"]
    assert headlines([]) == []


def test_a_stop_is_compared_at_the_tokens_that_it_used(tmp_path, planted):
    """The walk reads 20 of 40 tokens."""

    def change(result, number):
        if result.system == "hwdag":
            return with_f1(replace(result, context_tokens=20), 0.5)
        return with_f1(result, {20: 0.1, 40: 0.5}[result.budget])

    planted(tmp_path, change, plan=replace(PLAN, systems=("hwdag", "bm25@sentence")))
    settings = read_settings(tmp_path)
    write_json(tmp_path / SETTINGS, {**settings, "match": "hwdag"})
    (towns,) = summarise(tmp_path)
    found = {(g.budget, g.at): round(g.difference.mean, 9) for g in towns.stopping}
    assert found == {(20, "20 tokens"): 0.4, (40, "20 tokens"): 0.4}
    text = report(tmp_path).read_text()
    assert "### Stopping, at equal tokens" in text
    assert "| 40 | `hwdag` | `bm25@sentence` | 20 tokens | +0.40" in text


def test_bleu_of_all_answers_together_is_a_figure_of_its_own(tmp_path):
    plan = replace(PLAN, systems=("full-context",), budgets=(20,))
    run(world.records(4), world.models(), plan, tmp_path)
    results = list(read_results(tmp_path).values())
    (row,) = summarise(tmp_path)[0].rows
    expected = corpus_bleu([r.prediction for r in results], [r.answers for r in results])
    assert row.scores["corpus_bleu"].mean == pytest.approx(expected)
    assert row.scores["bleu4"].mean != pytest.approx(expected)
    assert "### corpus_bleu: BLEU-4 of all answers together" in report(tmp_path).read_text()


def test_the_surer_half_is_that_of_the_likelier_answers(tmp_path, planted):
    def change(result, number):
        likely = {0: -3.0, 1: -0.1, 2: None, 3: -0.2, 4: -0.2}[number % 5]
        return with_f1(replace(result, likelihood=likely), number % 5 / 4)

    planted(tmp_path, change, plan=replace(PLAN, systems=("full-context",), budgets=(20,)))
    results = [r for r in read_results(tmp_path).values() if r.likelihood is not None]
    results.sort(key=lambda r: -r.likelihood)
    half = [r.metrics["f1"] for r in results[: (len(results) + 1) // 2]]
    (row,) = summarise(tmp_path)[0].rows
    assert 0 < len(half) < len(results)
    assert row.scores["f1_of_the_surer_half"].mean == pytest.approx(np.mean(half))
    assert row.scores["f1"].mean != pytest.approx(np.mean(half))
    assert "### f1_of_the_surer_half: token F1 of the half" in report(tmp_path).read_text()
