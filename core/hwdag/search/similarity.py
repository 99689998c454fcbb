"""How much a node looks like the question, before anything is read: embeddings, and words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Mask
from hwdag.config import Scoring
from hwdag.search.corpus import Corpus
from hwdag.text.words import content_words


def similarity(
    corpus: Corpus,
    question: str,
    vector: NDArray[np.float32],
    scoring: Scoring,
    allowed: Mask | None = None,
) -> Floats:
    """Similarity of every node to the question, at least 0, (n,); 0 for those not allowed.

    Cosine similarity to `vector`, (dimension,), clipped at 0 (GARLIC 3.2.2); with `scoring.sparse`,
    mixed with BM25 after both were stretched to [0, 1], as the two are on different scales; with
    `scoring.paragraph`, mixed with the highest similarity of a leaf of the same paragraph. Words are
    counted in the nodes that are `allowed`, (n,); None allows all.
    """
    allowed = corpus.visible(allowed)
    keep = np.ones(len(corpus), bool) if allowed is None else allowed
    found = corpus.similarity(vector)
    if scoring.sparse > 0 and keep.any():
        words = corpus.lexicon(allowed).scores(content_words(question))
        found = (1 - scoring.sparse) * stretched(found, keep) + scoring.sparse * stretched(
            words, keep
        )
    found = np.where(keep, found, 0.0)
    if scoring.paragraph == 0:
        return found
    best = corpus.best_in_paragraph(found)
    return np.where(keep, (1 - scoring.paragraph) * found + scoring.paragraph * best, 0.0)


def stretched(values: Floats, keep: Mask) -> Floats:
    """Values moved and scaled so that those kept span [0, 1]; zeros where all are equal."""
    low, high = values[keep].min(), values[keep].max()
    if high <= low:
        return np.zeros_like(values)
    return np.asarray(np.clip((values - low) / (high - low), 0.0, 1.0))
