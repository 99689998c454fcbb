"""Where an index of the LlamaIndex package lives: stores of all kinds, and one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import faiss
import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.storage.docstore.postgres import PostgresDocumentStore
from llama_index.storage.kvstore.postgres import PostgresKVStore
from llama_index.vector_stores.duckdb import DuckDBVectorStore
from llama_index.vector_stores.faiss import FaissVectorStore
from llama_world import ALL, CONFIG, QUESTION, TEXTS, built, documents, models, persisted, plain
from sqlalchemy import create_engine

import hwdag
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexCorrupt, IndexFileError, IndexMismatch, WriterFailed
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import HWDAGIndex

# --- storage


def test_a_loaded_index_retrieves_the_same(tmp_path):
    index = built()
    storage = persisted(index, tmp_path)
    loaded = load_index_from_storage(storage, reader=ScriptedLM())
    assert isinstance(loaded, HWDAGIndex)
    for k in (None, 5):
        ours, theirs = loaded.as_retriever(k=k), index.as_retriever(k=k)
        assert plain(ours.retrieve(QUESTION)) == plain(theirs.retrieve(QUESTION))
    engines = [i.as_query_engine(answer_mode="walk") for i in (loaded, index)]
    ours, theirs = (engine.query(QUESTION) for engine in engines)
    assert (str(ours), ours.metadata) == (str(theirs), theirs.metadata)
    assert loaded.ref_doc_info == index.ref_doc_info


def test_a_loaded_index_is_the_same_to_the_last_bit(tmp_path):
    index = built()
    loaded = load_index_from_storage(persisted(index, tmp_path))
    for name, entry in index.core.entries.items():
        other = loaded.core.entries[name]
        assert other.document == entry.document
        assert other.graph.nodes == entry.graph.nodes
        np.testing.assert_array_equal(other.graph.raw.toarray(), entry.graph.raw.toarray())
        np.testing.assert_array_equal(other.graph.edges.toarray(), entry.graph.edges.toarray())
        np.testing.assert_array_equal(other.vectors, entry.vectors)
    assert loaded.core.config == CONFIG


def test_joined_nodes_are_loaded_as_they_were_joined(tmp_path):
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    index = HWDAGIndex.from_documents(documents(), transformations=[splitter], **models())
    loaded = load_index_from_storage(persisted(index, tmp_path))
    assert loaded.core.documents == index.core.documents


def test_loading_needs_no_model(tmp_path):
    loaded = load_index_from_storage(persisted(built(reader=ScriptedLM(name="/nowhere")), tmp_path))
    assert loaded.core.built_by == "/nowhere"
    assert loaded.core.graphs.keys() == TEXTS.keys()


def test_a_loaded_index_can_be_changed_and_saved_again(tmp_path):
    loaded = load_index_from_storage(persisted(built("mill"), tmp_path), reader=ScriptedLM())
    loaded.insert(documents("ferry")[0])
    loaded.delete_ref_doc("mill", delete_from_docstore=True)
    again = load_index_from_storage(persisted(loaded, tmp_path))
    assert again.core.documents.keys() == {"ferry"}


def test_an_empty_index_can_be_loaded_and_filled(tmp_path):
    storage = persisted(HWDAGIndex(nodes=[], **models(config=CONFIG)), tmp_path)
    loaded = load_index_from_storage(storage, **models())
    loaded.insert(documents("mill")[0])
    assert loaded.core.graphs["mill"].nodes == built("mill").core.graphs["mill"].nodes


def test_another_embedder_or_config_is_refused(tmp_path):
    storage = persisted(built("mill"), tmp_path)
    with pytest.raises(IndexMismatch, match="hashing-256"):
        load_index_from_storage(storage, embedder=HashingEmbedder(8))
    with pytest.raises(IndexMismatch, match="chunk_tokens"):
        load_index_from_storage(storage, config=BuildConfig())
    load_index_from_storage(storage, embedder="hashing-256", config=CONFIG)


def test_embeddings_of_llama_index_must_be_given_again(tmp_path):
    storage = persisted(built("mill", embedder=MockEmbedding(embed_dim=4)), tmp_path)
    with pytest.raises(IndexMismatch, match="MockEmbedding"):
        load_index_from_storage(storage)
    load_index_from_storage(storage, embedder=MockEmbedding(embed_dim=4))


def test_a_docstore_that_lost_or_changed_something_is_refused(tmp_path):
    storage = persisted(built("mill"), tmp_path)
    storage.docstore.add_documents([Document(id_="mill", text="Something else altogether.")])
    with pytest.raises(IndexCorrupt):
        load_index_from_storage(storage)
    storage.docstore.delete_document("mill#1.0")
    with pytest.raises(IndexCorrupt, match="'mill'"):
        load_index_from_storage(storage)


# --- embeddings in vector stores


def vectors_of(index):
    return {
        node.id: vector.tolist()
        for entry in index.core.entries.values()
        for node, vector in zip(entry.graph.nodes, entry.vectors, strict=True)
    }


def assert_same(loaded, index):
    """Graphs and vectors are the same to the last bit, and so is what is found."""
    assert isinstance(loaded, HWDAGIndex)
    assert vectors_of(loaded) == vectors_of(index)
    for name, entry in index.core.entries.items():
        other = loaded.core.entries[name]
        assert (other.document, other.graph.nodes) == (entry.document, entry.graph.nodes)
        np.testing.assert_array_equal(other.graph.raw.toarray(), entry.graph.raw.toarray())
    found = loaded.as_retriever(k=5).retrieve(QUESTION)
    assert plain(found) == plain(index.as_retriever(k=5).retrieve(QUESTION))


def own_store(context):
    store = context.vector_stores["hwdag"]
    assert isinstance(store, SimpleVectorStore)
    return store


def test_embeddings_are_in_a_vector_store_of_their_own_and_nodes_in_the_docstore():
    index = built()
    context = index.storage_context
    assert own_store(context).data.embedding_dict == vectors_of(index)
    assert context.vector_store.to_dict()["embedding_dict"] == {}
    for key in vectors_of(index):
        node = index.docstore.get_node(key)
        assert node.embedding is None
        assert node.ref_doc_id in TEXTS
        assert "hwdag" in node.excluded_llm_metadata_keys
        assert "hwdag" in node.excluded_embed_metadata_keys


def test_another_index_in_the_same_context_is_not_disturbed():
    context = StorageContext.from_defaults()
    embed_model = MockEmbedding(embed_dim=4)
    nodes = [TextNode(id_=f"n{i}", text=text) for i, text in enumerate(TEXTS.values())]
    vector_index = VectorStoreIndex(nodes, storage_context=context, embed_model=embed_model)
    before = context.vector_store.to_dict()
    index = built(storage_context=context)
    index.delete_ref_doc("mill", delete_from_docstore=True)
    assert context.vector_store.to_dict() == before
    assert len(vector_index.as_retriever(similarity_top_k=9).retrieve("grain")) == len(nodes)


def test_two_indices_share_a_context_and_its_vectors(tmp_path):
    first = built("mill")
    second = built("ferry", storage_context=first.storage_context)
    first.delete_ref_doc("mill")
    assert own_store(first.storage_context).data.embedding_dict == vectors_of(second)
    storage = persisted(second, tmp_path)
    assert_same(load_index_from_storage(storage, second.index_id, reader=ScriptedLM()), second)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("from_docstore", [False, True])
async def test_embeddings_go_with_their_document(asynchronous, from_docstore):
    index = built("mill", "ferry")
    if asynchronous:
        await index.adelete_ref_doc("mill", delete_from_docstore=from_docstore)
    else:
        index.delete_ref_doc("mill", delete_from_docstore=from_docstore)
    held = own_store(index.storage_context).data.embedding_dict
    assert held == vectors_of(index)
    assert {key.split("#")[0] for key in held} == {"ferry"}
    assert index.docstore.document_exists("mill") is not from_docstore
    assert index.refresh_ref_docs(documents("mill", "ferry")) == [True, False]


def test_a_folder_from_before_embeddings_had_a_store_is_loaded(tmp_path):
    index = built()
    index.storage_context.persist(str(tmp_path))
    (tmp_path / "hwdag__vector_store.json").unlink()
    path = tmp_path / "docstore.json"
    stored = json.loads(path.read_text("utf-8"))
    for key, vector in vectors_of(index).items():
        data = stored["docstore/data"][key]["__data__"]
        data["embedding"] = vector
        del data["relationships"]["1"]["metadata"]["vector"]
    path.write_text(json.dumps(stored), "utf-8")
    storage = StorageContext.from_defaults(persist_dir=str(tmp_path))
    loaded = load_index_from_storage(storage, reader=ScriptedLM())
    assert_same(loaded, index)
    loaded.insert(Document(id_="new", text="A new document."))
    assert {key.split("#")[0] for key in own_store(storage).data.embedding_dict} == {"new"}


@pytest.mark.parametrize("damage", ["lost", "of another text"])
def test_embeddings_that_the_vector_store_lost_are_made_again(damage, tmp_path, caplog):
    index = built()
    storage = persisted(index, tmp_path)
    held = own_store(storage).data.embedding_dict
    if damage == "lost":
        del held["mill#1.0"]
    else:
        held["mill#1.0"] = held["ferry#1.0"]
    assert_same(load_index_from_storage(storage, reader=ScriptedLM()), index)
    assert "'mill'" in caplog.text
    assert held == vectors_of(index)


class Interrupted(Exception):
    pass


class FailingStore(SimpleVectorStore):
    """Fails as often as it is told to."""

    def add(self, nodes: Sequence[BaseNode], **options: Any) -> list[str]:
        if FAILURES:
            raise FAILURES.pop()
        return super().add(nodes, **options)


FAILURES: list[Exception] = []


def test_an_interruption_between_the_stores_leaves_nothing_half(tmp_path):
    stores: dict[str, Any] = {"default": SimpleVectorStore(), "hwdag": FailingStore()}
    context = StorageContext.from_defaults(vector_stores=stores)
    index = built("mill", "ferry", storage_context=context)
    changed = Document(id_="mill", text=TEXTS["orchard"])
    FAILURES[:] = [Interrupted(), Interrupted()]  # adding is tried twice
    with pytest.raises(Interrupted):
        index.refresh_ref_docs([changed])
    assert index.index_struct.nodes.keys() == {"ferry"}
    loaded = load_index_from_storage(persisted(index, tmp_path), **models())
    assert loaded.core.documents.keys() == {"ferry"}
    for one in (index, loaded):
        assert one.refresh_ref_docs([changed]) == [True]
        assert one.core.documents["mill"].text == TEXTS["orchard"]
        assert one.ref_doc_info.keys() == {"mill", "ferry"}
        assert set(one.docstore.docs) == {*vectors_of(one), "mill", "ferry"}
        assert set(own_store(one.storage_context).data.embedding_dict) == set(vectors_of(one))


# --- stores of others


class OfflineVectorStore(DuckDBVectorStore):
    """Without the download of two extensions that nothing here needs."""

    @classmethod
    def _initialize_table(cls, conn: Any, table_name: str, embed_dim: int | None) -> None:
        conn.execute(
            f"CREATE TABLE IF NOT EXISTS {table_name} (node_id VARCHAR PRIMARY KEY, text TEXT, "
            f"embedding {cls._get_embedding_type(embed_dim)}, metadata_ JSON)"
        )


@pytest.fixture
def databases(postgres, tmp_path):
    """Makes contexts of one docstore in PostgreSQL and one vector store in DuckDB."""
    engine = create_engine(f"postgresql+psycopg2://{postgres}")
    folder = tmp_path / "index"

    def context() -> StorageContext:
        store = PostgresKVStore(
            "nodes", engine=engine, async_connection_string=f"postgresql+asyncpg://{postgres}"
        )
        return StorageContext.from_defaults(
            docstore=PostgresDocumentStore(store),
            vector_store=OfflineVectorStore("vectors.duckdb", persist_dir=str(tmp_path)),
            persist_dir=str(folder) if folder.exists() else None,
        )

    yield context
    engine.dispose()


def test_an_sql_docstore_and_an_external_vector_store_hold_an_index(databases, tmp_path):
    context = databases()
    index = built(storage_context=context)
    assert "hwdag" not in context.vector_stores
    [stored] = context.vector_store.get_nodes(node_ids=["mill#1.0"])
    assert np.asarray(stored.embedding, np.float32).tolist() == vectors_of(index)["mill#1.0"]
    assert stored.ref_doc_id == "mill"
    assert index.docstore.get_node("mill#1.0").embedding is None
    context.persist(str(tmp_path / "index"))

    again = databases()
    loaded = load_index_from_storage(again, reader=ScriptedLM())
    assert_same(loaded, index)
    loaded.update_ref_doc(Document(id_="mill", text=TEXTS["orchard"]))
    loaded.delete_ref_doc("ferry", delete_from_docstore=True)
    wanted = vectors_of(loaded)
    held = again.vector_store.get_nodes(node_ids=[*vectors_of(index), *wanted])
    assert {node.node_id for node in held} == wanted.keys()
    assert not any(key.startswith("ferry") for key in again.docstore.docs)
    again.persist(str(tmp_path / "index"))
    assert_same(load_index_from_storage(databases(), reader=ScriptedLM()), loaded)


def test_ids_that_an_interrupted_run_left_in_a_store_are_overwritten():
    store = OfflineVectorStore()
    store.add([TextNode(id_="mill#1.0", text="old", embedding=[0.5] * 256)])
    index = built("mill", storage_context=StorageContext.from_defaults(vector_store=store))
    [node] = store.get_nodes(node_ids=["mill#1.0"])
    assert np.asarray(node.embedding, np.float32).tolist() == vectors_of(index)["mill#1.0"]


def test_metadata_that_is_not_flat_is_no_matter_for_a_vector_store():
    store = OfflineVectorStore()
    document = Document(id_="a", text=TEXTS["mill"], metadata={"tags": ["x"], "year": 1871})
    HWDAGIndex.from_documents(
        [document], storage_context=StorageContext.from_defaults(vector_store=store), **models()
    )
    [node] = store.get_nodes(node_ids=["a#1.0"])
    assert node.metadata == {"year": 1871}


def test_a_store_that_gives_nothing_back_is_used_and_the_docstore_keeps_a_copy(tmp_path, caplog):
    faiss_index = faiss.IndexFlatIP(256)
    store = FaissVectorStore(faiss_index=faiss_index)
    index = built(storage_context=StorageContext.from_defaults(vector_store=store))
    assert faiss_index.ntotal == len(vectors_of(index))
    assert caplog.text.count("does not give embeddings back") == 1
    index.storage_context.persist(str(tmp_path))
    again = StorageContext.from_defaults(
        vector_store=FaissVectorStore.from_persist_dir(str(tmp_path)), persist_dir=str(tmp_path)
    )
    loaded = load_index_from_storage(again, reader=ScriptedLM())
    assert_same(loaded, index)
    loaded.delete_ref_doc("mill", delete_from_docstore=True)
    assert "delete" in caplog.text
    assert not any(key.startswith("mill") for key in loaded.docstore.docs)


def test_a_store_that_changes_vectors_is_not_trusted(tmp_path):
    class Halving(SimpleVectorStore):
        def add(self, nodes: Sequence[BaseNode], **options: Any) -> list[str]:
            added = super().add(nodes, **options)
            for key in added:
                self.data.embedding_dict[key] = [v / 2 for v in self.data.embedding_dict[key]]
            return added

    stores: dict[str, Any] = {"default": SimpleVectorStore(), "hwdag": Halving()}
    index = built(storage_context=StorageContext.from_defaults(vector_stores=stores))
    assert index.docstore.get_node("mill#1.0").embedding == vectors_of(index)["mill#1.0"]
    assert_same(load_index_from_storage(persisted(index, tmp_path), reader=ScriptedLM()), index)


# --- the single file


def in_file(folder, *names, **options):
    return built(*names, path=folder / "index.hwdag", **options)


def test_an_index_in_a_file_does_what_one_in_the_stores_does(tmp_path):
    index, other = in_file(tmp_path), built()
    assert set(index.docstore.docs) == TEXTS.keys()
    assert "hwdag" not in index.storage_context.vector_stores
    assert vectors_of(index) == vectors_of(other)
    assert plain(index.as_retriever(k=5).retrieve(QUESTION)) == plain(
        other.as_retriever(k=5).retrieve(QUESTION)
    )
    assert index.ref_doc_info == other.ref_doc_info
    for one in (index, other):
        one.update_ref_doc(Document(id_="mill", text=TEXTS["orchard"]))
        one.delete_ref_doc("ferry", delete_from_docstore=True)
        assert one.refresh_ref_docs(documents("ferry", "orchard")) == [True, False]
    assert index.core.documents.keys() == other.core.documents.keys()
    assert set(index.docstore.docs) == TEXTS.keys()
    index.core.close()


def test_the_struct_remembers_the_file(tmp_path):
    index = in_file(tmp_path)
    loaded = load_index_from_storage(persisted(index, tmp_path / "context"), reader=ScriptedLM())
    assert_same(loaded, index)
    assert loaded.ref_doc_info == index.ref_doc_info
    index.insert(Document(id_="new", text="A new document."))
    assert "new" in loaded.ref_doc_info
    for one in (index, loaded):
        one.core.close()


def test_a_moved_file_is_named_with_the_way_out(tmp_path):
    index = in_file(tmp_path, "mill")
    storage = persisted(index, tmp_path / "context")
    index.core.close()
    moved = (tmp_path / "index.hwdag").rename(tmp_path / "moved.hwdag")
    with pytest.raises(IndexFileError, match=r"index\.hwdag"):
        load_index_from_storage(storage)
    for given in (moved, None):  # the second time it is remembered
        loaded = load_index_from_storage(storage, reader=ScriptedLM(), path=given)
        assert loaded.core.documents.keys() == {"mill"}
        loaded.core.close()


def test_an_index_of_the_stores_is_not_opened_as_a_file(tmp_path):
    storage = persisted(built("mill"), tmp_path)
    with pytest.raises(IndexMismatch):
        load_index_from_storage(storage, path=tmp_path / "index.hwdag")


def test_an_interrupted_build_goes_on_where_it_was(tmp_path):
    prompts: list[str] = []
    broken = {"after": 2}

    def reply(prompt: str) -> str:
        if len(prompts) == broken["after"]:
            raise ConnectionError("the server is gone")
        prompts.append(prompt)
        return "* A point about it."

    with pytest.raises(WriterFailed):
        in_file(tmp_path, writer=reply)
    broken["after"] = -1
    index = in_file(tmp_path, writer=reply)
    assert len(prompts) == len(set(prompts))
    assert index.core.documents.keys() == index.ref_doc_info.keys() == TEXTS.keys()
    index.core.close()


def test_documents_that_others_put_into_the_file_are_found_too(tmp_path):
    index = in_file(tmp_path, "mill")
    with hwdag.HWDAGIndex.load(tmp_path / "index.hwdag", **models()) as other:
        other.insert([hwdag.Document("ferry", TEXTS["ferry"], metadata={"place": "ferry"})])
    [found] = index.as_retriever(k=1, document_ids=["ferry"]).retrieve(QUESTION)
    assert "place: ferry" in found.node.get_content(MetadataMode.LLM)
    assert index.ref_doc_info.keys() == {"mill", "ferry"}
    index.delete_ref_doc("ferry")
    assert index.core.documents.keys() == {"mill"}
    index.core.close()


def test_what_a_document_hides_from_models_stays_hidden_after_loading(tmp_path):
    for options in ({}, {"path": tmp_path / "index.hwdag"}):
        index = built(**options)
        storage = persisted(index, tmp_path / f"context{len(options)}")
        loaded = load_index_from_storage(storage, reader=ScriptedLM())
        for found in loaded.as_retriever(search=ALL).retrieve(QUESTION):
            assert "/secret" not in found.node.get_content(MetadataMode.LLM)
            assert "/secret" in found.node.get_content(MetadataMode.EMBED)
        for one in (index, loaded):
            one.core.close()


# --- odd documents


@pytest.mark.parametrize("in_a_file", [False, True])
def test_metadata_that_a_store_changes_is_no_matter(in_a_file, tmp_path):
    options = {"path": tmp_path / "index.hwdag"} if in_a_file else {}
    document = Document(
        id_="odd",
        text=TEXTS["mill"],
        metadata={"pair": ("a", "b"), "hidden": "/secret"},
        excluded_llm_metadata_keys=["hidden"],
    )
    index = HWDAGIndex.from_documents([document], **models(**options))
    assert index.ref_doc_info.keys() == {"odd"}
    loaded = load_index_from_storage(
        persisted(index, tmp_path / "context"), **models(embedder=None)
    )
    for one in (index, loaded):
        for found in one.as_retriever().retrieve("Who keeps grain?"):
            assert "/secret" not in found.node.get_content(MetadataMode.LLM)
        one.core.close()
