"""Answers of the reader, from the KV cache that the search has filled."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
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
from llama_index.core.instrumentation.events.synthesis import (
    SynthesizeEndEvent,
    SynthesizeStartEvent,
)
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from hwdag.answers.stream import AnswerStream
from hwdag.threads import each_in_a_thread
from hwdag.trace.provenance import METADATA_KEY
from llama_index_hwdag.adapters import as_writer
from llama_index_hwdag.events import dispatcher, in_thread
from llama_index_hwdag.retriever import CoreRetriever

NOTHING_FOUND = "Empty Response"
"""The reply of LlamaIndex's engines if there are no nodes."""


class HWDAGQueryEngine(BaseQueryEngine):
    """Searches, then answers: by the reader, from the KV cache of the search, or by an answerer.

    Over a `CoreRetriever` the reader reads all nodes in one forward, then answers in the same way.

    The `source_nodes` of a response are the nodes that were read. `response.metadata["hwdag"]` is
    `Answer.to_dict()`: citations (by attention, or by the answerer's numbers), walk and cost. A streamed
    answer has it after its last piece. An asynchronous answer is decoded in threads, piece by piece.

    Relations: `RetrieverQueryEngine` over the same retriever takes any LLM, node postprocessors and
    any response synthesizer, but its LLM reads the nodes again.
    """

    def __init__(
        self,
        retriever: CoreRetriever,
        *,
        answerer: object = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Make an engine; for an index, `index.as_query_engine(answer_mode="walk")` does it.

        Args:
            retriever: an `HWDAGRetriever` or a `CoreRetriever`.
            answerer: answers in place of the reader, over an `hwdag.HWDAGIndex`: a LlamaIndex `LLM`, an
                hwdag `Writer`, a function, or None for the answerer of the index, else the reader.
            streaming: answer as a `StreamingResponse`.
            callback_manager: see LlamaIndex; None for the retriever's.
        """
        self._retriever = retriever
        self._asked: dict[str, Any] = {}
        if (writer := as_writer(answerer)) is not None:
            self._asked["answerer"] = writer
        self._streaming = streaming
        super().__init__(callback_manager or retriever.callback_manager)

    @property
    def retriever(self) -> CoreRetriever:
        """The retriever of this engine."""
        return self._retriever

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Search without answering."""
        return self._retriever.retrieve(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Search without answering, in a thread."""
        return await self._retriever.aretrieve(query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            stream, nodes = self._retriever.walk(query_bundle, **self._asked)
            response = self._answered(query_bundle, stream, nodes)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return _asynchronous(await in_thread(partial(self._query, query_bundle)))

    def _answered(
        self, query_bundle: QueryBundle, stream: AnswerStream | None, nodes: list[NodeWithScore]
    ) -> Response | StreamingResponse:
        dispatcher.event(SynthesizeStartEvent(query=query_bundle))
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.SYNTHESIZE, payload=payload) as event:
            response = _streamed(stream, nodes) if self._streaming else _finished(stream, nodes)
            event.on_end(payload={EventPayload.RESPONSE: response})
        dispatcher.event(SynthesizeEndEvent(query=query_bundle, response=response))
        return response


def _finished(stream: AnswerStream | None, nodes: list[NodeWithScore]) -> Response:
    text = stream.answer.text if stream and nodes else NOTHING_FOUND
    return Response(text, nodes, _record(stream))


def _streamed(stream: AnswerStream | None, nodes: list[NodeWithScore]) -> StreamingResponse:
    metadata: dict[str, Any] = {}

    def pieces() -> Generator[str]:
        yield from stream if stream and nodes else [NOTHING_FOUND]
        metadata.update(_record(stream))

    return StreamingResponse(pieces(), nodes, metadata)


def _record(stream: AnswerStream | None) -> dict[str, Any]:
    if stream is None:
        return {}
    answer = stream.answer
    return {METADATA_KEY: answer.to_dict()}


def _asynchronous(response: RESPONSE_TYPE) -> RESPONSE_TYPE:
    if not isinstance(response, StreamingResponse):
        return response
    return AsyncStreamingResponse(
        each_in_a_thread(iter(response.response_gen)), response.source_nodes, response.metadata
    )
