"""An hwdag `Writer`, such as the reader of an index, as a LlamaIndex LLM."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import ChatResponse, CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback

from hwdag.checks import refuse
from hwdag.config import REPLY_TOKENS
from hwdag.lm.writers import as_writer


class HWDAGLLM(CustomLLM):
    """Greedy replies, each in one piece; a chat is written out as one prompt.

    Relations: `HWDAGQueryEngine` costs less, streams and cites; it decodes from the walk's KV cache.
    """

    max_new_tokens: int = Field(default=REPLY_TOKENS, ge=1)
    _writer: Any = PrivateAttr()

    def __init__(self, writer: Any, **options: Any) -> None:
        """Wrap a writer; `options` are the fields. Raises `InputError` for anything else."""
        super().__init__(**options)
        self._writer = as_writer(writer)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy that shares the writer."""
        return self.model_copy()

    @property
    def metadata(self) -> LLMMetadata:
        """Name, length of a reply, and the context length of a local model."""
        context = getattr(self._writer, "context_tokens", DEFAULT_CONTEXT_WINDOW)
        return LLMMetadata(
            model_name=self._writer.name, num_output=self.max_new_tokens, context_window=context
        )

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **unknown: Any) -> CompletionResponse:
        """Reply to a prompt. Raises `UnknownOption` for any option."""
        refuse(unknown, "HWDAGLLM", "max_new_tokens, an argument of the class")
        (text,) = self._writer.write([prompt], max_new_tokens=self.max_new_tokens)
        return CompletionResponse(text=text, delta=text)

    def stream_complete(self, prompt: str, formatted: bool = False, **unknown: Any) -> Any:
        """Reply to a prompt, in one piece."""
        yield self.complete(prompt, formatted, **unknown)

    async def acomplete(self, *arguments: Any, **options: Any) -> CompletionResponse:
        """Run `complete` in a thread."""
        return await asyncio.to_thread(self.complete, *arguments, **options)

    async def achat(self, *arguments: Any, **options: Any) -> ChatResponse:
        """Run `chat` in a thread."""
        return await asyncio.to_thread(self.chat, *arguments, **options)
