"""Comparing two runs, or two systems of one run: paired bootstrap over common questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hwdag.errors import InputError
from hwdag_lab.eval.data import grouped
from hwdag_lab.eval.records import Result, read_results
from hwdag_lab.eval.settings import read_settings
from hwdag_lab.eval.statistics import Difference
from hwdag_lab.eval.summary import LEVEL, gain, headlines


class Side(NamedTuple):
    """One side of a comparison: a system of a run."""

    folder: Path
    system: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a` minus `b` on one data set, at one budget, by one metric."""

    dataset: str
    budget: int | None
    metric: str
    a: Side
    b: Side
    difference: Difference

    @property
    def verdict(self) -> str:
        """The result in words; without a difference shown, there may still be one."""
        return "differs" if self.difference.p_value < LEVEL else "no difference shown"


def compare(
    folders: Sequence[Path], *, systems: Sequence[str] = (), metrics: Sequence[str] = ()
) -> list[Comparison]:
    """Return paired differences over the questions of both sides, per data set and budget.

    Args:
        folders: one or two folders of runs.
        systems: for two folders, none for every common system, one for that system in both, or two
            for the first in the first folder and the second in the second. For one folder, two.
        metrics: names; by default one of answers and one of evidence that both sides have.

    Raises:
        InputError: a side is missing, a run does not have the system or the metric, or there is no
            common question.
    """
    runs: dict[Path, Run] = {}
    for folder in folders:
        read_settings(folder)  # why: raises for a folder that is no run
        runs[folder] = grouped(read_results(folder).values(), lambda result: result.system)
    pairs = _sides(folders, systems, runs)
    found = [
        comparison
        for a, b in pairs
        for comparison in _compared(a, b, runs[a.folder], runs[b.folder], metrics)
    ]
    if not found:
        wanted = f"with the metric {', '.join(metrics)} " if metrics else ""
        named = ", ".join(f"{a.system} / {b.system}" for a, b in pairs)
        raise InputError(
            f"there is no question {wanted}that both sides of {named} were asked at the same "
            "budget; compare runs over the same data with the same seed"
        )
    return found


Run = Mapping[str, Sequence[Result]]
"""Results by system."""


def _sides(
    folders: Sequence[Path], systems: Sequence[str], runs: Mapping[Path, Run]
) -> list[tuple[Side, Side]]:
    if len(folders) == 2 and not systems:
        first, second = folders
        common = [name for name in runs[first] if name in runs[second]]
        if not common:
            raise InputError(
                f"{first} and {second} have no system in common ({', '.join(runs[first])}; "
                f"{', '.join(runs[second])}); name one of each with two --system"
            )
        return [(Side(first, name), Side(second, name)) for name in common]
    places = [*folders] * (2 if len(folders) == 1 else 1)
    names = [*systems] * (2 if len(systems) == 1 and len(folders) == 2 else 1)
    if len(places) != 2 or len(names) != 2:
        raise InputError(
            f"a comparison has two sides, got {len(folders)} folders and {len(systems)} systems; "
            "name two folders and at most two systems, or one folder and two systems"
        )
    a, b = (Side(folder, name) for folder, name in zip(places, names, strict=True))
    for folder, name in (a, b):
        if name not in runs[folder]:
            raise InputError(f"{folder} has no system {name!r}; it has {', '.join(runs[folder])}")
    return [(a, b)]


def _compared(
    a: Side, b: Side, ours: Run, theirs: Run, metrics: Sequence[str]
) -> Iterator[Comparison]:
    mine, other = (
        grouped(run[side.system], lambda result: (result.dataset, result.budget))
        for run, side in ((ours, a), (theirs, b))
    )
    for key in sorted(mine.keys() | other.keys(), key=lambda k: (k[0], k[1] or math.inf)):
        # why: a system that reads everything has no budget, and is compared at each of the other's
        one, two = (side.get(key) or side.get((key[0], None)) or () for side in (mine, other))
        had = [{m for result in side for m in result.metrics} for side in (one, two)]
        for metric in metrics or headlines(had[0] & had[1]):
            if difference := gain(one, two, metric):
                yield Comparison(*key, metric, a, b, difference)
