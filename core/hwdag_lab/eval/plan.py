"""The plan of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from hwdag.options import CheckedOptions, at_least


@dataclass(frozen=True, slots=True)
class Plan(CheckedOptions):
    """The plan of an evaluation.

    Attributes:
        systems: names of rows; see `hwdag_lab.eval.systems`.
        budgets: node tokens that a system may give to the reader.
        limit: most questions per data set; None for all.
        seed: seed of the choice of questions.
        max_new_tokens: longest answer.
        answers: whether to ask for answers, or retrieve only.
        match: a system that stops by itself; every other one is also asked at the mean number of
            node tokens that it read, per data set and budget. "" for none.
        retry_errors: ask questions again whose result is an error.
    """

    systems: tuple[str, ...]
    budgets: tuple[int, ...] = at_least(1, (256, 512, 1024, 2048))
    limit: int | None = at_least(0, 20)
    seed: int = 0
    max_new_tokens: int = at_least(1, 32)
    answers: bool = True
    match: str = ""
    retry_errors: bool = False
