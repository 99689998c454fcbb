"""Conversion of LlamaIndex's models to the core's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM

import hwdag
from hwdag.embedding.base import Embedder
from hwdag.embedding.callable import CallableEmbedder
from hwdag.errors import InputError, ReaderRequired
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import CallableWriter, anonymous
from hwdag.retriever import Adapters
from hwdag.text.characters import disarmed

FOREIGN = "llama-index:"
"""Prefix of names of LlamaIndex models, which cannot be loaded by name."""


def as_reader(reader: object) -> Reader | str | None:
    """Convert a reader; the loaded weights of a `HuggingFaceLLM` are used.

    Raises:
        ReaderRequired: it has no local weights.
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


class LLMWriter(CallableWriter):
    """A LlamaIndex `LLM` as a Writer: asked by `complete`, in pieces by `stream_complete`."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        config = getattr(getattr(llm, "_model", None), "config", None)
        # why: a HuggingFaceLLM over loaded weights has the name of another model
        model = getattr(config, "name_or_path", llm.metadata.model_name)
        is_known = model not in ("", "unknown")
        name = f"{FOREIGN}{type(llm).__name__}" + (f":{model}" if is_known else "")
        super().__init__(lambda prompt: llm.complete(prompt).text, name=name)
        if not is_known:
            self.settings = anonymous()

    def stream(self, prompt: str, *, max_new_tokens: int) -> Iterator[str]:
        """Yield the pieces of a reply, or all of it at once; the LLM itself limits its length."""
        told = ""
        try:
            for part in self._llm.stream_complete(disarmed(prompt)):
                # why the text: it has all so far, and some LLMs fill nothing else
                piece = part.text[len(told) :] if part.delta is None else part.delta
                told += piece
                yield piece
        except NotImplementedError:
            if told:
                raise
            yield self._llm.complete(disarmed(prompt)).text


def as_writer(writer: object) -> Writer | Callable[[str], str] | None:
    """Convert a writer; a LlamaIndex `LLM` is asked by `complete`."""
    if isinstance(writer, LLM):
        return LLMWriter(writer)
    if writer is None or isinstance(writer, Writer) or callable(writer):
        return writer
    raise InputError(
        "the writer must be a LlamaIndex LLM, an hwdag Writer, or a function from prompt to text, "
        f"got {type(writer).__name__}"
    )


def as_embedder(embedder: object) -> Embedder | str | None:
    """Convert an embedder; a LlamaIndex `BaseEmbedding` is wrapped."""
    if isinstance(embedder, BaseEmbedding):
        return CallableEmbedder(
            embedder.get_text_embedding_batch,
            embedder.get_query_embedding,
            name=f"{FOREIGN}{embedder.class_name()}:{embedder.model_name}",
        )
    if embedder is None or isinstance(embedder, str | Embedder):
        return embedder
    raise InputError(
        "the embedder must be a LlamaIndex BaseEmbedding, an hwdag Embedder, a model name, or None "
        f"for the embedded default, got {type(embedder).__name__}"
    )


MODELS: Adapters = {"reader": as_reader, "writer": as_writer, "embedder": as_embedder}
"""How to convert the models among the options of a retriever of the core."""
