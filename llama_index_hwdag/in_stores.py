"""An index in LlamaIndex's own stores."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.storage_context import StorageContext

from hwdag.arrays import Vectors
from hwdag.building.builder import embedded_texts
from hwdag.building.insertion import titled
from hwdag.config import BuildConfig
from hwdag.embedding.default import as_embedder
from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.dag import HWDAG
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.store.records import MALFORMED
from hwdag.store.sqlite import Entry
from hwdag.types import Document
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.nodes import Source, graph_nodes, graph_of, record_of
from llama_index_hwdag.storage import Kept, Options, Storage
from llama_index_hwdag.vectors import StoredVectors, fingerprint, vector_store_of

logger = logging.getLogger(__name__)

MAX_NAMED = 5
"""Documents that a message names."""

_OF_GRAPH = re.compile(r"(.*)#\d+\.\d+", re.DOTALL)
"""Ids of the nodes of a graph: the document's, level and number."""

VECTOR = "vector"
"""In the relation of a stored node to its ref doc: fingerprint of the embedding that it goes with."""


class InStores(Storage):
    """Graphs in the docstore, embeddings in the vector store; the core has a copy in memory."""

    def __init__(self, context: StorageContext, struct: HWDAGIndexStruct, core: CoreIndex) -> None:
        super().__init__(context, struct, core)
        self._stored_vectors = StoredVectors(vector_store_of(context))
        # why: replaced, never changed, so that searches need no lock
        self._sources: dict[str, Source] = {}

    @classmethod
    def empty(cls, context: StorageContext, struct: HWDAGIndexStruct, options: Options) -> InStores:
        """Of an index without documents."""
        return cls(context, struct, CoreIndex(**options.models(), config=options.config))

    @classmethod
    def restored(
        cls, context: StorageContext, struct: HWDAGIndexStruct, options: Options
    ) -> InStores:
        """What the stores hold, with a warning where that is less than the index store lists.

        Of stores that are not written at once one may be behind the others. A document that the
        docstore no longer holds as it was indexed is left out, and built when it is given again. An
        embedding that is lost is made again.

        Raises:
            IndexCorrupt: the docstore holds no document as it was indexed.
            IndexMismatch: the embedder is not the one that the nodes were embedded with.
        """
        options = options.as_recorded(struct)
        if not struct.reader:
            return cls.empty(context, struct, options)
        storage = cls(context, struct, CoreIndex())
        entries, lost = [], list[Kept]()
        config = options.config or BuildConfig()
        for source, parts, graph, vectors in storage._stored():
            document, _ = titled(source.document, config.title_from)
            if vectors is None or not storage._is_of_its_hash(parts[0]):
                struct.hashes.pop(source.document.id, None)  # the docstore may be ahead
            if vectors is None:
                lost.append(Kept(source, parts))
                options = replace(options, embedder=as_embedder(options.embedder))
                vectors = _embedded(graph, options)
            entries.append(Entry(document, graph, vectors))
            storage._sources[source.document.id] = source
        storage.core = CoreIndex.from_entries(
            entries, built_by=struct.reader, config=options.config, **options.models()
        )
        if lost:
            names = ", ".join(repr(kept.ref_doc_id) for kept in lost)
            logger.warning("the vector store lost embeddings of %s; they were made again", names)
            for kept in lost:
                storage._write(kept)
        return storage

    def ref_doc_ids(self) -> Collection[str]:
        """Those that the index store lists."""
        return self.struct.nodes.keys()

    def source(self, document: Document) -> Source:
        """As it was kept; a document that the core got elsewhere comes as it is."""
        known = self._sources.get(document.id)
        # why titled: the core may have taken the title from the metadata
        is_known = known is not None and replace(known.document, title=document.title) == document
        return known if known and is_known else Source.of_document(document)

    def info(self, ref_doc_id: str) -> RefDocInfo | None:
        """As the docstore has it."""
        return self._docstore.get_ref_doc_info(ref_doc_id)

    def check_ids(self, ids: Mapping[str, Collection[str]]) -> None:
        """The graphs' nodes are in the docstore too, so no given node may have the id of one."""
        known: dict[str, Collection[str]] = {**self.struct.sources, **ids}
        for key in {*ids, *(node_id for listed in known.values() for node_id in listed)}:
            if (match := _OF_GRAPH.fullmatch(key)) and match[1] in known:
                raise InputError(
                    f"the id {key!r} is, or will be, that of a node in the graph of document "
                    f"{match[1]!r}; give the document or node another id"
                )

    def is_as_kept(self, ref_doc_id: str) -> bool:
        """The core's copy is nobody else's."""
        return ref_doc_id in self.struct.nodes

    def keep(self, documents: Sequence[Kept]) -> None:
        """Write what is new or changed."""
        changed = [kept for kept in documents if not self._has(kept)]
        before = {kept.ref_doc_id: self._unlisted(kept.ref_doc_id) for kept in changed}
        for kept in changed:
            self._note_parts(kept)
        if any(kept.ref_doc_id in self.struct.unfinished for kept in changed):
            self.commit()  # why: whatever interrupts what follows, nothing half is listed
        try:
            for kept in changed:
                old_parts, old_nodes = before[kept.ref_doc_id]
                self._write(kept, old_parts, old_nodes)
        finally:
            if changed:
                self.commit()

    def drop(self, ref_doc_id: str, *, from_docstore: bool) -> None:
        """Unlist it, then remove its embeddings, and its nodes where that is wanted.

        What an interruption has left can be removed by the same once more.
        """
        are_known = ref_doc_id in self.struct.sources or ref_doc_id in self.struct.unfinished
        parts, nodes = self._unlisted(ref_doc_id)
        self._sources = {k: v for k, v in self._sources.items() if k != ref_doc_id}
        self.commit()
        self._stored_vectors.remove(ref_doc_id, nodes)
        if from_docstore:
            self._forget_ref_doc(ref_doc_id, [*parts, *nodes] if are_known else [])
        if self.struct.unfinished.pop(ref_doc_id, None):
            self.commit()

    def _has(self, kept: Kept) -> bool:
        return kept.ref_doc_id in self.struct.nodes and (
            self._sources.get(kept.ref_doc_id) == kept.source
        )

    def _unlisted(self, ref_doc_id: str) -> tuple[list[str], list[str]]:
        """Ids of the nodes that it was read from and of its graph's; both are no longer listed.

        Among them what an interrupted change has left.
        """
        struct, prefix = self.struct, f"{ref_doc_id}#"
        struct.hashes.pop(ref_doc_id, None)
        parts = struct.sources.pop(ref_doc_id, [])
        nodes = struct.nodes.pop(ref_doc_id, [])
        left = struct.unfinished.get(ref_doc_id, [])
        if not nodes and (info := self.info(ref_doc_id)) is not None:
            left = [*left, *(key for key in info.node_ids if key.startswith(prefix))]
        parts = [*parts, *(key for key in left if not key.startswith(prefix))]
        nodes = list(dict.fromkeys([*nodes, *(key for key in left if key.startswith(prefix))]))
        if parts or nodes:
            struct.unfinished[ref_doc_id] = [*parts, *nodes]
        return parts, nodes

    def _write(
        self, kept: Kept, old_parts: Sequence[str] = (), old_nodes: Sequence[str] = ()
    ) -> None:
        key, entry = kept.ref_doc_id, self.core.entries[kept.ref_doc_id]
        made = graph_nodes(entry.graph, kept.source)
        for node, vector in zip(made, entry.vectors, strict=True):
            node.embedding = vector.tolist()
        if self._stored_vectors.put(key, made, old_nodes):
            for node, vector in zip(made, entry.vectors, strict=True):
                node.embedding = None
                _mark(node, fingerprint(vector))
        self._docstore.add_documents([*kept.parts, *made], allow_update=True)
        ids, parts = [node.node_id for node in made], [part.node_id for part in kept.parts]
        # why: after the new ones, since a docstore forgets a document with its last node
        self._forget_nodes({*old_parts, *old_nodes}.difference(ids, parts))
        self.struct.unfinished.pop(key, None)
        self._named()
        self._sources = {**self._sources, key: kept.source}
        self.struct.nodes[key], self.struct.sources[key] = ids, parts
        self._note_hash(kept)

    def _stored(
        self,
    ) -> Iterator[tuple[Source, Sequence[BaseNode], HWDAG, Vectors | None]]:
        """Documents as they were built: source, parts, graph, embeddings if none is lost.

        Raises:
            IndexCorrupt: the docstore holds none of them.
        """
        unfit: dict[str, Exception] = {}
        for ref_doc_id, node_ids in self.struct.nodes.items():
            try:
                parts = self._docstore.get_nodes(self.struct.sources[ref_doc_id])
                source = Source.of(ref_doc_id, parts)
                nodes = self._docstore.get_nodes(node_ids)
                graph, vectors = graph_of(source, nodes), self._vectors(nodes)
            except (*MALFORMED, IndexCorrupt) as error:
                unfit[ref_doc_id] = error
                continue
            yield source, parts, graph, vectors
        if unfit:
            self._leave_out(unfit)

    def _is_of_its_hash(self, part: BaseNode) -> bool:
        """Whether what is stored is what the index store says; of parts that is not known."""
        known = self.struct.hashes.get(part.node_id)
        return known == part.hash if isinstance(part, LlamaDocument) else True

    def _leave_out(self, unfit: Mapping[str, Exception]) -> None:
        """Unlist documents; what the stores still have of them goes when they are built again."""
        seen = "; ".join(f"{key!r}: {error}" for key, error in islice(unfit.items(), MAX_NAMED))
        if unfit.keys() == self.struct.nodes.keys():
            raise IndexCorrupt(
                f"the docstore does not hold the documents as they were indexed ({seen}); load the "
                "index together with the docstore that it was built with, or build it anew in "
                "another StorageContext"
            )
        logger.warning(
            "the docstore does not hold %d of %d documents as they were indexed, they are left out "
            "until refresh_ref_docs or insert is given them again: %s",
            len(unfit),
            len(self.struct.nodes),
            seen,
        )
        for ref_doc_id in unfit:
            self._unlisted(ref_doc_id)

    def _vectors(self, nodes: Sequence[BaseNode]) -> Vectors | None:
        """Embeddings of nodes, (nodes, dimension); None if one is lost, or that of another text."""
        elsewhere = [node.node_id for node in nodes if node.embedding is None]
        held = self._stored_vectors.get(elsewhere) if elsewhere else {}
        found = []
        for node in nodes:
            if node.embedding is not None:
                found.append(np.asarray(node.embedding, np.float32))
                continue
            vector = held.get(node.node_id)
            if vector is None or fingerprint(vector) != record_of(node).get(VECTOR):
                return None
            found.append(vector)
        return np.stack(found)


def _embedded(graph: HWDAG, options: Options) -> Vectors:
    """The embeddings of a graph's nodes, made again, (nodes, dimension)."""
    texts = embedded_texts(graph.nodes, options.config or BuildConfig())
    return as_embedder(options.embedder).embed(texts)


def _mark(node: TextNode, mark: str) -> None:
    """Note with which embedding a node goes."""
    relation = node.source_node
    assert relation is not None  # every node of a graph has one
    relation.metadata[VECTOR] = mark
