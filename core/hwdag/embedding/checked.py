"""Every call of an embedder, whoever wrote it: its vectors are checked before they are stored or compared."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from reprlib import repr as brief

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.errors import InputError
from hwdag.text.words import plain, words

MIN_ZERO_VECTORS = 8
"""Texts without a vector that are an error if they are most of a call; fewer may be odd ones."""

_LOGGER = logging.getLogger("hwdag")


def embedded(embedder: Embedder, texts: Sequence[str], *, document: str = "") -> Vectors:
    """Embed passages in their `plain` form, (texts, dimension), in float32; `document` is named in errors.

    A text without words may have the vector zero. A text with words that has it is found by its words
    alone: a warning counts those texts.

    Raises:
        InputError: not one vector of finite numbers for each text, or most vectors are zero.
    """
    if not texts:
        return np.zeros((0, embedder.dimension), np.float32)
    rows = as_rows(embedder.name, embedder.embed(list(map(plain, texts))), len(texts), document)
    _check_dimension(embedder, rows.shape[1], document)
    with_words = [i for i, text in enumerate(texts) if words(text)]
    if unread := [texts[i] for i in with_words if not rows[i].any()]:
        counts = f"the vector zero for {len(unread)} of {len(with_words)} texts{_of(document)}"
        example = f"such as {brief(unread[0])}: it seems to know none of their words"
        if len(unread) >= MIN_ZERO_VECTORS and 2 * len(unread) > len(with_words):
            raise InputError(
                f"{embedder.name!r} made {counts}, {example}; take an embedder for their language"
            )
        _LOGGER.warning(
            "%r made %s, %s. Only a search for their words finds them",
            embedder.name,
            counts,
            example,
        )
    return rows


def embedded_question(embedder: Embedder, question: str) -> Vectors:
    """Embed a question in its `plain` form, (dimension,), in float32.

    Raises:
        InputError: not a vector of finite numbers, or the vector zero for a question with words.
    """
    row: Vectors = as_rows(embedder.name, [embedder.embed_query(plain(question))], 1)[0]
    _check_dimension(embedder, len(row))
    if not row.any() and words(question):
        raise InputError(
            f"{embedder.name!r} made the vector zero for the question {brief(question)}: it seems to know "
            "no word of it; ask in other words, or take an embedder for its language"
        )
    return row


def as_rows(name: str, found: object, count: int, document: str = "") -> Vectors:
    """Return the vectors that an embedder made of `count` texts, (count, numbers), in float32. Raises `InputError`."""
    try:
        with np.errstate(over="ignore"):  # too large values become infinite, and are refused below
            rows = np.asarray(found, np.float32)
        seen = f"{len(rows)} vectors" if rows.ndim == 2 else f"an array of shape {rows.shape}"
    except (TypeError, ValueError):
        rows, seen = (
            np.empty(0, np.float32),
            f"a {type(found).__name__} that is no array of numbers",
        )
    if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
        raise InputError(
            f"{name!r} made {seen} for {count} texts{_of(document)}; an embedder makes one vector for each "
            "text, all of one length"
        )
    if wrong := int((~np.isfinite(rows)).any(axis=1).sum()):
        raise InputError(
            f"{name!r} made vectors that are not finite in float32 for {wrong} of {count} texts"
            f"{_of(document)}; load it in another data type, or look at what it returns"
        )
    return rows


def _check_dimension(embedder: Embedder, numbers: int, document: str = "") -> None:
    if numbers != embedder.dimension:
        raise InputError(
            f"{embedder.name!r} made vectors of {numbers} numbers{_of(document)}, but its dimension is "
            f"{embedder.dimension}"
        )


def _of(document: str) -> str:
    return f" of document {document!r}" if document else ""
