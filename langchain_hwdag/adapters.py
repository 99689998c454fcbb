"""Conversion of LangChain's models to the core's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.load import dumps
from langchain_core.messages import BaseMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableGenerator,
    RunnableLambda,
)

import hwdag
from hwdag.embedding.base import Embedder
from hwdag.embedding.callable import CallableEmbedder
from hwdag.errors import InputError, ReaderRequired, WriterFailed
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import anonymous
from hwdag.retriever import Adapters
from hwdag.text.characters import disarmed


def as_reader(reader: object) -> Reader | str | None:
    """Convert a reader; the loaded weights of a `HuggingFacePipeline` are used.

    Raises:
        ReaderRequired: it has no local weights.
    """
    if reader is None or isinstance(reader, str | Reader):
        return reader
    pipeline = getattr(getattr(reader, "llm", reader), "pipeline", None)
    model, tokenizer = getattr(pipeline, "model", None), getattr(pipeline, "tokenizer", None)
    if model is None or tokenizer is None:
        raise ReaderRequired(
            "the reader must be a local model whose attention can be read, got "
            f"{type(reader).__name__}; pass a HuggingFacePipeline, a ChatHuggingFace over one, "
            "hwdag.HuggingFaceLM(model, tokenizer), a model name, or nothing for the embedded "
            "default (as writer any LLM will do)"
        )
    return hwdag.HuggingFaceLM(model, tokenizer)


class RunnableWriter:
    """A LangChain model, or a chain to text, as a Writer.

    It gets one prompt at a time, or as many as `model.with_config(max_concurrency=8)` allows.
    """

    def __init__(self, model: Runnable[Any, Any]) -> None:
        config = getattr(model, "config", None)
        limit = config.get("max_concurrency") if isinstance(config, Mapping) else None
        self._model = model
        self.concurrency: int = limit or 1
        while isinstance(model, RunnableBinding) and not model.kwargs:
            model = model.bound  # a config does not change the model
        self.name, is_known = _identified(model)
        self.settings = _settings(model) if is_known else anonymous()

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return one reply per prompt; the model itself limits their length."""
        return [reply for _, reply in sorted(self.replies(prompts, max_new_tokens=max_new_tokens))]

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """Yield each reply as soon as it is finished."""
        asked = [disarmed(prompt) for prompt in prompts]
        if self.concurrency == 1:
            for index, prompt in enumerate(asked):
                yield index, self._text(self._model.invoke(prompt))
            return
        config: RunnableConfig = {"max_concurrency": self.concurrency}
        for index, reply in self._model.batch_as_completed(asked, config):
            yield index, self._text(reply)

    def stream(self, prompt: str, *, max_new_tokens: int) -> Iterator[str]:
        """Yield the pieces of one reply; the model itself limits its length."""
        for piece in self._model.stream(disarmed(prompt)):
            yield self._text(piece)

    def _text(self, reply: object) -> str:
        """Return the text of a reply, without marked reasoning."""
        if isinstance(reply, BaseMessage):
            return str(reply.text)
        if isinstance(reply, str):
            return reply
        raise WriterFailed(
            f"{self.name} returned {type(reply).__name__} for a prompt; a writer must return a "
            "message or a str (append StrOutputParser() to the chain)"
        )


def as_writer(writer: object) -> Writer | Callable[[str], str] | None:
    """Convert a writer; a chat model, an LLM or a chain is asked by `invoke`."""
    if writer is None or isinstance(writer, Writer):
        return writer
    if isinstance(writer, Runnable):
        return RunnableWriter(writer)
    if callable(writer):
        return writer
    raise InputError(
        "the writer must be a LangChain model or chain, an hwdag Writer, or a function from prompt "
        f"to text, got {type(writer).__name__}"
    )


def as_embedder(embedder: object) -> Embedder | str | None:
    """Convert an embedder; LangChain's `Embeddings` are wrapped."""
    if isinstance(embedder, Embeddings):
        return CallableEmbedder(
            embedder.embed_documents, embedder.embed_query, name=_qualified_name(embedder)
        )
    if embedder is None or isinstance(embedder, str | Embedder):
        return embedder
    raise InputError(
        "the embedder must be LangChain Embeddings, an hwdag Embedder, a model name, or None for "
        f"the embedded default, got {type(embedder).__name__}"
    )


MODELS: Adapters = {"reader": as_reader, "writer": as_writer, "embedder": as_embedder}
"""How to convert the models among the options of a retriever of the core."""


def _settings(model: object) -> str:
    """Return all of a chain as text: its prompts and parsers decide about its replies, too."""
    try:
        return re.sub(" at 0x[0-9a-f]+", "", dumps(model))
    except (TypeError, ValueError, RecursionError):
        return anonymous()


def _identified(model: object) -> tuple[str, bool]:
    """Return the name of a model or a chain, and whether every model in it has a name."""
    found = [getattr(model, field, None) for field in ("bound", "runnable", "fallbacks", "steps")]
    inner = [part for one in found for part in (one if isinstance(one, list) else [one])]
    if parts := [_identified(part) for part in inner if isinstance(part, Runnable)]:
        names = ", ".join(name.removeprefix("langchain:") for name, _ in parts)
        return f"langchain:{type(model).__name__}({names})", all(known for _, known in parts)
    name = _qualified_name(model)
    is_model = isinstance(model, BaseLanguageModel | RunnableLambda | RunnableGenerator)
    return name, not is_model or name.count(":") > 1


def _qualified_name(model: object) -> str:
    """Return `langchain:<class>:<model>`, without the last part if the object does not name it."""
    weights = getattr(getattr(getattr(model, "llm", model), "pipeline", None), "model", None)
    config = getattr(weights, "config", None)
    if (
        config is not None
    ):  # why: a HuggingFacePipeline over loaded weights has another model's name
        names = [getattr(config, "name_or_path", None)]
    elif isinstance(model, RunnableLambda):
        names = [getattr(getattr(model, "func", None), "__qualname__", "<lambda>")]
    else:
        names = [getattr(model, field, None) for field in ("model_name", "model", "model_id")]
    known = (one for one in names if isinstance(one, str) and one and "<lambda>" not in one)
    return ":".join(["langchain", type(model).__name__, *islice(known, 1)])
