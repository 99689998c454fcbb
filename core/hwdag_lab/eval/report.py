"""`report.md`: the settings, one section per data set, and the losses of HWDAG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hwdag_lab.eval.records import write_text
from hwdag_lab.eval.settings import read_settings
from hwdag_lab.eval.statistics import Interval
from hwdag_lab.eval.summary import LEVEL, BuildRow, DatasetSummary, Gain, SystemRow, write_summary

REPORT = "report.md"

MEANINGS = {
    "accuracy": "the right option is the most probable one",
    "f1": "token F1 of the answer",
    "f1_of_the_surer_half": "token F1 of the half of the answers that the reader finds likeliest",
    "em": "exact match of the answer",
    "rouge_l": "ROUGE-L of the answer",
    "corpus_bleu": "BLEU-4 of all answers together",
    "sentence_recall": "gold sentences at least 80 % inside the returned spans",
    "paragraph_touched": "gold paragraphs at least 10 % inside the returned spans",
    "paragraph_half": "gold paragraphs at least 50 % inside the returned spans",
    "all_half": "questions with all gold paragraphs at least 50 % inside",
    "evidence_precision": "returned characters that lie inside gold paragraphs",
    "recall_at_2": "gold paragraphs among the first 2 that the ranking meets, read or not",
    "recall_at_5": "gold paragraphs among the first 5 that the ranking meets, read or not",
    "written_half": "gold paragraphs at least 50 % inside the sources of written nodes: not read",
}
"""Metrics with tables of their own; the others are in `summary.json`."""

_NOTES = """\
Every system reads, counts tokens and answers with the same model, and may put the same number of
node tokens before it (the budget; `all`: it reads everything). Brackets hold 95 % bootstrap
intervals over documents, or over questions if all are about one document. TFLOPs are analytic
and those of the language model: embedding and BM25 count in seconds only. A question that ended in
an error scores 0. Bold is the best of a column.
"""


_STOPPING = """\
A system that stops by itself, against the others with as many node tokens for every question as it
used on average."""


def report(folder: Path) -> Path:
    """Write `summary.json` and `report.md` from the records of a run; return the report's path.

    Raises:
        InputError: the folder holds no run.
    """
    summaries, settings = write_summary(folder), read_settings(folder)
    lines = ["# Evaluation", "", *_settings(settings), "", _NOTES, *_losses(summaries)]
    for one in summaries:
        lines += ["", f"## {one.dataset}", "", *_dataset(one)]
    path = folder / REPORT
    write_text(path, "\n".join(lines).rstrip() + "\n")
    return path


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    limit = settings["limit"]
    rows = {
        "hwdag": settings["hwdag"],
        **{role.replace("_", " "): name for role, name in settings["models"].items() if name},
        "questions": "all" if limit is None else f"at most {limit} per data set",
        "seed": settings["seed"],
        "answers": f"at most {settings['max_new_tokens']} tokens",
    }
    yield from _table(["setting", "value"], [[key, str(value)] for key, value in rows.items()])
    for run in settings["runs"]:
        machine = ", ".join(f"{key} {value}" for key, value in run["machine"].items())
        yield from ("", f"Begun {run['began']} on {machine}:")
        yield from ("", f"    {run['command'] or '(called from Python)'}")


def _losses(summaries: Sequence[DatasetSummary]) -> Iterator[str]:
    """Yield the section on data sets where HWDAG loses to the best baseline."""
    gains = [(one.dataset, gain) for one in summaries for gain in one.gains]
    if not gains:
        return
    lost = [(name, g) for name, g in gains if _differs(g) and g.difference.mean < 0]
    behind = [(name, g) for name, g in gains if not _differs(g) and g.difference.mean < 0]
    won = sum(_differs(g) and g.difference.mean > 0 for _, g in gains)
    yield from ("## Where HWDAG loses", "")
    yield (
        f"`hwdag` against the best baseline of each data set, metric and budget, paired by question: "
        f"of {len(gains)} comparisons it wins {won} and loses {len(lost)} (p < {LEVEL}); in "
        f"{len(behind)} more it is behind by less than chance allows to tell. The best of several "
        "baselines is chosen on these same questions, which favours it. With so many comparisons "
        "some fall below p < 0.05 by chance.\n"
    )
    for title, found in (("It loses", lost), ("It is behind, but no difference is shown", behind)):
        if found:
            yield from (f"{title}:\n", *_gain_table(found), "")


def _dataset(one: DatasetSummary) -> Iterator[str]:
    questions = {row.questions for row in one.rows}
    documents = max(row.documents for row in one.rows)
    yield f"{_counted(max(questions), 'question')} about {_counted(documents, 'document')}."
    if len(questions) > 1:
        yield (
            f"Not every row has all of them yet (the smallest has {min(questions)}): rows compare "
            "once the run is complete."
        )
    for metric in (m for m in MEANINGS if m in one.metrics):
        yield from ("", f"### {metric}: {MEANINGS[metric]}", "", *_scores(one, metric))
    yield from ("", "### Costs of a question", "", *_costs(one))
    if one.builds:
        yield from ("", "### Costs of a document", "", *_builds(one.builds))
    if one.stopping:
        found = [(one.dataset, gain) for gain in one.stopping]
        yield from ("", "### Stopping, at equal tokens", "", _STOPPING, "", *_gain_table(found))
    yield ""


def _scores(one: DatasetSummary, metric: str) -> Iterator[str]:
    """Yield systems by budgets, with the best of each budget in bold."""
    columns: dict[int | None, list[float]] = {budget: [] for budget in one.budgets}
    for row in one.rows:
        if metric in row.scores:
            columns[row.budget].append(row.scores[metric].mean)
    # why: none is best if all are equal
    best = {b: max(m) if max(m) > min(m) else None for b, m in columns.items() if m}
    lines = []
    for system in one.systems:
        rows = [one.row(system, budget) for budget in best]
        means = [None if row is None else row.scores.get(metric) for row in rows]
        if any(means):
            lines.append([f"`{system}`", *map(_cell, means, best.values())])
    yield from _table(["system", *map(_budget, best)], lines)


def _cell(mean: Interval | None, best: float | None) -> str:
    if mean is None:
        return ""
    is_best = best is not None and math.isclose(mean.mean, best, abs_tol=1e-12)
    value, _, interval = str(mean).partition(" ")
    return f"**{value}** {interval}" if is_best else f"{value} {interval}"


def _costs(one: DatasetSummary) -> Iterator[str]:
    header = ["system", "budget", "questions", "errors", "node tokens", "nodes"]
    header += ["TFLOPs search", "TFLOPs answer", "seconds search", "seconds answer", "peak MB"]
    names = ("search_tflops", "answer_tflops", "search_seconds", "answer_seconds")
    lines = [
        [
            f"`{row.system}`",
            _budget(row.budget),
            str(row.questions),
            str(row.errors or ""),
            _number(row.costs.get("context_tokens"), 0),
            _number(row.costs.get("nodes"), 1),
            *(_number(row.costs.get(name), 3) for name in names),
            _peaks(row),
        ]
        for row in one.rows
    ]
    yield from _table(header, lines)


def _builds(builds: Iterable[BuildRow]) -> Iterator[str]:
    header = ["build", "documents", "words", "nodes", "tokens", "TFLOPs", "seconds"]
    header += ["tokens / 1k words", "TFLOPs / 1k words", "seconds / 1k words"]
    header += ["retries", "fallbacks", "peak MB"]
    lines = [
        [
            f"`{one.build}`",
            str(one.documents),
            f"{one.words:,.0f}",
            f"{one.nodes:,.0f}",
            f"{one.tokens:,.0f}",
            f"{one.tflops:,.3f}",
            f"{one.seconds:,.2f}",
            f"{one.tokens_per_1k_words:,.0f}",
            f"{one.tflops_per_1k_words:,.3f}",
            f"{one.seconds_per_1k_words:,.2f}",
            str(one.retries or ""),
            str(one.fallbacks or ""),
            _peaks(one),
        ]
        for one in builds
    ]
    yield from _table(header, lines)


def _gain_table(gains: Iterable[tuple[str, Gain]]) -> Iterator[str]:
    header = ["data set", "metric", "budget", "system", "against", "difference", "n"]
    gains = list(gains)
    if any(one.at for _, one in gains):
        header.insert(5, "at")
    lines = [
        [
            dataset,
            one.metric,
            str(one.budget),
            f"`{one.system}`",
            f"`{one.against}`",
            *([one.at] if "at" in header else []),
            str(one.difference),
            str(one.difference.n),
        ]
        for dataset, one in gains
    ]
    yield from _table(header, lines)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _differs(one: Gain) -> bool:
    return one.difference.p_value < LEVEL


def _budget(budget: int | None) -> str:
    return "all" if budget is None else str(budget)


def _number(mean: Interval | None, digits: int) -> str:
    return "" if mean is None else f"{mean.mean:,.{digits}f}"


def _peaks(row: SystemRow | BuildRow) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in row.peak_memory_mb.items())


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table; numeric columns are aligned right."""
    lines = list(lines)
    rules = [":---" if any(map(_is_word, cells)) else "---:" for cells in zip(*lines, strict=True)]
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(rules)} |"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def _is_word(cell: str) -> bool:
    return cell[:1].isalpha() or cell[:1] == "`"
