"""An index of the LlamaIndex package whose process is killed before any of its writes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, load_index_from_storage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.kvstore.simple_kvstore import SimpleKVStore
from llama_index.core.vector_stores.simple import SimpleVectorStore, SimpleVectorStoreData
from llama_world import CONFIG, QUESTION, models, persisted

from hwdag.errors import IndexCorrupt
from llama_index_hwdag import HWDAGIndex

OLD = Document(id_="mill", text="The miller keeps grain. He counts the sacks.")
OTHER = Document(id_="ferry", text="The ferry crosses the river at dawn.")
NEW = Document(id_="mill", text="The mill burned down. Nobody was hurt by it.")
MORE = Document(id_="orchard", text="Nobody owns the orchard. It is old.")


class Killed(BaseException):
    """The process is gone."""


WRITES = [
    *((SimpleKVStore, name) for name in ("put", "put_all", "delete")),
    *((SimpleVectorStore, name) for name in ("add", "delete_nodes")),
]


@contextmanager
def killed_before(write, monkeypatch):
    """Kill whoever writes to a store of LlamaIndex for this time, counted from 0."""
    done = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal done
            if done == write:
                raise Killed
            done += 1
            return original(*args, **options)

        return call

    with monkeypatch.context() as patched:
        for store, name in WRITES:
            patched.setattr(store, name, counted(getattr(store, name)))
        yield


def on_disk(context):
    """What stores that write through have on disk."""
    vectors = context.vector_stores["hwdag"]
    assert isinstance(vectors, SimpleVectorStore)
    assert isinstance(context.docstore, SimpleDocumentStore)
    assert isinstance(context.index_store, SimpleIndexStore)
    return copy.deepcopy(
        (context.docstore.to_dict(), context.index_store.to_dict(), vectors.data.to_dict())
    )


def opened(state):
    docstore, index_store, vectors = copy.deepcopy(state)
    held = SimpleVectorStore(data=SimpleVectorStoreData.from_dict(vectors))
    return StorageContext.from_defaults(
        docstore=SimpleDocumentStore.from_dict(docstore),
        index_store=SimpleIndexStore.from_dict(index_store),
        vector_stores={"default": SimpleVectorStore(), "hwdag": held},
    )


def texts(index):
    return {key: document.text for key, document in index.core.documents.items()}


CHANGES: dict[str, tuple[Callable[[HWDAGIndex], object], list[Document]]] = {
    "update": (lambda index: index.update_ref_doc(NEW), [NEW, OTHER]),
    "delete": (lambda index: index.delete_ref_doc("mill", delete_from_docstore=True), [OTHER]),
    "insert": (lambda index: index.insert(MORE), [OLD, OTHER, MORE]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("in_a_file", [False, True], ids=["stores", "file"])
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_a_change_that_was_killed_anywhere_can_be_repeated_or_taken_back(
    change, in_a_file, split, monkeypatch, tmp_path
):
    """Nothing half is found, nothing stays behind, and no old hash hides what was not finished."""
    run, wanted = CHANGES[change]
    splitters = [SentenceSplitter(chunk_size=12, chunk_overlap=0)] if split else None
    given = {**models(), "transformations": splitters}
    first, second = tmp_path / "first", tmp_path / "second"

    def loaded(state: tuple[Any, ...], file: Path) -> HWDAGIndex:
        place = {"path": file} if in_a_file else {}
        return load_index_from_storage(opened(state), **given, **place)

    def copied(source: Path, target: Path) -> None:
        if in_a_file:
            target.write_bytes(source.read_bytes())

    index = HWDAGIndex.from_documents(
        [OLD, OTHER],
        storage_context=opened(({}, {}, SimpleVectorStoreData().to_dict())),
        config=CONFIG,
        path=first if in_a_file else None,
        **given,
    )
    index.core.close()
    before = on_disk(index.storage_context)
    for write in range(100):
        copied(first, second)
        index, finished = loaded(before, second), False
        with killed_before(write, monkeypatch):
            try:
                run(index)
                finished = True
            except Killed:
                pass
        index.core.close()
        after = on_disk(index.storage_context)

        copied(second, tmp_path / "reverted")
        reverted = loaded(after, tmp_path / "reverted")
        reverted.refresh_ref_docs([OLD, OTHER])
        assert texts(reverted).items() >= {"mill": OLD.text, "ferry": OTHER.text}.items()
        reverted.core.close()

        repeated = loaded(after, second)
        run(repeated)
        repeated.refresh_ref_docs([document for document in wanted if document is not MORE])
        assert texts(repeated) == {document.id_: document.text for document in wanted}
        struct = repeated.index_struct
        listed = {*struct.sources, *struct.nodes}.union(
            *struct.sources.values(), *struct.nodes.values()
        )
        assert set(repeated.docstore.docs) <= listed
        assert not struct.unfinished
        repeated.core.close()
        if finished:
            break
    assert finished
    assert write > 1


def test_documents_that_the_docstore_no_longer_holds_are_left_out_until_they_are_given_again(
    tmp_path, caplog
):
    """A docstore in a database is ahead of an index store that was not persisted since."""
    storage = persisted(
        HWDAGIndex.from_documents([OLD, OTHER], config=CONFIG, **models()), tmp_path
    )
    ahead = load_index_from_storage(storage, **models())
    ahead.delete_ref_doc("mill", delete_from_docstore=True)
    mixed = StorageContext.from_defaults(docstore=ahead.docstore, persist_dir=str(tmp_path))
    loaded = load_index_from_storage(mixed, **models())
    assert "1 of 2 documents" in caplog.text
    assert "'mill'" in caplog.text
    assert texts(loaded) == {"ferry": OTHER.text}
    assert loaded.as_retriever(k=1).retrieve(QUESTION)[0].node.ref_doc_id == "ferry"
    assert loaded.refresh_ref_docs([NEW, OTHER]) == [True, False]
    assert texts(loaded) == {"ferry": OTHER.text, "mill": NEW.text}
    with pytest.raises(IndexCorrupt, match="'mill'"):
        load_index_from_storage(
            StorageContext.from_defaults(docstore=SimpleDocumentStore(), persist_dir=str(tmp_path)),
            **models(),
        )


def test_a_document_that_the_docstore_has_in_a_newer_version_is_not_the_one_of_the_old_hash(
    tmp_path,
):
    storage = persisted(
        HWDAGIndex.from_documents([OLD, OTHER], config=CONFIG, **models()), tmp_path
    )
    ahead = load_index_from_storage(storage, **models())
    ahead.update_ref_doc(NEW)
    mixed = StorageContext.from_defaults(docstore=ahead.docstore, persist_dir=str(tmp_path))
    loaded = load_index_from_storage(mixed, **models())
    assert texts(loaded) == {"mill": NEW.text, "ferry": OTHER.text}
    assert loaded.refresh_ref_docs([OLD, OTHER]) == [True, False]
    assert texts(loaded) == {"mill": OLD.text, "ferry": OTHER.text}
