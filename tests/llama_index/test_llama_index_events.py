"""Events, spans, traces and bars of the LlamaIndex package, as an observer sees them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.instrumentation.events.synthesis import (
    SynthesizeEndEvent,
    SynthesizeStartEvent,
)
from llama_index.core.instrumentation.span.simple import SimpleSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_world import ALL, QUESTION, TEXTS, built, documents, events_seen
from worlds import assert_cancelling_ends_a_walk

from hwdag.errors import WriterFailed
from hwdag.types import Step
from llama_index_hwdag import (
    HWDAGBuildEndEvent,
    HWDAGBuildStartEvent,
    HWDAGDocumentEndEvent,
    HWDAGDocumentStartEvent,
    HWDAGStepEvent,
    HWDAGWindowEvent,
)


class Spans(BaseSpanHandler[SimpleSpan]):
    """All spans by id: parent, result, and how they ended."""

    parents: dict[str, str | None] = Field(default_factory=dict)
    results: dict[str, Any] = Field(default_factory=dict)
    dropped: dict[str, Any] = Field(default_factory=dict)

    def new_span(
        self, id_: str, bound_args: Any, instance: Any = None, parent_span_id: Any = None,
        tags: Any = None, **kwargs: Any,
    ) -> SimpleSpan:  # fmt: skip
        self.parents[id_] = parent_span_id
        return SimpleSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> SimpleSpan:
        self.results[id_] = result
        return self.open_spans[id_]

    def prepare_to_drop_span(
        self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **kwargs: Any
    ) -> SimpleSpan:
        self.dropped[id_] = err
        return self.open_spans[id_]

    def named(self, name: str) -> list[str]:
        return [key for key in self.parents if key.startswith(f"{name}-")]

    def path(self, key: str) -> list[str]:
        """Names of a span and of all around it, outermost first."""
        names, at = [], key
        while at:
            names.append(at.rsplit("-", 5)[0])
            at = self.parents.get(at) or ""
        return names[::-1]


@contextmanager
def spans_seen():
    spans = Spans()
    get_dispatcher().add_span_handler(spans)
    try:
        yield spans
    finally:
        get_dispatcher().span_handlers.remove(spans)
        assert not spans.open_spans


def ids(found):
    return [n.node.node_id for n in found]


# --- searching


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_every_step_is_an_event_within_a_span_of_its_own(asynchronous):
    retriever = built().as_retriever(search=ALL)
    with events_seen(HWDAGStepEvent) as events, spans_seen() as spans:
        found = (
            await retriever.aretrieve(QUESTION) if asynchronous else retriever.retrieve(QUESTION)
        )
    steps = spans.named("HWDAGRetriever.step")
    assert [event.node_id for event in events] == ids(found)
    assert [event.span_id for event in events] == steps[:-1]
    results = [spans.results[key] for key in steps]
    for event, step in zip(events, results, strict=False):
        told = event.model_dump() | {"id": event.node_id}
        assert all(told[name] == value for name, value in step.to_dict().items() if name != "spans")
    assert all(isinstance(step, Step) for step in results[:-1])
    assert [step.node.id for step in results[:-1]] == ids(found)
    assert results[-1] == found[0].node.metadata["hwdag"]["stop"]  # the look for another node
    outer = "aretrieve" if asynchronous else "retrieve"
    around = [f"HWDAGRetriever.{name}" for name in (outer, "_retrieve", "step")]
    assert all(spans.path(key) == around for key in steps)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_query_emits_events_of_its_parts(streaming):
    engine = built().as_query_engine(answer_mode="walk", streaming=streaming)
    with events_seen() as events, spans_seen() as spans:
        response = engine.query(QUESTION)
        list(getattr(response, "response_gen", ()))
    kinds = [type(event) for event in events if not isinstance(event, HWDAGStepEvent)]
    assert kinds == [
        QueryStartEvent,
        RetrievalStartEvent,
        RetrievalEndEvent,
        SynthesizeStartEvent,
        SynthesizeEndEvent,
        QueryEndEvent,
    ]
    [retrieved] = [event for event in events if isinstance(event, RetrievalEndEvent)]
    assert ids(retrieved.nodes) == ids(response.source_nodes)
    [first, *_] = spans.named("HWDAGRetriever.step")
    names = ["HWDAGQueryEngine.query", "HWDAGQueryEngine._query", "HWDAGRetriever.walk"]
    assert spans.path(first) == [*names, "HWDAGRetriever.step"]


def test_a_search_that_fails_drops_its_spans():
    retriever = built().as_retriever()
    with spans_seen() as spans, pytest.raises(ValueError, match="question"):
        retriever.retrieve(" ")
    assert set(spans.dropped) == set(spans.parents)


# --- building


def test_a_build_reports_documents_and_windows():
    with events_seen() as events, spans_seen() as spans:
        index = built()
    assert events[0].document_ids == list(TEXTS)
    by_kind = {kind: [e for e in events if type(e) is kind] for kind in map(type, events)}
    assert [e.document_id for e in by_kind[HWDAGDocumentStartEvent]] == list(TEXTS)
    assert [e.document_id for e in by_kind[HWDAGDocumentEndEvent]] == list(TEXTS)
    assert type(events[0]) is HWDAGBuildStartEvent
    [end] = by_kind[HWDAGBuildEndEvent]
    assert end is events[-1]
    assert (end.built, end.unchanged, end.skipped) == (list(TEXTS), [], [])
    assert end.nodes == sum(map(len, index.core.graphs.values()))

    windows = by_kind[HWDAGWindowEvent]
    assert {e.document_id for e in windows} == TEXTS.keys()
    stages: dict[tuple[str, str], list[HWDAGWindowEvent]] = {}
    for event in windows:
        stages.setdefault((event.document_id, event.stage), []).append(event)
    for told in stages.values():
        assert told[-1].done == told[-1].total
    for name, graph in index.core.graphs.items():
        levels = range(2, graph.height + 1)
        assert {(name, f"points of level {level}") for level in levels} <= stages.keys()
    assert {spans.path(e.span_id)[-1] for e in windows} == {"HWDAGIndex.stage"}
    assert spans.path(windows[0].span_id) == [
        "HWDAGIndex._build",
        "HWDAGIndex.document",
        "HWDAGIndex.stage",
    ]


def test_every_change_reports_the_same():
    index = built("mill")
    new = Document(id_="new", text="A new document.")
    for change in (
        lambda: index.insert(new),
        lambda: index.insert_nodes([new]),
        lambda: index.update_ref_doc(new),
        lambda: asyncio.run(index.ainsert(new)),
    ):
        with events_seen(HWDAGDocumentStartEvent, HWDAGDocumentEndEvent) as events:
            change()
        assert [event.document_id for event in events] == ["new", "new"]
    with events_seen(HWDAGBuildEndEvent) as events:
        index.refresh_ref_docs([*documents("mill"), new])
    assert events == []  # nothing is to be done


def test_a_build_that_fails_drops_the_spans_that_are_open():
    def reply(prompt: str) -> str:
        raise ConnectionError("the server is gone")

    with events_seen() as events, spans_seen() as spans, pytest.raises(WriterFailed):
        built(writer=reply)
    assert [type(event) for event in events][:2] == [HWDAGBuildStartEvent, HWDAGDocumentStartEvent]
    assert HWDAGBuildEndEvent not in map(type, events)
    names = {spans.path(key)[-1] for key in spans.dropped}
    assert names == {"HWDAGIndex._build", "HWDAGIndex.document", "HWDAGIndex.stage"}


# --- the older way


def test_older_traces_continue():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    index = built("mill", "ferry", callback_manager=CallbackManager([handler]))
    index.as_query_engine(answer_mode="walk").query(QUESTION)
    index.as_retriever().retrieve(QUESTION)
    kinds = (CBEventType.QUERY, CBEventType.RETRIEVE, CBEventType.SYNTHESIZE)
    assert [len(handler.get_event_pairs(kind)) for kind in kinds] == [1, 2, 1]
    assert all(len(pair) == 2 for kind in kinds for pair in handler.get_event_pairs(kind))
    index.insert(Document(id_="new", text="A new document."))
    index.delete_ref_doc("new")


# --- bars


@pytest.mark.parametrize("change", ["insert", "update_ref_doc"])
def test_progress_of_every_change_is_shown_if_requested(change, capsys):
    index = built("mill", show_progress=True)
    capsys.readouterr()
    getattr(index, change)(Document(id_="new", text=TEXTS["ferry"]))
    shown = capsys.readouterr().err
    assert "documents" in shown and "points of level 2" in shown


def test_no_bar_is_shown_unasked(capsys, tmp_path):
    built(path=tmp_path / "index.hwdag").core.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "asked",
    [
        lambda index: index.as_retriever().aretrieve(QUESTION),
        lambda index: index.as_query_engine(answer_mode="walk").aquery(QUESTION),
    ],
)
async def test_cancelling_the_caller_ends_the_walk(asked):
    await assert_cancelling_ends_a_walk(lambda lm: asked(built(reader=lm)))
