"""Putting documents into an index: finished, stored and counted one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from hwdag.build.builder import Tools, build
from hwdag.build.report import BuildReport
from hwdag.errors import InputError
from hwdag.store.sqlite import Entry, Store, content_hash
from hwdag.text.characters import without_surrogates
from hwdag.trace.progress import Progress
from hwdag.types import Document


class Insertion:
    """One-use state of an insertion: documents are finished and stored one by one."""

    def __init__(
        self, tools: Tools, entries: dict[str, Entry], store: Store | None, *, replace: bool
    ) -> None:
        self.entries = entries
        self._tools = tools
        self._store = store
        self._replace = replace
        self._report = BuildReport()
        self._seen: set[str] = set()

    def run(self, documents: Sequence[Document], progress: Progress) -> BuildReport:
        """Build what is new or changed."""
        before = self._tools.reader.usage
        with progress.stage("documents", len(documents), "document") as advance:
            for document in documents:
                self._one(document, progress)
                advance()
        self._report.usage = self._tools.reader.usage - before
        return self._report

    def _one(self, document: Document, progress: Progress) -> None:
        text, replaced = without_surrogates(document.text)
        if replaced:
            document = replace(document, text=text)
            self._report.notes.append(f"{document.id}: {replaced} lone surrogates replaced")
        if not document.text.strip():
            self._report.skipped.append((document.id, "empty or only white space"))
        elif self._is_known(document):
            self._report.unchanged.append(document.id)
        else:
            built = build(document, self._tools, progress)
            if self._store is not None:
                self._store.put(document, built.graph, built.vectors)
            self.entries[document.id] = Entry(document, built.graph, built.vectors)
            self._report.add(document.id, built)
        self._seen.add(document.id)

    def _is_known(self, document: Document) -> bool:
        """Whether this very content is there already; one id must not mean two contents."""
        entry = self.entries.get(document.id)
        if entry is None:
            return False
        if content_hash(entry.document) == content_hash(document):
            return True
        if document.id in self._seen:
            raise InputError(
                f"two different documents have the id {document.id!r}; ids must be unique"
            )
        if not self._replace:
            raise InputError(
                f"the index holds another document under the id {document.id!r}; use refresh() to "
                "replace it, or delete() it first"
            )
        return False


def as_document(document: Document | str) -> Document:
    """A bare text gets an id made from its content."""
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        return Document(f"text-{hashlib.sha256(document.encode()).hexdigest()[:12]}", document)
    raise InputError(
        f"documents must be hwdag.Document or str, got {type(document).__name__}; framework "
        "documents go through llama_index_hwdag or langchain_hwdag"
    )
