"""Conversions between documents of LangChain and documents and nodes of the core."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from langchain_core.documents import Document

import hwdag
from hwdag.errors import InputError
from hwdag.text.headings import title_from
from hwdag.text.overlaps import overlap_warning
from hwdag.trace.provenance import METADATA_KEY, provenance
from hwdag.types import Retrieval, Step

logger = logging.getLogger(__name__)

TITLE_FIELDS = ("title", "source")  # metadata fields in which LangChain's loaders name a document


def as_core_document(document: Document) -> hwdag.Document:
    """Convert a whole document with its metadata; without an id it gets a hash of its content."""
    if not isinstance(document, Document):
        raise InputError(
            "documents must be langchain_core.documents.Document, got "
            f"{type(document).__name__}; use from_texts for strings"
        )
    identity = document.id or content_id(document)
    try:
        metadata = deepcopy(document.metadata)
    except TypeError as error:  # a lock, an open file
        raise _not_json(document, error) from error
    title = title_from(metadata, TITLE_FIELDS)
    return hwdag.Document(identity, document.page_content, title, metadata)


def as_core_documents(documents: Iterable[Document]) -> list[hwdag.Document]:
    """Convert documents; warn once if some repeat text of the one before them from the same `source`.

    Documents without a `source` count as of one.
    """
    made = [as_core_document(document) for document in documents]
    texts: dict[str, list[str]] = {}
    for document in made:
        texts.setdefault(repr(document.metadata.get("source")), []).append(document.text)
    if warning := overlap_warning(texts.values()):
        logger.warning("%s", warning)
    return made


def as_langchain_document(document: hwdag.Document) -> Document:
    """Convert a document of `as_core_document` back; the id is filled in."""
    return Document(
        id=document.id, page_content=document.text, metadata=deepcopy(dict(document.metadata))
    )


def content_id(document: Document) -> str:
    """Return an id made from text and metadata. Raises `InputError` unless the metadata is JSON."""
    try:
        content = json.dumps([document.page_content, document.metadata], sort_keys=True)
    except (TypeError, ValueError) as error:
        raise _not_json(document, error) from error
    return f"text-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _not_json(document: Document, error: Exception) -> InputError:
    return InputError(
        f"the metadata {document.metadata!r} cannot be stored as JSON ({error}); turn the value into "
        "text, a number, a list or a dict"
    )


class Provenance(dict[str, Any]):
    """Where a node comes from and why it was read.

    It equals any mapping of the same node: LangChain merges the results of several questions by the
    equality of documents, scores differ between questions, and a checkpoint returns plain mappings.
    """

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping) and "id" in other:
            return bool(self["id"] == other["id"])
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # like every dict


def node_document(step: Step, retrieval: Retrieval) -> Document:
    """Convert a node, under its own id: its text, its document's metadata, and its provenance.

    The metadata hold its `heading` too, or "", for the prompt of a chain.
    """
    node, sources = step.node, retrieval.sources
    own = dict(sources[node.document_id].metadata) if node.document_id in sources else {}
    return Document(
        id=node.id,
        page_content=node.text,
        metadata={
            "heading": node.heading,
            **deepcopy(own),
            METADATA_KEY: Provenance(provenance(step, retrieval)),
        },
    )


def with_ids(documents: Iterable[Document], ids: Iterable[str] | None) -> list[Document]:
    """Return the documents, copied under new ids if there are any."""
    listed = list(documents)
    if ids is None:
        return listed
    names = list(ids)
    if len(names) != len(listed):
        raise InputError(f"{len(listed)} documents need as many ids, got {len(names)}")
    return [
        document.model_copy(update={"id": name})
        for document, name in zip(listed, names, strict=True)
    ]


def as_documents(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any]] | None,
    ids: Iterable[str] | None,
) -> list[Document]:
    """Make documents of plain texts. Raises `InputError` unless all three have one length."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of texts, got a single text; pass [text]")
    listed = list(texts)
    given_metadata = [{} for _ in listed] if metadatas is None else list(metadatas)
    given_ids = [None for _ in listed] if ids is None else list(ids)
    if not len(listed) == len(given_metadata) == len(given_ids):
        raise InputError(
            f"{len(listed)} texts need as many metadatas and ids, got {len(given_metadata)} and "
            f"{len(given_ids)}; leave out what you do not have"
        )
    return [
        Document(id=identity, page_content=text, metadata=dict(metadata))
        for text, metadata, identity in zip(listed, given_metadata, given_ids, strict=True)
    ]
