"""Curves of a training log."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

from examples.train_adapter.lines import lines_of

PARTS = ("enough", "pair", "across", "rank", "answer", "points")
SMOOTHING = 0.95


def plot(log: Path, image: Path) -> None:
    """Draw one panel per loss, smoothed, over the tokens trained on."""
    records = list(lines_of(log))
    figure, axes = pyplot.subplots(1, len(PARTS), figsize=(3 * len(PARTS), 2.6))
    for part, axis in zip(PARTS, axes, strict=True):
        points = [(r["tokens"], r[part]) for r in records if part in r]
        if points:
            tokens, values = zip(*points, strict=True)
            axis.plot(tokens, values, color="0.8", linewidth=0.6)
            axis.plot(tokens, smoothed(values), color="C0")
        axis.set(title=part, xlabel="tokens")
    figure.tight_layout()
    figure.savefig(image, dpi=120)
    pyplot.close(figure)


def smoothed(values: tuple[float, ...]) -> list[float]:
    """Exponential moving average without the bias of its start."""
    found, mean = [], 0.0
    for i, value in enumerate(values, 1):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * value
        found.append(mean / (1 - SMOOTHING**i))
    return found
