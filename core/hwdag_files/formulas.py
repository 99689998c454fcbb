"""Formulas of office files as LaTeX, one by one."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
FORMULA_NOTE = "{} formula{s} not understood: read as plain letters"
"""The note on formulas that `formula` counts under "formula"."""


def formula(element: Any, noted: Counter[str], *, is_apart: bool = False) -> str:
    """Return an `m:oMath` as LaTeX, or its letters if it cannot be converted.

    A separate one is in double dollar signs.
    """
    from markitdown.converter_utils.docx.math.omml import oMath2Latex

    convert: Any = oMath2Latex
    latex = ""
    with suppress(Exception):  # why: it raises all kinds of exceptions for unknown elements
        latex = str(convert(element).latex or "").strip()
    if not latex:
        latex = "".join(one.text or "" for one in element.iter(f"{MATH}t")).strip()
        noted["formula"] += bool(latex)
        return latex
    sign = "$$" if is_apart else "$"
    return f"{sign}{latex}{sign}"
