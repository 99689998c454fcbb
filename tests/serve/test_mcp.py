"""The server of an index, asked by the client of the `mcp` package over standard input and output."""

import sys
from contextlib import asynccontextmanager

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_app.main import main
from hwdag_lab.scripted import ScriptedLM

MILL = "The miller keeps grain behind the river. He counts the sacks at night."
FERRY = "The ferry crosses the river at dawn. The smith mends the bell of the ferry."
QUESTION = "Who mends the bell of the ferry?"

SERVER = """
import sys
from hwdag_app.cli import asking
from hwdag_app.main import main
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.index import HWDAGIndex
from hwdag_lab.scripted import ScriptedLM

asking.HWDAGIndex = type("Scripted", (), {"load": staticmethod(
    lambda file, **_: HWDAGIndex.load(file, reader=ScriptedLM(), embedder=HashingEmbedder())
)})
sys.exit(main(sys.argv[1:]))
"""
"""The command itself; a file keeps no scripted models, so they are given."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "town.hwdag"
    documents = [
        Document("notes/mill.txt", MILL, "The mill", {"owner": "town"}),
        Document("ferry", FERRY, metadata={"owner": "bank"}),
    ]
    HWDAGIndex.from_documents(
        documents,
        path=path,
        reader=ScriptedLM(),
        embedder=HashingEmbedder(),
        config=BuildConfig(chunk_tokens=12),
    ).close()
    return path


@asynccontextmanager
async def served(file, *options):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", SERVER, "mcp", str(file), *options],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    async with Client(stdio_client(command)) as client:
        yield client


async def called(client, name, **arguments):
    """What a tool returns; a list is under "result"."""
    found = await client.call_tool(name, arguments)
    assert not found.is_error, found.content
    content = found.structured_content
    return content.get("result", content)


async def test_a_client_lists_searches_asks_and_reads(file):
    async with served(file) as client:
        named = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(named) == {"search", "answer", "sources", "list"}
        assert named["search"].input_schema["required"] == ["question"]

        listed = {one["document_id"]: one for one in await called(client, "list")}
        assert set(listed) == {"notes/mill.txt", "ferry"}
        assert listed["notes/mill.txt"]["title"] == "The mill"

        (best, *_) = await called(client, "search", question=QUESTION, k=1)
        assert (best["document_id"], best["text"]) == ("ferry", FERRY)
        ((start, end),) = best["spans"]
        part = await called(client, "sources", document_id="ferry", start=start, end=end)
        assert part == FERRY[start:end]

        answer = await called(client, "answer", question=QUESTION)
        assert answer["answer"] == "The smith mends the bell of the ferry."
        assert answer["confidence"] is answer["found"] is None  # they need the default embedder
        assert answer["citations"][0]["document_id"] == "ferry"

        uris = {str(one.uri) for one in (await client.list_resources()).resources}
        assert uris == {one["uri"] for one in listed.values()}
        for key, text in (("notes/mill.txt", MILL), ("ferry", FERRY)):
            (content,) = (await client.read_resource(listed[key]["uri"])).contents
            assert content.text == text


async def test_nothing_outside_the_scope_is_seen(file):
    async with served(file, "--filter", '{"owner": "town"}') as client:
        assert [one["document_id"] for one in await called(client, "list")] == ["notes/mill.txt"]
        found = await called(client, "search", question=QUESTION, k=9)
        assert {one["document_id"] for one in found} == {"notes/mill.txt"}
        refused = await client.call_tool("sources", {"document_id": "ferry"})
        assert refused.is_error
        with pytest.raises(MCPError):
            await client.read_resource("hwdag://documents/ferry")


async def test_what_is_wrong_is_told_to_the_client(file):
    async with served(file) as client:
        blank = await client.call_tool("answer", {"question": " "})
        assert blank.is_error and "only white space" in blank.content[0].text


def test_a_file_that_is_not_there_is_told_before_anything_is_served(tmp_path, capsys):
    assert main(["mcp", str(tmp_path / "nowhere.hwdag")]) == 2
    assert "nowhere.hwdag" in capsys.readouterr().err
