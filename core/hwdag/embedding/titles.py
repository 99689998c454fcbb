"""Embeddings of passages under several headings (not in the papers).

Many documents have a section "Prices", and only the headings above it name the owner. Their embedding is added with
a weight. Put before every passage instead, they make the passages of a document too much alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded
from hwdag.text.headings import in_context, lead, parted

EmbeddedText: TypeAlias = tuple[str, str]
"""A passage with its own heading, and the headings above that; "" if it has no heading."""

TITLE_WEIGHT = 0.6
"""Of the headings above, to the passage (`benchmarks/titles.py`)."""


def parts_of(heading: str, passage: str) -> EmbeddedText:
    """Return the texts to embed for a passage under a heading, as `Outline.heading_of` returns it."""
    above, own = parted(heading)
    return in_context(own, passage), lead(above, "")


def embed_parts(embedder: Embedder, parts: Sequence[EmbeddedText]) -> Vectors:
    """Embed passages with the headings above them, (parts, dimension)."""
    texts = texts_of(parts)
    return combined(parts, dict(zip(texts, embedded(embedder, texts), strict=True)))


def texts_of(parts: Sequence[EmbeddedText]) -> list[str]:
    """Return the texts of some parts, each once."""
    return list(dict.fromkeys(text for part in parts for text in part if text))


def combined(parts: Sequence[EmbeddedText], found: Mapping[str, Vectors]) -> Vectors:
    """Put the embeddings of texts together, at least one; each is as long as that of its passage."""
    rows = []
    for passage, above in parts:
        own = found[passage]
        if above:
            mixed = own + np.float32(TITLE_WEIGHT) * found[above]
            length = np.linalg.norm(mixed)
            own = mixed * (np.linalg.norm(own) / length) if length else own
        rows.append(own)
    return np.stack(rows)
