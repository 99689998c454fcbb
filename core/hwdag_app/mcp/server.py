"""The server of the protocol: tools and resources over an index."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from itertools import islice
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.types import CallToolResult, Resource, TextContent, ToolAnnotations

from hwdag.config import SearchConfig
from hwdag.errors import HWDAGError, InputError
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.version import __version__
from hwdag_app.mcp.results import name_of
from hwdag_app.mcp.tools import URI, Tools, uri_of

INSTRUCTIONS = (
    "Passages and answers from a fixed set of documents. `list` names the documents, `outline` the "
    "sections of one, `search` finds passages for a question, `fetch` reads the text around a passage or "
    "a whole document, `answer` answers a question with citations. Replies are bounded: `left_out` says "
    "what is missing, and `next_cursor` continues."
)

MOST_RESOURCES = 100
"""Documents that are listed as resources; all can be read, and the tool `list` names all."""

FRESH = CacheHint(ttl_ms=3_600_000)
"""The tools of a running server do not change."""

TITLES = {
    "search": "Search the documents",
    "fetch": "Read a document or a passage",
    "answer": "Answer from the documents",
    "outline": "Sections of a document",
    "list": "List the documents",
    "sources": "Read a range of characters",
}

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def server(
    index: HWDAGIndex,
    config: SearchConfig | None = None,
    scope: Scope | None = None,
    *,
    slot: Callable[[], AbstractContextManager[None]] = nullcontext,
    explained: Callable[[HWDAGError], str] = str,
) -> MCPServer[Any]:
    """Return a server of an index, confined to a scope.

    Args:
        index: the index, which another program may change meanwhile.
        config: how it is searched.
        scope: the documents that clients may find and read.
        slot: held during a call; it raises `InputError` if none is free.
        explained: the text of an error for a client.
    """
    tools = Tools(index, config, scope or Scope())
    made = _Server(tools)
    calls: dict[str, Callable[..., Any]] = {
        "search": tools.search,
        "fetch": tools.fetch,
        "answer": tools.answer,
        "outline": tools.outline,
        "list": tools.list_documents,
        "sources": tools.sources,
    }
    for name, call in calls.items():
        is_text = name == "sources"  # a text would be sent twice
        made.tool(name, TITLES[name], annotations=READS, structured_output=not is_text)(
            _called(call, slot, explained, is_text=is_text)
        )

    async def text_of(document_id: str) -> str:
        """Return the text of a document, by its id."""
        try:
            return await anyio.to_thread.run_sync(tools.text_of, document_id)
        except InputError as error:
            raise ResourceNotFoundError(explained(error)) from error

    # why exempt: an id is looked up in the index, and is no path
    security = ResourceSecurity(exempt_params={"document_id"})
    made.resource(f"{URI}{{document_id}}", mime_type="text/plain", security=security)(text_of)
    return made


class _Server(MCPServer[Any]):
    """Lists documents as they are now, since an index changes."""

    def __init__(self, tools: Tools) -> None:
        root = logging.getLogger()
        handlers, level = [*root.handlers], root.level
        super().__init__(
            "hwdag",
            instructions=INSTRUCTIONS,
            version=__version__,
            cache_hints={"tools/list": FRESH},
        )
        root.handlers[:] = handlers  # why: the SDK takes over the log of the whole process
        root.setLevel(level)
        self._tools = tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. The SDK would leave out arguments that the tool does not have."""
        known = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        if unknown := [one for one in arguments if one not in known.get(name, arguments)]:
            raise ToolError(
                f"the tool {name} has no argument {unknown[0]!r:.100}; it has {', '.join(known[name])}"
            )
        return await super().call_tool(name, arguments, context)

    async def list_resources(self) -> list[Resource]:
        """Return the first documents."""

        def first() -> list[Resource]:
            return [
                Resource(
                    uri=uri_of(document),
                    name=name_of(document),
                    mime_type="text/plain",
                )
                for document in islice(self._tools.admitted(), MOST_RESOURCES)
            ]

        return await anyio.to_thread.run_sync(first)


def _called(
    tool: Callable[..., Any],
    slot: Callable[[], AbstractContextManager[None]],
    explained: Callable[[HWDAGError], str],
    *,
    is_text: bool,
) -> Callable[..., Any]:
    """Return the tool in a thread, with errors of hwdag passed on to the client; it sees no others."""

    @wraps(tool)
    async def call(**arguments: Any) -> Any:
        try:
            with slot():
                found = await anyio.to_thread.run_sync(partial(tool, **arguments))
        except HWDAGError as error:
            raise ToolError(explained(error)) from error
        if is_text:
            return CallToolResult(content=[TextContent(type="text", text=one) for one in found])
        return found

    return call
