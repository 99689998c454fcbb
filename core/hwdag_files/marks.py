"""Signs of plain text for raised, lowered and struck-out letters, and for boxes.

A raised digit that is written as a plain one becomes a digit of the number before it: 10¹⁰ and 1010.
"""

from __future__ import annotations

import re

_RAISED = str.maketrans("0123456789+-−–=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾")
_LOWERED = str.maketrans("0123456789+-−–=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₌₍₎")
_HAS_DIGIT = re.compile("[0-9]")
_KEPT = re.compile(r"[0-9+\-−–=()\[\],;*†‡§ \s]*|\[.*\]")
LONGEST_RAISED = 40  # characters; more of them are a line of its own that is small

_STRUCK, _VALID = "\ue004", "\ue005"
_AGAIN = re.compile(f"{_VALID}([ \t]*){_STRUCK}")
_NEXT_LINE = re.compile(f"{_VALID}\n{_STRUCK}")
_STRETCH = re.compile(f"{_STRUCK}([^{_STRUCK}{_VALID}]*){_VALID}")
_FILLED = re.compile(r"[^\s\ue000-\ue003](?:[^\n\t]*[^\s\ue000-\ue003])?")


def raised(text: str) -> str:
    """Write the digits of a raised text as superscripts; a text without digits stays as it is."""
    return _moved(text, _RAISED, "^")


def lowered(text: str) -> str:
    """Write the digits of a lowered text as subscripts; a text without digits stays as it is."""
    return _moved(text, _LOWERED, "_")


def _moved(text: str, signs: dict[int, int], mark: str) -> str:
    if not _HAS_DIGIT.search(text) or len(text) > LONGEST_RAISED:
        return text
    if _KEPT.fullmatch(text):
        return text.translate(signs)
    bare = text.strip()
    # why: a letter or fraction has no raised sign, and "10-3/2" is another number
    return text if bare[0].isalpha() else text.replace(bare, f"{mark}({bare})")


def struck(text: str) -> str:
    """Mark a text as struck out, for `with_marks`."""
    return f"{_STRUCK}{text}{_VALID}" if text.strip() else text


def over_lines(text: str) -> str:
    """Join the marks of `struck` at the ends of lines, for words that the end of a line divides."""
    return _NEXT_LINE.sub("\n", text)


def with_marks(text: str) -> str:
    """Write text that `struck` marked as "~~40 euros~~", line by line."""
    if _STRUCK not in text:
        return text
    text = _AGAIN.sub(r"\1", text)
    text = _STRETCH.sub(lambda found: _FILLED.sub(r"~~\g<0>~~", found[1]), text)
    return text.replace(_STRUCK, "").replace(_VALID, "")


def box(*, is_checked: bool) -> str:
    """Return the sign of a check box or radio button."""
    return "[x] " if is_checked else "[ ] "
