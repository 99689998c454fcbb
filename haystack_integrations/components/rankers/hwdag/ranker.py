"""Rank documents of another retriever by the attention of a local model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict

from hwdag.config import checked_k
from hwdag.errors import InputError


@component
class HWDAGRanker:
    """Keeps the documents that a local model attends to most, given the question, best first.

    Their score is the attention, higher is better. Documents without text are left out, and so are
    repetitions of an id. The forward stops after the last layer whose heads count.

    Attributes:
        reader: an `hwdag.HuggingFaceLM` (with heads of your own, if you have any), a model name, or
            None for the default.
        top_k: number of documents.
        window_tokens: longest prompt; the rest is read in further ones. None is the model's context.
    """

    def __init__(
        self, reader: object = None, top_k: int = 10, window_tokens: int | None = None
    ) -> None:
        self.reader = reader
        self.top_k = _checked(top_k)
        self.window_tokens = window_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the component with the name of its model. Raises `InputError` for a loaded model."""
        if self.reader is not None and not isinstance(self.reader, str):
            raise InputError(
                f"a pipeline names its model, and this reader is a {type(self.reader).__name__}; pass the "
                "name of the model instead"
            )
        options = {"top_k": self.top_k, "window_tokens": self.window_tokens}
        return default_to_dict(self, reader=self.reader, **options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the component that `to_dict` returned."""
        made: Self = default_from_dict(cls, data)
        return made

    def warm_up(self) -> None:
        """Load the model."""
        from hwdag.lm.default import as_reader  # why here: it loads torch

        self.reader = as_reader(self.reader)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Rank; `top_k` replaces that of the component. Other errors are those of `hwdag.rank_passages`.

        Raises:
            InputError: `top_k` is no whole number of at least 1, or the question is blank.
        """
        from hwdag.rerank import best_passages  # why here: it loads torch

        wanted = self.top_k if top_k is None else _checked(top_k)
        unique = list({document.id: document for document in documents}.values())
        best = best_passages(
            self.reader,
            query,
            [document.content or "" for document in unique],
            top_n=wanted,
            window_tokens=self.window_tokens,
        )
        return {"documents": [replace(unique[i], score=score) for i, score in best]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Do the same as `run` without blocking the event loop."""
        return await asyncio.to_thread(self.run, query, documents, top_k)


def _checked(top_k: int) -> int:
    """Return a number of documents. Raises `InputError` unless it is a whole number of at least 1."""
    if (wanted := checked_k(top_k)) is None:
        raise InputError("top_k must be a whole number of at least 1, got None")
    return wanted
