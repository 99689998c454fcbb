"""hwdag: question answering over long documents with a Hierarchical Weighted DAG.

Names are loaded on first use; importing the package touches neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hwdag.version import __version__

_LAZY = {
    "And": "hwdag.filters",
    "Answer": "hwdag.types",
    "AnswerStream": "hwdag.search.answering",
    "BuildConfig": "hwdag.config",
    "BuildReport": "hwdag.building.report",
    "Citation": "hwdag.types",
    "Document": "hwdag.types",
    "Equals": "hwdag.filters",
    "Estimate": "hwdag.building.estimate",
    "Exists": "hwdag.filters",
    "HWDAGError": "hwdag.errors",
    "HWDAGIndex": "hwdag.index",
    "HuggingFaceLM": "hwdag.lm.huggingface",
    "In": "hwdag.filters",
    "Node": "hwdag.types",
    "Not": "hwdag.filters",
    "OpenAIWriter": "hwdag.lm.openai_compatible",
    "Or": "hwdag.filters",
    "Prompts": "hwdag.text.prompts",
    "Range": "hwdag.filters",
    "Retrieval": "hwdag.types",
    "Retriever": "hwdag.retriever",
    "Scope": "hwdag.scope",
    "Scoring": "hwdag.config",
    "SearchConfig": "hwdag.config",
    "Span": "hwdag.types",
    "Step": "hwdag.types",
}

__all__ = [*sorted(_LAZY), "__version__"]

if TYPE_CHECKING:
    from hwdag.building.estimate import Estimate as Estimate
    from hwdag.building.report import BuildReport as BuildReport
    from hwdag.config import BuildConfig as BuildConfig
    from hwdag.config import Scoring as Scoring
    from hwdag.config import SearchConfig as SearchConfig
    from hwdag.errors import HWDAGError as HWDAGError
    from hwdag.filters import And as And
    from hwdag.filters import Equals as Equals
    from hwdag.filters import Exists as Exists
    from hwdag.filters import In as In
    from hwdag.filters import Not as Not
    from hwdag.filters import Or as Or
    from hwdag.filters import Range as Range
    from hwdag.index import HWDAGIndex as HWDAGIndex
    from hwdag.lm.huggingface import HuggingFaceLM as HuggingFaceLM
    from hwdag.lm.openai_compatible import OpenAIWriter as OpenAIWriter
    from hwdag.retriever import Retriever as Retriever
    from hwdag.scope import Scope as Scope
    from hwdag.search.answering import AnswerStream as AnswerStream
    from hwdag.text.prompts import Prompts as Prompts
    from hwdag.types import Answer as Answer
    from hwdag.types import Citation as Citation
    from hwdag.types import Document as Document
    from hwdag.types import Node as Node
    from hwdag.types import Retrieval as Retrieval
    from hwdag.types import Span as Span
    from hwdag.types import Step as Step

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name on first use (PEP 562)."""
        if name not in _LAZY:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(_LAZY[name]), name)
