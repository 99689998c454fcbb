"""LLM-guided Dynamic Progress Control: when is it enough (GARLIC 3.2.1, PECAN 3.2.1)."""

from __future__ import annotations

from hwdag.config import SearchConfig
from hwdag.lm.base import Reader
from hwdag.search.interruption import Interruption
from hwdag.types import Step, StopReason


class ProgressControl:
    """Counts every p_yes above the confidence; enough are `patience` of them.

    With budget-only progress nothing is ever enough: the walk uses its token budget. An interruption
    ends any walk.

    Attributes:
        steers: whether p_yes may end the walk.
        says_yes: whether the last p_yes was above the confidence; always True for one that does not
            steer.
    """

    def __init__(
        self, config: SearchConfig, reader: Reader, interruption: Interruption | None = None
    ) -> None:
        self.steers = config.progress != "budget"
        self.says_yes = not self.steers
        self._confidence = reader.confidence if config.confidence is None else config.confidence
        self._left = config.patience
        self._interruption = interruption or Interruption(max_seconds=config.max_seconds)

    @property
    def notes(self) -> list[str]:
        """Says so where p_yes does not steer."""
        return [] if self.steers else ["p_yes does not stop the walk"]

    @property
    def reason(self) -> StopReason | None:
        """Why the walk is to end; None while it goes on."""
        if self.steers and self._left <= 0:
            return "sufficient"
        return self._interruption.reason

    def take(self, step: Step) -> None:
        """Count one more node that was read."""
        if step.p_yes is None:
            return
        said_yes = step.p_yes > self._confidence
        self.says_yes = said_yes or not self.steers
        self._left -= said_yes
