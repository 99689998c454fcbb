"""Attention as the judge of documents that another retriever found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field

from langchain_hwdag.adapters import as_reader


class HWDAGReranker(BaseDocumentCompressor):
    """Keeps the documents that a local model attends to most for the question, best first.

    Each carries its score, higher is better, under `metadata["relevance_score"]`. Documents without
    text are left out. The forward ends with the last head that counts.

    Attributes:
        reader: a `HuggingFacePipeline` or a `ChatHuggingFace` over one, an `hwdag.HuggingFaceLM`
            (with a list of heads, if you have one), a model name, or None for the default.
        top_n: number of documents.
        scoring: which heads and tokens count: an `hwdag.AttentionScoring`, or the name of
            a preset.
        window_tokens: of a prompt; what does not fit is read in several. None is the context.
        batch_size: such windows that are read in one forward; more than 1 is for GPUs.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Any = Field(default=None, exclude=True, repr=False)
    top_n: int = Field(default=3, ge=1)
    scoring: Any = "qrhead"
    window_tokens: int | None = None
    batch_size: int = Field(default=1, ge=1)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The best documents; errors as in `hwdag.rank_passages`."""
        from hwdag.ranking.passages import best_passages  # why here: it loads torch

        best = best_passages(
            as_reader(self.reader),
            query,
            [document.page_content for document in documents],
            top_n=self.top_n,
            scoring=self.scoring,
            window_tokens=self.window_tokens,
            batch_size=self.batch_size,
        )
        return [_scored(documents[i], score) for i, score in best]


def _scored(document: Document, score: float) -> Document:
    return document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})
