"""The embeddings of an index in a vector store, which may be anybody's."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.storage_context import StorageContext
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32]

NAMESPACE = "hwdag"
"""Of the vector store in a context whose default one is LlamaIndex's simple one."""

NODES_PER_READ = 512
"""Ids in one question to a vector store: some of them make an expression of every id."""


def fingerprint(vector: Vector) -> str:
    """Tells whether a vector is the same to the last bit, and so that of the same node."""
    return hashlib.sha256(np.ascontiguousarray(vector, "<f4").tobytes()).hexdigest()[:16]


def vector_store_of(context: StorageContext) -> BasePydanticVectorStore:
    """The one under the namespace "hwdag", else the default one where it is not the simple one.

    In the simple one every index would see the nodes of the others, so a namespace of its own is
    made there.
    """
    own = context.vector_stores.get(NAMESPACE)
    if own is not None:
        return own
    if not isinstance(context.vector_store, SimpleVectorStore):
        return context.vector_store
    made = SimpleVectorStore()
    context.add_vector_store(made, NAMESPACE)
    return made


class StoredVectors:
    """Embeddings by node id in a vector store: whatever it can and cannot do.

    What a store does not give back as it was put in has to be kept elsewhere; `put` says so.
    """

    def __init__(self, store: BasePydanticVectorStore) -> None:
        self._store = store
        self._told: set[str] = set()

    def put(self, ref_doc_id: str, nodes: Sequence[TextNode], known: Collection[str]) -> bool:
        """Keep the embeddings of a document's nodes, in place of those of the `known` ids.

        Returns:
            Whether the store gives all of them back, bit for bit.
        """
        ids = [node.node_id for node in nodes]
        simple = isinstance(self._store, SimpleVectorStore)  # adding overwrites
        self.remove(ref_doc_id, sorted(set(known).difference(ids if simple else ())))
        bare = list(map(_bare, nodes))
        try:
            self._store.add(bare)
        except Exception:  # why: some refuse ids that an interrupted run has left there
            self.remove(ref_doc_id, ids)
            self._store.add(bare)
        return self._gives_back(nodes)

    def get(self, node_ids: Sequence[str]) -> dict[str, Vector]:
        """Embeddings by node id, as far as the store has them and gives them back."""
        if isinstance(self._store, SimpleVectorStore):
            held: Mapping[str, Sequence[float]] = self._store.data.embedding_dict
            return {key: _array(held[key]) for key in node_ids if key in held}
        found: dict[str, Vector] = {}
        for first in range(0, len(node_ids), NODES_PER_READ):
            try:
                nodes = self._store.get_nodes(
                    node_ids=list(node_ids[first : first + NODES_PER_READ])
                )
            except NotImplementedError:
                return {}
            found |= {n.node_id: _array(n.embedding) for n in nodes if n.embedding is not None}
        return found

    def remove(self, ref_doc_id: str, node_ids: Sequence[str]) -> None:
        """Forget embeddings; where the store cannot by id, all that it has of the ref doc."""
        if not node_ids:
            return
        try:
            self._store.delete_nodes(list(node_ids))
        except NotImplementedError:
            self._remove_all_of(ref_doc_id)

    def _remove_all_of(self, ref_doc_id: str) -> None:
        try:
            self._store.delete(ref_doc_id)
        except NotImplementedError:
            self._tell(
                "cannot delete, so that embeddings of documents that are gone stay in it; the index "
                "never reads them"
            )

    def _gives_back(self, nodes: Sequence[TextNode]) -> bool:
        try:
            found = self.get([node.node_id for node in nodes])
        except Exception as error:  # why: whatever it is, the docstore can be trusted
            logger.debug("reading embeddings back failed", exc_info=error)
            found = {}
        faithful = all(
            node.node_id in found
            and fingerprint(found[node.node_id]) == fingerprint(_array(node.get_embedding()))
            for node in nodes
        )
        if not faithful:
            self._tell(
                "does not give embeddings back as they were put in, so they are kept in the "
                "docstore too"
            )
        return faithful

    def _tell(self, what: str) -> None:
        """Warn, once."""
        if what not in self._told:
            self._told.add(what)
            logger.warning("the vector store %s %s", type(self._store).__name__, what)


def _bare(node: TextNode) -> TextNode:
    """What every vector store takes: no edges, and flat metadata."""
    flat = {
        key: value
        for key, value in node.metadata.items()
        if value is None or isinstance(value, str | int | float)
    }
    source = RelatedNodeInfo(node_id=node.ref_doc_id or node.node_id)
    fields = {"metadata": flat, "relationships": {NodeRelationship.SOURCE: source}}
    return node.model_copy(update=fields)


def _array(vector: Sequence[float]) -> Vector:
    return np.asarray(vector, np.float32)
