"""The reader's weights as a LlamaIndex LLM, so that a query engine needs no second model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, Self, TypeVar

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM

from hwdag.checks import refuse
from hwdag.errors import InputError
from hwdag.lm.base import Message, Reader, Role
from hwdag.lm.chat import Chat, Reply, as_chat, pieces_in_threads

T = TypeVar("T")

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""

_ROLES: dict[MessageRole, Role] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
}


class HWDAGLLM(CustomLLM):
    """Greedy replies of a model that is loaded already, token by token, by its own chat template.

    Every method takes `max_new_tokens` and `stop` (strings that a reply ends before) for one call.
    Responses count their tokens under `raw["usage"]`. The asynchronous methods decode in threads;
    a task that is cancelled ends its reply.

    Relations: `HWDAGQueryEngine` is cheaper, since it decodes from the KV cache of the walk, and it
    cites; this one fits wherever LlamaIndex asks for an LLM.
    """

    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1, description="Limit of a reply.")
    stop: list[str] = Field(default_factory=list, description="Strings that a reply ends before.")
    _chat: Chat = PrivateAttr()
    _metadata: LLMMetadata = PrivateAttr()

    def __init__(
        self,
        reader: Reader,
        *,
        max_new_tokens: int = DEFAULT_NEW_TOKENS,
        stop: Sequence[str] = (),
    ) -> None:
        """Wrap a reader that also writes, as every `hwdag.HuggingFaceLM` does.

        Raises:
            InputError: it does not write.
        """
        chat = as_chat(reader)
        super().__init__(max_new_tokens=max_new_tokens, stop=list(stop))
        self._chat = chat
        self._metadata = LLMMetadata(
            context_window=reader.context_tokens,
            num_output=max_new_tokens,
            is_chat_model=chat.has_chat_template,
            model_name=reader.name,
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy that speaks with the same weights."""
        return self.model_copy(update={"stop": list(self.stop)})

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be pickled. Raises `InputError`."""
        raise InputError(
            "an HWDAGLLM cannot be pickled, since it would take the weights of its model along; make "
            "one in every process, for instance by index.as_llm()"
        )

    @classmethod
    def class_name(cls) -> str:
        """Under which LlamaIndex serialises it."""
        return "HWDAGLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """Context, length of a reply, the reader's name, and whether it has a chat template."""
        return self._metadata

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        """Reply to a prompt, as one message of the user."""
        reply = self._reply(_alone(prompt), **options)
        return CompletionResponse(text="".join(reply), raw=_usage(reply))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> CompletionResponseGen:
        """The same reply, piece by piece."""
        return _growing(self._reply(_alone(prompt), **options), _completion)

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> CompletionResponse:
        """`complete`; the loop goes on."""
        reply = await self._areply(_alone(prompt), **options)
        return CompletionResponse(text=await _awaited(reply), raw=_usage(reply))

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **options: Any
    ) -> CompletionResponseAsyncGen:
        """`stream_complete`; the loop goes on."""
        return _agrowing(await self._areply(_alone(prompt), **options), _completion)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """Reply to messages of system, user and assistant.

        Raises:
            InputError: a message of another role, or with more than text.
            QuestionTooLong: messages and reply do not fit into the context.
        """
        reply = self._reply(as_messages(messages), **options)
        return ChatResponse(message=_said("".join(reply)), raw=_usage(reply))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponseGen:
        """The same reply, piece by piece."""
        return _growing(self._reply(as_messages(messages), **options), _answer)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """`chat`; the loop goes on."""
        reply = await self._areply(as_messages(messages), **options)
        return ChatResponse(message=_said(await _awaited(reply)), raw=_usage(reply))

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **options: Any
    ) -> ChatResponseAsyncGen:
        """`stream_chat`; the loop goes on."""
        return _agrowing(await self._areply(as_messages(messages), **options), _answer)

    def _reply(
        self,
        messages: Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        **unknown: Any,
    ) -> Reply:
        refuse(unknown, "HWDAGLLM", "max_new_tokens, stop")
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        ends = self.stop if stop is None else stop
        return self._chat.reply(messages, max_new_tokens=limit, stop=ends)

    async def _areply(self, messages: Sequence[Message], **options: Any) -> Reply:
        return await asyncio.to_thread(self._reply, messages, **options)


def as_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """LlamaIndex's messages as the core's; blocks of text become lines.

    Raises:
        InputError: a role that no chat template here knows, or something that is not text.
    """
    return [Message(_role(message), _text(message)) for message in messages]


def _role(message: ChatMessage) -> Role:
    if message.role not in _ROLES:
        known = ", ".join(role.value for role in _ROLES)
        raise InputError(
            f"HWDAGLLM cannot read a message of the role {message.role.value!r}, it knows {known}; "
            "put what a tool said into a message of the user"
        )
    return _ROLES[message.role]


def _text(message: ChatMessage) -> str:
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    if len(texts) < len(message.blocks) or message.additional_kwargs.get("tool_calls"):
        kinds = {str(block.block_type) for block in message.blocks} - {"text"} or {"tool calls"}
        raise InputError(
            f"HWDAGLLM reads text only, a message has {', '.join(sorted(kinds))}; describe it in "
            "words, or pass another LLM as llm"
        )
    return "\n".join(texts)


def _alone(prompt: str) -> list[Message]:
    return [Message("user", prompt)]


def _said(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def _usage(reply: Reply) -> dict[str, Any]:
    """As LlamaIndex's `TokenCountingHandler` reads it."""
    used = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.new_tokens}
    return {"usage": used, "finish_reason": reply.finish}


async def _awaited(reply: Reply) -> str:
    return "".join([piece async for piece in pieces_in_threads(reply)])


def _completion(text: str, piece: str, reply: Reply) -> CompletionResponse:
    return CompletionResponse(text=text, delta=piece, raw=_usage(reply))


def _answer(text: str, piece: str, reply: Reply) -> ChatResponse:
    return ChatResponse(message=_said(text), delta=piece, raw=_usage(reply))


def _growing(reply: Reply, response: Callable[[str, str, Reply], T]) -> Generator[T, None, None]:
    """A response per piece, each with all that was said so far."""
    text = ""
    for piece in reply:
        text += piece
        yield response(text, piece, reply)


async def _agrowing(
    reply: Reply, response: Callable[[str, str, Reply], T]
) -> AsyncGenerator[T, None]:
    text = ""
    async for piece in pieces_in_threads(reply):
        text += piece
        yield response(text, piece, reply)
