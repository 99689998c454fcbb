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

    Cosine similarity clipped at 0 (GARLIC 3.2.2); with `scoring.sparse`, mixed with BM25 after both
    were stretched to [0, 1], as the two are on different scales.

    Args:
        corpus: the graph.
        question: its words are searched.
        vector: its embedding, (dimension,).
        scoring: the share of BM25.
        allowed: nodes that may be shown, (n,); words are counted in them. None allows all.
    """
    allowed = corpus.visible(allowed)
    keep = np.ones(len(corpus), bool) if allowed is None else allowed
    dense = corpus.similarity(vector)
    if scoring.sparse == 0 or not keep.any():
        return np.where(keep, dense, 0.0)
    sparse = corpus.lexicon(allowed).scores(content_words(question))
    mixed = (1 - scoring.sparse) * stretched(dense, keep) + scoring.sparse * stretched(sparse, keep)
    return np.where(keep, mixed, 0.0)


def stretched(values: Floats, keep: Mask) -> Floats:
    """Values moved and scaled so that those kept span [0, 1]; zeros where all are equal."""
    low, high = values[keep].min(), values[keep].max()
    if high <= low:
        return np.zeros_like(values)
    return np.asarray(np.clip((values - low) / (high - low), 0.0, 1.0))
