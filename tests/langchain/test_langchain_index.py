"""The index as a `DocumentIndex`: changes and files."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate, format_document
from langchain_world import CHUNKS, DOCUMENTS, FERRY, MILL, QUESTION, an_index, texts
from pydantic import ValidationError

from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import HWDAGIndex

# --- the index ----------------------------------------------------------------------------------


def test_documents_come_back_as_they_were():
    index = an_index()
    assert index.get(["ferry", "nope", "mill", "ferry"]) == DOCUMENTS[::-1]
    assert index.index.documents["mill"].title == "Mill"


def test_what_is_found_has_its_heading_for_a_prompt():
    found = an_index(config=None).invoke("Who mends the bell, and greases the wheel?")
    assert {d.metadata["heading"] for d in found if d.metadata["source"] == "a.txt"} == {"Mill"}
    assert {d.metadata["heading"] for d in found if d.metadata["source"] == "b.txt"} == {"b"}
    prompt = PromptTemplate.from_template("{heading}: {page_content}")
    wheel = next(d for d in found if "tallow" in d.page_content)
    assert format_document(wheel, prompt).startswith("Mill: Every autumn")
    [own] = an_index([Document(page_content="One.", metadata={"heading": "mine"})]).invoke("One?")
    assert own.metadata["heading"] == "mine"


def test_the_callers_documents_stay_theirs():
    document = DOCUMENTS[0].model_copy(deep=True)
    index = an_index([document])
    document.metadata["n"].append(2)
    assert index.get(["mill"]) == DOCUMENTS[:1]


def test_texts_are_documents():
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "config": CHUNKS}
    named = HWDAGIndex.from_texts(
        texts(DOCUMENTS),
        metadatas=[d.metadata for d in DOCUMENTS],
        ids=["mill", "ferry"],
        **options,
    )
    assert named.get(["mill", "ferry"]) == DOCUMENTS
    assert named.invoke(QUESTION) == an_index().invoke(QUESTION)

    bare = HWDAGIndex.from_texts(iter(texts(DOCUMENTS)), **options)
    assert texts(bare.get(list(bare.index.documents))) == texts(DOCUMENTS)
    with pytest.raises(InputError, match="metadatas"):
        HWDAGIndex.from_texts(["a", "b"], metadatas=[{}], **options)
    with pytest.raises(InputError, match="texts"):
        HWDAGIndex.from_texts(MILL, **options)
    with pytest.raises(ValidationError, match="top_k"):
        HWDAGIndex.from_texts(["a"], **options, top_k=2)


def test_an_id_is_made_from_text_and_metadata():
    same = [Document(page_content=MILL), Document(page_content=MILL)]
    other = Document(page_content=MILL, metadata={"page": 2})
    index = an_index([])
    first, again, different = index.add_documents([*same, other])
    assert first == again != different
    assert an_index([]).add_documents(same) == [first, again]
    with pytest.raises(InputError, match="JSON"):
        index.add_documents([Document(page_content=MILL, metadata={"set": {1, 2}})])


async def test_ids_may_be_given_as_vector_stores_take_them():
    index, other = an_index([]), an_index([])
    assert index.add_documents(DOCUMENTS, ids=iter(["a", "b"])) == ["a", "b"]
    assert await other.aadd_documents(DOCUMENTS, ids=["a", "b"]) == ["a", "b"]
    renamed = [
        document.model_copy(update={"id": name})
        for document, name in zip(DOCUMENTS, "ab", strict=True)
    ]
    assert index.get(["a", "b"]) == other.get(["a", "b"]) == renamed
    assert [document.id for document in DOCUMENTS] == ["mill", "ferry"]
    with pytest.raises(InputError, match="ids"):
        index.add_documents(DOCUMENTS, ids=["a"])


def test_metadata_that_cannot_even_be_copied_are_refused():
    locked = Document(id="a", page_content=MILL, metadata={"lock": Lock()})
    with pytest.raises(InputError, match="JSON"):
        an_index([]).add_documents([locked])


def test_upsert_builds_only_changed_documents_and_reports_failures():
    lm = ScriptedLM()
    index = an_index(reader=lm)
    built = lm.replays
    response = index.upsert([DOCUMENTS[0], Document(id="blank", page_content=" \n")])
    assert response == {"succeeded": ["mill"], "failed": ["blank"]}
    assert lm.replays == built

    index.upsert([Document(id="mill", page_content=FERRY)])
    assert lm.replays > built
    assert index.get(["mill"]) == [Document(id="mill", page_content=FERRY)]


def test_delete_really_removes():
    index = an_index()
    before = index.get(["mill"])
    assert index.delete(["ferry", "nope", "ferry"]) == {
        "num_deleted": 1,
        "succeeded": ["ferry"],
        "num_failed": 0,
        "failed": [],
    }
    assert index.get(["mill", "ferry"]) == before
    assert set(index.index.graphs) == {"mill"}
    found = index.invoke(QUESTION, k=99)
    assert {d.metadata["hwdag"]["document_id"] for d in found} == {"mill"}
    assert index.delete([])["num_deleted"] == 0
    with pytest.raises(ValueError, match="ids"):
        index.delete()
    for call in (index.delete, index.get):
        with pytest.raises(InputError, match="'mill'"):
            call("mill")
        with pytest.raises(InputError, match="ids"):
            call(["mill", 3])
    assert set(index.index.graphs) == {"mill"}


@pytest.mark.parametrize(
    ("method", "argument"), [("upsert", []), ("delete", []), ("get", []), ("add_documents", [])]
)
def test_unknown_options_of_changes_are_refused(method, argument):
    with pytest.raises((UnknownOption, TypeError), match="batch"):
        getattr(an_index(), method)(argument, batch=3)


def test_an_index_without_documents_finds_nothing():
    index = an_index([])
    assert index.invoke(QUESTION) == index.invoke(QUESTION, k=3) == []
    index.add_documents(DOCUMENTS)
    index.delete(["mill", "ferry"])
    assert index.invoke(QUESTION) == index.as_retriever().invoke(QUESTION, k=3) == []


def test_a_retriever_sees_later_changes():
    index = an_index(DOCUMENTS[:1])
    retriever = index.as_retriever(k=99)
    assert index.add_documents(DOCUMENTS[1:]) == ["ferry"]
    assert retriever.invoke(QUESTION) == an_index().invoke(QUESTION, k=99)


def test_wrong_options_of_load_local_are_refused_before_anything_is_opened(tmp_path):
    for option in ("top_k", "allow_dangerous_deserialization"):
        with pytest.raises(UnknownOption, match=option):
            HWDAGIndex.load_local(tmp_path, **{option: 3})
    an_index().save_local(tmp_path)
    options: Any = {"reader": ScriptedLM(), "filters": {"source": "b.txt"}, "returns": "sources"}
    loaded = HWDAGIndex.load_local(tmp_path, **options)
    assert loaded.invoke(QUESTION) == an_index(**options).invoke(QUESTION)


# --- persistence --------------------------------------------------------------------------------


def test_saved_and_loaded_equals_the_original(tmp_path):
    index = an_index()
    index.save_local(tmp_path / "new" / "folder")
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["index.hwdag"]
    loaded = HWDAGIndex.load_local(tmp_path / "new" / "folder", reader=ScriptedLM(), k=5)
    assert loaded.get(["mill", "ferry"]) == DOCUMENTS
    assert loaded.k == 5
    assert loaded.invoke(QUESTION) == index.invoke(QUESTION, k=5)


def test_saving_again_replaces_and_a_loaded_index_writes_through(tmp_path):
    index = an_index()
    index.save_local(tmp_path)
    index.delete(["mill"])
    index.save_local(tmp_path)
    load = partial(HWDAGIndex.load_local, tmp_path, reader=ScriptedLM())
    loaded = load()
    assert set(loaded.index.documents) == {"ferry"}
    loaded.add_documents(DOCUMENTS[:1])
    loaded.save_local(tmp_path)
    assert set(load().index.documents) == {"mill", "ferry"}


@pytest.mark.parametrize("source", [{}, {"source": "mill.txt"}])
def test_overlapping_chunks_of_a_splitter_are_reported_once_per_call(source, caplog):
    splitters = pytest.importorskip("langchain_text_splitters")
    text = " ".join(f"The grain of day {i} lies in room {i} of the old mill." for i in range(12))

    def chunks(overlap):
        splitter = splitters.RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=overlap)
        return splitter.create_documents([text], [source])

    index = an_index(chunks(0))
    index.add_documents([chunks(80)[0], *DOCUMENTS])
    assert not caplog.records
    for add in (an_index, index.add_documents):
        add(chunks(80))
        (record,) = caplog.records
        assert "chunk_overlap=0" in record.getMessage()
        caplog.clear()


def test_a_text_with_other_metadata_from_a_loader_is_reported(caplog):
    index = an_index([Document("The mill is old.", metadata={"read": 1})])
    assert not caplog.text
    index.add_documents([Document("The mill is old.", metadata={"read": 2})])
    assert "1 documents have the text of another one" in caplog.text
    caplog.clear()
    index.add_documents([Document("The mill is old.", metadata={"read": 2})])
    assert not caplog.text
