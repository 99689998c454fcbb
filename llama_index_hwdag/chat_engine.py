"""A conversation with the documents: every question may refer to earlier ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import QueryBundle

from hwdag.search.follow_ups import turns_of
from hwdag.threads import each_in_a_thread
from hwdag.trace.provenance import METADATA_KEY
from llama_index_hwdag.adapters import as_writer
from llama_index_hwdag.events import in_thread
from llama_index_hwdag.query_engine import NOTHING_FOUND
from llama_index_hwdag.retriever import CoreRetriever


@dataclass
class _Streamed(StreamingAgentChatResponse):
    """An answer whose pieces come straight from the model that answers."""

    pieces: Generator[str] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def response_gen(self) -> Generator[str]:
        assert self.pieces is not None
        for piece in self.pieces:
            self.response += piece
            yield piece

    async def async_response_gen(self) -> AsyncGenerator[str]:
        async for piece in each_in_a_thread(self.response_gen):
            yield piece


class HWDAGChatEngine(BaseChatEngine):
    """Searches and answers with exact citations; questions may refer to earlier turns.

    It needs no other LLM. An answerer, or a reader that writes, rewrites each question so that it
    stands alone; without either, words of the last turns add to the scores (`hwdag.HWDAGIndex.search`).
    `response.metadata["hwdag"]` holds the citations and the walk.

    Relations: `index.as_chat_engine()` makes it if no LLM is set, or with `chat_mode="walk"`.
    """

    def __init__(
        self,
        retriever: CoreRetriever,
        *,
        answerer: object = None,
        memory: BaseMemory | None = None,
        chat_history: Sequence[ChatMessage] | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Begin a conversation.

        Args:
            retriever: over an `hwdag.HWDAGIndex`; other methods of the core take no history.
            answerer: answers in place of the reader, as in `HWDAGQueryEngine`.
            memory: holds the messages; None keeps them in this object.
            chat_history: earlier messages.
            callback_manager: see LlamaIndex; None for the retriever's.
        """
        self._retriever = retriever
        writer = as_writer(answerer)
        self._asked: dict[str, Any] = {} if writer is None else {"answerer": writer}
        self._memory = memory
        self._messages = list(chat_history or ())
        self.callback_manager = callback_manager or retriever.callback_manager

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The messages so far."""
        return self._messages if self._memory is None else self._memory.get_all()

    def reset(self) -> None:
        """Forget the conversation."""
        self._messages = []
        if self._memory is not None:
            self._memory.reset()

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Answer a message; a `chat_history` replaces the conversation so far."""
        found = self.stream_chat(message, chat_history)
        "".join(found.response_gen)
        return AgentChatResponse(
            response=found.response, source_nodes=found.source_nodes, metadata=found.metadata
        )

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> _Streamed:
        """Answer a message in pieces; the last piece adds the answer to the conversation."""
        if chat_history is not None:
            self._replace(chat_history)
        said = self.chat_history
        turns = turns_of((one.role.value, one.content or "") for one in said)
        asked = self._asked | ({"history": turns} if turns else {})
        stream, nodes = self._retriever.walk(QueryBundle(message), **asked)
        metadata = dict[str, Any]()
        answer = list[str]()

        def pieces() -> Generator[str]:
            for piece in stream if stream and nodes else [NOTHING_FOUND]:
                answer.append(piece)
                yield piece
            if stream is not None:
                metadata[METADATA_KEY] = stream.answer.to_dict()
            self._put(ChatMessage(role=MessageRole.USER, content=message))
            self._put(ChatMessage(role=MessageRole.ASSISTANT, content="".join(answer)))

        return _Streamed(source_nodes=nodes, pieces=pieces(), metadata=metadata)

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Run `chat` in a thread."""
        return await in_thread(partial(self.chat, message, chat_history))

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> _Streamed:
        """Run `stream_chat` in threads."""
        return await in_thread(partial(self.stream_chat, message, chat_history))

    def _put(self, message: ChatMessage) -> None:
        keep: Callable[[ChatMessage], None] = (
            self._messages.append if self._memory is None else self._memory.put
        )
        keep(message)

    def _replace(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = list(messages)
        if self._memory is not None:
            self._memory.set(list(messages))
