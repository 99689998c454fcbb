"""Documents and bare texts as drafts, checked before anything is built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from reprlib import repr as brief

from hwdag.errors import InputError
from hwdag.text.draft import Draft
from hwdag.types import Document


def as_drafts(documents: Iterable[Document | str]) -> Iterator[Draft]:
    """Begin the drafts of documents and bare texts. Raises `InputError` for a single one."""
    return map(Draft.of, as_documents(documents))


def as_draft(document: Document | str | Draft) -> Draft:
    """Begin the draft of a document or a bare text, unless it is one already."""
    return document if isinstance(document, Draft) else Draft.of(as_document(document))


def as_documents(documents: Iterable[Document | str]) -> Iterator[Document]:
    """Take documents and bare texts as documents. Raises `InputError` for a single one."""
    # why: a text is a list of letters, and each would be a document
    if isinstance(documents, str | bytes | Mapping | Document) or not isinstance(
        documents, Iterable
    ):
        raise InputError(
            f"documents must be a list of hwdag.Document or texts, got one {type(documents).__name__}; "
            "put a single one into a list: [document]"
        )
    return map(as_document, documents)


def as_document(document: Document | str) -> Document:
    """Give a bare text an id made from its content."""
    if isinstance(document, Document):
        for name in ("id", "text", "title"):
            if not isinstance(value := getattr(document, name), str):
                raise InputError(f"{name} of a document must be a text, got {brief(value)}")
        return document
    if isinstance(document, str):
        # why surrogates pass: they are replaced later, and reported
        content = document.encode("utf-8", "surrogatepass")
        return Document(f"text-{hashlib.sha256(content).hexdigest()[:12]}", document)
    raise InputError(
        f"documents must be hwdag.Document or str, got {type(document).__name__}; framework "
        "documents go through llama_index_hwdag or langchain_hwdag"
    )
