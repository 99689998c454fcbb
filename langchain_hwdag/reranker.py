"""Rerank the documents of another retriever by attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field

from langchain_hwdag.adapters import as_reader


class HWDAGReranker(BaseDocumentCompressor):
    """Keeps the documents that a local model attends to most, given the question, best first.

    Each carries its score, higher is better, as `metadata["relevance_score"]`. Documents without text
    are left out. The forward stops after the last layer whose heads count.

    Attributes:
        reader: a `HuggingFacePipeline` or a `ChatHuggingFace` over one, an `hwdag.HuggingFaceLM`
            (with heads of your own, if you have any), a model name, or None for the default.
        top_n: number of documents.
        window_tokens: longest prompt; the rest is read in further ones. None is the model's context.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Any = Field(default=None, exclude=True, repr=False)
    top_n: int = Field(default=3, ge=1)
    window_tokens: int | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the best documents; errors are those of `hwdag.rank_passages`."""
        from hwdag.rerank import best_passages  # why here: it loads torch

        best = best_passages(
            as_reader(self.reader),
            query,
            [document.page_content for document in documents],
            top_n=self.top_n,
            window_tokens=self.window_tokens,
        )
        return [_scored(documents[i], score) for i, score in best]


def _scored(document: Document, score: float) -> Document:
    return document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})
