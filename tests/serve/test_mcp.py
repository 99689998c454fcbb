"""The server for agents, asked by the client of the `mcp` package: over pipes, HTTP and in one process."""

import json
import logging
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest
import serve_world
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.scope import Scope
from hwdag.text.headings import Outline
from hwdag_app.main import main
from hwdag_app.mcp.results import beginning, length, page
from hwdag_app.mcp.server import server
from hwdag_app.serve import agents
from hwdag_app.serve.application import ServerConfig, application
from hwdag_lab.scripted import ScriptedLM

MILL = "The miller keeps grain behind the river. He counts the sacks at night."
FERRY = "The ferry crosses the river at dawn. The smith mends the bell of the ferry."
QUESTION = "Who mends the bell of the ferry?"

SERVER = """
import sys
from hwdag_app.cli import asking
from hwdag.scope import Scope
from hwdag.text.headings import Outline
from hwdag_app.main import main
from hwdag_app.mcp.results import beginning, length, page
from hwdag_app.mcp.server import server
from hwdag_app.serve import agents
from hwdag_app.serve.application import ServerConfig, application
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
    """Return the structured result of a tool, which the text repeats."""
    found = await client.call_tool(name, arguments)
    assert not found.is_error, found.content
    (text,) = found.content
    assert json.loads(text.text) == found.structured_content
    return found.structured_content


async def refused(client, name, **arguments):
    """Return the text of an error."""
    found = await client.call_tool(name, arguments)
    assert found.is_error
    return found.content[0].text


async def test_a_client_lists_searches_asks_and_reads(file):
    async with served(file) as client:
        named = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(named) == {"search", "fetch", "answer", "outline", "list", "sources"}
        assert named["search"].input_schema["required"] == ["query"]

        listed = {one["document_id"]: one for one in (await called(client, "list"))["documents"]}
        assert set(listed) == {"notes/mill.txt", "ferry"}
        mill = listed["notes/mill.txt"]
        assert (mill["title"], mill["characters"]) == ("The mill", len(MILL))
        assert mill["metadata"] == {"owner": "town"}

        (best,) = (await called(client, "search", query=QUESTION, limit=1))["results"]
        assert (best["document_id"], best["text"]) == ("ferry", FERRY)
        ((start, end),) = best["spans"]
        part = await client.call_tool(
            "sources", {"document_id": "ferry", "start": start, "end": end}
        )
        assert [one.text for one in part.content] == [FERRY[start:end]]
        assert part.structured_content is None

        answer = await called(client, "answer", question=QUESTION)
        assert answer["answer"] == "The smith mends the bell of the ferry."
        assert answer["confidence"] is answer["found"] is None  # they need the default embedder
        cited = answer["citations"][0]
        assert cited["document_id"] == "ferry"
        assert cited["text"] == FERRY[cited["start"] : cited["end"]]

        uris = {str(one.uri) for one in (await client.list_resources()).resources}
        assert uris == {one["url"] for one in listed.values()}
        for key, text in (("notes/mill.txt", MILL), ("ferry", FERRY)):
            (content,) = (await client.read_resource(listed[key]["url"])).contents
            assert content.text == text
        assert "only white space" in await refused(client, "answer", question=" ")


async def test_nothing_outside_the_scope_is_seen(file):
    async with served(file, "--filter", '{"owner": "town"}') as client:
        listed = (await called(client, "list"))["documents"]
        assert [one["document_id"] for one in listed] == ["notes/mill.txt"]
        found = (await called(client, "search", query=QUESTION, limit=9))["results"]
        assert {one["document_id"] for one in found} == {"notes/mill.txt"}
        for name in ("sources", "outline"):
            assert "no document 'ferry'" in await refused(client, name, document_id="ferry")
        for identity in ("ferry", "ferry#0-5"):
            assert "no document 'ferry'" in await refused(client, "fetch", id=identity)
        assert "no document" in await refused(client, "search", query="x", documents=["ferry"])
        wider = {"owner": {"in": ["town", "bank"]}}
        found = (await called(client, "search", query=QUESTION, filters=wider))["results"]
        assert {one["document_id"] for one in found} == {"notes/mill.txt"}
        with pytest.raises(MCPError, match="no document 'ferry'") as error:
            await client.read_resource("hwdag://documents/ferry")
        assert error.value.error.code == -32602


def test_a_file_that_is_not_there_is_reported_before_anything_is_served(tmp_path, capsys):
    assert main(["mcp", str(tmp_path / "nowhere.hwdag")]) == 2
    assert "nowhere.hwdag" in capsys.readouterr().err


# --- in one process

TOWN = "".join(f"## Part {i}\n\nThe keeper of day {i} counts the boats.\n\n" for i in range(40))
LONG = "The tower has a light, " * 9000 + "and a bell."
KYRGYZ = "Кеме дарыядан таңда өтөт. " * 2000
DOCUMENTS = [
    Document("town.md", TOWN, "", {"year": 1871, "url": "https://example.org/town"}),
    Document("tower#1-2", LONG, "T" * 5000, {"year": 1902, "notes": "n" * 5000, "n": [1]}),
    Document("кеме", KYRGYZ, "Кеме", {"year": 1902}),
]


@pytest.fixture(scope="module")
def index():
    with HWDAGIndex.from_documents(
        DOCUMENTS, reader=ScriptedLM(), embedder=HashingEmbedder(), method="evidence"
    ) as made:
        yield made


@pytest.fixture
def client(index):
    return Client(server(index))


async def test_every_tool_is_read_only_and_has_types(client):
    async with client:
        for tool in (await client.list_tools()).tools:
            assert tool.title and tool.description
            hints = tool.annotations
            assert hints.read_only_hint and hints.idempotent_hint
            assert hints.open_world_hint is hints.destructive_hint is False
            assert all(
                "description" in one or name in ("document_id", "start", "end")
                for name, one in tool.input_schema["properties"].items()
            )
            if tool.name == "sources":
                assert tool.output_schema is None
            else:
                assert {"left_out", "next_cursor"} & set(tool.output_schema["properties"])


async def pages(client, name, key, **arguments):
    """Return the items of all pages."""
    found, cursor = [], None
    while True:
        result = await called(client, name, **arguments, cursor=cursor)
        assert length(result) <= arguments.get("max_characters", 12_000) + 200
        found += result[key]
        if "next_cursor" not in result:
            return found
        assert repr(result["next_cursor"]) in result["left_out"]
        assert result[key] and result["next_cursor"] != cursor
        cursor = result["next_cursor"]


@pytest.mark.parametrize("limit", [3, 200])
async def test_pages_of_passages_are_those_of_one_search(client, index, limit):
    async with client:
        asked = {"query": "Who counts the boats?", "documents": ["town.md"]}
        found = await pages(client, "search", "results", **asked, limit=limit, max_characters=2000)
    best = index.search(asked["query"], k=99, returns="passages", scope=Scope(["town.md"])).best(99)
    assert [one["text"] for one in found] == [step.node.text for step in best]
    for one in found:
        assert one["url"] == "https://example.org/town" and one["title"] == "town.md"
        assert one["id"] == "town.md#{}-{}".format(*one["spans"][0])


async def test_sections_are_spans_of_the_text(client):
    async with client:
        found = await pages(
            client, "outline", "sections", document_id="town.md", max_characters=1000
        )
        assert [one["heading"] for one in found] == [f"Part {i}" for i in range(40)]
        for i, one in enumerate(found):
            text = TOWN[one["start"] : one["end"]]
            assert text.startswith(f"## Part {i}\n") and text.count("##") == one["level"] == 1
        empty = await called(client, "outline", document_id="кеме")
        assert empty["sections"] == [] and "no headings" in empty["left_out"]


def test_a_section_contains_those_below_it():
    text = "# A\n\na\n\n## B\n\nb\n\n### C\n\nc\n\n## D\n\nd\n\n# E\n\ne\n"
    sections = [
        (one.heading, one.level, text[one.span.start : one.span.end])
        for one in Outline(text).sections()
    ]
    at = text.index
    assert sections == [
        ("A", 1, text[: at("# E")]),
        ("A > B", 2, text[at("## B") : at("## D")]),
        ("A > B > C", 3, text[at("### C") : at("## D")]),
        ("A > D", 2, text[at("## D") : at("# E")]),
        ("E", 1, text[at("# E") :]),
    ]


@pytest.mark.parametrize(("identity", "text"), [("tower#1-2", LONG), ("кеме", KYRGYZ)])
@pytest.mark.parametrize("room", [1000, 12_000, 1_000_000])
async def test_a_document_is_fetched_in_parts_without_a_gap(client, identity, text, room):
    async with client:
        parts, cursor = [], None
        while True:
            result = await called(client, "fetch", id=identity, cursor=cursor, max_characters=room)
            assert length(result) <= room + 200
            assert result["start"] == sum(map(len, parts))
            parts.append(result["text"])
            assert result["end"] == sum(map(len, parts)) and result["characters"] == len(text)
            if (cursor := result.get("next_cursor")) is None:
                break
            assert cursor in result["left_out"]
            if len(parts) == 3:  # of many
                assert text.startswith("".join(parts))
                return
        assert "".join(parts) == text


async def test_a_passage_is_fetched_with_the_text_around_it(client):
    start = LONG.index("and a bell")
    async with client:
        for place in (start, 100_000):
            identity = f"tower#1-2#{place}-{place + 10}"
            result = await called(client, "fetch", id=identity, max_characters=2000)
            assert result["document_id"] == "tower#1-2" and result["id"] == identity
            assert result["start"] < place and place + 10 <= result["end"]
            assert result["text"] == LONG[result["start"] : result["end"]]
            assert f"{result['start']:,} characters before" in result["left_out"]


async def test_a_cut_passage_is_marked(client):
    async with client:
        for query, document in (("Does the tower have a light?", "tower#1-2"), ("Кеме", "кеме")):
            result = await called(client, "search", query=query, documents=[document], limit=1)
            (found,) = result["results"]
            assert length(result) <= 12_500
            whole = next(one.text for one in DOCUMENTS if one.id == document)
            assert whole.startswith(found["text"].strip(), found["spans"][0][0])
            if "omitted_characters" in found:
                assert "fetch its id" in result["left_out"]
        cut = await client.call_tool("sources", {"document_id": "tower#1-2", "start": 9})
        text, note = (one.text for one in cut.content)
        assert LONG[9:].startswith(text) and f"start {9 + len(text)} " in note


async def test_names_and_metadata_are_bounded(client):
    async with client:
        listed = {
            one["document_id"]: one for one in await pages(client, "list", "documents", limit=1)
        }
        assert len(listed["tower#1-2"]["title"]) == 200
        assert listed["tower#1-2"]["metadata"] == {"year": 1902}
        some = await pages(client, "list", "documents", filters={"year": 1902})
        assert [one["document_id"] for one in some] == ["tower#1-2", "кеме"]
        one = await pages(client, "list", "documents", documents=["кеме"])
        assert [document["document_id"] for document in one] == ["кеме"]


async def test_arguments_narrow_what_is_searched_and_answered(client):
    async with client:
        for narrowed in ({"documents": ["town.md"]}, {"filters": {"year": {"lt": 1900}}}):
            found = await called(client, "search", query="tower", **narrowed)
            assert {one["document_id"] for one in found["results"]} == {"town.md"}
            answer = await called(client, "answer", question="Who counts?", budget=30, **narrowed)
            assert {one["document_id"] for one in answer["citations"]} == {"town.md"}
        none = await called(client, "search", query="tower", filters={"year": 7})
        assert none == {"results": [], "left_out": "Nothing was found."}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search", {"query": "x", "k": 3}, "no argument 'k'; it has query, limit,"),
        ("search", {"query": "x", "limit": 0}, "greater than or equal to 1"),
        ("search", {"query": "x", "cursor": "-1"}, "cursor"),
        ("search", {"query": "x", "max_characters": 9}, "1000"),
        ("search", {"query": "x", "filters": {}}, "a filter is"),
        ("search", {"query": "x", "filters": {"a": {"near": 1}}}, "no operator"),
        ("search", {"query": "x", "history": [["a"]]}, "history must be"),
        ("fetch", {"id": "nowhere"}, "the tool `list` names all documents"),
        ("fetch", {"id": "nowhere#1-2"}, "no document 'nowhere'"),
        ("delete", {}, "delete"),
    ],
)
async def test_an_error_names_its_cause(client, name, arguments, said):
    async with client:
        assert said in await refused(client, name, **arguments)


@given(st.text(max_size=400), st.integers(0, 500))
def test_the_beginning_of_a_text_fits(text, room):
    found = beginning(text, room)
    assert text.startswith(found)
    assert length(found) <= max(room, length(text[:100]))
    assert found == text or len(found) >= min(50, room // 20, len(text))


@given(st.lists(st.integers(0, 900), max_size=12), st.integers(1, 5), st.integers(100, 900))
def test_pages_hold_every_item_once(lengths, limit, room):
    items = [{"n": i, "text": "x" * size} for i, size in enumerate(lengths)]
    found, cursor = [], None
    while True:
        part = page(iter(items), cursor, limit, room)
        assert len(part.items) <= limit
        found += part.items
        cursor = part.next_cursor
        if cursor is None:
            break
    assert [one["n"] for one in found] == list(range(len(items)))
    for one, item in zip(found, items, strict=True):
        assert len(one["text"]) + one.get("omitted_characters", 0) == len(item["text"])


def test_the_log_of_the_process_stays_as_it_is(index):
    root = logging.getLogger()
    before = [*root.handlers], root.level
    server(index)
    assert ([*root.handlers], root.level) == before


# --- among the routes of `hwdag serve`


@asynccontextmanager
async def by_http(address, token=None, mode="auto"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_offers_the_tools_over_http(mode):
    made = serve_world.index()
    with serve_world.running(made) as address:
        best = made.search(
            serve_world.QUESTION, config=serve_world.CONFIG, k=1, returns="passages"
        ).best(1)
        async with by_http(address, mode=mode) as client:
            assert len((await client.list_tools()).tools) == 6
            found = (await called(client, "search", query=serve_world.QUESTION, limit=1))["results"]
            assert [one["text"] for one in found] == [step.node.text for step in best]
            answer = await called(client, "answer", question=serve_world.QUESTION)
            assert answer["answer"] and answer["citations"]
            assert "only white space" in await refused(client, "answer", question=" ")
            with pytest.raises(MCPError, match="no document 'zz'"):
                await client.read_resource("hwdag://documents/zz")


async def test_a_document_that_is_added_is_listed_and_read():
    made = serve_world.index()
    with serve_world.running(made) as address:
        async with by_http(address) as client:
            made.insert([Document("bridge", "The bridge is new.")])
            listed = {str(one.uri) for one in (await client.list_resources()).resources}
            assert "hwdag://documents/bridge" in listed
            assert (await called(client, "fetch", id="bridge"))["text"] == "The bridge is new."


async def test_the_token_of_the_server_is_asked_for():
    config = ServerConfig("a-token-for-tests")
    with serve_world.running(serve_world.index(), config) as address:
        async with by_http(address, config.token) as client:
            assert (await called(client, "list"))["documents"]
        for wrong in ({}, {"Authorization": "Bearer wrong"}):
            assert httpx2.post(f"{address}/mcp", json={}, headers=wrong).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "example.org"}, 403),
        ({"Origin": "https://example.org"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_the_guard_precedes_the_tools(headers, status):
    with (
        serve_world.index() as made,
        TestClient(application(made), base_url="http://localhost") as client,
    ):
        found = client.post("/mcp", json={}, headers=headers)
        assert found.status_code == status
        assert "error" in found.json()
        too_long = client.post("/mcp", content=b"x" * 1_000_001)
        assert too_long.status_code == 413


async def test_calls_and_questions_share_the_slots():
    made = serve_world.index()
    begun, go = threading.Event(), threading.Event()
    search = made.search

    def slowly(*given, **options):
        begun.set()
        assert go.wait(30)
        return search(*given, **options)

    made.search = slowly
    with serve_world.running(made, ServerConfig(max_questions=1)) as address:
        async with by_http(address) as first, by_http(address) as second:
            import anyio

            async with anyio.create_task_group() as group:
                group.start_soon(partial(called, first, "search", query=serve_world.QUESTION))
                await anyio.to_thread.run_sync(begun.wait)
                try:
                    busy = await refused(second, "list")
                finally:
                    go.set()
            assert "takes 1 questions at a time" in busy
            assert (await called(second, "list"))["documents"]


def test_without_the_extra_the_server_has_no_tools_for_agents(monkeypatch):
    def missing(*_):
        raise ImportError("No module named 'mcp'")

    monkeypatch.setattr(agents, "Agents", missing)
    with (
        serve_world.index() as made,
        TestClient(application(made), base_url="http://localhost") as client,
    ):
        assert client.post("/mcp", json={}).status_code == 404
        assert client.get("/health").status_code == 200
