"""Controllers: tiny logistic models that say how likely it is that enough was read.

They are fitted by `hwdag_lab.heads.calibration`, travel in the head file of a model
(`hwdag.lm.heads`), and steer walks through `hwdag.search.progress`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from hwdag.checks import json_object
from hwdag.errors import InputError

FEATURES = ("p_yes", "p_yes_growth", "head_mass", "similarity_gap", "nodes")
"""What a controller may look at; `hwdag.search.progress.signals` has their definitions."""

CONTROLLERS: Mapping[str, tuple[str, ...]] = {
    "head_mass": ("head_mass",),
    "calibrated": FEATURES,
}
"""The controllers by name, as `SearchConfig.progress` takes them, and the features of each."""


@dataclass(frozen=True, slots=True)
class Controller:
    """sigmoid(bias + sum of weight * (feature - mean) / scale).

    Attributes:
        features: names out of `FEATURES`, each at most once.
        means: of the features in the data that it was fitted to.
        scales: their standard deviations there, above 0.
        weights: of the standardised features.
        bias: log odds where every feature is at its mean.
        reader: name of the model whose readings it was fitted to, adapter included.
        source: what it was fitted to, in words.

    Raises:
        InputError: a feature is unknown, or the numbers do not go with the features.
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    reader: str
    source: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.features if name not in FEATURES]
        if unknown or not self.features or len(set(self.features)) < len(self.features):
            raise InputError(
                f"the features of a controller are some of {', '.join(FEATURES)}, each once; got "
                f"{', '.join(map(repr, self.features)) or 'none'}"
            )
        columns = (self.means, self.scales, self.weights)
        if any(len(column) != len(self.features) for column in columns):
            raise InputError(
                f"a controller of {len(self.features)} features needs as many means, scales and "
                f"weights; got {', '.join(str(len(column)) for column in columns)}"
            )
        numbers = [self.bias, *self.means, *self.scales, *self.weights]
        if not all(map(math.isfinite, numbers)) or min(self.scales) <= 0:
            raise InputError(
                "the numbers of a controller must be finite and its scales above 0; calibrate anew"
            )

    def fits(self, reader: str) -> bool:
        """Whether a reader of this name is the one it was fitted for; folders do not count."""
        return _last(reader) == _last(self.reader)

    def probability(self, signals: Mapping[str, float]) -> float:
        """Probability that enough was read, by the signals of one reading."""
        parts = (
            weight * (signals[name] - mean) / scale
            for name, mean, scale, weight in zip(
                self.features, self.means, self.scales, self.weights, strict=True
            )
        )
        from scipy.special import expit  # why here: importing the package must not load scipy

        return float(expit(self.bias + sum(parts)))

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values; `from_json` is the inverse."""
        found = asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """A controller of what `to_json` gave; raises `InputError` for anything else."""
        try:
            values = json_object(data, _KINDS, _KINDS.keys() - {"source"})
        except InputError as error:
            raise InputError(
                f"this is no controller: {error}; make one with `hwdag heads calibrate`"
            ) from error
        return cls(**values)


_KINDS = {
    "features": "a list of texts",
    **dict.fromkeys(("means", "scales", "weights"), "a list of finite numbers"),
    "bias": "a finite number",
    **dict.fromkeys(("reader", "source"), "a text"),
}


def controllers_from(data: Mapping[str, Any] | None) -> dict[str, Controller]:
    """The controllers of a head file by name; none for None.

    Raises:
        InputError: a name stands for no controller, or its value is none.
    """
    found = dict(data or {})
    if unknown := sorted(found.keys() - CONTROLLERS.keys()):
        raise InputError(
            f"a head file may hold the controllers {', '.join(CONTROLLERS)}; got "
            f"{', '.join(map(repr, unknown))}"
        )
    return {name: Controller.from_json(value) for name, value in found.items()}


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/")[-1].lower()
