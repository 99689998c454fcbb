"""The reader's weights as a LangChain chat model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NoReturn

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import AliasChoices, ConfigDict, Field, field_validator

from hwdag.checks import refuse
from hwdag.errors import InputError
from hwdag.lm.base import Message, Reader, Role, Writer
from hwdag.lm.chat import Reply, as_chat, pieces_in_threads
from langchain_hwdag.llm import DEFAULT_NEW_TOKENS
from langchain_hwdag.tokens import chat_tokens, refuse_ids, text_tokens


class HWDAGChat(BaseChatModel):
    """Greedy replies to messages by the model's own chat template, token by token.

    It takes messages of system, human and ai that are text; it calls no tools. Replies carry
    `usage_metadata`, and `response_metadata["finish_reason"]` is "stop" or "length". The
    asynchronous methods decode in threads; a task that is cancelled ends its reply.

    Relations: `hwdag.HWDAGIndex.answer` is cheaper for a question to an index, since it decodes from
    the KV cache of the walk and cites; `HWDAGLLM` takes a prompt.

    Attributes:
        reader: an hwdag model that can write, such as `index.reader` of a core index.
        max_new_tokens: length limit of a reply, also known as `max_tokens`; `bind` overrides it.
        stop: strings that a reply ends before; those of a call take their place.
        temperature: 0, since replies are greedy.
        streaming: whether `invoke` streams too, for callbacks that see every token.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Reader | Writer = Field(exclude=True, repr=False)
    max_new_tokens: int = Field(
        default=DEFAULT_NEW_TOKENS,
        ge=1,
        validation_alias=AliasChoices("max_new_tokens", "max_tokens"),
    )
    stop: list[str] = Field(default_factory=list)
    temperature: float = 0.0
    streaming: bool = False

    @field_validator("reader")
    @classmethod
    def _can_chat(cls, reader: Reader | Writer) -> Reader | Writer:
        as_chat(reader)
        return reader

    @field_validator("temperature")
    @classmethod
    def _greedy(cls, temperature: float) -> float:
        if temperature != 0:
            raise InputError(f"replies are greedy, so temperature must be 0, got {temperature}")
        return temperature

    @property
    def _llm_type(self) -> str:
        return "hwdag-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What LangChain's caches tell models apart by."""
        return {
            "model_name": self.reader.name,
            "max_new_tokens": self.max_new_tokens,
            "stop": self.stop,
        }

    def get_num_tokens(self, text: str) -> int:
        """Tokens of a text, without the chat template around it."""
        if self.custom_get_token_ids is not None:
            return super().get_num_tokens(text)
        return text_tokens(self.reader, text)

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Tokens up to the reply, the chat template's included.

        An upper bound where messages do not fit into the context, or are no chat by themselves.
        """
        if self.custom_get_token_ids is not None:
            return super().get_num_tokens_from_messages(messages, tools)
        if tools:
            _refuse_tools()
        return chat_tokens(self.reader, as_messages(messages))

    def get_token_ids(self, text: str) -> list[int]:
        """What `custom_get_token_ids` tells. Raises `InputError` without it."""
        if self.custom_get_token_ids is None:
            refuse_ids("HWDAGChat")
        return super().get_token_ids(text)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> NoReturn:
        """Refuse: replies are text. Raises `NotImplementedError`, as LangChain expects it."""
        _refuse_tools()

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """What traces say about a call."""
        limit = kwargs.get("max_new_tokens", kwargs.get("max_tokens"))
        params = LangSmithParams(
            ls_provider="hwdag",
            ls_model_name=kwargs.get("model", self.reader.name),
            ls_model_type="chat",
            ls_temperature=self.temperature,
            ls_max_tokens=self.max_new_tokens if limit is None else limit,
        )
        if ends := self.stop if stop is None else stop:
            params["ls_stop"] = ends
        return params

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        reply = self._reply(messages, stop, **options)
        return self._result("".join(reply), reply)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        reply = await asyncio.to_thread(self._reply, messages, stop, **options)
        return self._result("".join([piece async for piece in pieces_in_threads(reply)]), reply)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, stop, **options)
        for piece in reply:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield self._last(reply)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = await asyncio.to_thread(self._reply, messages, stop, **options)
        async for piece in pieces_in_threads(reply):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield self._last(reply)

    def _reply(
        self,
        messages: Sequence[BaseMessage],
        stop: list[str] | None,
        *,
        max_new_tokens: int | None = None,
        max_tokens: int | None = None,
        stream: bool | None = None,
        **unknown: Any,
    ) -> Reply:
        """Begin a reply; LangChain has seen to `stream` by now, and hands it on."""
        refuse(unknown, "HWDAGChat", "stop, max_new_tokens (or max_tokens)")
        limit = max_tokens if max_new_tokens is None else max_new_tokens
        return as_chat(self.reader).reply(
            as_messages(messages),
            max_new_tokens=self.max_new_tokens if limit is None else limit,
            stop=self.stop if stop is None else stop,
        )

    def _result(self, text: str, reply: Reply) -> ChatResult:
        message = AIMessage(
            text, usage_metadata=_usage(reply), response_metadata=self._ending(reply)
        )
        return ChatResult(
            generations=[ChatGeneration(message=message)],
            llm_output={"model_name": self.reader.name},
        )

    def _last(self, reply: Reply) -> ChatGenerationChunk:
        """An empty piece that says how the reply ended and what it cost."""
        return ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=_usage(reply),
                response_metadata=self._ending(reply),
                chunk_position="last",
            )
        )

    def _ending(self, reply: Reply) -> dict[str, Any]:
        return {"model_name": self.reader.name, "finish_reason": reply.finish}


def as_messages(messages: Sequence[BaseMessage]) -> list[Message]:
    """LangChain's messages as the core's.

    Raises:
        InputError: a message of another kind, such as a tool's, or with more than text.
    """
    return [Message(_role(message), _text(message)) for message in messages]


def _refuse_tools() -> NoReturn:
    raise NotImplementedError(
        "HWDAGChat calls no tools, and so gives no structured output; use a chat model that does, "
        "and give it the index as a tool (create_retriever_tool)"
    )


def _role(message: BaseMessage) -> Role:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, ChatMessage):
        return message.role  # type: ignore[return-value]  # `Message` refuses what it does not know
    raise InputError(
        f"HWDAGChat cannot read a {type(message).__name__}, it knows messages of system, human and "
        "ai; put what a tool said into a HumanMessage"
    )


def _text(message: BaseMessage) -> str:
    parts = [message.content] if isinstance(message.content, str) else message.content
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    kinds = ["text" if isinstance(part, str) else str(part.get("type", "part")) for part in parts]
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        kinds.append("tool_call")
    if others := sorted(set(kinds) - {"text"}):
        raise InputError(
            f"HWDAGChat reads text only, a message has {', '.join(others)}; describe it in words, "
            "or use another chat model"
        )
    return "".join(text for text in texts if isinstance(text, str))


def _usage(reply: Reply) -> UsageMetadata | None:
    """None where the model does not count tokens."""
    if not reply.prompt_tokens:
        return None
    return UsageMetadata(
        input_tokens=reply.prompt_tokens,
        output_tokens=reply.new_tokens,
        total_tokens=reply.prompt_tokens + reply.new_tokens,
    )
