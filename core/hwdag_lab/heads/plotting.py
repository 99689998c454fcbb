"""Reliability curves of a calibration as one figure."""

from __future__ import annotations

from pathlib import Path

from hwdag.errors import InputError
from hwdag_lab.eval.plots import check_plots
from hwdag_lab.heads.calibration import Calibration

LOOKS = {
    "p_yes": ("#0072B2", "o", "--"),
    "head_mass": ("#009E73", "s", ":"),
    "calibrated": ("#D55E00", "*", "-"),
}
"""Colour (Okabe and Ito), marker and line of each curve."""

SMALLEST, LARGEST = 15, 150
"""Areas of markers, in square points: of a bin with few readings, and of the fullest."""

MARGINS = (-0.03, 1.03)
"""Of both axes, so that markers at 0 and 1 are seen whole."""


def write_reliability(path: Path, found: Calibration) -> None:
    """Draw what was said against what was true; the larger a marker, the more readings.

    The format is that of the file name: .png, .svg or .pdf.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    check_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    for name, (colour, marker, line) in LOOKS.items():
        one = found.judgement(name)
        most = max(b.count for b in one.bins)
        sizes = [SMALLEST + (LARGEST - SMALLEST) * b.count / most for b in one.bins]
        said, true = [b.predicted for b in one.bins], [b.observed for b in one.bins]
        axes.plot(said, true, color=colour, linestyle=line)
        label = f"{name} (AUC {one.auc.mean:.2f}, ECE {one.ece:.2f})"
        axes.scatter(said, true, sizes, color=colour, marker=marker, label=label)
    axes.set(xlim=MARGINS, ylim=MARGINS, xlabel="probability of enough", ylabel="share complete")
    axes.set_title(f"{found.questions} questions, {one.auc.n} readings")
    figure.legend(loc="outside lower center")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be drawn ({error}); name a .png, .svg or .pdf in a folder that exists"
        ) from error
