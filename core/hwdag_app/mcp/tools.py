"""The tools of an agent: they read an index, within a scope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import Field

from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.search.follow_ups import checked_history
from hwdag.text.headings import Outline
from hwdag.trace.provenance import provenance
from hwdag.types import Document, Retrieval, Step
from hwdag_app.mcp.results import (
    BRIEF,
    Answered,
    Documents,
    Fetched,
    Found,
    OutlineResult,
    beginning,
    brief_metadata,
    length,
    name_of,
    offset,
    page,
)

URI = "hwdag://documents/"
"""Prefix of the address of a document; the percent-encoded id follows."""

REPLY_CHARACTERS = 12_000
"""Characters of a reply by default. Clients cap a reply at 25,000 tokens, and some scripts take two for a character."""

Query: TypeAlias = Annotated[str, Field(description="a question, or a description of the passages")]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=200, description="most results of one reply")]
Cursor: TypeAlias = Annotated[
    str | None, Field(description="next_cursor of the reply before, for what it left out")
]
Characters: TypeAlias = Annotated[
    int, Field(ge=1000, le=1_000_000, description="length of the reply, at most")
]
Ids: TypeAlias = Annotated[
    list[str] | None, Field(description="only these documents, by document_id")
]
Filters: TypeAlias = Annotated[
    dict[str, Any] | None,
    Field(description='only documents with such metadata, e.g. {"year": {"gte": 1900}}'),
]
History: TypeAlias = Annotated[
    list[list[str]] | None,
    Field(
        description="earlier [question, answer] pairs that the question refers to, last one last"
    ),
]

Result = TypeVar("Result", Found, Fetched, Documents, OutlineResult)

_PASSAGE = re.compile(r"(?P<document>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})", re.DOTALL)
"""Id of a passage: that of its document, and its first and last character."""


class Tools:
    """Reads an index with `config`, confined to the documents of `scope`.

    Every reply is bounded, and names the parts that it leaves out. Errors are those of hwdag.
    """

    def __init__(self, index: HWDAGIndex, config: SearchConfig | None, scope: Scope) -> None:
        self._index = index
        self._config = config or SearchConfig()
        self._scope = scope

    def search(
        self,
        query: Query,
        limit: Limit = 5,
        cursor: Cursor = None,
        max_characters: Characters = REPLY_CHARACTERS,
        documents: Ids = None,
        filters: Filters = None,
        history: History = None,
    ) -> Found:
        """Find passages of the documents for a question, best first, with their character spans."""
        wanted = offset(cursor) + limit + 1  # one more shows whether there are more
        retrieval = self._index.search(
            query,
            config=self._config,
            scope=self._within(documents, filters),
            k=wanted,
            returns="passages",
            history=checked_history(history or []),
        )
        best = retrieval.best(wanted)
        shown = page(
            (self._passage(step, retrieval) for step in best), cursor, limit, max_characters
        )
        notes = [shown.left_out("passages")]
        if not shown.items:
            notes = ["Nothing was found." if cursor is None else "There are no more passages."]
        if any("omitted_characters" in one for one in shown.items):
            notes.append("A passage is cut: fetch its id for the whole text.")
        result: Found = {"results": shown.items, "left_out": " ".join(filter(None, notes))}
        return _with_cursor(result, shown.next_cursor)

    def answer(
        self,
        question: Query,
        documents: Ids = None,
        filters: Filters = None,
        budget: Annotated[
            int | None, Field(ge=1, description="tokens that are read for the answer, at most")
        ] = None,
        history: History = None,
        max_characters: Characters = REPLY_CHARACTERS,
    ) -> Answered:
        """Answer a question briefly, with the sentences of the documents that support the answer.

        `found` is whether the documents seem to hold an answer, `confidence` the probability that this
        one is right; both may be unknown. `searched_for` is the question of its own that the history
        made of it.
        """
        config = self._config if budget is None else replace(self._config, token_budget=budget)
        scope = self._within(documents, filters)
        turns = checked_history(history or [])
        found = self._index.answer(question, config=config, scope=scope, history=turns)
        said = beginning(found.text, max_characters)
        citations = (self._citation(one) for one in found.to_dict()["citations"])
        shown = page(citations, None, 200, max_characters - length(said))
        notes = ["The end of the answer is missing."] if said != found.text else []
        if shown.next_cursor is not None or any("omitted_characters" in one for one in shown.items):
            notes.append("Citations are missing or cut: ask with a larger max_characters.")
        return {
            "answer": said,
            "found": found.found,
            "confidence": found.confidence,
            "searched_for": found.retrieval.searched_for or question,
            "citations": shown.items,
            "left_out": " ".join(notes),
        }

    def fetch(
        self,
        id: Annotated[str, Field(description="a document_id, or the id of a passage or citation")],
        cursor: Cursor = None,
        max_characters: Characters = REPLY_CHARACTERS,
    ) -> Fetched:
        """Read the text of a document, or a passage with the text around it."""
        document, span = self._named(id)
        start = 0 if span is None else _start_around(document.text, *span, max_characters)
        start = min(start if cursor is None else offset(cursor), len(document.text))
        result: Fetched = {
            "id": id,
            "title": name_of(document),
            "text": "",
            "url": _url(document),
            "document_id": document.id,
            "start": start,
            "end": len(document.text),
            "characters": len(document.text),
            "metadata": brief_metadata(document.metadata),
            "left_out": _rest(document, start, start),
        }
        text = beginning(document.text[start:], max_characters - length(result))
        end = start + len(text)
        result |= {"text": text, "end": end, "left_out": _rest(document, start, end)}
        return _with_cursor(result, str(end) if end < len(document.text) else None)

    def sources(
        self,
        document_id: str,
        start: Annotated[int, Field(ge=0)] = 0,
        end: Annotated[int | None, Field(ge=0)] = None,
        max_characters: Characters = REPLY_CHARACTERS,
    ) -> list[str]:
        """Read a range [start, end) of the characters of a document, as text alone."""
        document = self._document(document_id)
        wanted = document.text[start:end]
        text = beginning(wanted, max_characters)
        if len(text) == len(wanted):
            return [text]
        stop = start + len(text)
        rest = f"start {stop} for the {len(wanted) - len(text):,} characters that follow"
        return [text, f"(cut at {max_characters:,} characters; call again with {rest})"]

    def list_documents(
        self,
        limit: Limit = 50,
        cursor: Cursor = None,
        max_characters: Characters = REPLY_CHARACTERS,
        documents: Ids = None,
        filters: Filters = None,
    ) -> Documents:
        """List the documents: id, title, length in characters, address, and metadata for `filters`."""
        shown = page(
            (
                {
                    "document_id": document.id,
                    "title": name_of(document),
                    "url": _url(document),
                    "characters": len(document.text),
                    "metadata": brief_metadata(document.metadata),
                }
                for document in self.admitted(self._within(documents, filters))
            ),
            cursor,
            limit,
            max_characters,
        )
        result: Documents = {"documents": shown.items, "left_out": shown.left_out("documents")}
        return _with_cursor(result, shown.next_cursor)

    def outline(
        self,
        document_id: str,
        limit: Limit = 200,
        cursor: Cursor = None,
        max_characters: Characters = REPLY_CHARACTERS,
    ) -> OutlineResult:
        """List the headings of a document, with the characters of each section, to fetch or read them."""
        document = self._document(document_id)
        sections = Outline(document.text, document.title).sections()
        shown = page(
            (
                {
                    "heading": one.heading,
                    "level": one.level,
                    "start": one.span.start,
                    "end": one.span.end,
                    **({"page": document.page_of(one.span.start)} if document.page_starts else {}),
                }
                for one in sections
            ),
            cursor,
            limit,
            max_characters,
        )
        note = shown.left_out("sections") if sections else "The text has no headings: fetch it."
        result: OutlineResult = {
            "document_id": document.id,
            "title": name_of(document),
            "url": _url(document),
            "characters": len(document.text),
            "sections": shown.items,
            "left_out": note,
        }
        return _with_cursor(result, shown.next_cursor)

    def text_of(self, document_id: str) -> str:
        """Return the text of a document. Raises `InputError` unless it is in the scope."""
        return self._document(document_id).text

    def admitted(self, scope: Scope | None = None) -> Iterator[Document]:
        """Yield the documents of a scope, by default that of all tools."""
        scope = scope or self._scope
        held = self._index.documents
        ids = list(held) if scope.document_ids is None else scope.document_ids
        for identity in ids:
            document = held.get(identity)
            if document is not None and scope.admits(document.metadata):
                yield document

    def _within(self, documents: list[str] | None, filters: dict[str, Any] | None) -> Scope:
        """Narrow the scope. Raises `InputError` for a document outside it."""
        ids, forms = self._scope.document_ids, [self._scope.filters, filters]
        if documents is not None:
            ids = [self._document(one).id for one in documents]
        given = [form for form in forms if form is not None]
        return Scope(ids, {"and": given} if len(given) == 2 else next(iter(given), None))

    def _document(self, document_id: str) -> Document:
        document = self._index.documents.get(document_id)
        ids = self._scope.document_ids
        is_named = ids is None or document_id in ids
        if document is None or not is_named or not self._scope.admits(document.metadata):
            raise InputError(f"no document {document_id!r}; the tool `list` names all documents")
        return document

    def _named(self, identity: str) -> tuple[Document, tuple[int, int] | None]:
        """Return a document, and the span of the passage if the id is that of one."""
        match = _PASSAGE.fullmatch(identity)
        if match is None or identity in self._index.documents:
            return self._document(identity), None
        return self._document(match["document"]), (int(match["start"]), int(match["end"]))

    def _passage(self, step: Step, retrieval: Retrieval) -> dict[str, Any]:
        found = provenance(step, retrieval)
        document = retrieval.sources[step.node.document_id]
        start = min(span[0] for span in found["spans"])
        end = max(span[1] for span in found["spans"])
        return {
            "id": f"{document.id}#{start}-{end}",
            "title": name_of(document),
            "url": _url(document),
            "text": step.node.text,
            **{
                key: found[key]
                for key in ("document_id", "spans", "score", "pages")
                if key in found
            },
        }

    def _citation(self, cited: dict[str, Any]) -> dict[str, Any]:
        document = self._document(cited["document_id"])
        keys = ("text", "document_id", "start", "end", "page")
        return {
            "id": f"{document.id}#{cited['start']}-{cited['end']}",
            "title": name_of(document),
            "url": _url(document),
            **{key: cited[key] for key in keys if key in cited},
        }


def uri_of(document: Document) -> str:
    """Return the address of a document as a resource."""
    return URI + quote(document.id, safe="")


def _url(document: Document) -> str:
    """Return the web address that the metadata name, else that of the resource."""
    named = (document.metadata.get(key) for key in ("url", "source"))
    web = (one for one in named if isinstance(one, str) and re.match(r"https?://\S+$", one))
    return next(web, uri_of(document))


def _start_around(text: str, start: int, end: int, room: int) -> int:
    """Return the begin at which a passage has the same room before and after it."""
    begin = max(0, start - max(0, room - (end - start)) // 2)
    blank = max(text.rfind(sign, max(0, begin - BRIEF), begin) for sign in (" ", "\n"))
    return begin if blank < 0 else blank + 1


def _rest(document: Document, start: int, end: int) -> str:
    after = len(document.text) - end
    parts = [f"{start:,} characters before"] if start else []
    if after:
        parts.append(f"{after:,} characters after: call again with cursor '{end}'")
    return f"Of this document there are {', and '.join(parts)}." if parts else ""


def _with_cursor(result: Result, cursor: str | None) -> Result:
    if cursor is not None:
        result["next_cursor"] = cursor
    return result
