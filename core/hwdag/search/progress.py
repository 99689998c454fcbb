"""LLM-guided Dynamic Progress Control: when is it enough (GARLIC 3.2.1, PECAN 3.2.1).

The papers ask p_yes. A controller (`hwdag.lm.controller`) is ours: it weighs p_yes with other
signals of the walk, which are there anyway, and gives a probability that may be read as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag.lm.base import Reader
from hwdag.lm.controller import CONTROLLERS, Controller
from hwdag.search.interruption import Interruption
from hwdag.types import Step, StopReason

LEAST = 1e-6
"""Probabilities and masses below this count as this much, so that logarithms stay finite."""


CONTROLLER_CONFIDENCE = 0.8
"""Four of five walks that a controller ends here should have all evidence: it is calibrated."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visited node as the signals need it; the values are those of its `Step`."""

    position: int
    relevance: float
    similarity: float
    p_yes: float | None
    tokens: int

    @classmethod
    def of(cls, step: Step) -> Visit:
        """The visit that a step is."""
        return cls(step.position, step.relevance, step.similarity, step.p_yes, step.node.tokens)


def signals(visits: Sequence[Visit]) -> dict[str, float]:
    """The features of `hwdag.lm.controller.FEATURES` after the last of the visited nodes.

    `p_yes`: its log odds. `p_yes_growth`: these less those of the first reading, so that a question
    which is always called answerable does not look answered. `head_mass`: log of the two largest
    mean attentions of a node to the question together, over the heads of the walk, without the
    position factor. `similarity_gap`: how far the similarity of the last node is below that of the
    most similar one, as a share of it; the walk takes the best node that is left, so this says how
    little the rest has to do with the question. `nodes`: log of how many were read.

    No signal depends on the weight or the scale of a part of the score.

    Args:
        visits: at least one, in visiting order; p_yes was read after the last of them.
    """
    readings = [_log_odds(visit.p_yes) for visit in visits if visit.p_yes is not None]
    masses = sorted(visit.relevance / visit.position for visit in visits)
    nearest = max(visit.similarity for visit in visits)
    return {
        "p_yes": readings[-1],
        "p_yes_growth": readings[-1] - readings[0],
        "head_mass": math.log(max(sum(masses[-2:]), LEAST)),
        "similarity_gap": 1 - visits[-1].similarity / nearest if nearest > 0 else 0.0,
        "nodes": math.log(len(visits)),
    }


def _log_odds(p: float) -> float:
    bounded = min(max(p, LEAST), 1 - LEAST)
    return math.log(bounded / (1 - bounded))


class ProgressControl:
    """Counts every probability above the confidence; enough are `patience` of them.

    The probability is p_yes, or that of a controller. With budget-only progress nothing is ever
    enough: the walk uses its token budget. An interruption ends any walk.

    Attributes:
        steers: whether a probability may end the walk.
        says_yes: whether the last probability was above the confidence; always True for one that
            does not steer.

    Raises:
        InputError: the config wants a controller, and the reader has none.
    """

    def __init__(
        self, config: SearchConfig, reader: Reader, interruption: Interruption | None = None
    ) -> None:
        self._controller = _controller(config, reader)
        self._name = config.progress
        self.steers = config.progress != "budget"
        self.says_yes = not self.steers
        self._confidence = _confidence(config, reader, self._controller)
        self._left = config.patience
        self._interruption = interruption or Interruption(max_seconds=config.max_seconds)

    @property
    def notes(self) -> list[str]:
        """Who steers, in words, where it is not p_yes."""
        if self._controller is not None:
            return [f"the controller {self._name!r} says what is enough"]
        return [] if self.steers else ["p_yes is shown but does not stop the walk"]

    def p_enough(self, visited: Sequence[Step]) -> float | None:
        """The controller's probability that the visited nodes are enough; None without one."""
        if self._controller is None:
            return None
        return self._controller.probability(signals([Visit.of(step) for step in visited]))

    @property
    def reason(self) -> StopReason | None:
        """Why the walk is to end; None while it goes on."""
        if self.steers and self._left <= 0:
            return "sufficient"
        return self._interruption.reason

    def take(self, step: Step) -> None:
        """Count one more node that was read."""
        probability = step.p_yes if self._controller is None else step.p_enough
        if probability is None:
            return
        said_yes = probability > self._confidence
        self.says_yes = said_yes or not self.steers
        self._left -= said_yes


def _confidence(config: SearchConfig, reader: Reader, controller: Controller | None) -> float:
    """The threshold of the search; else that of the controller, or of the reader."""
    if config.confidence is not None:
        return config.confidence
    if controller is not None:
        return CONTROLLER_CONFIDENCE
    return reader.confidence


def _controller(config: SearchConfig, reader: Reader) -> Controller | None:
    if config.progress not in CONTROLLERS:
        return None
    found = reader.controllers.get(config.progress)
    if found is None or not found.fits(reader.name):
        has = f"one for {found.reader}" if found else "none"
        raise InputError(
            f"progress={config.progress!r} needs a controller that was fitted for {reader.name}, "
            f"and its head file has {has}; make it with `hwdag heads calibrate --model {reader.name} "
            '--data DATA.jsonl -o HEADS.json` and load the reader with heads="HEADS.json", or use '
            'progress="p_yes" or "budget"'
        )
    return found
