"""A document on its way into an index, with everything that is made of its text once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from hwdag.errors import InputError
from hwdag.text.characters import without_surrogates
from hwdag.text.headings import Outline
from hwdag.types import Document, Node


@dataclass(eq=False)
class Draft:
    """A document with its outline, its content hash and its leaves, each made when it is first needed.

    Attributes:
        document: the document as it is stored.
        replaced: number of lone surrogates that were replaced in its text.
        leaves: its leaves, once a builder has cut it.
    """

    document: Document
    replaced: int = 0
    leaves: Sequence[Node] | None = None

    @classmethod
    def of(cls, document: Document) -> Self:
        """Begin the draft of a document: replace lone surrogates, which nothing can store."""
        text, replaced = without_surrogates(document.text)
        return cls(replace(document, text=text) if replaced else document, replaced)

    def working_copy(self) -> Self:
        """Return a copy that knows the hash, and whose outline and leaves are freed with it."""
        return copy(self)

    @cached_property
    def outline(self) -> Outline:
        """Its headings and paragraphs."""
        return Outline(self.document.text, self.document.title)

    @cached_property
    def content_hash(self) -> str:
        """Hash of title, text and metadata. Raises `InputError` if they cannot be stored."""
        return hash_of(self.document.title, self.document.text, self.metadata)

    @cached_property
    def metadata(self) -> str:
        """Its metadata as JSON. Raises `InputError` if the document cannot be stored."""
        document, what = self.document, f"document {self.document.id!r}"
        for text in (document.id, document.title, document.text):
            check_unicode(text, what)
        try:
            if not _is_string_keyed(document.metadata):
                raise TypeError("a key is no string")  # JSON would make one of it
            return json.dumps(dict(document.metadata), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"the metadata of {what} cannot be stored: {error}; use only strings, finite numbers, "
                "booleans, None, and lists and string-keyed dicts of them"
            ) from error


def hash_of(title: str, text: str, metadata: str) -> str:
    """Hash the content of a document, its metadata as JSON, with SHA-256."""
    content = json.dumps([title, text, metadata], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def check_unicode(text: str, what: str) -> None:
    """Raise `InputError` for a text with half of a surrogate pair; `what` names its owner."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds half of a surrogate pair at character {error.start}, which is not "
            "Unicode text; read the source with errors='replace'"
        ) from error


def _is_string_keyed(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_string_keyed(one) for key, one in value.items())
    return not isinstance(value, list | tuple) or all(map(_is_string_keyed, value))
