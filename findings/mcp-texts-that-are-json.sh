#!/usr/bin/env bash
# mcp 2.3.0 (2026-11-29)
# Expected: a tool's argument that may be text or absent (`query: str | None`) takes any text, as one that
#   is `str` does.
# Seen: the server of the SDK reads a text as JSON first, unless the parameter is plain `str`. The text
#   "null" arrives as None. A text that is a list or an object of JSON is parsed, and then refused, since
#   it is no string any more: "Input should be a valid string", though the client sent a string.
# Costs: a search for such a text is a search without one, that is, another answer; a tool that takes
#   code, settings or records of a log fails for just those, and the model that calls it cannot mend it.
. "$(dirname "$0")/lib/setup.sh" mcp==2.3.0
python - 2>/dev/null <<'PY'
import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer
from still import still

server = MCPServer("texts")


@server.tool()
def plain(query: str = "") -> str:
    return repr(query)


@server.tool()
def optional(query: str | None = None) -> str:
    return repr(query)


async def main() -> None:
    async with Client(server) as client:
        for text, seen in (("2024", "'2024'"), ("null", "None"), ("[1]", "refused"), ('{"a": 1}', "refused")):
            for tool, expected in (("plain", repr(text)), ("optional", seen)):
                result = await client.call_tool(tool, {"query": text})
                reply = result.content[0].text
                if result.is_error and "Input should be a valid string" in reply:
                    reply = "refused"
                still(reply, expected, f"{tool}({text!r})")


anyio.run(main)
PY
