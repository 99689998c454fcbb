"""How documents come into an index and leave it."""

from __future__ import annotations

import logging
import threading
from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import BaseNode, Document

from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.errors import InputError
from hwdag.threads import in_builder_thread
from llama_index_hwdag.events import (
    BuildProgress,
    HWDAGBuildEndEvent,
    HWDAGBuildStartEvent,
    dispatcher,
)
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.nodes import Source, by_ref_doc
from llama_index_hwdag.storage import Kept, Storage

logger = logging.getLogger(__name__)


class ChangingIndex(BaseIndex[HWDAGIndexStruct], ABC):
    """The half of `HWDAGIndex` that inserts, replaces and deletes.

    What upstream does node by node is done by ref doc here. Asynchronous twins are the same in
    threads of their own (`hwdag.threads`).

    Attributes:
        report: what the latest change did: documents skipped, windows that fell back, cost.
    """

    _storage: Storage
    _changes: threading.RLock
    report: BuildReport | None

    def insert(
        self, document: Document, *, show_progress: bool | None = None, **insert_kwargs: Any
    ) -> None:
        """Build the graph of a document, in place of what has its id; unchanged it costs nothing."""
        refuse(insert_kwargs, "insert", "show_progress")
        with self._callback_manager.as_trace("insert"):
            self._insert_documents([document], show_progress)

    async def ainsert(
        self, document: Document, *, show_progress: bool | None = None, **insert_kwargs: Any
    ) -> None:
        """`insert` in a thread; the loop goes on."""
        call = partial(self.insert, document, show_progress=show_progress, **insert_kwargs)
        await in_builder_thread(call)

    def insert_nodes(
        self,
        nodes: Sequence[BaseNode],
        *,
        show_progress: bool | None = None,
        **insert_kwargs: Any,
    ) -> None:
        """Build the graphs of the nodes' ref docs; those of unchanged content cost nothing.

        Raises:
            InputError: a document is in another HWDAG index of the same storage context.
        """
        refuse(insert_kwargs, "insert_nodes", "show_progress")
        with self._callback_manager.as_trace("insert_nodes"):
            self._build(nodes, replaces=False, show_progress=show_progress)

    async def ainsert_nodes(
        self,
        nodes: Sequence[BaseNode],
        *,
        show_progress: bool | None = None,
        **insert_kwargs: Any,
    ) -> None:
        """`insert_nodes` in a thread; the loop goes on."""
        call = partial(self.insert_nodes, nodes, show_progress=show_progress, **insert_kwargs)
        await in_builder_thread(call)

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        self.insert_nodes(nodes, **insert_kwargs)

    def update_ref_doc(
        self, document: Document, *, show_progress: bool | None = None, **update_kwargs: Any
    ) -> None:
        """As `insert`: of a changed document only what changed is built anew."""
        refuse(update_kwargs, "update_ref_doc", "show_progress")
        with self._callback_manager.as_trace("update_ref_doc"):
            self._insert_documents([document], show_progress)

    async def aupdate_ref_doc(
        self, document: Document, *, show_progress: bool | None = None, **update_kwargs: Any
    ) -> None:
        """`update_ref_doc` in a thread; the loop goes on."""
        call = partial(self.update_ref_doc, document, show_progress=show_progress, **update_kwargs)
        await in_builder_thread(call)

    def refresh_ref_docs(
        self,
        documents: Sequence[Document],
        *,
        show_progress: bool | None = None,
        **update_kwargs: Any,
    ) -> list[bool]:
        """Build what is new or changed, all of it in one go; for each document whether it was."""
        refuse(update_kwargs, "refresh_ref_docs", "show_progress")
        with self._callback_manager.as_trace("refresh_ref_docs"), self._changes:
            refreshed = [not self._is_up_to_date(document) for document in documents]
            changed = [doc for doc, is_new in zip(documents, refreshed, strict=True) if is_new]
            if changed:
                self._insert_documents(changed, show_progress)
        return refreshed

    async def arefresh_ref_docs(
        self,
        documents: Sequence[Document],
        *,
        show_progress: bool | None = None,
        **update_kwargs: Any,
    ) -> list[bool]:
        """`refresh_ref_docs` in a thread; the loop goes on."""
        call = partial(
            self.refresh_ref_docs, documents, show_progress=show_progress, **update_kwargs
        )
        return await in_builder_thread(call)

    @dispatcher.span
    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Remove a document with its graph and embeddings; with a warning if it is not there.

        The stored nodes stay in the docstore unless `delete_from_docstore`.
        """
        refuse(delete_kwargs, "delete_ref_doc", "delete_from_docstore")
        with self._callback_manager.as_trace("delete_ref_doc"), self._changes:
            if ref_doc_id in self._storage.core.documents:  # one that became blank is gone already
                self._storage.core.delete(ref_doc_id)
            elif not self._is_left(ref_doc_id, in_docstore=delete_from_docstore):
                logger.warning("ref_doc_id %s not found, nothing deleted.", ref_doc_id)
                return
            self._storage.drop(ref_doc_id, from_docstore=delete_from_docstore)

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """`delete_ref_doc` in a thread; the loop goes on."""
        await in_builder_thread(
            partial(self.delete_ref_doc, ref_doc_id, delete_from_docstore, **delete_kwargs)
        )

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        raise InputError(
            f"node {node_id} is part of a document's graph and cannot be deleted alone; use "
            "delete_ref_doc, or update_ref_doc with a changed document"
        )

    def _insert_documents(self, documents: Sequence[Document], show_progress: bool | None) -> None:
        """Build documents, in place of whatever has their ids."""
        shown = self._show_progress if show_progress is None else show_progress
        nodes = run_transformations(documents, self._transformations, show_progress=shown)
        with self._changes:  # why: what is noted must be what was built last
            self._build(nodes, replaces=True, show_progress=shown)
            self._storage.built_of(documents)

    @dispatcher.span
    def _build(
        self, nodes: Sequence[BaseNode], *, replaces: bool, show_progress: bool | None = None
    ) -> None:
        """Build what the nodes' ref docs are now, and keep what was finished."""
        with self._changes:
            joined = {
                key: list(new.values()) if replaces else self._all_of(key, new)
                for key, new in by_ref_doc(nodes).items()
            }
            self._refuse_shared(joined)
            self._storage.check_ids(
                {key: [p.node_id for p in parts] for key, parts in joined.items()}
            )
            new = [Kept(Source.of(key, parts), parts) for key, parts in joined.items()]
            shown = self._show_progress if show_progress is None else show_progress
            dispatcher.event(HWDAGBuildStartEvent(document_ids=list(joined)))
            try:
                self.report = self._storage.core.refresh(
                    [kept.source.document for kept in new],
                    show_progress=BuildProgress(list(joined), shown),
                )
            finally:  # what was finished stays, whatever interrupted the rest
                held = self._storage.core.documents
                self._storage.keep([k for k in new if held.get(k.ref_doc_id) == k.source.document])
            self._skip(self.report)
            dispatcher.event(HWDAGBuildEndEvent.of(self.report))

    def _all_of(self, ref_doc_id: str, new: Mapping[str, BaseNode]) -> list[BaseNode]:
        """A ref doc's nodes, known and new; a whole document and parts of it exclude each other."""
        if ref_doc_id in new:
            return list(new.values())
        listed = self._storage.struct.sources.get(ref_doc_id, ())
        versions = {_version(node) for node in new.values()}
        wanted = dict.fromkeys([*(key for key in listed if key != ref_doc_id), *new])
        # why: a pipeline that shares the docstore removes the nodes that it is about to replace
        known = {key: self._docstore.get_document(key, raise_error=False) for key in wanted}
        return [
            found
            for key in wanted
            if (found := new.get(key, known[key])) is not None
            # why: nodes of another version of the document are what these replace
            and (key in new or None in versions or _version(found) in versions)
        ]

    def _skip(self, report: BuildReport) -> None:
        """Say what was skipped; a document that has become blank is no longer in the index."""
        for ref_doc_id, reason in report.skipped:
            logger.warning("document %s was skipped: %s", ref_doc_id, reason)
            if self._is_left(ref_doc_id, in_docstore=False):
                self._storage.drop(ref_doc_id, from_docstore=True)

    def _is_left(self, ref_doc_id: str, *, in_docstore: bool) -> bool:
        """Whether a document that the core does not hold is still kept somewhere."""
        struct, docstore = self._storage.struct, self._docstore
        if ref_doc_id in struct.sources or ref_doc_id in struct.unfinished:
            return True
        return in_docstore and (
            docstore.document_exists(ref_doc_id)
            or docstore.get_ref_doc_info(ref_doc_id) is not None
        )

    def _is_up_to_date(self, document: Document) -> bool:
        if self._storage.struct.hashes.get(document.id_) != document.hash:
            return False
        return self._storage.is_as_kept(document.id_) or not document.text.strip()

    def _refuse_shared(self, ref_doc_ids: Collection[str]) -> None:
        own = self._storage.struct.index_id
        for other in self._storage_context.index_store.index_structs():
            if isinstance(other, HWDAGIndexStruct) and other.index_id != own:
                for key in other.sources.keys() & set(ref_doc_ids):
                    raise InputError(
                        f"document {key!r} is in the HWDAG index {other.index_id} of the same "
                        "storage context, and their nodes would overwrite each other; load that "
                        "index and use refresh_ref_docs, or give this one its own StorageContext"
                    )


def _version(node: BaseNode) -> str | None:
    """The hash of the document that a node was cut from, where the splitter noted it."""
    return None if node.source_node is None else node.source_node.hash
