"""The reader's weights as a LangChain LLM, for the last link of a chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.llms import LLM
from langchain_core.outputs import GenerationChunk
from pydantic import ConfigDict, Field

from hwdag.checks import refuse
from hwdag.lm.base import Message, Writer
from hwdag.lm.chat import Reply, as_chat, pieces_in_threads
from langchain_hwdag.tokens import refuse_ids, text_tokens

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""


class HWDAGLLM(LLM):
    """Greedy replies of a model that is loaded already, token by token.

    The prompt is one message of the user in the model's chat template. The asynchronous methods
    decode in threads; a task that is cancelled ends its reply.

    Relations: `hwdag.HWDAGIndex.answer` is cheaper, since it decodes from the KV cache of the walk
    and cites; this one fits into any chain. `HWDAGChat` takes messages.

    Attributes:
        reader: an hwdag model that can write, such as `index.reader` of a core index.
        max_new_tokens: length limit of a reply; `bind(max_new_tokens=...)` overrides it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Writer = Field(exclude=True, repr=False)
    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1)

    @property
    def _llm_type(self) -> str:
        return "hwdag"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What LangChain's caches tell models apart by."""
        return {"model_name": self.reader.name, "max_new_tokens": self.max_new_tokens}

    def get_num_tokens(self, text: str) -> int:
        """Tokens of a text, without the chat template around it."""
        if self.custom_get_token_ids is not None:
            return super().get_num_tokens(text)
        return text_tokens(self.reader, text)

    def get_token_ids(self, text: str) -> list[int]:
        """What `custom_get_token_ids` tells. Raises `InputError` without it."""
        if self.custom_get_token_ids is None:
            refuse_ids("HWDAGLLM")
        return super().get_token_ids(text)

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> str:
        return "".join(self._reply(prompt, stop, **options))

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[GenerationChunk]:
        for piece in self._reply(prompt, stop, **options):
            chunk = GenerationChunk(text=piece)
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk

    async def _acall(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> str:
        reply = await asyncio.to_thread(self._reply, prompt, stop, **options)
        return "".join([piece async for piece in pieces_in_threads(reply)])

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> AsyncIterator[GenerationChunk]:
        reply = await asyncio.to_thread(self._reply, prompt, stop, **options)
        async for piece in pieces_in_threads(reply):
            chunk = GenerationChunk(text=piece)
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk

    def _reply(
        self,
        prompt: str,
        stop: list[str] | None,
        *,
        max_new_tokens: int | None = None,
        **unknown: Any,
    ) -> Reply:
        refuse(unknown, "HWDAGLLM", "stop, max_new_tokens")
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        messages = [Message("user", prompt)]
        return as_chat(self.reader).reply(messages, max_new_tokens=limit, stop=stop or ())
