"""The run: every system on the same questions with the same reader, document by document.

    for each document: for each system: build, then for each question: for each budget: ask, score

Every finished question is on disk before the next begins. Started again with the same folder, a run
does only the missing work, so a killed one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from operator import add
from pathlib import Path

from hwdag.errors import HWDAGError, InputError, OutOfMemory
from hwdag.lm.base import Reader
from hwdag.trace.bars import Reporter, as_reporter
from hwdag_lab.eval.asking import ask, check_metrics, failed_result
from hwdag_lab.eval.builds import Builder
from hwdag_lab.eval.choosing import choosing
from hwdag_lab.eval.data import sample
from hwdag_lab.eval.models import RunModels, open_calls
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import (
    BUILDS,
    RECORDS,
    Build,
    Journal,
    Key,
    Result,
    read_builds,
    read_results,
)
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.settings import check_settings
from hwdag_lab.eval.systems import ComparedSystem, systems

CALLS = "calls.sqlite"

USED_UP = 0.98  # mean share of a budget that a walk reads if it does not stop by itself


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Counts of a run: earlier results, new results, and errors among the new ones."""

    kept: int
    added: int
    errors: int

    def __add__(self, other: RunCounts) -> RunCounts:
        return RunCounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class _Task:
    """One question for one system at one budget; `blank` is its result before asking."""

    record: Record
    question: Question
    system: ComparedSystem
    blank: Result


def run(
    records: Iterable[Record],
    models: RunModels,
    plan: Plan,
    folder: Path,
    *,
    show_progress: bool | Reporter = False,
    command: str = "",
) -> RunCounts:
    """Ask the questions that are left, and append the results to the records in `folder`.

    An `HWDAGError` of a question or a build is a result with score 0. `OutOfMemory` and anything else
    end the run, which may be started again.

    Args:
        records: all data; `plan` limits the number of questions.
        models: shared by all systems.
        plan: systems, budgets, number of questions.
        folder: created if needed.
        show_progress: bars with the remaining time, your own Reporter, or silence.
        command: recorded with the settings.

    Raises:
        InputError: the folder holds a run with other settings, another process writes to it, or a
            library for scoring answers is missing.
        UnknownOption: a system does not exist.
    """
    records = list(records)
    if plan.answers:
        check_metrics()
    chosen_systems = systems(plan.systems)
    if plan.match and not any(s.name == plan.match and s.bounded for s in chosen_systems):
        raise InputError(
            f"match={plan.match!r} must be one of the systems that has a budget; there are "
            f"{', '.join(s.name for s in chosen_systems if s.bounded)}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        calls = stack.enter_context(open_calls(folder / CALLS))
        check_settings(folder, plan, models, records, command)
        chosen = sample(records, limit=plan.limit, seed=plan.seed)
        work = _Work(
            results=stack.enter_context(Journal(folder / RECORDS)),
            builder=Builder(
                models,
                calls,
                folder,
                _recorder(folder, stack),
                as_reporter(show_progress),
                chosen,
            ),
            reader=models.reader,
            plan=plan,
            reporter=as_reporter(show_progress),
        )
        budgets = dict.fromkeys((record.dataset for record in chosen), plan.budgets)
        counts = work.do(_tasks(chosen, chosen_systems, plan, budgets), read_results(folder))
        if plan.match:
            done = read_results(folder)
            others = [s for s in chosen_systems if s.bounded and s.name != plan.match]
            means = matched_budgets(done.values(), plan.match, plan.budgets)
            counts += work.do(_tasks(chosen, others, plan, means), done)
    return counts


def matched_budgets(
    results: Iterable[Result], system: str, budgets: Sequence[int]
) -> dict[str, list[int]]:
    """Return the mean node tokens that a system read at each of the budgets, rounded, by data set.

    Budgets that it used up are left out: there its own stop changed nothing.
    """
    read: dict[tuple[str, int], list[int]] = {}
    for result in results:
        if result.system == system and result.budget in budgets and result.error is None:
            key = result.dataset, result.budget or 0
            read.setdefault(key, []).append(result.context_tokens)
    found: dict[str, list[int]] = {}
    for (dataset, budget), tokens in sorted(read.items()):
        mean = round(sum(tokens) / len(tokens))
        if 0 < mean <= USED_UP * budget:
            found.setdefault(dataset, []).append(mean)
    return found


@dataclass(frozen=True, slots=True)
class _Work:
    """Asks questions and records their results."""

    results: Journal
    builder: Builder
    reader: Reader
    plan: Plan
    reporter: Reporter

    def do(self, tasks: Iterable[_Task], done: Mapping[Key, Result]) -> RunCounts:
        """Ask the questions that are left."""
        tasks = list(tasks)
        left = [task for task in tasks if not self._is_done(done.get(task.blank.key), task)]
        errors = 0
        with self.reporter.stage("questions", len(left), "question") as advance:
            for task in left:
                result = self._asked(task)
                self.results.append(result)
                errors += result.error is not None
                advance()
        return RunCounts(len(tasks) - len(left), len(left), errors)

    def _is_done(self, result: Result | None, task: _Task) -> bool:
        """Return whether a result has all that the task asks for."""
        if result is None or (self.plan.retry_errors and result.error is not None):
            return False
        return result.answered or not task.blank.answered

    def _asked(self, task: _Task) -> Result:
        record, question, blank = task.record, task.question, task.blank
        budget = blank.budget or max(self.plan.budgets)
        options = question.options
        listed = self.reader.count_tokens([choosing(question.text, options)] if options else [])
        room = max([self.plan.max_new_tokens, *listed])
        try:
            retriever = self.builder.retriever(task.system, record)
        except OutOfMemory:
            raise
        except HWDAGError as error:
            return failed_result(blank, record, question, error)
        config = task.system.config(budget, record.dataset)
        return ask(blank, record, question, retriever, config, room)


def _recorder(folder: Path, stack: ExitStack) -> Callable[[Build], None]:
    """Return records each build once; a new process may build known ones again."""
    journal, known = stack.enter_context(Journal(folder / BUILDS)), set(read_builds(folder))

    def record(build: Build) -> None:
        if build.key not in known:
            known.add(build.key)
            journal.append(build)

    return record


def _tasks(
    records: Iterable[Record],
    chosen: Sequence[ComparedSystem],
    plan: Plan,
    budgets: Mapping[str, Sequence[int]],
) -> Iterator[_Task]:
    """Yield the tasks of some systems, in working order; budgets are by data set."""
    for record in records:
        for system in chosen:
            for question in record.questions:
                at = list(dict.fromkeys(budgets.get(record.dataset, ())))
                for budget in at if system.bounded else [None]:
                    blank = Result(
                        system=system.name,
                        budget=budget,
                        dataset=record.dataset,
                        document=record.id,
                        question=question.id,
                        type=question.type,
                        text=question.text,
                        answers=question.answers,
                        answered=plan.answers,
                    )
                    yield _Task(record, question, system, blank)
