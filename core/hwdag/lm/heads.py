"""Heads: all of them (the papers' mean), the known list of a model, or a list of your own.

A few middle-layer *retrieval heads* carry most of the retrieval signal (QRHead, arXiv 2506.09944;
CoRe, arXiv 2510.02219). `hwdag_lab.heads` finds them, and a model file (`hwdag.lm.model_file`) names them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from hwdag.config import HeadList, Heads
from hwdag.errors import InputError
from hwdag.lm.model_file import DETECT, ModelFile, given_file

_LOGGER = logging.getLogger("hwdag")


HeadSource = ModelFile | str | Path | Sequence[tuple[int, int]]
"""A model file that names heads, its path, or bare (layer, head) pairs."""


def given_heads(source: HeadSource, name: str, config: Any) -> HeadList:
    """Return the heads that were passed for a model. Raises `InputError` for those of other sizes."""
    if isinstance(source, ModelFile | str | Path):
        file = given_file(source, name, config)
        if not file.heads:
            raise InputError(
                f"the file of {file.key} names no heads; find them with `{DETECT.format(name=name)}`"
            )
        return file.heads
    try:
        pairs = tuple((int(layer), int(head)) for layer, head in source)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"heads must be a ModelFile, the path of one, or (layer, head) pairs, got {brief(source)}"
        ) from error
    return ModelFile.of(name, config, source="given by the caller", heads=pairs).heads


def resolve(heads: Heads, known: HeadList | None) -> HeadList | None:
    """Return (layer, head) pairs, or None for all heads."""
    if heads == "auto":
        return known
    return None if heads == "all" else heads


@cache
def warn_unknown(name: str) -> None:
    """Warn once per model that "auto" means all heads."""
    _LOGGER.warning(
        "no retrieval heads are known for %s, so the mean over all heads is used, which may rank worse; "
        "find them with `%s` and pass heads=MODEL.json",
        name,
        DETECT.format(name=name),
    )
