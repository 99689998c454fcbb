"""Ref docs as documents of the core, and nodes of the core as nodes of LlamaIndex, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.schema import Document as LlamaDocument

from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.trace.provenance import METADATA_KEY
from hwdag.types import Document, Node, Span


class RetrievedNode(TextNode):
    """A node with its provenance, which its hash leaves out: fusion takes equal hashes for one node."""

    @property
    def hash(self) -> str:
        """That of the node itself, whoever has retrieved it."""
        own = {key: value for key, value in self.metadata.items() if key != METADATA_KEY}
        return TextNode(text=self.text, metadata=own).hash


SEPARATOR = "\n\n"
"""Between the nodes of one ref doc."""


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
        metadata = _as_stored(metadata)
        title = metadata.get("title")
        text = SEPARATOR.join(node.get_content(MetadataMode.NONE) for node in nodes)
        template = TextNode(
            id_=ref_doc_id,
            metadata=metadata,
            excluded_embed_metadata_keys=_hidden(first.excluded_embed_metadata_keys),
            excluded_llm_metadata_keys=_hidden(first.excluded_llm_metadata_keys),
            metadata_template=first.metadata_template,
            metadata_separator=first.metadata_separator,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=ref_doc_id)},
        )
        document = Document(ref_doc_id, text, title if isinstance(title, str) else "", metadata)
        return cls(document, tuple(node.node_id for node in nodes), template)

    @classmethod
    def of_document(cls, document: Document) -> Source:
        """A document that came without LlamaIndex: all but where pages begin may be seen."""
        hidden = ["page_starts"] if document.page_starts else []
        node = LlamaDocument(
            id_=document.id,
            text=document.text,
            metadata=dict(document.metadata),
            excluded_llm_metadata_keys=hidden,
            excluded_embed_metadata_keys=hidden,
        )
        return cls(document, (document.id,), cls.of(document.id, [node]).template)


def _as_stored(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as a store gives it back; what is not JSON as it is, for the core to refuse."""
    try:
        stored: dict[str, Any] = json.loads(json.dumps(metadata))
    except (TypeError, ValueError):
        return metadata
    return stored


def _hidden(keys: Sequence[str]) -> list[str]:
    """Metadata that a model shall not see, provenance among it."""
    return [*(key for key in keys if key != METADATA_KEY), METADATA_KEY]


def checked_nodes(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Nodes or documents as a list. Raises `InputError` for anything else."""
    listed = list(nodes)
    for node in listed:
        if not isinstance(node, BaseNode):
            raise InputError(
                f"documents must be LlamaIndex's, or nodes of it, got {type(node).__name__}; make "
                "them as llama_index.core.Document(text=...)"
            )
    return listed


def by_ref_doc(nodes: Sequence[BaseNode]) -> dict[str, dict[str, BaseNode]]:
    """Nodes by id, by ref doc id; a document, or a node without a ref doc, is its own.

    A whole document and parts of it exclude each other: the document stands alone.

    Raises:
        InputError: two nodes of different content have one id, or one only points elsewhere.
    """
    found: dict[str, dict[str, BaseNode]] = {}
    for node in nodes:
        if isinstance(node, IndexNode):
            raise InputError(
                f"the IndexNode {node.node_id!r} points to {node.index_id!r}, which a graph of texts "
                "cannot keep; put it into an index of LlamaIndex, or insert its text as a TextNode"
            )
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


def graph_nodes(graph: HWDAG, source: Source) -> list[TextNode]:
    """All chunks and points of a document, with level, origin, tokens, spans and weighted edges.

    `SOURCE` is the ref doc and says level, origin, tokens, spans and heading in its metadata; `CHILD` are
    the out-edges with `weight` (the share) and `attention` (before normalisation).
    """
    return [
        text_node(node, source, relationships=_relationships(graph, index, node))
        for index, node in enumerate(graph.nodes)
    ]


def _relationships(graph: HWDAG, index: int, node: Node) -> dict[NodeRelationship, Any]:
    record = {
        "level": int(node.level),
        "origin": node.origin,
        "tokens": int(node.tokens),
        "spans": [[span.start, span.end] for span in node.sources],
        "heading": node.heading,
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


def graph_of(source: Source, nodes: Sequence[BaseNode]) -> HWDAG:
    """The graph that `graph_nodes` has made nodes of, as it was.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: these are not its nodes.
    """
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
    return graph


def record_of(node: BaseNode) -> Mapping[str, Any]:
    """What the relation to the ref doc says about a stored node. Raises `ValueError`."""
    if node.source_node is None:
        raise ValueError(f"node {node.node_id} has no source")
    return node.source_node.metadata


def _core_node(node: BaseNode, source: Source) -> Node:
    record = record_of(node)
    spans = tuple(Span(start, end) for start, end in record["spans"])
    text = node.get_content(MetadataMode.NONE)
    if record["origin"] == "chunk" and text != source.document.text[spans[0].start : spans[0].end]:
        raise ValueError(f"the text of the document has changed since chunk {node.node_id}")
    if not isinstance(record["heading"], str):
        raise ValueError(f"the heading of node {node.node_id} is no text")
    return Node(
        node.node_id,
        source.document.id,
        record["level"],
        text,
        record["origin"],
        record["tokens"],
        spans,
        record["heading"],
    )
