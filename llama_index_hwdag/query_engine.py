"""Answers of the reader, from the KV cache that the search has filled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from hwdag.search.answering import AnswerStream
from hwdag.trace.provenance import METADATA_KEY
from hwdag.trace.render import answer_json
from llama_index_hwdag.retriever_face import RetrieverFace


class HWDAGQueryEngine(BaseQueryEngine):
    """Walks, then answers from the KV cache that the walk has filled: nothing is read twice.

    Over a `CoreRetriever` the reader reads what was found in one forward, and answers in the same way.

    The nodes that the answer was given with are its `source_nodes`; `response.metadata["hwdag"]` has
    the citations (source sentences by the attention that the answer paid to them), the walk and its
    cost, as `hwdag.trace.render.answer_json` makes them. Of a streamed answer they are there after
    its last piece.

    Relations: `RetrieverQueryEngine` over the same retriever takes any LLM and any response
    synthesizer, but reads the nodes anew.
    """

    def __init__(
        self,
        retriever: RetrieverFace,
        *,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Over an index usually made by `index.as_query_engine(answer_mode="walk")`.

        Args:
            retriever: an `HWDAGRetriever` or a `CoreRetriever`.
            streaming: answer as a `StreamingResponse`.
            callback_manager: see LlamaIndex; None for the retriever's.
        """
        self._retriever = retriever
        self._streaming = streaming
        super().__init__(callback_manager or retriever.callback_manager)

    @property
    def retriever(self) -> RetrieverFace:
        """What searches."""
        return self._retriever

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The search alone."""
        return self._retriever.retrieve(query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            stream, nodes = self._retriever.walk(query_bundle)
            response = _streamed(stream, nodes) if self._streaming else _finished(stream, nodes)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        response = await asyncio.to_thread(self._query, query_bundle)
        if not isinstance(response, StreamingResponse):
            return response
        return AsyncStreamingResponse(
            _in_threads(iter(response.response_gen)), response.source_nodes, response.metadata
        )


def _finished(stream: AnswerStream, nodes: list[NodeWithScore]) -> Response:
    answer = stream.answer
    return Response(answer.text, nodes, _record(stream))


def _streamed(stream: AnswerStream, nodes: list[NodeWithScore]) -> StreamingResponse:
    metadata: dict[str, Any] = {}

    def pieces() -> Generator[str]:
        yield from stream
        metadata.update(_record(stream))

    return StreamingResponse(pieces(), nodes, metadata)


def _record(stream: AnswerStream) -> dict[str, Any]:
    answer = stream.answer
    return {METADATA_KEY: answer_json(answer, answer.usage.seconds)}


async def _in_threads(pieces: Iterator[str]) -> AsyncGenerator[str]:
    """Decode every piece in a thread, one after the other; the loop goes on meanwhile."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
