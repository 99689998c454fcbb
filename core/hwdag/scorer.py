"""A scorer: which of some nodes a walk should read first, judged by what it knows about them (ours).

A small network, in numpy alone, trained on walks to pick the node that touches or completes a gold
paragraph (`examples/train_navigator`). It sees every signal as it is, and how far it is from the mean of
the nodes that are judged together, in standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from hwdag.arrays import Floats, Vectors
from hwdag.checks import regular
from hwdag.errors import InputError, ModelNotFound

WEIGHTS = "scorer.safetensors"

SIGNALS = (
    "score",  # of the frontier
    "similarity",
    "mentions",
    "echoes",
    "cosine",  # to the question
    "cosine_z",  # in standard deviations from the mean over all nodes
    "navigated",  # the highest to any form of the question
    "navigated_z",
    "latest",  # to the form that was added last
    "words",  # BM25
    "paragraph_best",  # similarity of the best leaf of the paragraph
    "of_paragraph_best",  # share of it that the node has
    "is_paragraph_best",
    "paragraph_reads",  # nodes of the paragraph that were read
    "paragraph_read",  # share of it
    "is_half",
    "share",  # of the paragraph that the node is
    "would_touch",
    "would_half",
    "nearest",  # cosine to the most similar node that was read
    "nearest_mean",
    "heading_reads",  # nodes that were read under the same heading
    "asked",  # share of the question's words that node or heading have, weighed by rarity
    "asked_new",  # the same for words of the text that no node had which was read
    "heading_asked",  # share of the heading's words that are in the question
    "reads",  # logarithm
    "paragraphs_read",
    "nodes",  # logarithm
    "spread",  # standard deviation of the cosine
    "top",  # the highest score
)
"""What a scorer judges by, in this order (`hwdag.search.signals`)."""

FARTHEST = 5.0
"""Standard deviations beyond which a signal counts no more."""

LEAST_SPREAD = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Weights of a scorer of f signals.

    Attributes:
        mean, scale: of every signal over the training data, (f,).
        layers: matrix (inputs, outputs) and bias (outputs,) of every layer; the first has 2 f inputs,
            the last 1 output, between them is ReLU.
    """

    mean: Vectors
    scale: Vectors
    layers: tuple[tuple[Vectors, Vectors], ...]

    def __call__(self, signals: Floats) -> Floats:
        """Judge nodes that compete with each other, (k, f) to (k,); higher is to be read sooner."""
        x = inputs(signals, self.mean, self.scale)
        for i, (weight, bias) in enumerate(self.layers):
            x = (np.maximum(x, 0.0) if i else x) @ weight + bias
        return np.asarray(x[:, 0], np.float64)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The scorer in a folder; raises `ModelNotFound`, or `InputError` where it takes other signals."""
        path, signals = folder / WEIGHTS, len(SIGNALS)
        try:
            tensors = load(regular(path).read_bytes())
        except OSError as error:
            raise ModelNotFound(
                f"no scorer in {folder}: {error.strerror} ({WEIGHTS}); examples/train_navigator makes it"
            ) from error
        except SafetensorError as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        count = sum(name.startswith("weight") for name in tensors)
        try:
            layers = tuple((tensors[f"weight{i}"], tensors[f"bias{i}"]) for i in range(count))
            found = cls(tensors["mean"], tensors["scale"], layers)
        except KeyError as error:
            raise InputError(f"{path} has no tensor {error}") from error
        widths = [*(weight.shape[0] for weight, _ in layers if weight.ndim), 1]
        shapes = [(weight.shape, bias.shape) for weight, bias in layers]
        expected = [((a, b), (b,)) for a, b in pairwise(widths)]
        fits = layers and shapes == expected and widths[0] == 2 * signals
        if not (fits and found.mean.shape == found.scale.shape == (signals,)):
            raise InputError(
                f"{path} must judge by {signals} signals, got layers of {shapes}; it belongs to "
                "another version of hwdag: train one anew (examples/train_navigator)"
            )
        if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
            raise InputError(f"{path} has weights that are not finite")
        if not (found.scale > 0).all():
            raise InputError(f"{path} has a scale that is not positive")
        return found

    def save(self, folder: Path) -> None:
        """Write the file that `load` reads."""
        tensors: dict[str, Vectors] = {"mean": self.mean, "scale": self.scale}
        for i, (weight, bias) in enumerate(self.layers):
            tensors |= {f"weight{i}": weight, f"bias{i}": bias}
        save_file(
            {k: np.ascontiguousarray(v, np.float32) for k, v in tensors.items()}, folder / WEIGHTS
        )


def inputs(signals: Floats, mean: Vectors, scale: Vectors) -> Vectors:
    """What the network sees, (k, f) to (k, 2 f)."""
    spread = signals.std(axis=0) + LEAST_SPREAD
    seen = ((signals - mean) / scale, (signals - signals.mean(axis=0)) / spread)
    clipped = np.clip(np.concatenate(seen, axis=1), -FARTHEST, FARTHEST)
    return np.asarray(clipped, np.float32)
