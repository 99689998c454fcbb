"""Strings that are not text: lone surrogates, which no tokenizer and no file takes."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def without_surrogates(text: str) -> tuple[str, int]:
    """The text with every lone surrogate replaced, character for character, and their number."""
    return _SURROGATE.subn(_REPLACEMENT, text)
