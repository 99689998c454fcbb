"""The reader's weights as a LlamaIndex LLM, so that a query engine needs no second model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM

from hwdag.config import refuse
from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""


class HWDAGLLM(CustomLLM):
    """Greedy replies of a model that is loaded already.

    Streaming yields the whole reply as one piece, and tokens are never resumed from a cache.

    Relations: `HWDAGQueryEngine` is cheaper, since it decodes from the KV cache of the walk, streams
    token by token and cites; this one fits wherever LlamaIndex asks for an LLM.
    """

    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1, description="Limit of a reply.")
    _writer: Writer = PrivateAttr()
    _metadata: LLMMetadata = PrivateAttr()

    def __init__(self, reader: Reader, *, max_new_tokens: int = DEFAULT_NEW_TOKENS) -> None:
        """Wrap a reader that also writes, as every `hwdag.HuggingFaceLM` does.

        Raises:
            InputError: it does not write.
        """
        if not isinstance(reader, Writer):
            raise InputError(f"the reader {reader.name} cannot write; pass another LLM as llm")
        super().__init__(max_new_tokens=max_new_tokens)
        self._writer = reader
        self._metadata = LLMMetadata(
            context_window=reader.context_tokens,
            num_output=max_new_tokens,
            model_name=reader.name,
        )

    @classmethod
    def class_name(cls) -> str:
        """Under which LlamaIndex serialises it."""
        return "HWDAGLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """Context, length of a reply, and the reader's name."""
        return self._metadata

    @llm_completion_callback()
    def complete(
        self,
        prompt: str,
        formatted: bool = False,
        *,
        max_new_tokens: int | None = None,
        **unknown: Any,
    ) -> CompletionResponse:
        """Reply to a prompt, which is put into the model's chat template."""
        refuse(unknown, "HWDAGLLM", "max_new_tokens")
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        return CompletionResponse(text=self._writer.write([prompt], max_new_tokens=limit)[0])

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> CompletionResponseGen:
        """The reply in one piece."""
        text = self.complete(prompt, formatted, **options).text
        yield CompletionResponse(text=text, delta=text)

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> CompletionResponse:
        """`complete` in a thread; the loop goes on."""
        return await asyncio.to_thread(self.complete, prompt, formatted, **options)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """`chat` in a thread; the loop goes on."""
        return await asyncio.to_thread(self.chat, messages, **options)
