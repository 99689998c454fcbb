"""Where an index of the LlamaIndex package lives: in one file, or, in memory, in its index struct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.kvstore.simple_kvstore import SimpleKVStore
from llama_world import ALL, CONFIG, QUESTION, TEXTS, built, documents, models, persisted, plain

import hwdag
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexCorrupt, IndexFileError, IndexMismatch, WriterFailed
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import HWDAGIndex


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    """Options of an index: in memory, and in a file."""
    return {} if request.param == "memory" else {"path": tmp_path / "index.hwdag"}


def reloaded(index, folder, **options):
    """Return the index as another process would load it, both released at the end."""
    return load_index_from_storage(persisted(index, folder / "context"), **models(**options))


def assert_same(loaded, index):
    """Check that documents, graphs and vectors are the same to the last bit, and so are the nodes found."""
    assert isinstance(loaded, HWDAGIndex)
    assert loaded.core.documents == dict(index.core.documents)
    for name, entry in index.core.entries.items():
        other = loaded.core.entries[name]
        assert other.graph.nodes == entry.graph.nodes
        np.testing.assert_array_equal(other.graph.raw.toarray(), entry.graph.raw.toarray())
        np.testing.assert_array_equal(other.graph.edges.toarray(), entry.graph.edges.toarray())
        np.testing.assert_array_equal(other.vectors, entry.vectors)
    for k in (None, 5):
        ours, theirs = loaded.as_retriever(k=k), index.as_retriever(k=k)
        assert plain(ours.retrieve(QUESTION)) == plain(theirs.retrieve(QUESTION)) != []
    assert loaded.ref_doc_info == index.ref_doc_info
    assert [n.to_dict() for n in loaded.nodes()] == [n.to_dict() for n in index.nodes()]


# --- both


def test_a_loaded_index_is_the_same_and_answers_the_same(place, tmp_path):
    index = built(**place)
    loaded = reloaded(index, tmp_path)
    assert_same(loaded, index)
    assert loaded.core.config == CONFIG.resolved("hwdag")
    engines = [i.as_query_engine(answer_mode="walk") for i in (loaded, index)]
    ours, theirs = (engine.query(QUESTION) for engine in engines)
    assert (str(ours), ours.metadata) == (str(theirs), theirs.metadata)


def test_a_loaded_index_continues_like_the_persisted_one(place, tmp_path):
    """Yield every change, after which both are the same, and as if they had been built like that."""
    index = built("mill", "ferry", **place)
    loaded = reloaded(index, tmp_path) if not place else index
    changed = Document(id_="mill", text=TEXTS["orchard"])
    for one in {index, loaded}:
        assert one.refresh_ref_docs([changed, *documents("ferry")]) == [True, False]
        one.insert(documents("orchard")[0])
        one.delete_ref_doc("ferry")
        one.insert_nodes([TextNode(id_="alone", text=TEXTS["ferry"])])
        assert one.refresh_ref_docs([changed, *documents("orchard")]) == [False, False]
    again = reloaded(loaded, tmp_path)
    assert_same(again, index)
    assert again.core.documents.keys() == {"mill", "orchard", "alone"}
    fresh = HWDAGIndex.from_documents([changed, *documents("orchard")], **models(config=CONFIG))
    fresh.insert_nodes([TextNode(id_="alone", text=TEXTS["ferry"])])
    assert plain(again.as_retriever().retrieve(QUESTION)) == plain(
        fresh.as_retriever().retrieve(QUESTION)
    )


def test_joined_nodes_are_loaded_as_they_were_joined_and_others_join_them(place, tmp_path):
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    *first, last = splitter(documents("mill"))
    index = HWDAGIndex(first, **models(**place))
    assert len(first) > 1
    loaded = reloaded(index, tmp_path)
    assert_same(loaded, index)
    loaded.insert_nodes([last])
    assert loaded.core.documents["mill"].text.split() == TEXTS["mill"].split()
    assert loaded.ref_doc_info["mill"].node_ids[: len(first) + 1] == [
        node.node_id for node in [*first, last]
    ]


def test_loading_needs_no_model(place, tmp_path):
    storage = persisted(built(reader=ScriptedLM(name="/nowhere"), **place), tmp_path / "context")
    loaded = load_index_from_storage(storage)
    assert loaded.core.built_by == "/nowhere"
    assert loaded.core.graphs.keys() == TEXTS.keys()


def test_an_index_without_documents_needs_no_model(place):
    index = HWDAGIndex.from_documents([], reader="/nowhere", **place)
    index.insert_nodes([])
    assert index.refresh_ref_docs([Document(text=" ")]) == [False]
    assert index.core.built_by is None and index.ref_doc_info == {}
    assert not any(path.exists() for path in place.values())


def test_an_empty_index_can_be_loaded_and_filled(place, tmp_path):
    loaded = reloaded(HWDAGIndex(nodes=[], **models(config=CONFIG, **place)), tmp_path)
    loaded.insert(documents("mill")[0])
    assert loaded.core.graphs["mill"].nodes == built("mill").core.graphs["mill"].nodes
    assert reloaded(loaded, tmp_path).core.documents.keys() == {"mill"}


def test_another_embedder_or_config_is_refused(place, tmp_path):
    storage = persisted(built("mill", **place), tmp_path / "context")
    with pytest.raises(IndexMismatch, match="hashing-256"):
        load_index_from_storage(storage, embedder=HashingEmbedder(8))
    with pytest.raises(IndexMismatch, match="chunk_tokens"):
        load_index_from_storage(storage, config=BuildConfig())
    load_index_from_storage(storage, embedder="hashing-256", config=CONFIG)


def test_embeddings_of_llama_index_must_be_given_again(place, tmp_path):
    index = built("mill", embedder=MockEmbedding(embed_dim=4), **place)
    storage = persisted(index, tmp_path / "context")
    with pytest.raises(IndexMismatch, match="MockEmbedding"):
        load_index_from_storage(storage)
    load_index_from_storage(storage, embedder=MockEmbedding(embed_dim=4))


def test_other_stores_are_left_to_others(place):
    context = StorageContext.from_defaults()
    nodes = [TextNode(id_=f"n{i}", text=text) for i, text in enumerate(TEXTS.values())]
    vector_index = VectorStoreIndex(
        nodes, storage_context=context, embed_model=MockEmbedding(embed_dim=4)
    )
    held, vectors = dict(context.docstore.docs), context.vector_store.to_dict()
    index = built(storage_context=context, **place)
    index.delete_ref_doc("mill", delete_from_docstore=True)
    assert context.docstore.docs == held
    assert context.vector_store.to_dict() == vectors
    assert len(vector_index.as_retriever(similarity_top_k=9).retrieve("grain")) == len(nodes)


def test_two_indices_share_a_context(tmp_path):
    first = built("mill", path=tmp_path / "index.hwdag")
    second = built("mill", "ferry", storage_context=first.storage_context)
    first.delete_ref_doc("mill")
    storage = persisted(second, tmp_path / "context")
    assert_same(load_index_from_storage(storage, second.index_id, **models()), second)
    assert not load_index_from_storage(storage, first.index_id, **models()).core.documents


def test_what_a_document_hides_from_models_stays_hidden(place, tmp_path):
    given = Document(
        id_="odd",
        text=TEXTS["mill"],
        metadata={"pair": ("a", "b"), "hidden": "/secret"},
        excluded_llm_metadata_keys=["hidden"],
        metadata_separator=" ; ",
    )
    index = HWDAGIndex.from_documents([given], **models(**place))
    for one in (index, reloaded(index, tmp_path)):
        for found in one.as_retriever(search=ALL).retrieve(QUESTION):
            assert "/secret" not in found.node.get_content(MetadataMode.LLM)
            assert "hidden: /secret ; pair: ['a', 'b']" in found.node.get_content(
                MetadataMode.EMBED
            )
        assert one.refresh_ref_docs([given]) == [False]


def failing(prompts, after):
    """Return a writer whose server is gone after some prompts."""

    def reply(prompt: str) -> str:
        if len(prompts) == after:
            raise ConnectionError
        prompts.append(prompt)
        return "* A point about it."

    return reply


def test_an_interrupted_build_continues_at_its_place(place, tmp_path):
    prompts: list[str] = []
    context = StorageContext.from_defaults()
    with pytest.raises(WriterFailed):
        built(writer=failing(prompts, 1), storage_context=context, **place)
    context.persist(str(tmp_path / "context"))
    again = StorageContext.from_defaults(persist_dir=str(tmp_path / "context"))
    index = load_index_from_storage(again, **models(writer=failing(prompts, -1)))
    assert index.core.documents.keys() < TEXTS.keys()
    assert True in index.refresh_ref_docs(documents())
    assert len(prompts) == len(set(prompts))
    assert index.core.documents.keys() == index.ref_doc_info.keys() == TEXTS.keys()


class Killed(BaseException):
    """The process is gone."""


CHANGES: dict[str, Any] = {
    "insert": lambda index: index.insert(documents("orchard")[0]),
    "update": lambda index: index.update_ref_doc(Document(id_="mill", text="It burned down.")),
    "delete": lambda index: index.delete_ref_doc("mill", delete_from_docstore=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_was_killed_before_any_write_of_a_store_is_there_or_not(
    change, place, monkeypatch
):
    """And can be repeated, after which no trace of the kill is left."""
    run = CHANGES[change]
    whole = built("mill", "ferry")
    run(whole)
    finished, write = False, 0
    while not finished:
        index = built("mill", "ferry", **place)
        before = dict(index.core.documents)
        with monkeypatch.context() as patched:
            _kill_before(write, patched)
            try:
                run(index)
                finished = True
            except Killed:
                pass
        context = index.storage_context
        assert isinstance(context.index_store, SimpleIndexStore)
        stored = SimpleIndexStore.from_dict(context.index_store.to_dict())
        loaded = load_index_from_storage(
            StorageContext.from_defaults(index_store=stored), **models()
        )
        assert loaded.core.documents in (before, dict(whole.core.documents))
        run(loaded)
        assert loaded.core.documents == dict(whole.core.documents)
        index.core.close()
        loaded.core.close()
        for path in place.values():
            path.unlink()
        write += 1
    assert write > 1


def _kill_before(write, patched):
    """Kill whoever writes to a store of LlamaIndex for this time, counted from 0."""
    done = iter(range(write))

    def counted(original: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if next(done, None) is None:
                raise Killed
            return original(*args, **options)

        return call

    for name in ("put", "put_all", "delete"):
        patched.setattr(SimpleKVStore, name, counted(getattr(SimpleKVStore, name)))


# --- the file


def test_a_moved_file_is_named_with_the_way_out(tmp_path):
    index = built("mill", path=tmp_path / "index.hwdag")
    storage = persisted(index, tmp_path / "context")
    index.core.close()
    moved = (tmp_path / "index.hwdag").rename(tmp_path / "moved.hwdag")
    with pytest.raises(IndexFileError, match="path"):
        load_index_from_storage(storage)
    for given in (moved, None):  # the second time it is remembered
        loaded = load_index_from_storage(storage, path=given)
        assert loaded.core.documents.keys() == {"mill"}
        loaded.core.close()


def test_documents_that_others_put_into_the_file_are_found_too(tmp_path):
    index = built("mill", path=tmp_path / "index.hwdag")
    with hwdag.HWDAGIndex.load(tmp_path / "index.hwdag", **models()) as other:
        other.insert([hwdag.Document("ferry", TEXTS["ferry"], metadata={"place": "ferry"})])
        other.refresh([hwdag.Document("mill", "The mill burned down.")])
    [found] = index.as_retriever(k=1, document_ids=["ferry"]).retrieve(QUESTION)
    assert "place: ferry" in found.node.get_content(MetadataMode.LLM)
    assert index.ref_doc_info.keys() == {"mill", "ferry"}
    assert index.refresh_ref_docs(documents("mill")) == [True]
    index.delete_ref_doc("ferry")
    assert index.core.documents.keys() == {"mill"}


# --- memory


def test_an_index_in_memory_is_not_opened_as_a_file(tmp_path):
    storage = persisted(built("mill"), tmp_path)
    with pytest.raises(IndexMismatch, match="path"):
        load_index_from_storage(storage, path=tmp_path / "index.hwdag")


def test_an_image_that_is_cut_off_is_refused():
    index = built("mill")
    image = index.index_struct.image
    for damaged in (image[:-8], image[: len(image) // 2 // 4 * 4], "AAAA", "?"):
        index.index_struct.image = damaged
        index.set_index_id(index.index_id)
        with pytest.raises(IndexCorrupt):
            load_index_from_storage(index.storage_context)
