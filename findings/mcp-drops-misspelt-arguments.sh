#!/usr/bin/env bash
# mcp 2.3.0 (2026-11-29)
# Expected: a call of a tool with an argument that the tool does not have is an error, as in Python, so
#   that the model that made it tries again; an argument of a wrong type is one.
# Seen: the argument is dropped, and the tool runs with its defaults. The schema that the SDK derives
#   allows other properties, so clients that check their calls do not notice either.
# Costs: a model writes `max_results` for `limit` or `years` for `year` now and then, and gets few
#   results, or those of all years, which it takes for what it asked for. Nothing is logged.
. "$(dirname "$0")/lib/setup.sh" mcp==2.3.0
python - <<'PY'
import asyncio

from mcp import Client
from mcp.server import MCPServer
from still import still

LETTERS = {1871: ["harbour", "tower"], 1902: ["storm"], 1940: ["quarry"]}
server = MCPServer("archive")


@server.tool()
def search(query: str, year: int | None = None, limit: int = 2) -> list[str]:
    found = [text for own, texts in LETTERS.items() if year in (None, own) for text in texts]
    return found[:limit]


async def main() -> None:
    async with Client(server) as client:

        async def asked(**arguments: object) -> tuple[bool, int]:
            found = await client.call_tool("search", {"query": "letters", **arguments})
            return found.is_error, len(found.content)

        still(await asked(limit=50), (False, 4), "texts with limit=50")
        still(await asked(max_results=50), (False, 2), "texts with max_results=50")
        still(await asked(year=1902), (False, 1), "texts of 1902")
        still(await asked(years=1902), (False, 2), "texts with years=1902")
        still(await asked(year="soon"), (True, 1), "an error for a wrong type")
        (tool,) = (await client.list_tools()).tools
        still(tool.input_schema.get("additionalProperties"), None, "additionalProperties")


asyncio.run(main())
PY
