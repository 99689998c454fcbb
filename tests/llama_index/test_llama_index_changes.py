"""Documents come and go in the LlamaIndex package, synchronously and not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Any

import pytest
from llama_index.core import Document, SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_world import ALL, QUESTION, TEXTS, built, documents, models, plain

from hwdag.errors import InputError, UnknownOption, WriterFailed
from hwdag_lab.scripted import ScriptedLM, ScriptedSession
from llama_index_hwdag import HWDAGIndex

# --- changes


def long_document(word="grain"):
    """Return at least six nodes, the number with which the bug of upstream shows."""
    sentences = [f"The {word} of day {i} lies in room {i} of the old mill." for i in range(12)]
    return Document(id_="long", text=" ".join(sentences))


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_deleting_a_document_leaves_nothing_of_it(asynchronous):
    index = built("ferry")
    index.insert(long_document())
    assert len(index.core.graphs["long"]) >= 6
    if asynchronous:
        await index.adelete_ref_doc("long", delete_from_docstore=True)
    else:
        index.delete_ref_doc("long", delete_from_docstore=True)
    assert index.ref_doc_info.keys() == index.core.documents.keys() == {"ferry"}
    assert index.docstore.get_document_hash("long") is None
    found = index.as_retriever(search=ALL).retrieve("grain")
    assert {n.node.ref_doc_id for n in found} == {"ferry"}


def test_deleting_a_missing_document_is_reported(caplog):
    index = built("ferry", "mill")
    index.delete_ref_doc("mill")
    assert index.ref_doc_info.keys() == {"ferry"}
    assert not caplog.text
    index.delete_ref_doc("mill")
    assert "mill" in caplog.text


def test_single_nodes_cannot_be_deleted():
    with pytest.raises(InputError, match="delete_ref_doc"):
        built("mill").delete_nodes(["mill#1.0"])


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_refreshing_builds_only_what_is_new_or_changed(asynchronous):
    reader = ScriptedLM()
    index = built("mill", "ferry", reader=reader)
    changed = Document(id_="mill", text=TEXTS["ferry"] + " It is old.")
    new = Document(id_="new", text=TEXTS["ferry"] + " It is new.")
    batch = [changed, documents("ferry")[0], new]
    built_before = reader.replays
    if asynchronous:
        refreshed = await index.arefresh_ref_docs(batch)
        again = await index.arefresh_ref_docs(batch)
    else:
        refreshed, again = index.refresh_ref_docs(batch), index.refresh_ref_docs(batch)
    assert (refreshed, again) == ([True, False, True], [False] * 3)
    assert reader.replays == built_before + 2
    assert index.core.documents["mill"].text == changed.text
    assert index.core.documents.keys() == {"mill", "ferry", "new"}


async def test_inserting_is_possible_both_ways_and_gives_the_same():
    index, other = built("mill"), built("mill")
    index.insert(documents("ferry")[0])
    await other.ainsert(documents("ferry")[0])
    assert plain(index.as_retriever().retrieve(QUESTION)) == plain(
        other.as_retriever().retrieve(QUESTION)
    )
    assert plain(built("mill", "ferry").as_retriever().retrieve(QUESTION)) == plain(
        index.as_retriever().retrieve(QUESTION)
    )


def test_a_document_that_becomes_blank_is_no_longer_in_the_index():
    index = built("ferry", "mill")
    index.insert(Document(id_="mill", text="  "))
    assert index.ref_doc_info.keys() == index.core.documents.keys() == {"ferry"}


def test_a_failed_build_leaves_no_traces_and_can_be_repeated():
    broken = {"now": False}

    def reply(prompt: str) -> str:
        if broken["now"]:
            raise ConnectionError("the server is gone")
        return "* A point."

    index = built("mill", writer=reply)
    broken["now"] = True
    with pytest.raises(WriterFailed):
        index.refresh_ref_docs(documents("ferry"))
    assert index.core.documents.keys() == {"mill"}
    broken["now"] = False
    assert index.refresh_ref_docs(documents("ferry")) == [True]
    assert index.core.documents.keys() == {"mill", "ferry"}


def test_a_changed_document_costs_what_changed_alone():
    """Upstream deletes before it inserts, and with the document go the finished calls."""
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return "* A point about it."

    index = built("ferry", writer=reply)
    index.insert(long_document())
    whole = len(prompts)
    before = long_document()
    changed = Document(id_="long", text=before.text + " Nothing else is there.")
    prompts.clear()
    # as LlamaIndex documents it
    index.update_ref_doc(changed, update_kwargs={"delete_kwargs": {"delete_from_docstore": True}})
    assert 0 < len(prompts) < whole
    assert index.core.documents["long"].text == changed.text


def test_a_document_is_replaced_also_with_a_splitter():
    index = built("mill", transformations=[SentenceSplitter(chunk_size=24, chunk_overlap=0)])
    for change in (index.insert, index.update_ref_doc):
        change(documents("mill")[0])
        assert index.core.documents["mill"].text.split() == TEXTS["mill"].split()
    changed = Document(id_="mill", text=TEXTS["orchard"])
    assert index.refresh_ref_docs([changed]) == [True]
    assert index.refresh_ref_docs([changed]) == [False]
    assert index.core.documents["mill"].text.split() == TEXTS["orchard"].split()
    index.insert(Document(id_="mill", text=" "))
    assert not index.core.documents


def test_what_another_index_has_seen_is_new_here():
    """The hashes of documents are shared by all indices of a docstore."""
    index = built("mill")
    VectorStoreIndex.from_documents(
        documents("ferry"),
        storage_context=index.storage_context,
        embed_model=MockEmbedding(embed_dim=4),
        transformations=[SentenceSplitter()],
    )
    assert index.refresh_ref_docs(documents("mill", "ferry")) == [False, True]
    assert index.core.documents.keys() == {"mill", "ferry"}


def test_blank_documents_are_up_to_date_once_they_were_seen():
    index = built("mill")
    blank = Document(id_="mill", text=" ")
    assert index.refresh_ref_docs([blank]) == [True]
    assert index.refresh_ref_docs([blank]) == [False]
    assert index.refresh_ref_docs(documents("mill")) == [True]


@pytest.mark.parametrize("name", ["update_ref_doc", "refresh_ref_docs", "insert", "insert_nodes"])
def test_unknown_options_of_a_change_are_refused_by_name(name):
    with pytest.raises(UnknownOption, match=f"{name}.*'nope'"):
        getattr(built("mill"), name)([], nope=1)


# --- asynchronously


class Gate:
    """A wait that ends only when the event loop has had a turn."""

    def __init__(self) -> None:
        self.passed = 0
        self._open = threading.Event()

    def __call__(self) -> None:
        """Wait for a loop; one that is blocked never opens it."""
        assert self._open.wait(timeout=60), "the event loop was blocked"
        self.passed += 1

    async def opened_by_the_loop(self, awaited: Awaitable[Any]) -> Any:
        asyncio.get_running_loop().call_soon(self._open.set)
        return await awaited


def gated_models(gate):
    def reply(prompt: str) -> str:
        gate()
        return "* A point."

    return models(writer=reply)


@pytest.mark.parametrize("name", ["insert", "insert_nodes", "update_ref_doc", "refresh_ref_docs"])
async def test_changes_do_not_block_the_loop_and_are_the_same(name):
    many = name in ("insert_nodes", "refresh_ref_docs")
    given: Any = documents("mill") if many else documents("mill")[0]
    gate, index = Gate(), HWDAGIndex(nodes=[], **models(writer=lambda prompt: "* A point."))
    waiting = HWDAGIndex(nodes=[], **gated_models(gate))
    result = await gate.opened_by_the_loop(getattr(waiting, f"a{name}")(given))
    assert result == getattr(index, name)(given)
    assert gate.passed
    assert waiting.ref_doc_info == index.ref_doc_info
    with pytest.raises(UnknownOption, match="'nope'"):
        await getattr(index, f"a{name}")(given, nope=1)


async def test_building_does_not_block_the_loop():
    gate = Gate()
    building = HWDAGIndex.afrom_documents(documents("mill"), **gated_models(gate))
    index = await gate.opened_by_the_loop(building)
    assert gate.passed and index.core.documents.keys() == {"mill"}
    with pytest.raises(UnknownOption, match="nope"):
        await HWDAGIndex.afrom_documents([], nope=1)


async def test_deleting_does_not_block_the_loop(monkeypatch):
    gate, index = Gate(), built("mill")
    delete = index.core.delete
    monkeypatch.setattr(index.core, "delete", lambda key: (gate(), delete(key)))
    await gate.opened_by_the_loop(index.adelete_ref_doc("mill"))
    assert gate.passed and not index.core.documents
    with pytest.raises(InputError, match="delete_ref_doc"):
        await index.adelete_nodes(["mill#1.0"])


class SlowAnswer(ScriptedSession):
    """Every piece of an answer waits for a turn of the event loop."""

    def decode(self, **options: Any) -> Any:
        decoding, gate = super().decode(**options), GATES[-1]
        pieces = iter(decoding)

        class Waiting:
            text = property(lambda _: decoding.text)
            attention = property(lambda _: decoding.attention)
            likelihood = property(lambda _: decoding.likelihood)
            is_cut = property(lambda _: decoding.is_cut)

            def __iter__(self) -> Iterator[str]:
                for piece in pieces:
                    gate()
                    yield piece

        return Waiting()


GATES: list[Gate] = []


class SlowReader(ScriptedLM):
    def session(self, question: str, **options: Any) -> Any:
        made = super().session(question, **options)
        made.__class__ = SlowAnswer
        return made


@pytest.mark.parametrize("streaming", [False, True])
async def test_answering_does_not_block_the_loop(streaming):
    gate = Gate()
    GATES.append(gate)
    index = built(reader=SlowReader())
    engine = index.as_query_engine(answer_mode="walk", streaming=streaming)

    async def whole() -> str:
        response = await engine.aquery(QUESTION)
        if not isinstance(response, AsyncStreamingResponse):
            return str(response)
        return "".join([piece async for piece in response.async_response_gen()])

    assert await gate.opened_by_the_loop(whole()) == "The smith mends the bell of the ferry."
    assert gate.passed
    GATES.pop()


async def test_many_changes_and_searches_at_once_end_as_one_after_the_other():
    index, other = built("orchard"), built("orchard", "mill", "ferry")
    await asyncio.gather(
        index.ainsert(documents("mill")[0]),
        index.as_retriever().aretrieve(QUESTION),
        index.arefresh_ref_docs(documents("ferry", "mill")),
        index.as_query_engine(answer_mode="walk").aquery(QUESTION),
    )
    assert index.ref_doc_info == other.ref_doc_info


def test_overlapping_nodes_of_a_splitter_are_reported_once_per_call(caplog):
    def splitter(overlap):
        return SentenceSplitter(chunk_size=60, chunk_overlap=overlap)

    other = Document(id_="other", text=long_document("rye").text)
    index = HWDAGIndex(splitter(0)([long_document(), other]), **models())
    assert not caplog.records
    nodes = splitter(20)(
        [long_document("flour"), long_document("oats").model_copy(update={"id_": "new"})]
    )
    for insert in (
        partial(HWDAGIndex, nodes, **models()),
        partial(index.insert_nodes, nodes),
        partial(HWDAGIndex.from_documents, [other], transformations=[splitter(20)], **models()),
    ):
        insert()
        (record,) = caplog.records
        assert "chunk_overlap=0" in record.getMessage()
        caplog.clear()


# --- the same files, read twice


def test_files_that_are_read_again_under_new_ids_are_reported(tmp_path, caplog):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text)

    def read(**options: Any) -> list[Document]:
        return SimpleDirectoryReader(folder, **options).load_data()

    path = tmp_path / "notes.hwdag"
    with_path = partial(HWDAGIndex.from_documents, path=path, **models())
    with_path(read()).core.close()
    assert "another one" not in caplog.text
    again = with_path(read())
    assert len(again.core.documents) == 2 * len(TEXTS)
    assert again.report and len(again.report.copies) == len(TEXTS)
    assert "the text of another one" in caplog.text and "filename_as_id=True" in caplog.text
    again.core.close()
    caplog.clear()

    path = tmp_path / "named.hwdag"
    for _ in range(2):
        named = HWDAGIndex.from_documents(read(filename_as_id=True), path=path, **models())
        assert len(named.core.documents) == len(TEXTS)
        named.core.close()
    assert "another one" not in caplog.text


def test_nodes_that_are_cut_again_under_new_ids_are_reported(caplog):
    def nodes() -> list[Any]:
        return SentenceSplitter(chunk_size=20, chunk_overlap=0)([Document(text=TEXTS["mill"])])

    index = HWDAGIndex(nodes(), **models())
    assert not caplog.text
    index.insert_nodes(nodes())
    assert "1 documents have the text of another one" in caplog.text
