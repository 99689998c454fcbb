"""The command `mcp`: serve an index over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import partial, wraps
from typing import Any
from urllib.parse import quote

from hwdag.config import SearchConfig
from hwdag.errors import HWDAGError, InputError
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.search.follow_ups import checked_history
from hwdag.trace.provenance import provenance
from hwdag.types import Document
from hwdag.version import __version__
from hwdag_app.cli.asking import opened, scope_of, search_config

URI = "hwdag://documents/"
"""Prefix of the address of a document; the percent-encoded id follows."""

INSTRUCTIONS = (
    "Passages and answers from a fixed set of documents. `list` names the documents, `search` finds "
    "passages for a question, `answer` answers it with citations, `sources` returns the text around one."
)

SHOWN = ("document_id", "text", "spans", "score", "pages")  # of a passage


def mcp(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    config, scope = search_config(options), scope_of(options)
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise InputError(
            'hwdag mcp needs the package mcp, 2 or newer: pip install "hwdag[mcp]"'
        ) from error
    with opened(options, scope) as index:
        server = MCPServer(
            "hwdag", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
        )
        for name, tool in tools(index, config, scope).items():
            server.tool(name)(_with_errors(tool))
        _add_documents(server, index, scope)
        with redirect_stdout(
            sys.__stdout__
        ):  # why: the protocol writes bytes, and nothing else is printed
            server.run("stdio")
    return 0


def tools(
    index: HWDAGIndex, config: SearchConfig, scope: Scope
) -> Mapping[str, Callable[..., Any]]:
    """What a client may call, by name. All of it is confined to the documents of the scope."""

    def search(
        question: str, k: int = 5, history: list[list[str]] | None = None
    ) -> list[dict[str, Any]]:
        """Passages of the documents for a question, best first, with their character spans.

        `history` has the earlier [question, answer] pairs that the question refers to, the last one last.
        """
        retrieval = index.search(
            question,
            config=config,
            scope=scope,
            k=k,
            returns="passages",
            history=checked_history(history or []),
        )
        found = (
            {**provenance(step, retrieval), "text": step.node.text} for step in retrieval.best(k)
        )
        return [{key: one[key] for key in SHOWN if key in one} for one in found]

    def answer(question: str, history: list[list[str]] | None = None) -> dict[str, Any]:
        """A short answer to a question, and the sentences that support it.

        `found` is whether the documents seem to hold an answer, `confidence` the probability that this one
        is right; both may be unknown.
        `history` has the earlier [question, answer] pairs that the question refers to, the last one last.
        `searched_for` is the question of its own that was made of it.
        """
        turns = checked_history(history or [])
        found = index.answer(question, config=config, scope=scope, history=turns)
        shown = found.to_dict()
        told = {key: shown[key] for key in ("answer", "found", "confidence", "citations")}
        return told | {"searched_for": found.retrieval.searched_for or question}

    def sources(document_id: str, start: int = 0, end: int | None = None) -> str:
        """The text of a document, or of a part of it, [start, end) in characters."""
        return document_of(index, scope, document_id).text[start:end]

    def list_documents() -> list[dict[str, Any]]:
        """All documents: id, title, length in characters, and the address of the resource."""
        return [
            {
                "document_id": document.id,
                "title": document.title,
                "characters": len(document.text),
                "uri": URI + quote(document.id, safe=""),
            }
            for document in admitted(index, scope)
        ]

    return {"search": search, "answer": answer, "sources": sources, "list": list_documents}


def admitted(index: HWDAGIndex, scope: Scope) -> Iterator[Document]:
    """The documents in the scope."""
    return (document for document in index.documents.values() if _is_in(scope, document))


def document_of(index: HWDAGIndex, scope: Scope, document_id: str) -> Document:
    """A document in the scope. Raises `InputError` for any other id."""
    document = index.documents.get(document_id)
    if document is None or not _is_in(scope, document):
        raise InputError(f"no document {document_id!r}; the tool `list` names all documents")
    return document


def _is_in(scope: Scope, document: Document) -> bool:
    is_named = scope.document_ids is None or document.id in scope.document_ids
    return is_named and scope.admits(document.metadata)


def _with_errors(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, with errors of hwdag passed on to the client; it sees no others."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def call(**arguments: Any) -> Any:
        try:
            return tool(**arguments)
        except HWDAGError as error:
            raise ToolError(str(error)) from error

    return call


def _add_documents(server: Any, index: HWDAGIndex, scope: Scope) -> None:
    """Offer every document as a resource. One that is added later has an address, but is not listed."""
    from mcp.server.mcpserver.resources import FunctionResource, ResourceSecurity

    def text_of(document_id: str) -> str:
        """The text of a document, by its id."""
        return document_of(index, scope, document_id).text

    for document in admitted(index, scope):
        server.add_resource(
            FunctionResource(
                uri=URI + quote(document.id, safe=""),
                name=document.title or document.id,
                mime_type="text/plain",
                fn=partial(text_of, document.id),
            )
        )

    # why exempt: an id is looked up in the index, and is no path
    security = ResourceSecurity(exempt_params={"document_id"})
    template = f"{URI}{{document_id}}"
    server.resource(template, mime_type="text/plain", security=security)(text_of)
