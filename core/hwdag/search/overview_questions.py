"""Questions about the whole of the documents: "What is this about?", "Summarize the report." (not in the papers).

A question is one of them by its embedding, by a logistic regression that `benchmarks/overviews.py` fits and
reports. It holds for the default embedder, which knows English. Questions for all decisions of a time are
known by their words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder

COEFFICIENTS = Path(__file__).with_suffix(".json")

_DOCUMENTS = """
all article articles book books contract document documents everything file files meeting notes page pages
paper papers pdf pdfs report reports story text texts transcript
"""
DOCUMENTS = frozenset(_DOCUMENTS.split())

_REPORT = re.compile(
    r"what (?:(?:was|were|has been|have we|did (?:the |our )?\w+) (?:decided?|discuss(?:ed)?|agreed?|resolved?)|"
    r"happened(?! in \d))(?: (?:at|in|on|during|over|all|the|our|these|last|past|this|whole|board|team))* "
    r"(?:meetings|minutes|year|month|quarter|(?:19|20)\d\d)|"
    r"was (?:wurde|haben wir|hat (?:der|die) \w+)(?: (?:in|im|den|diese[ms]|letzte[ns]?|auf|allen))* "
    r"(?:jahr|monat|sitzungen|protokollen|(?:19|20)\d\d) (?:beschlossen|besprochen|entschieden|vereinbart)|"
    r"qu['’]a-t-on (?:décidé|discuté) (?:cette année|en (?:19|20)\d\d|aux réunions)|"
    r"¿?qué se (?:decidió|discutió|acordó) (?:este año|en (?:19|20)\d\d|en las reuniones)",
    re.I,
)


def asks_for_overview(embedder: Embedder, vector: Vectors) -> bool:
    """Return whether a question with this embedding, (dimension,), is about the whole of the documents."""
    is_known = getattr(embedder, "fingerprint", None) == fitted_weights()["embedder"]
    is_usual = vector.shape == fitted_weights()["weights"].shape and bool(vector.any())
    return is_known and is_usual and logit_of(vector, fitted_weights()) > 0


def asks_for_report(question: str) -> bool:
    """Return whether a question asks for all decisions or topics of a time, or of several meetings."""
    return _REPORT.fullmatch(question.strip(" ?？.!")) is not None


def names_documents(words: Iterable[str]) -> bool:
    """Return whether one of a question's words means the documents: a text, a report, the files, everything."""
    return not DOCUMENTS.isdisjoint(words)


def logit_of(vector: Vectors, model: Mapping[str, Any]) -> float:
    """Log-odds by the model of an embedding, (dimension,)."""
    return float(model["intercept"] + np.dot(model["weights"], vector / np.linalg.norm(vector)))


@cache
def fitted_weights() -> Mapping[str, Any]:
    """Return the values that `benchmarks/overviews.py` fitted, and their embedder."""
    found: dict[str, Any] = json.loads(COEFFICIENTS.read_text("utf-8"))
    return found | {"weights": np.array(found["weights"])}
