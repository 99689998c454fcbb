"""Where an index lives in a `StorageContext`, and the way back.

- docstore: the nodes that a document's text is read from (the `Document` itself, or the nodes of a
  pipeline), and a `TextNode` per chunk and Information Point. Their `SOURCE` is the ref doc and says
  level, origin, tokens and spans in its metadata; `CHILD` are the out-edges with `weight` (the
  share) and `attention` (before normalisation); `embedding` is the unit vector. Any docstore will
  do, and `docstore.delete_ref_doc` takes a graph away with its document.
- index store: ids and names only, since it is written anew with every change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.data_structs.struct_type import IndexStructType
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.storage.docstore.types import BaseDocumentStore

from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.store.sqlite import Entry
from hwdag.types import Document, Node, Span

# why: the enum is closed, but wherever it is used a plain string serves as well
INDEX_TYPE = cast(IndexStructType, "hwdag")

SEPARATOR = "\n\n"
"""Between the nodes of one ref doc."""


@dataclass
class HWDAGIndexStruct(IndexStruct):
    """What the index store keeps.

    Attributes:
        reader: name of the model that built the graphs; empty while there are none.
        embedder: name of the model that embedded the nodes; empty while there are none.
        config: the build config as JSON-able values.
        sources: by ref doc id, the ids of the nodes that its text is joined from.
        nodes: by ref doc id, the ids of its chunks and points in the order of the graph.
    """

    reader: str = ""
    embedder: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def get_type(cls) -> IndexStructType:
        """`hwdag`."""
        return INDEX_TYPE


def register(index_class: type[BaseIndex[HWDAGIndexStruct]]) -> None:
    """Make the index type known to `load_index_from_storage`, which has no public way to do it."""
    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS[INDEX_TYPE] = HWDAGIndexStruct
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS[INDEX_TYPE] = index_class


@dataclass(frozen=True)
class Source:
    """A ref doc: the core's document, and what all nodes made of it have in common.

    `template` has no text: it carries the metadata, which of it an LLM or an embedding model may
    see, and the relation to the ref doc.
    """

    document: Document
    node_ids: tuple[str, ...]
    template: TextNode

    @classmethod
    def of(cls, ref_doc_id: str, nodes: Sequence[BaseNode]) -> Source:
        """One document of all nodes of a ref doc, in order, with a blank line between them.

        Of the metadata that is kept which all nodes agree on.
        """
        first = nodes[0]
        metadata = {
            key: value
            for key, value in first.metadata.items()
            if all(key in node.metadata and node.metadata[key] == value for node in nodes)
        }
        title = metadata.get("title")
        text = SEPARATOR.join(node.get_content(MetadataMode.NONE) for node in nodes)
        template = TextNode(
            metadata=metadata,
            excluded_embed_metadata_keys=list(first.excluded_embed_metadata_keys),
            excluded_llm_metadata_keys=list(first.excluded_llm_metadata_keys),
            metadata_template=first.metadata_template,
            metadata_separator=first.metadata_separator,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=ref_doc_id)},
        )
        document = Document(ref_doc_id, text, title if isinstance(title, str) else "", metadata)
        return cls(document, tuple(node.node_id for node in nodes), template)

    @classmethod
    def of_document(cls, document: Document) -> Source:
        """A document that came without LlamaIndex: everything may see all of its metadata."""
        node = LlamaDocument(id_=document.id, text=document.text, metadata=dict(document.metadata))
        return cls(document, (document.id,), cls.of(document.id, [node]).template)


def by_ref_doc(nodes: Sequence[BaseNode]) -> dict[str, dict[str, BaseNode]]:
    """Nodes by id, by ref doc id; a document, or a node without a ref doc, is its own.

    A whole document and parts of it exclude each other: the document stands alone.

    Raises:
        InputError: two nodes of different content have one id.
    """
    found: dict[str, dict[str, BaseNode]] = {}
    for node in nodes:
        own = isinstance(node, LlamaDocument) or node.ref_doc_id is None
        parts = found.setdefault(node.node_id if own else str(node.ref_doc_id), {})
        if parts.setdefault(node.node_id, node).hash != node.hash:
            raise InputError(
                f"two different documents or nodes have the id {node.node_id!r}; ids must be unique"
            )
    return {key: {key: parts[key]} if key in parts else parts for key, parts in found.items()}


def text_node(node: Node, source: Source, **fields: Any) -> TextNode:
    """A chunk or point as a `TextNode` under its own id, with offsets where it is one slice."""
    is_slice = node.origin in ("chunk", "extractive") and len(node.sources) == 1
    own = {
        "id_": node.id,
        "text": node.text,
        "start_char_idx": node.sources[0].start if is_slice else None,
        "end_char_idx": node.sources[0].end if is_slice else None,
    }
    return source.template.model_copy(update=own | fields, deep=True)


def stored_nodes(entry: Entry, source: Source) -> list[TextNode]:
    """All chunks and points of a document as the docstore keeps them."""
    return [
        text_node(
            node,
            source,
            embedding=vector.tolist(),
            relationships=_relationships(entry.graph, index, node),
        )
        for index, (node, vector) in enumerate(zip(entry.graph.nodes, entry.vectors, strict=True))
    ]


def _relationships(graph: HWDAG, index: int, node: Node) -> dict[NodeRelationship, Any]:
    record = {
        "level": int(node.level),
        "origin": node.origin,
        "tokens": int(node.tokens),
        "spans": [[span.start, span.end] for span in node.sources],
    }
    source = RelatedNodeInfo(node_id=node.document_id, metadata=record)
    found: dict[NodeRelationship, Any] = {NodeRelationship.SOURCE: source}
    children, weights = graph.children(index)
    if len(children):
        raw = graph.raw.data[graph.raw.indptr[index] : graph.raw.indptr[index + 1]]
        found[NodeRelationship.CHILD] = [
            RelatedNodeInfo(
                node_id=graph.nodes[child].id,
                metadata={"weight": float(weight), "attention": float(attention)},
            )
            for child, weight, attention in zip(children, weights, raw, strict=True)
        ]
    return found


def restored(
    struct: HWDAGIndexStruct, docstore: BaseDocumentStore
) -> Iterator[tuple[Source, Entry]]:
    """Documents with their graphs and embeddings, as they were built.

    Raises:
        IndexCorrupt: the docstore lacks something, or holds something else.
    """
    for ref_doc_id, node_ids in struct.nodes.items():
        try:
            source = Source.of(ref_doc_id, docstore.get_nodes(struct.sources[ref_doc_id]))
            yield source, _entry(source, docstore.get_nodes(node_ids))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise IndexCorrupt(
                f"the docstore does not hold document {ref_doc_id!r} as it was indexed: {error}; "
                "load the index together with the docstore that it was built with, or build it anew"
            ) from error


def _entry(source: Source, nodes: Sequence[BaseNode]) -> Entry:
    position = {node.node_id: index for index, node in enumerate(nodes)}
    rows = [
        EdgeRow(
            index,
            np.array([position[child.node_id] for child in children], np.int32),
            np.array([child.metadata["attention"] for child in children], np.float64),
        )
        for index, node in enumerate(nodes)
        if (children := node.child_nodes)
    ]
    graph = HWDAG.from_rows([_core_node(node, source) for node in nodes], rows)
    graph.check_integrity()
    vectors = np.array([node.get_embedding() for node in nodes], np.float32)
    return Entry(source.document, graph, vectors)


def _core_node(node: BaseNode, source: Source) -> Node:
    relation = node.source_node
    if relation is None:
        raise ValueError(f"node {node.node_id} has no source")
    record = relation.metadata
    spans = tuple(Span(start, end) for start, end in record["spans"])
    text = node.get_content(MetadataMode.NONE)
    if record["origin"] == "chunk" and text != source.document.text[spans[0].start : spans[0].end]:
        raise ValueError(f"the text of the document has changed since chunk {node.node_id}")
    return Node(
        node.node_id,
        source.document.id,
        record["level"],
        text,
        record["origin"],
        record["tokens"],
        spans,
    )
