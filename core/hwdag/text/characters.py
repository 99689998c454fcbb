"""Characters that stand in for others, one for one, so that offsets stay what they are."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LINE_BREAKS = {ord(c): " " for c in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}


def without_surrogates(text: str) -> tuple[str, int]:
    """The text with every lone surrogate replaced, and their number: no tokenizer takes them."""
    return _SURROGATE.subn(_REPLACEMENT, text)


def one_line(text: str) -> str:
    """The text with every line break as a space: in a prompt a node is one line."""
    return text.translate(_LINE_BREAKS)
