"""How documents enter an index and leave it."""

from __future__ import annotations

import logging
import threading
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import BaseNode, Document, MetadataMode
from llama_index.core.storage.docstore.types import RefDocInfo

from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.overlaps import overlap_warning
from hwdag.threads import asynchronous
from hwdag.types import Document as CoreDocument
from llama_index_hwdag.events import (
    BuildProgress,
    HWDAGBuildEndEvent,
    HWDAGBuildStartEvent,
    dispatcher,
)
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.nodes import (
    Record,
    by_ref_doc,
    core_document,
    own_metadata,
    parts_of,
    source_hash,
    without_repeats,
)
from llama_index_hwdag.storing import note

logger = logging.getLogger(__name__)


STORE_KWARGS = ("update_kwargs", "delete_kwargs", "insert_kwargs")
"""Options of a document store next to the vectors, which this index lacks: it is one file."""


class ChangingIndex(BaseIndex[HWDAGIndexStruct], ABC):
    """The half of `HWDAGIndex` that inserts, replaces and deletes.

    LlamaIndex works node by node in its docstore; this class works by ref doc in the index file.
    Asynchronous twins run in threads of their own (`hwdag.threads`).

    Attributes:
        core: the index of the core: graphs, `search`, `answer`, `save` to one file.
        report: of the latest change: documents skipped, windows that fell back, cost.
    """

    core: CoreIndex
    report: BuildReport | None
    _changes: threading.RLock

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """Metadata and node ids (inserted nodes, chunks and points) by ref doc id."""
        return {
            key: RefDocInfo(
                node_ids=[
                    *(part.node_id for part in parts_of(document)),
                    *(node.id for node in graph.nodes),
                ],
                metadata=own_metadata(document),
            )
            for key, (document, graph, _) in self.core.entries.items()
        }

    def insert(self, document: Document, **insert_kwargs: Any) -> None:
        """Build the graph of a document, in place of an older one; an unchanged one costs nothing."""
        refuse(insert_kwargs, "insert", "none")
        with self._changing("insert"):
            self._insert_documents([document])

    ainsert = asynchronous(insert, builds=True)  # type: ignore[arg-type]

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Build the graphs of the nodes' ref docs; unchanged ones cost nothing.

        Nodes are added to those of the ref doc, unless they are from another version of it.
        """
        refuse(insert_kwargs, "insert_nodes", "none")
        with self._changing("insert_nodes"):
            self._insert(nodes)

    ainsert_nodes = asynchronous(insert_nodes, builds=True)  # type: ignore[arg-type]

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        joined = {key: self._with_known(key, new) for key, new in by_ref_doc(nodes).items()}
        _warn_of_overlaps(joined)
        self._build([core_document(key, parts) for key, parts in joined.items()])

    def update_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Same as `insert`: only the changed parts of a document are built again."""
        _check(update_kwargs, "update_ref_doc")
        with self._changing("update_ref_doc"):
            self._insert_documents([document])

    aupdate_ref_doc = asynchronous(update_ref_doc, builds=True)  # type: ignore[arg-type]

    def refresh_ref_docs(self, documents: Sequence[Document], **update_kwargs: Any) -> list[bool]:
        """Build new and changed documents in one go; returns for each whether it was built."""
        _check(update_kwargs, "refresh_ref_docs")
        with self._changing("refresh_ref_docs"):
            refreshed = [not self._is_up_to_date(document) for document in documents]
            changed = [doc for doc, is_new in zip(documents, refreshed, strict=True) if is_new]
            if changed:
                self._insert_documents(changed)
        return refreshed

    arefresh_ref_docs = asynchronous(refresh_ref_docs, builds=True)  # type: ignore[arg-type]

    @dispatcher.span
    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Remove a document and everything derived from it; log a warning if it is missing.

        `delete_from_docstore` removes its hash from the docstore too, but no nodes: others put them there.
        """
        refuse(delete_kwargs, "delete_ref_doc", "delete_from_docstore")
        with self._changing("delete_ref_doc"):
            try:
                self.core.delete(ref_doc_id)
            except InputError:
                logger.warning("ref_doc_id %s not found, nothing deleted.", ref_doc_id)
            else:
                self._note()
            if delete_from_docstore:
                self._docstore.delete_document(ref_doc_id, raise_error=False)

    adelete_ref_doc = asynchronous(delete_ref_doc, builds=True)

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        raise InputError(
            f"node {node_id} is part of a document's graph and cannot be deleted alone; use "
            "delete_ref_doc, or update_ref_doc with a changed document"
        )

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        """Make one change at a time, within a trace of LlamaIndex's callback manager."""
        with self._callback_manager.as_trace(name), self._changes:
            yield

    def _insert_documents(self, documents: Sequence[Document]) -> None:
        """Build documents, in place of older ones."""
        shown = self._show_progress
        nodes = run_transformations(documents, self._transformations, show_progress=shown)
        parts = by_ref_doc(nodes)
        for document in documents:  # why: a splitter makes no node of a blank one
            if not document.text.strip():
                parts.setdefault(document.id_, [document])
        _warn_of_overlaps(parts)
        hashes = {document.id_: document.hash for document in documents}
        self._build([core_document(key, some, hashes.get(key)) for key, some in parts.items()])
        # why: an `IngestionPipeline` that shares the docstore reads them
        self._docstore.set_document_hashes(hashes)

    @dispatcher.span
    def _build(self, documents: Sequence[CoreDocument]) -> None:
        """Build these documents, in place of older ones; finished ones stay if it fails."""
        if not documents:
            return  # why: a file names its models, and nothing has loaded any yet
        ids = [document.id for document in documents]
        dispatcher.event(HWDAGBuildStartEvent(document_ids=ids))
        try:
            self.report = self.core.refresh(
                documents, show_progress=BuildProgress(ids, self._show_progress)
            )
        finally:
            self._note()
        for ref_doc_id, reason in self.report.skipped:
            logger.warning("document %s was skipped: %s", ref_doc_id, reason)
        if warning := self.report.copies_warning:
            logger.warning("%s; SimpleDirectoryReader does so with filename_as_id=True", warning)
        dispatcher.event(HWDAGBuildEndEvent.of(self.report))

    def _note(self) -> None:
        """Update the index store."""
        note(self._index_struct, self.core)
        self._storage_context.index_store.add_index_struct(self._index_struct)

    def _with_known(self, ref_doc_id: str, new: Sequence[BaseNode]) -> Sequence[BaseNode]:
        """Return known and new nodes of a ref doc, or the new ones of another version."""
        held: Mapping[str, CoreDocument] = self.core.documents
        document = held.get(ref_doc_id)
        if document is None or new[0].node_id == ref_doc_id:
            return new
        versions = {Record.of(document).hash, source_hash(new)}
        if "" not in versions and len(versions) == 2:
            return new
        joined = {node.node_id: node for node in [*parts_of(document), *new]}
        return without_repeats(list(joined.values()))

    def _is_up_to_date(self, document: Document) -> bool:
        held = self.core.documents.get(document.id_)
        if held is None:
            return not document.text.strip()
        record = Record.of(held)
        return record.is_whole and record.hash == document.hash


def _check(update_kwargs: Mapping[str, Any], name: str) -> None:
    """Refuse options, but for those that LlamaIndex's documentation passes to its own stores."""
    ours = {key: value for key, value in update_kwargs.items() if key not in STORE_KWARGS}
    refuse(ours, name, "none")


def _warn_of_overlaps(parts: Mapping[str, Sequence[BaseNode]]) -> None:
    """Warn once if nodes of a ref doc repeat text of the node before them."""
    texts = ([node.get_content(MetadataMode.NONE) for node in nodes] for nodes in parts.values())
    if warning := overlap_warning(texts):
        logger.warning("%s", warning)
