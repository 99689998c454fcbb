"""Asking one system one question: retrieval, answer, scores and costs.

A multiple-choice question is searched for without its options: as part of the query, wrong options
would mislead the search. The reader is shown them and chooses a letter (`hwdag_lab.eval.choosing`), and
nothing is decoded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwdag.answers.stream import AnswerStream
from hwdag.config import SearchConfig
from hwdag.errors import HWDAGError, OutOfMemory
from hwdag.retriever import Retriever
from hwdag.types import Retrieval, Usage
from hwdag_lab.eval.choosing import choose
from hwdag_lab.eval.evidence import passage_recall, retrieval_scores
from hwdag_lab.eval.peaks import peaks_mb, reset_peaks
from hwdag_lab.eval.records import Result
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.text_metrics import bleu4, exact_match, f1, rouge_l

RANKED = 100
"""Nodes to rank if no answer is asked for, read or not, for recall of passages."""

ACCURACY = "accuracy"
TEXT_METRICS = {"f1": f1, "em": exact_match, "rouge_l": rouge_l, "bleu4": bleu4}
"""Scores of a decoded answer, by name."""


def ask(
    result: Result,
    record: Record,
    question: Question,
    retriever: Retriever,
    config: SearchConfig,
    max_new_tokens: int,
) -> Result:
    """Fill in a blank result; an `HWDAGError` becomes part of it, but for `OutOfMemory`."""
    reset_peaks()
    try:
        if result.answered:
            filled = _answered(result, record, question, retriever, config, max_new_tokens)
        else:
            filled = _searched(result, record, question, retriever, config)
    except OutOfMemory:
        raise  # the machine is at fault, not the system
    except HWDAGError as error:
        filled = failed_result(result, record, question, error)
    return replace(filled, peak_memory_mb=peaks_mb())


def failed_result(result: Result, record: Record, question: Question, error: HWDAGError) -> Result:
    """Return the result of a question that could not be asked: every score is 0."""
    names = retrieval_scores((), record, question).keys() | set(_metrics(result, question))
    if not result.answered:
        names |= passage_recall((), record, question).keys()
    return replace(
        result,
        metrics=dict.fromkeys(sorted(names), 0.0),
        error=f"{type(error).__name__}: {error}",
    )


def check_metrics() -> None:
    """Raise `InputError` if a library for scoring answers is missing."""
    for metric in TEXT_METRICS.values():
        metric("a", ("a",))


def _metrics(result: Result, question: Question) -> Sequence[str]:
    """Return the metrics of an answer."""
    if not result.answered:
        return ()
    return [ACCURACY] if question.options else list(TEXT_METRICS)


def _searched(
    result: Result,
    record: Record,
    question: Question,
    retriever: Retriever,
    config: SearchConfig,
) -> Result:
    began = time.perf_counter()
    retrieval = retriever.search(question.text, config=config, k=RANKED)
    seconds = time.perf_counter() - began
    found = _retrieved(result, record, question, retrieval, seconds)
    ranking = (step.node for step in (*retrieval.context, *retrieval.unread))
    return replace(found, metrics={**found.metrics, **passage_recall(ranking, record, question)})


def _answered(
    result: Result,
    record: Record,
    question: Question,
    retriever: Retriever,
    config: SearchConfig,
    max_new_tokens: int,
) -> Result:
    began = time.perf_counter()
    at = [began]  # times at which nodes were found; the search ends with the last
    stream = retriever.stream(
        question.text,
        config=config,
        on_step=lambda step: at.append(time.perf_counter()),
        max_new_tokens=max_new_tokens,
    )
    prediction, likelihood, total, metrics = (
        _chosen(stream, question) if question.options else _text(stream, question)
    )
    ended = time.perf_counter()
    found = _retrieved(result, record, question, stream.retrieval, at[-1] - began)
    return replace(
        found,
        prediction=prediction,
        likelihood=likelihood,
        metrics=metrics | dict(found.metrics),
        answer=replace(total - stream.retrieval.usage, seconds=ended - at[-1]),
    )


Answered = tuple[str, float | None, Usage, dict[str, float]]
"""The answer, its likelihood or the log-probability of its letter, the total cost, and its scores."""


def _text(stream: AnswerStream, question: Question) -> Answered:
    answer = stream.answer
    scores = {name: metric(answer.reply, question.answers) for name, metric in TEXT_METRICS.items()}
    return answer.reply, answer.likelihood, answer.usage, scores


def _chosen(stream: AnswerStream, question: Question) -> Answered:
    chances = choose(stream.evidence, question.options)
    best = int(chances.argmax())
    right = {ACCURACY: float(best == question.label)}
    return question.options[best], float(np.log(chances[best])), stream.usage, right


def _retrieved(
    result: Result, record: Record, question: Question, retrieval: Retrieval, seconds: float
) -> Result:
    nodes = (step.node for step in retrieval.context)
    return replace(
        result,
        metrics=retrieval_scores(nodes, record, question),
        context_tokens=retrieval.context_tokens,
        nodes=len(retrieval.steps),
        stop=retrieval.stop,
        p_yes=tuple(step.p_yes for step in retrieval.steps if step.p_yes is not None),
        # remembered calls (`hwdag_lab.eval.models`) took their time before
        search=replace(retrieval.usage, seconds=max(seconds, retrieval.usage.seconds)),
        notes=retrieval.notes,
    )
