"""LlamaIndex's models as the core's, and options that its `**kwargs` let through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM

import hwdag
from hwdag.embedding.base import Embedder, Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.errors import InputError, ModelError, ReaderRequired, UnknownOption
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import CallableWriter

FOREIGN = "llama-index:"
"""Begins the names of models that are LlamaIndex objects: nothing can be loaded by such a name."""


def as_reader(reader: object) -> Reader | str | None:
    """What the core takes as reader; the weights of a `HuggingFaceLLM` are used, not loaded again.

    Raises:
        ReaderRequired: something without local weights.
    """
    if reader is None or isinstance(reader, str | Reader):
        return reader
    model, tokenizer = getattr(reader, "_model", None), getattr(reader, "_tokenizer", None)
    if model is None or tokenizer is None:
        raise ReaderRequired(
            "the reader must be a local model whose attention can be read, got "
            f"{type(reader).__name__}; pass a HuggingFaceLLM, hwdag.HuggingFaceLM(model, "
            "tokenizer), a model name, or nothing for the embedded default (as writer any LLM "
            "will do)"
        )
    return hwdag.HuggingFaceLM(model, tokenizer)


def as_writer(writer: object) -> Writer | Callable[[str], str] | None:
    """What the core takes as writer; any LlamaIndex `LLM` is asked by `complete`."""
    if isinstance(writer, LLM):
        llm = writer
        return CallableWriter(
            lambda prompt: llm.complete(prompt).text, name=FOREIGN + llm.metadata.model_name
        )
    if writer is None or isinstance(writer, Writer) or callable(writer):
        return writer
    raise InputError(
        "the writer must be a LlamaIndex LLM, a hwdag Writer, or a function from prompt to text, "
        f"got {type(writer).__name__}"
    )


def as_embedder(embedder: object) -> Embedder | str | None:
    """What the core takes as embedder; a LlamaIndex `BaseEmbedding` is wrapped."""
    if isinstance(embedder, BaseEmbedding):
        return LlamaIndexEmbedder(embedder)
    if embedder is None or isinstance(embedder, str | Embedder):
        return embedder
    raise InputError(
        "the embedder must be a LlamaIndex BaseEmbedding, a hwdag Embedder, a model name, or None "
        f"for the embedded default, got {type(embedder).__name__}"
    )


class LlamaIndexEmbedder:
    """Any `BaseEmbedding` as the core's `Embedder`: vectors are normalised.

    The name that an index records is `llama-index:<class>:<model>`. Give the same object again when
    such an index is loaded.
    """

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """Recorded in the index."""
        return f"{FOREIGN}{self._model.class_name()}:{self._model.model_name}"

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; asks the model once."""
        return len(self.embed_query(self.name))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, (texts, dimension). Raises `ModelError` where a vector is missing."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self._model.get_text_embedding_batch(list(texts))
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1:
            raise ModelError(
                f"{self.name} made {len(vectors)} vectors of lengths {sorted(lengths)} for "
                f"{len(texts)} texts; it must give one vector per text, all of one length"
            )
        return unit_rows(np.asarray(vectors, dtype=np.float32))

    def embed_query(self, text: str) -> Vectors:
        """A unit vector, (dimension,)."""
        vectors = np.asarray([self._model.get_query_embedding(text)], dtype=np.float32)
        vector: Vectors = unit_rows(vectors)[0]
        return vector


def checked_k(k: int | None) -> int | None:
    """`k` itself. Raises `InputError` unless it is a whole number of at least 1, or None."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InputError(
            f"k must be a whole number of at least 1, got {k!r}; leave it out to let the walk decide"
        )
    return k


def refuse(unknown: Mapping[str, object], where: str, known: str) -> None:
    """Raise `UnknownOption` for whatever a framework's `**kwargs` left over."""
    if unknown:
        names = ", ".join(map(repr, sorted(unknown)))
        raise UnknownOption(f"{where} has no option {names}; it has {known}")
