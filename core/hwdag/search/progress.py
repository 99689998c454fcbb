"""LLM-guided Dynamic Progress Control: when is it enough (GARLIC 3.2.1, PECAN 3.2.1)."""

from __future__ import annotations

from hwdag.config import SearchConfig
from hwdag.lm.base import Reader


class ProgressControl:
    """Counts every p_yes above the confidence; enough are `patience` of them.

    With budget-only progress nothing is ever enough: the walk uses its token budget.
    """

    def __init__(self, config: SearchConfig, reader: Reader) -> None:
        trusted = reader.p_yes_is_informative
        self.steers = config.progress == "p_yes" or (config.progress == "auto" and trusted)
        self._confidence = config.confidence
        self._left = config.patience

    def is_enough(self, p_yes: float) -> bool:
        """Take one more reading; True once patience has run out."""
        self._left -= p_yes > self._confidence
        return self.steers and self._left <= 0
