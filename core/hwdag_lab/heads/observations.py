"""What walks saw, node by node, and when all gold evidence was read: the data of controllers.

Every question is walked to its token budget, one node per forward, and written down at once: what
is in the file is not walked again. The raw values of every node are kept, not the features, so that
other features can be tried without a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import with_config

from hwdag.config import BuildConfig, SearchConfig
from hwdag.errors import HWDAGError, InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.base import heads_of
from hwdag.search.progress import Visit
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Document, Retrieval, Span
from hwdag_lab.eval.evidence import evidence_scores, read_spans
from hwdag_lab.eval.models import Models
from hwdag_lab.eval.records import Journal, read_lines
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.systems import index_options

LABELS = ("all_sentences", "all_half")
"""The metric of `hwdag_lab.eval.evidence` that says whether all evidence was read: the first there is."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Trail:
    """One walk; `error` says why there is none.

    `complete[i]` says whether all gold evidence was among what had been read after visit i.
    """

    dataset: str
    document: str
    question: str
    visits: tuple[Visit, ...] = ()
    complete: tuple[bool, ...] = ()
    error: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Names the question."""
        return self.dataset, self.question

    @property
    def readings(self) -> list[int]:
        """Numbers of visits at each reading of p_yes."""
        return [i + 1 for i, visit in enumerate(self.visits) if visit.p_yes is not None]


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class _Settings:
    """What all walks of a file depend on: its first line."""

    settings: dict[str, Any]


def observe(
    records: Iterable[Record],
    models: Models,
    file: Path,
    *,
    token_budget: int,
    build: BuildConfig | None = None,
    settings: Mapping[str, Any] | None = None,
    show_progress: bool | Reporter = False,
) -> list[Trail]:
    """Walk every question with gold evidence; an `HWDAGError` is part of its trail.

    Args:
        records: documents with the questions to be walked, in this order.
        models: build and walk.
        file: JSON lines of finished questions; made if it is not there.
        token_budget: of every walk.
        build: how the documents become graphs; None is the default.
        settings: what else the trails depend on, JSON-able.
        show_progress: a bar with the remaining time, your own, or silence.

    Raises:
        InputError: the file was made with other settings, or is damaged, or cannot be written.
    """
    config = SearchConfig(token_budget=token_budget, progress="budget", stride=1)
    build = build or BuildConfig()
    depends = {
        "models": models.names,
        "token_budget": token_budget,
        "build": asdict(build),
        "heads": heads_of(models.reader, config.heads),
        **(settings or {}),
    }
    depends = json.loads(json.dumps(depends))  # why: to be compared with what a file holds
    lines = read_lines(file, _Settings | Trail)
    if lines and lines[0] != _Settings(depends):
        raise InputError(
            f"{file} holds walks with other settings ({lines[0]}) than these ({depends}); name "
            "another file, or remove it"
        )
    done = {trail.key: trail for trail in lines if isinstance(trail, Trail)}
    wanted = [(record, question) for record in records for question in _judgeable(record)]
    left = sum((record.dataset, question.id) not in done for record, question in wanted)
    with (
        _journal(file) as journal,
        as_reporter(show_progress).stage("walks", left, "question") as advance,
    ):
        if not lines:
            journal.append(_Settings(depends))
        walker = _Walker(models, build, config)
        for record, question in wanted:
            if (record.dataset, question.id) not in done:
                trail = walker.trail(record, question)
                journal.append(trail)
                done[trail.key] = trail
                advance()
    return [done[record.dataset, question.id] for record, question in wanted]


def trail_of(retrieval: Retrieval, record: Record, question: Question) -> Trail:
    """A finished walk as a trail."""
    sources = (read_spans([step.node], record) for step in retrieval.steps)
    read: Iterator[list[Span]] = accumulate(sources, lambda a, b: a + b)
    return Trail(
        record.dataset,
        record.id,
        question.id,
        tuple(map(Visit.of, retrieval.steps)),
        tuple(is_complete(spans, question) for spans in read),
    )


def is_complete(spans: Sequence[Span], question: Question) -> bool:
    """Whether all gold evidence lies in what was read.

    All gold sentences where the data names them, else half of every gold paragraph, see
    `hwdag_lab.eval.evidence`. The question must have gold evidence.
    """
    scores = evidence_scores(spans, question)
    return next(scores[name] for name in LABELS if name in scores) == 1


class _Walker:
    """Holds the index of one document at a time."""

    def __init__(self, models: Models, build: BuildConfig, config: SearchConfig) -> None:
        self._models = models
        self._build = build
        self._config = config
        self._built: tuple[Record, HWDAGIndex] | None = None

    def trail(self, record: Record, question: Question) -> Trail:
        try:
            found = self._index(record).search(question.text, config=self._config)
        except HWDAGError as error:
            reason = f"{type(error).__name__}: {error}"
            return Trail(record.dataset, record.id, question.id, error=reason)
        return trail_of(found, record, question)

    def _index(self, record: Record) -> HWDAGIndex:
        if self._built is None or self._built[0] is not record:
            index = HWDAGIndex.from_documents(
                [Document(record.id, record.text, record.title)],
                **index_options(self._build, self._models),
            )
            self._built = record, index
        return self._built[1]


def _judgeable(record: Record) -> list[Question]:
    """Questions whose evidence is known."""
    return [question for question in record.questions if evidence_scores((), question)]


def _journal(file: Path) -> Journal:
    try:
        return Journal(file)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be written ({error.strerror or error}); name a file in a folder that "
            "exists"
        ) from error
