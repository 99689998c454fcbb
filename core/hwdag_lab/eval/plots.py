"""Figures of a run, each as SVG and PNG: quality against cost.

Colours are those of Okabe and Ito, which the colour-blind tell apart; markers and line styles say
the same again, so that the figures also work in black and white.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from hwdag.errors import InputError
from hwdag_lab.eval.summary import DatasetSummary, headlines
from hwdag_lab.eval.systems import family, patience_of

PLOTS = "plots"
"""Folder of the figures within a run's folder."""

COLOURS = {
    "hwdag": "#D55E00",
    "bm25": "#0072B2",
    "dense": "#009E73",
    "raptor": "#CC79A7",
    "memwalker": "#B8860B",
    "gem-rag": "#999933",
    "graphreader": "#8B4513",
    "youra": "#6A3D9A",
    "dos-rag": "#66A61E",
    "linear-rag": "#E6AB02",
    "oracle": "#444444",
    "longllmlingua": "#56B4E9",
    "truncate-middle": "#777777",
    "full-context": "#000000",
}
"""By family (`hwdag_lab.eval.systems.family`)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""The star is that of `hwdag`."""
STYLES = ("-", "--", ":", "-.")

BOTTOM = -0.02
"""Of axes of metrics, so that markers at 0 are seen whole."""

_STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "hwdag",
}


def write_plots(folder: Path, summaries: Sequence[DatasetSummary]) -> dict[str, list[Path]]:
    """Draw all figures that the numbers allow; PNG files by data set, SVG files beside them.

    Raises:
        InputError: matplotlib is not installed.
    """
    (folder / PLOTS).mkdir(exist_ok=True)
    return {one.dataset: list(_figures(folder / PLOTS, one)) for one in summaries}


def check_plots() -> None:
    """Raise `InputError` if matplotlib is not installed."""
    _figure_class()


def _figures(folder: Path, one: DatasetSummary) -> Iterator[Path]:
    name = re.sub(r"[^\w.-]+", "_", one.dataset)
    for metric in headlines(one.metrics):
        for cost, label, base in _COSTS:
            if _has_spread(one, metric, cost):
                with _figure(folder / f"{name}-{metric}-{cost}") as (axes, path):
                    _draw_quality(axes, one, metric, cost)
                    axes.set(xlabel=label, ylabel=metric, title=one.dataset)
                    _set_log(axes, _points(one, metric, cost), base)
                yield path


_COSTS = (
    ("context_tokens", "node tokens before the reader (mean)", 2),
    ("tflops", "TFLOPs per query (mean)", 10),
)
"""Cost, label, base of the logarithmic axis."""


def _draw_quality(axes: Any, one: DatasetSummary, metric: str, cost: str) -> None:
    """One line per system over its budgets, with intervals."""
    for system, look in _looks(_drawn(one)).items():
        rows = [row for row in one.rows if row.system == system and metric in row.scores]
        points = [(row.costs[cost].mean, row.scores[metric]) for row in rows if cost in row.costs]
        if points:
            x = [at for at, _ in points]
            y = [score.mean for _, score in points]
            below = [_or_zero(score.mean - score.low) for _, score in points]
            above = [_or_zero(score.high - score.mean) for _, score in points]
            drawn = axes.errorbar(x, y, yerr=[below, above], elinewidth=0.8, label=system, **look)
            for bar in drawn.lines[2]:  # many systems stand close together
                bar.set_alpha(0.35)
    axes.set_ylim(bottom=BOTTOM)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)


def _drawn(one: DatasetSummary) -> list[str]:
    return [system for system in one.systems if patience_of(system) is None]


def _looks(systems: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour per family; a marker and a line style per member."""
    members: dict[str, int] = {}
    looks: dict[str, dict[str, Any]] = {}
    markers = cycle(MARKERS)
    for system in systems:
        number = members.setdefault(family(system), 0)
        members[family(system)] += 1
        is_ours = system == "hwdag"
        looks[system] = {
            "color": COLOURS.get(family(system), "#000000"),
            "marker": "*" if is_ours else next(markers),
            "linestyle": STYLES[number % len(STYLES)],
            "linewidth": 2.4 if is_ours else 1.2,
            "markersize": 11 if is_ours else 5.5,
            "zorder": 5 if is_ours else 2,
        }
    return looks


def _points(one: DatasetSummary, metric: str, cost: str) -> list[float]:
    rows = [row for row in one.rows if row.system in _drawn(one) and metric in row.scores]
    return [row.costs[cost].mean for row in rows if cost in row.costs]


def _has_spread(one: DatasetSummary, metric: str, cost: str) -> bool:
    """Whether there is a cost to draw against: a model that counts no FLOPs has none."""
    return max(_points(one, metric, cost), default=0.0) > 0


def _set_log(axes: Any, points: Sequence[float], base: int) -> None:
    """A logarithmic axis; what costs nothing (no model was asked) stands at its left end."""
    if min(points) > 0:
        axes.set_xscale("log", base=base)
    else:
        smallest = min(point for point in points if point > 0)
        axes.set_xscale("symlog", base=base, linthresh=smallest)
        axes.set_xlim(left=-smallest / 10)
    axes.xaxis.set_major_formatter("{x:g}")


def _or_zero(value: float) -> float:
    """Length of an error bar; none where the interval is not known."""
    return 0.0 if math.isnan(value) else max(0.0, value)


@contextmanager
def _figure(stem: Path) -> Iterator[tuple[Any, Path]]:
    """Axes, and the PNG file that they go to when the block ends, together with an SVG file."""
    figure_class = _figure_class()
    from matplotlib import rc_context

    with rc_context(_STYLE):
        figure = figure_class(figsize=(8, 4.5))
        png = stem.with_name(stem.name + ".png")
        yield figure.subplots(), png
        figure.savefig(png)
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})


def _figure_class() -> Any:
    """The `Figure` of matplotlib, which draws by Agg where nobody asks for a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f'plots are drawn by a library that is missing here ({error}): pip install "hwdag[lab]"'
        ) from error
    return Figure
