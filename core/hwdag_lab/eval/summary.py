"""Records to numbers: means with intervals, costs, and paired differences.

Documents are resampled, not questions (`hwdag_lab.eval.statistics`). A question that ended in an
error scores 0; its unknown costs are left out of means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hwdag_lab.eval.data import grouped
from hwdag_lab.eval.evidence import (
    PARAGRAPH_METRICS,
    RANKED_METRICS,
    SENTENCE_METRICS,
    WRITTEN_METRICS,
)
from hwdag_lab.eval.records import Build, Result, read_builds, read_results, write_json
from hwdag_lab.eval.settings import read_settings
from hwdag_lab.eval.statistics import Difference, Interval, bootstrap, paired_bootstrap
from hwdag_lab.eval.systems import is_baseline
from hwdag_lab.eval.text_metrics import corpus_bleu

SUMMARY = "summary.json"

CORPUS_BLEU = "corpus_bleu"
"""Over all answers of a row; it has no interval, and no value per question."""

F1_OF_THE_SURER_HALF = "f1_of_the_surer_half"
"""F1 of the likelier half of the answers of a row; it has no value per question."""

ANSWER_METRICS = ("accuracy", "f1", F1_OF_THE_SURER_HALF, "em", "rouge_l", "bleu4", CORPUS_BLEU)
METRICS = (
    *ANSWER_METRICS,
    *SENTENCE_METRICS,
    *PARAGRAPH_METRICS,
    *RANKED_METRICS,
    *WRITTEN_METRICS,
)
"""All metrics, in the order of tables."""

LEVEL = 0.05  # a p-value below it counts as a difference

COSTS: Mapping[str, Callable[[Result], float | None]] = {
    "context_tokens": lambda r: r.context_tokens,
    "nodes": lambda r: r.nodes,
    "search_tokens": lambda r: r.search.tokens,
    "search_tflops": lambda r: r.search.tflops,
    "search_seconds": lambda r: r.search.seconds,
    "answer_tokens": lambda r: r.answer.tokens if r.answer else None,
    "answer_tflops": lambda r: r.answer.tflops if r.answer else None,
    "answer_seconds": lambda r: r.answer.seconds if r.answer else None,
    "tflops": lambda r: r.total.tflops,
    "seconds": lambda r: r.total.seconds,
}
"""Costs per question by name; the last two are of search and, if asked for, answer."""


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One system at one budget on one data set; `scores` and `costs` are means by name."""

    system: str
    budget: int | None
    questions: int
    documents: int
    errors: int
    answered: int
    scores: Mapping[str, Interval]
    costs: Mapping[str, Interval]
    peak_memory_mb: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BuildRow:
    """Mean cost of preparing a document; values per 1,000 words are ratios of sums."""

    build: str
    documents: int
    words: float
    nodes: float
    tokens: float
    tflops: float
    seconds: float
    tokens_per_1k_words: float
    tflops_per_1k_words: float
    seconds_per_1k_words: float
    retries: int
    fallbacks: int
    peak_memory_mb: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean of `system` at a budget minus `against`, over the questions that both were asked.

    `at` is the number of tokens at which the other was asked, if not the same budget.
    """

    system: str
    against: str
    budget: int
    metric: str
    difference: Difference
    at: str = ""


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One data set: its rows, builds, and HWDAG against the best baseline.

    `stopping` compares the system that stops by itself (`Plan.match`) with all others at the mean
    number of node tokens that it read.
    """

    dataset: str
    rows: Sequence[SystemRow]
    builds: Sequence[BuildRow]
    gains: Sequence[Gain]
    stopping: Sequence[Gain] = ()

    @property
    def metrics(self) -> list[str]:
        """Metrics of the rows, in the order of tables."""
        return [metric for metric in METRICS if any(metric in row.scores for row in self.rows)]

    @property
    def systems(self) -> list[str]:
        """Names of the rows."""
        return list(dict.fromkeys(row.system for row in self.rows))

    @property
    def budgets(self) -> list[int | None]:
        """Budgets, ascending; last None, of systems that read everything."""
        found = {row.budget for row in self.rows}
        return sorted(found, key=lambda b: math.inf if b is None else b)

    def row(self, system: str, budget: int | None) -> SystemRow | None:
        """Return the row of a system at a budget."""
        return next((r for r in self.rows if (r.system, r.budget) == (system, budget)), None)


def headlines(metrics: Collection[str]) -> list[str]:
    """Return the first metric of answers and the first of evidence among these, if there are any."""
    groups = (("accuracy", "f1"), ("sentence_recall", "paragraph_half"))
    firsts = (next((m for m in group if m in metrics), None) for group in groups)
    return [metric for metric in firsts if metric]


def summarise(folder: Path) -> list[DatasetSummary]:
    """Return the numbers of a run, by data set; raises `InputError` if it cannot be read."""
    settings = read_settings(folder)
    results = grouped(read_results(folder).values(), lambda result: result.dataset)
    builds = grouped(read_builds(folder).values(), lambda build: build.dataset)
    return [_dataset(name, results[name], builds.get(name, ()), settings) for name in results]


def _dataset(
    name: str, results: Sequence[Result], builds: Sequence[Build], settings: Mapping[str, Any]
) -> DatasetSummary:
    rows = grouped(results, lambda r: (r.system, r.budget))
    place = {system: i for i, system in enumerate(settings["systems"])}
    keys = sorted(rows, key=lambda k: (place.get(k[0], len(place)), k[1] or math.inf))
    by_build = grouped(builds, lambda b: b.build)
    return DatasetSummary(
        dataset=name,
        rows=[_row(system, budget, rows[system, budget]) for system, budget in keys],
        builds=[_build_row(build, group) for build, group in by_build.items()],
        gains=list(_gains(rows)),
        stopping=list(_stopping(rows, settings.get("match", ""))),
    )


def write_summary(folder: Path) -> list[DatasetSummary]:
    """`summarise`, and write `summary.json`, with null for unknown intervals."""
    found = summarise(folder)
    write_json(folder / SUMMARY, {one.dataset: _without_nan(asdict(one)) for one in found})
    return found


def gain(ours: Iterable[Result], theirs: Iterable[Result], metric: str) -> Difference | None:
    """Return paired difference over the questions of one data set that both have scores for."""
    mine, other = _scores(ours, metric), _scores(theirs, metric)
    if not (both := [key for key in mine if key in other]):
        return None
    return paired_bootstrap(
        [mine[key] for key in both],
        [other[key] for key in both],
        groups=_units([document for document, _ in both]),
    )


def _scores(results: Iterable[Result], metric: str) -> dict[tuple[str, str], float]:
    """Return results by document and question."""
    return {(r.document, r.question): r.metrics[metric] for r in results if metric in r.metrics}


def _row(system: str, budget: int | None, results: Sequence[Result]) -> SystemRow:
    sound = [result for result in results if result.error is None]
    scores = {m: _mean(results, lambda r, m=m: r.metrics.get(m)) for m in METRICS}  # type: ignore[misc]
    scores[CORPUS_BLEU] = _corpus_bleu(results)
    scores[F1_OF_THE_SURER_HALF] = _mean(_surer_half(results), lambda r: r.metrics["f1"])
    costs = {name: _mean(sound, cost) for name, cost in COSTS.items()}
    return SystemRow(
        system,
        budget,
        questions=len(results),
        documents=len({result.document for result in results}),
        errors=len(results) - len(sound),
        answered=sum(result.answered for result in results),
        scores={name: mean for name, mean in scores.items() if mean is not None},
        costs={name: mean for name, mean in costs.items() if mean is not None},
        peak_memory_mb=_largest([result.peak_memory_mb for result in results]),
    )


def _mean(results: Sequence[Result], value: Callable[[Result], float | None]) -> Interval | None:
    """Return the mean over the results that have a value."""
    found = [(r.document, v) for r in results if (v := value(r)) is not None]
    if not found:
        return None
    return bootstrap([v for _, v in found], groups=_units([document for document, _ in found]))


def _units(documents: Sequence[str]) -> Sequence[str] | None:
    """Return the groups to resample: documents, or questions if all are about one document (a pool).

    An interval over questions does not hold for other documents.
    """
    return documents if len(set(documents)) > 1 else None


def _surer_half(results: Sequence[Result]) -> Sequence[Result]:
    """Return the likelier half of the decoded answers, rounded up."""
    scored = [(r.likelihood, r) for r in results if r.likelihood is not None and "f1" in r.metrics]
    scored.sort(key=lambda one: -one[0])
    return [result for _, result in scored[: math.ceil(len(scored) / 2)]]


def _corpus_bleu(results: Sequence[Result]) -> Interval | None:
    """Return over all decoded answers; a failed one is empty."""
    decoded = [result for result in results if "bleu4" in result.metrics]
    if not decoded:
        return None
    value = corpus_bleu([r.prediction or "" for r in decoded], [r.answers for r in decoded])
    return Interval(value, math.nan, math.nan, len(decoded))


def _build_row(name: str, builds: Sequence[Build]) -> BuildRow:
    count, words = len(builds), sum(build.words for build in builds)
    totals = {
        "tokens": float(sum(build.usage.tokens for build in builds)),
        "tflops": sum(build.usage.tflops for build in builds),
        "seconds": sum(build.usage.seconds for build in builds),
    }
    return BuildRow(
        name,
        documents=count,
        words=words / count,
        nodes=sum(build.nodes for build in builds) / count,
        **{key: total / count for key, total in totals.items()},
        **{f"{key}_per_1k_words": 1000 * total / max(1, words) for key, total in totals.items()},
        retries=sum(build.retries for build in builds),
        fallbacks=sum(build.fallbacks for build in builds),
        peak_memory_mb=_largest([build.peak_memory_mb for build in builds]),
    )


Rows = Mapping[tuple[str, int | None], Sequence[Result]]


def _gains(rows: Rows) -> Iterator[Gain]:
    """Compare `hwdag` with the best baseline by the same questions, metric and budget."""
    for budget in sorted({b for s, b in rows if b is not None and s == "hwdag"}):
        against = [s for s, b in rows if b == budget and is_baseline(s)]
        for metric in METRICS:
            means = {other: _mean_gain(rows, other, budget, metric) for other in against}
            known = {other: mean for other, mean in means.items() if mean is not None}
            if known:
                best = min(known, key=lambda other: known[other])
                found = gain(rows["hwdag", budget], rows[best, budget], metric)
                assert found is not None  # with common questions
                yield Gain("hwdag", best, budget, metric, found)


def _mean_gain(rows: Rows, other: str, budget: int, metric: str) -> float | None:
    ours, theirs = (_scores(rows[name, budget], metric) for name in ("hwdag", other))
    gains = [score - theirs[key] for key, score in ours.items() if key in theirs]
    return sum(gains) / len(gains) if gains else None


def _stopping(rows: Rows, match: str) -> Iterator[Gain]:
    """Yield the system that stops by itself against all others, at the node tokens that it read."""
    for (system, budget), ours in rows.items():
        if system != match or budget is None:
            continue
        read = [result.context_tokens for result in ours if result.error is None]
        tokens = round(sum(read) / max(1, len(read)))
        for other, at in rows:
            if at == tokens and other != match:
                for metric in headlines({m for result in ours for m in result.metrics}):
                    if found := gain(ours, rows[other, at], metric):
                        yield Gain(match, other, budget, metric, found, f"{tokens} tokens")


def _largest(peaks: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for peak in peaks:
        for name, value in peak.items():
            found[name] = max(value, found.get(name, 0.0))
    return found


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
