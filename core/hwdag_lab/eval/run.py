"""The run: every system on the same questions with the same reader, document by document.

    for each document: for each system: build, then for each question: for each budget: ask, score

Every finished question is on disk before the next one begins. Started again, with the same folder,
a run does what is left and nothing else: a killed one goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hwdag.errors import HWDAGError
from hwdag.lm.base import Reader
from hwdag.search.progress import ProgressControl
from hwdag.trace.bars import Reporter, as_reporter
from hwdag_lab.eval.asking import asked, check_metrics, failed
from hwdag_lab.eval.builds import Builder
from hwdag_lab.eval.calls import Calls
from hwdag_lab.eval.journal import Journal
from hwdag_lab.eval.models import Models
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import BUILDS, RECORDS, Build, Result, read_builds, read_results
from hwdag_lab.eval.sampling import sample
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.settings import check_settings
from hwdag_lab.eval.systems import System, systems

CALLS = "calls.sqlite"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run did: results that were there already, that it added, and errors among these."""

    kept: int
    added: int
    errors: int


@dataclass(frozen=True, slots=True)
class _Task:
    """One question for one system at one budget; `blank` is its result before it is asked."""

    record: Record
    question: Question
    system: System
    blank: Result


def run(
    records: Iterable[Record],
    models: Models,
    plan: Plan,
    folder: Path,
    *,
    show_progress: bool | Reporter = False,
    command: str = "",
) -> Counts:
    """Ask what has not been asked yet, and append it to the records in `folder`.

    An `HWDAGError` on a question or on a build is a result, which scores 0; anything else ends the
    run, which may be started again.

    Args:
        records: all of the data; `plan` says how many of the questions are asked.
        models: shared by all systems.
        plan: systems, budgets, number of questions.
        folder: made if it is not there.
        show_progress: bars with the remaining time, your own, or silence.
        command: recorded with the settings.

    Raises:
        InputError: the folder holds a run with other settings, another process is writing to it,
            a library that scores answers is missing, or a system needs a progress controller that the
            reader has not.
        UnknownOption: a system does not exist.
    """
    records = list(records)
    if plan.answer_budgets is None or plan.answer_budgets:
        check_metrics()
    for system in systems(plan.systems):
        ProgressControl(system.search, models.reader)  # why: or each of its questions fails
    folder.mkdir(parents=True, exist_ok=True)
    with Calls(folder / CALLS) as calls:
        check_settings(folder, plan, models, records, command)
        chosen = sample(records, limit=plan.limit, seed=plan.seed)
        with Journal(folder / RECORDS) as results, Journal(folder / BUILDS) as builds:
            done = read_results(folder)
            tasks = list(_tasks(chosen, plan))
            left = [task for task in tasks if not _is_done(done.get(task.blank.key), task, plan)]
            shown = as_reporter(show_progress)
            ledger = _BuildLedger(builds, set(read_builds(folder)))
            builder = Builder(models.remembering(calls), folder, ledger.add, shown)
            errors = 0
            with shown.stage("questions", len(left), "question") as advance:
                for task in left:
                    result = _result(task, builder, models.reader, plan)
                    results.append(result.to_json())
                    errors += result.error is not None
                    advance()
    return Counts(len(tasks) - len(left), len(left), errors)


class _BuildLedger:
    """Writes down what builds cost, once: what a new process builds again is known already."""

    def __init__(self, journal: Journal, known: set[tuple[str, str, str]]) -> None:
        self._journal = journal
        self._known = known

    def add(self, build: Build) -> None:
        if build.key not in self._known:
            self._known.add(build.key)
            self._journal.append(build.to_json())


def _tasks(records: Iterable[Record], plan: Plan) -> Iterator[_Task]:
    """All that the plan asks for, in the order of the work."""
    chosen, budgets = systems(plan.systems), list(dict.fromkeys(plan.budgets))
    for record in records:
        for system in chosen:
            for question in record.questions:
                for budget in budgets if system.bounded else [None]:
                    blank = Result(
                        system=system.name,
                        budget=budget,
                        dataset=record.dataset,
                        document=record.id,
                        question=question.id,
                        type=question.type,
                        text=question.text,
                        answers=question.answers,
                        answered=plan.answers_at(budget),
                    )
                    yield _Task(record, question, system, blank)


def _is_done(result: Result | None, task: _Task, plan: Plan) -> bool:
    """Whether a result tells all that the task asks for."""
    if result is None or (plan.retry_errors and result.error is not None):
        return False
    return result.answered or not task.blank.answered


def _result(task: _Task, builder: Builder, reader: Reader, plan: Plan) -> Result:
    budget = task.blank.budget or max(plan.budgets)
    room = max([plan.max_new_tokens, *reader.count_tokens(task.question.options)])
    try:
        retriever = builder.retriever(task.system, task.record)
    except HWDAGError as error:
        return failed(task.blank, task.question, error)
    return asked(task.blank, task.question, retriever, task.system.config(budget, room))
