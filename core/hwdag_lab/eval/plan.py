"""What an evaluation is to run."""

from __future__ import annotations

from dataclasses import dataclass

from hwdag.errors import InputError


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run.

    Attributes:
        systems: names of rows. See `hwdag_lab.eval.systems`.
        budgets: node tokens that a system may put before the reader.
        limit: questions per data set, at most; None for all.
        seed: of the choice of questions.
        max_new_tokens: length limit of an answer.
        answer_budgets: budgets at which an answer is asked for. None is all, () none. A system
            that reads everything answers unless it is ().
        match: name of a system that stops by itself: every other one is also asked at the mean
            number of node tokens that it read, per data set and budget; "" for none.
        retry_errors: ask questions again whose result is an error.
    """

    systems: tuple[str, ...]
    budgets: tuple[int, ...] = (256, 512, 1024, 2048)
    limit: int | None = 20
    seed: int = 0
    max_new_tokens: int = 32
    answer_budgets: tuple[int, ...] | None = None
    match: str = ""
    retry_errors: bool = False

    def __post_init__(self) -> None:
        if not self.budgets or min(self.budgets) < 1:
            raise InputError(f"budgets must be numbers of at least 1, got {list(self.budgets)}")
        strange = set(self.answer_budgets or ()) - set(self.budgets)
        if strange:
            raise InputError(
                f"answers are asked for at the budgets {sorted(strange)}, which are not among "
                f"{list(self.budgets)}; add them to the budgets"
            )

    def answers_at(self, budget: int | None) -> bool:
        """Whether an answer is asked for at a budget; None is that of a system without one.

        At a budget that another system's stop decides it is, unless there are none at all.
        """
        if self.answer_budgets is None:
            return True
        if budget is None or budget not in self.budgets:
            return bool(self.answer_budgets)
        return budget in self.answer_budgets
