"""An hwdag `Writer`, such as the reader that is loaded already, as a LlamaIndex LLM."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.custom import CustomLLM

from hwdag.checks import refuse
from hwdag.lm.writers import as_writer

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""


class HWDAGLLM(CustomLLM):
    """Greedy replies, each of them in one piece; a chat is written out as one prompt.

    Relations: `HWDAGQueryEngine` is cheaper, since it decodes from the KV cache of the walk, and it
    streams and cites; this one fits wherever LlamaIndex asks for an LLM.
    """

    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1)
    _writer: Any = PrivateAttr()

    def __init__(self, writer: Any, **options: Any) -> None:
        """Wrap a writer; `options` are the fields. Raises `InputError` for what cannot write."""
        super().__init__(**options)
        self._writer = as_writer(writer)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy that writes with the same weights."""
        return self.model_copy()

    @property
    def metadata(self) -> LLMMetadata:
        """Name, length of a reply, and the context where the writer is a local model."""
        context = getattr(self._writer, "context_tokens", DEFAULT_CONTEXT_WINDOW)
        return LLMMetadata(
            model_name=self._writer.name, num_output=self.max_new_tokens, context_window=context
        )

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **unknown: Any) -> CompletionResponse:
        """Reply to a prompt. Raises `UnknownOption` for any option."""
        refuse(unknown, "HWDAGLLM", "max_new_tokens, set when it is made")
        (text,) = self._writer.write([prompt], max_new_tokens=self.max_new_tokens)
        return CompletionResponse(text=text, delta=text)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **unknown: Any
    ) -> CompletionResponseGen:
        """Reply to a prompt, in one piece."""
        yield self.complete(prompt, formatted, **unknown)

    async def acomplete(
        self, prompt: str, formatted: bool = False, **unknown: Any
    ) -> CompletionResponse:
        """`complete` in a thread; the loop goes on."""
        return await asyncio.to_thread(self.complete, prompt, formatted, **unknown)

    async def achat(self, messages: Sequence[ChatMessage], **unknown: Any) -> ChatResponse:
        """`chat` in a thread; the loop goes on."""
        return await asyncio.to_thread(self.chat, messages, **unknown)
