"""Spans of the core and of both frameworks arrive in a collector, inside one another."""

from __future__ import annotations

from functools import cache

import langchain_world
import llama_world
import pytest
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hwdag import HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Who mends the bell of the ferry?"


@cache
def collector() -> InMemorySpanExporter:
    """Return the store of all spans; a process has one provider, and an example of the docs may have set it."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    exporter = InMemorySpanExporter()
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def spans():
    collector().clear()
    yield collector()
    collector().clear()


def named(spans: InMemorySpanExporter, name: str) -> object:
    (found,) = (span for span in spans.get_finished_spans() if span.name == name)
    return found


def test_a_walk_and_a_build_are_spans(spans):
    texts = [document.page_content for document in langchain_world.DOCUMENTS]
    index = HWDAGIndex.from_documents(texts, reader=ScriptedLM(), embedder=HashingEmbedder())
    assert named(spans, "hwdag.build").attributes["hwdag.built"] == 2

    retrieval = index.search(QUESTION)
    span = named(spans, "hwdag.walk")
    assert span.attributes["openinference.span.kind"] == "RETRIEVER"
    assert span.attributes["input.value"] == QUESTION
    assert span.attributes["hwdag.stop"] == retrieval.stop
    assert span.attributes["hwdag.tokens"] == retrieval.usage.tokens
    for i, step in enumerate(retrieval.steps):
        about = f"retrieval.documents.{i}.document."
        assert span.attributes[about + "id"] == step.node.id
        assert span.attributes[about + "content"] == step.node.text
        assert span.attributes[about + "score"] == pytest.approx(step.score)
    steps = [event.attributes["node"] for event in span.events if event.name == "hwdag.step"]
    assert steps == [step.node.id for step in retrieval.steps]


def test_an_error_marks_the_span(spans):
    def fails(*_: object) -> float:
        raise RuntimeError("no more")

    index = HWDAGIndex.from_documents(
        ["The ferry crosses the river."], reader=ScriptedLM(p_yes=fails), embedder=HashingEmbedder()
    )
    with pytest.raises(RuntimeError):
        index.search(QUESTION, config=SearchConfig(confidence=0.5))
    span = named(spans, "hwdag.walk")
    assert not span.status.is_ok
    assert [event.name for event in span.events][-1] == "exception"


def test_a_retrieval_of_llama_index_arrives(spans):
    index = llama_world.built()
    instrumentor = LlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=trace.get_tracer_provider())
    try:
        index.as_retriever().retrieve(QUESTION)
    finally:
        instrumentor.uninstrument()
    check_retrieval(spans, "HWDAGRetriever")


def test_a_retrieval_of_langchain_arrives(spans):
    index = langchain_world.an_index()
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=trace.get_tracer_provider())
    try:
        index.as_retriever().invoke(QUESTION)
    finally:
        instrumentor.uninstrument()
    check_retrieval(spans, "HWDAGRetriever")


def check_retrieval(spans: InMemorySpanExporter, name: str) -> None:
    """Check a span of the framework, of the kind that viewers show as a retrieval, and the core's own."""
    found = spans.get_finished_spans()
    retrievals = [
        span
        for span in found
        if span.name.startswith(name) and span.attributes["openinference.span.kind"] == "RETRIEVER"
    ]
    assert retrievals, [span.name for span in found]
    assert any("retrieval.documents.0.document.content" in span.attributes for span in retrievals)
    assert named(spans, "hwdag.walk").attributes["input.value"] == QUESTION
