"""Conversions between documents and nodes of LlamaIndex and those of the core.

The core has no fields for the metadata that models may see, the nodes that a document was joined
from, and its hash. A `Record` in the metadata of the core's document, and so in the index file, keeps
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import accumulate
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.schema import Document as LlamaDocument
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from hwdag.errors import InputError
from hwdag.text.headings import title_from
from hwdag.trace.provenance import METADATA_KEY
from hwdag.types import Document, Node

SEPARATOR = "\n\n"
"""Separates the nodes of one ref doc."""

TITLE_FIELDS = (
    "title",
    "file_name",
)  # metadata fields in which LlamaIndex's readers name a document

RECORD_KEY = "llama_index_hwdag"
"""Key of a record in the metadata of a core document."""


class Record(BaseModel):
    """The facts of a LlamaIndex document beyond text, title and metadata.

    Attributes:
        hash: hash of the LlamaIndex `Document` that the nodes were cut from; "" if unknown.
        is_whole: whether these are all nodes of that `Document`, so that its hash detects changes.
        starts: start of each joined node in the text; empty for a whole document.
        hidden_from_llm: metadata keys that LLMs must not see.
        hidden_from_embedding: metadata keys that embedding models must not see.
        metadata_template: how LlamaIndex shows one key.
        metadata_separator: separates two of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    hash: str = ""
    is_whole: bool = False
    starts: dict[str, NonNegativeInt] = {}
    hidden_from_llm: list[str] = []
    hidden_from_embedding: list[str] = []
    metadata_template: str = "{key}: {value}"
    metadata_separator: str = "\n"

    @classmethod
    def of(cls, document: Document) -> Record:
        """Return the record of a core document; an empty one if LlamaIndex did not make it.

        Models then see all its metadata except `page_starts` and `times`.
        """
        try:
            return cls.model_validate(document.metadata[RECORD_KEY])
        except (KeyError, ValidationError):
            hidden = [key for key in ("page_starts", "times") if getattr(document, key)]
            return cls(hidden_from_llm=hidden, hidden_from_embedding=hidden)


class RetrievedNode(TextNode):
    """A node with its provenance. Its hash ignores this: fusion merges nodes of equal hashes."""

    @property
    def hash(self) -> str:
        """The hash of the node, whichever retriever found it."""
        own = {key: value for key, value in self.metadata.items() if key != METADATA_KEY}
        return TextNode(text=self.text, metadata=own).hash


def core_document(
    ref_doc_id: str, nodes: Sequence[BaseNode], document_hash: str | None = None
) -> Document:
    """Join all nodes of a ref doc, in order, with a blank line between them.

    Keeps the metadata on which all nodes agree; the title comes from the first of `TITLE_FIELDS`.

    Args:
        ref_doc_id: its id.
        nodes: at least one.
        document_hash: hash of the `Document` whose nodes these all are, if known.
    """
    first = nodes[0]
    texts = [node.get_content(MetadataMode.NONE) for node in nodes]
    metadata = _agreed([node.metadata for node in nodes])
    if isinstance(first, LlamaDocument):
        document_hash = document_hash or first.hash
    starts = accumulate((len(text) + len(SEPARATOR) for text in texts), initial=0)
    is_document = len(nodes) == 1 and first.node_id == ref_doc_id
    record = Record(
        hash=document_hash or source_hash(nodes),
        is_whole=document_hash is not None,
        starts={} if is_document else {n.node_id: i for n, i in zip(nodes, starts, strict=False)},
        hidden_from_llm=first.excluded_llm_metadata_keys,
        hidden_from_embedding=first.excluded_embed_metadata_keys,
        metadata_template=first.metadata_template,
        metadata_separator=first.metadata_separator,
    )
    title = title_from(metadata, TITLE_FIELDS)
    if told := record.model_dump(exclude_defaults=True):
        metadata[RECORD_KEY] = told
    return Document(ref_doc_id, SEPARATOR.join(texts), title, metadata)


def parts_of(document: Document) -> list[TextNode]:
    """Return the nodes that `core_document` joined; none for a whole document."""
    record = Record.of(document)
    # why: the file sorts mappings by key
    starts = sorted(record.starts.items(), key=lambda part: part[1])
    ends = [start - len(SEPARATOR) for _, start in starts[1:]]
    return [
        _text_node(document, record, node_id, document.text[start:end])
        for (node_id, start), end in zip(starts, [*ends, None], strict=False)
    ]


def source_hash(nodes: Iterable[BaseNode]) -> str:
    """Return the hash of the one `Document` that the nodes were cut from; "" if unknown."""
    found = {(node.source_node.hash or "") if node.source_node else "" for node in nodes}
    return found.pop() if len(found) == 1 else ""


def own_metadata(document: Document) -> dict[str, Any]:
    """Return the metadata of a document without the record."""
    return {key: deepcopy(value) for key, value in document.metadata.items() if key != RECORD_KEY}


def text_node(node: Node, document: Document) -> TextNode:
    """Convert a chunk or point, with offsets if it is a slice of its document.

    Its metadata is the document's, with the heading of the node.
    """
    made = _text_node(document, Record.of(document), node.id, node.text)
    if node.heading:
        made.metadata = {"heading": node.heading, **made.metadata}
    if node.origin in ("chunk", "extractive") and len(node.sources) == 1:
        made.start_char_idx, made.end_char_idx = node.sources[0].start, node.sources[0].end
    return made


def retrieved_node(node: Node, document: Document, provenance: dict[str, Any]) -> RetrievedNode:
    """Convert a node as `text_node` does, with its provenance under `METADATA_KEY`."""
    made = RetrievedNode(**dict(text_node(node, document)))
    made.metadata[METADATA_KEY] = provenance
    return made


def checked_nodes(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return nodes or documents as a list. Raises `InputError` for anything else."""
    listed = list(nodes)
    for node in listed:
        if not isinstance(node, BaseNode):
            raise InputError(
                f"documents must be documents or nodes of LlamaIndex, got {type(node).__name__}; make "
                "a llama_index.core.Document(text=...)"
            )
        if isinstance(node, IndexNode):
            raise InputError(
                f"a graph of texts cannot hold the IndexNode {node.node_id!r}, which points to "
                f"{node.index_id!r}; insert its text as a TextNode, or use an index of LlamaIndex"
            )
    return listed


def by_ref_doc(nodes: Iterable[BaseNode]) -> dict[str, list[BaseNode]]:
    """Group nodes by ref doc id, each once; a document, or a node without a ref doc, is its own.

    A whole document replaces the parts of it.

    Raises:
        InputError: two different nodes have one id, or a node is an `IndexNode`.
    """
    found: dict[str, dict[str, BaseNode]] = {}
    for node in checked_nodes(nodes):
        own = isinstance(node, LlamaDocument) or node.ref_doc_id is None
        parts = found.setdefault(node.node_id if own else str(node.ref_doc_id), {})
        if parts.setdefault(node.node_id, node).hash != node.hash:
            raise InputError(
                f"two different documents or nodes have the id {node.node_id!r}; ids must be unique"
            )
    return {
        key: [parts[key]] if key in parts else without_repeats(list(parts.values()))
        for key, parts in found.items()
    }


def without_repeats(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """Return the nodes of a hierarchy that hold each passage once, in the order of the text.

    Children replace their parent if they hold all of its text. Otherwise the parent stays, and the children
    that it contains go. Nodes without parents and children stay as they are.
    """
    known = {node.node_id for node in nodes}
    parents = {child: n.node_id for n in nodes for child in _related(n, NodeRelationship.CHILD)}
    for node in nodes:
        for parent in _related(node, NodeRelationship.PARENT)[:1]:
            parents[node.node_id] = parent
    children: dict[str, list[BaseNode]] = {}
    for node in nodes:
        children.setdefault(parents.get(node.node_id, ""), []).append(node)
    seen: set[str] = set()

    def expanded(node: BaseNode) -> list[BaseNode]:
        if node.node_id in seen:
            return []
        seen.add(node.node_id)
        below = [child for child in children.get(node.node_id, []) if child.node_id not in seen]
        if not below:
            return [node]
        text, found = _letters(node), [one for child in below for one in expanded(child)]
        if _cover(text, map(_letters, below)):
            return found
        return [node, *(one for one in found if _letters(one) not in text)]

    roots = [node for node in nodes if parents.get(node.node_id) not in known]
    # why all of them: no node of a hierarchy that goes in a circle may vanish
    return [kept for node in [*roots, *nodes] for kept in expanded(node)]


def _related(node: BaseNode, relation: NodeRelationship) -> list[str]:
    found = node.relationships.get(relation, [])
    return [one.node_id for one in (found if isinstance(found, list) else [found])]


def _letters(node: BaseNode) -> str:
    """Return the text of a node without spaces, which splitters change."""
    return "".join(node.get_content(MetadataMode.NONE).split())


def _cover(text: str, parts: Iterable[str]) -> bool:
    """Return whether parts of a text, which may overlap, hold all of it in their order."""
    start, end = -1, 0
    for part in parts:
        start = text.find(part, start + 1)
        if not 0 <= start <= end:
            return False
        end = max(end, start + len(part))
    return end == len(text)


def _agreed(metadata: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the metadata on which all agree, without records."""
    first, *others = map(_as_stored, metadata)
    return {
        key: value
        for key, value in first.items()
        if key != RECORD_KEY and all(key in one and one[key] == value for one in others)
    }


def _as_stored(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata as a file would return it; values that are not JSON stay, and the core refuses them."""
    try:
        stored: dict[str, Any] = json.loads(json.dumps(metadata))
    except (TypeError, ValueError):
        return dict(metadata)
    return stored


def _text_node(document: Document, record: Record, node_id: str, text: str) -> TextNode:
    source = RelatedNodeInfo(node_id=document.id, hash=record.hash or None)
    return TextNode(
        id_=node_id,
        text=text,
        metadata=own_metadata(document),
        excluded_llm_metadata_keys=[*record.hidden_from_llm, METADATA_KEY],
        excluded_embed_metadata_keys=[*record.hidden_from_embedding, METADATA_KEY],
        metadata_template=record.metadata_template,
        metadata_separator=record.metadata_separator,
        relationships={NodeRelationship.SOURCE: source},
    )
