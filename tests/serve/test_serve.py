"""The server: answers, refusals, uploads, and that a client who left is not answered."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serve_world import CONFIG, DOCUMENTS, QUESTION, index

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from starlette.testclient import TestClient

from hwdag import Document
from hwdag.errors import InputError, ModelBusy
from hwdag.trace.bars import Silent
from hwdag_app.main import main, parser
from hwdag_app.serve.application import ServerConfig, application, safe_name
from hwdag_app.serve.config import is_loopback
from hwdag_app.serve.serving import others, token_for
from hwdag_app.serve.systems import Systems

WORLD = Path(__file__).parents[1] / "serve_world.py"
TOKEN = "a-token-for-tests"


@pytest.fixture
def served():
    with index() as made:
        yield made


@pytest.fixture
def client(served):
    with TestClient(application(served, CONFIG), base_url="http://localhost") as made:
        yield made


def events(response):
    assert response.status_code == 200, response.text
    frames = [
        dict(line.split(": ", 1) for line in one.split("\n"))
        for one in response.text.split("\n\n")
        if one
    ]
    return [
        (one.get("event"), json.loads(one["data"])) for one in frames if one["data"] != "[DONE]"
    ]


def test_a_question_streams_its_steps_and_is_answered_as_by_the_index(client, served):
    told = events(client.post("/api/ask", json={"question": QUESTION}))
    answer = served.answer(QUESTION, config=CONFIG)
    steps = [data for event, data in told if event == "step"]
    found = served.search(
        QUESTION, config=CONFIG
    )  # reported as they are chosen, before they are read
    assert steps == [step.to_dict() for step in found.steps]
    assert "".join(data["text"] for event, data in told if event == "piece") == answer.text
    event, whole = told[-1]
    assert event == "answer"
    assert whole["answer"]["walk"] == answer.retrieval.to_dict()
    assert whole["answer"]["citations"] == answer.to_dict()["citations"]


def test_systems_differ_in_nothing_but_how_they_search(client, served):
    [names] = {tuple(client.get("/api/state").json()["systems"])}
    walks = {}
    for name in names:
        told = events(client.post("/api/ask", json={"question": QUESTION, "system": name}))
        walks[name] = told[-1][1]["answer"]["walk"]["steps"]
    assert all(step["reference"] == step["attention"] == 0 for step in walks["similarity"])
    assert {"hwdag", "garlic", "similarity"} == set(walks)


def test_a_scope_and_a_budget_come_with_the_question(client):
    asked = {"question": QUESTION, "documents": ["harbour.md"], "token_budget": 20}
    walk = events(client.post("/api/ask", json=asked))[-1][1]["answer"]["walk"]
    assert {step["document_id"] for step in walk["steps"]} == {"harbour.md"}
    assert 0 < walk["context_tokens"] <= 20


def test_invalid_requests_are_reported(client):
    def refused(**body):
        response = client.post("/api/ask", json=body)
        return response.status_code, response.json()["error"]["message"]

    assert refused(question=" ") == (400, "question must be a text that is not empty")
    status, message = refused(question="q", system="bing")
    assert (status, message[:35]) == (404, "no system 'bing'; there are hwdag, ")
    assert refused(question="q", token_budget=0)[0] == 400
    told = events(client.post("/api/ask", json={"question": "q " * 20_000}))
    assert told[-1][0] == "error"
    assert client.post("/api/ask", content=b"{}").status_code == 415
    found = client.post("/api/ask", content=b"[1", headers={"Content-Type": "application/json"})
    assert found.status_code == 400


def test_a_document_is_uploaded_found_and_deleted(client, served):
    text = "The quarry at Elm Hill belonged to the Sorensen family.\n"
    told = events(client.put("/api/documents/quarry.md", content=text.encode()))
    assert told[-1] == ("done", {"report": str(told[-1][1]["report"]), "id": "quarry.md"})
    assert all(event == "progress" for event, _ in told[:-1])
    assert len(told) > 1
    assert served.documents["quarry.md"].text == text
    walk = events(client.post("/api/ask", json={"question": "Who owned the quarry?"}))
    assert "quarry.md" in {data.get("document_id") for event, data in walk if event == "step"}
    assert client.delete("/api/documents/quarry.md").status_code == 200
    assert "quarry.md" not in served.documents
    assert client.delete("/api/documents/quarry.md").status_code == 404
    assert client.get("/api/graph?document=quarry.md").status_code == 404


@pytest.mark.parametrize(
    "name",
    ["../x.md", "..", ".x.md", "a/b.md", "a\\b.md", "a\x00.md", "a.exe", "x" * 300 + ".md", ""],
)
def test_names_that_could_leave_a_folder_are_refused(name):
    with pytest.raises(InputError):
        safe_name(name)


def test_a_name_that_a_path_hides_writes_nothing(client, tmp_path):
    for path in ("..%2Fout.md", "%2e%2e%2fout.md", "..%5Cout.md", "%2Fetc%2Fout.md"):
        assert client.put(f"/api/documents/{path}", content=b"text").status_code in (400, 404, 405)


def test_an_address_that_is_taken_or_foreign_is_reported_before_it_is_printed(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for address in (["--port", port], ["--port", "0", "--host", "192.0.2.1"]):
            assert main(["serve", str(tmp_path / "a.hwdag"), *address]) == 2
            shown = capsys.readouterr()
            assert "cannot serve at" in shown.err and "http://" not in shown.out


def test_uploads_beyond_the_limit_are_refused_with_and_without_a_length(served):
    app = application(served, server=ServerConfig(max_upload_bytes=100))
    with TestClient(app, base_url="http://localhost") as client:
        pieces = (b"word " * 10 for _ in range(10))
        for content in (b"word " * 100, pieces):
            assert client.put("/api/documents/long.md", content=content).status_code == 413
    assert set(served.documents) == {one.id for one in DOCUMENTS}


def test_a_model_that_too_many_wait_for_is_a_503(served, monkeypatch):
    def refuses(question, **options):
        raise ModelBusy("256 callers wait for this model already")

    monkeypatch.setattr(served, "stream", refuses)
    body = {"messages": [{"role": "user", "content": QUESTION}]}
    with TestClient(application(served, CONFIG), base_url="http://localhost") as client:
        refused = client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 503
    assert "256" in refused.json()["error"]["message"]


def test_no_more_questions_at_a_time_than_the_limit(served, monkeypatch):
    begun, released, search = threading.Event(), threading.Event(), served.stream

    def held(question, **options):
        begun.set()
        assert released.wait(60)
        return search(question, **options)

    monkeypatch.setattr(served, "stream", held)
    asked = {"question": QUESTION}
    app = application(served, CONFIG, server=ServerConfig(max_questions=1))
    with TestClient(app, base_url="http://localhost") as client, ThreadPoolExecutor(1) as thread:
        first = thread.submit(client.post, "/api/ask", json=asked)
        assert begun.wait(60)
        refused = client.post("/api/ask", json=asked)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        assert client.post("/v1/chat/completions", json=body).status_code == 503
        released.set()
        assert events(first.result(60))[-1][0] == "answer"
        assert events(client.post("/api/ask", json=asked))[-1][0] == "answer"
    with pytest.raises(InputError, match="questions"):
        ServerConfig(max_questions=0)


def test_a_token_opens_everything_and_without_it_only_the_empty_page_is_there(served):
    app = application(served, server=ServerConfig(TOKEN))
    with TestClient(app, base_url="http://example.org") as client:
        for path in ("/", "/page.js", "/page.css", "/health"):
            response = client.get(path)
            assert response.status_code == 200
            assert "harbour" not in response.text
        for path in ("/api/state", "/api/graph", "/metrics", "/v1/models", "/api/nothing"):
            assert client.get(path).status_code == 401, path
            wrong = {"Authorization": f"Bearer {TOKEN}x"}
            assert client.get(path, headers=wrong).status_code == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/state", headers=right).status_code == 200


def test_without_a_token_only_this_machine_asks_and_no_page_of_another_site(served, client):
    assert client.get("/api/state", headers={"Host": "evil.example"}).status_code == 403
    for host in ("localhost:8000", "127.0.0.1", "127.0.0.2:80", "[::1]:8000"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    assert client.get("/health", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/health", headers={"Origin": "http://localhost"}).status_code == 200
    for site in ("cross-site", "same-site"):  # a GET of another page has no Origin
        asked = {"Sec-Fetch-Site": site}
        assert client.get("/api/graph", headers=asked).status_code == 403
        assert client.get("/", headers=asked).status_code == 200  # a link to the empty page
    assert client.get("/api/state", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_every_answer_keeps_the_page_to_itself(client):
    for path in ("/", "/health", "/nothing", "/api/graph?document=none"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script>|<style|style=| on\w+=", client.get("/").text)


def test_a_server_that_is_read_only_changes_nothing(served):
    app = application(served, server=ServerConfig(read_only=True))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.put("/api/documents/a.md", content=b"text").status_code == 403
        assert client.delete("/api/documents/harbour.md").status_code == 403


def test_the_graph_is_that_of_the_page(client, served):
    assert client.get("/api/graph").json() == served.to_dict()
    one = client.get("/api/graph", params={"document": "harbour.md"}).json()
    assert one == served.to_dict(["harbour.md"])


def test_figures_count_what_was_asked(client):
    def figure(name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    answered = 'hwdag_questions_total{outcome="answered",system="hwdag"}'
    assert (figure(answered), figure("hwdag_documents")) == (0, len(DOCUMENTS))
    told = events(client.post("/api/ask", json={"question": QUESTION}))
    assert figure(answered) == 1
    assert figure("hwdag_questions_running") == 0
    assert figure('hwdag_tokens_total{system="hwdag"}') == told[-1][1]["answer"]["tokens"]


def test_a_method_to_compare_with_holds_what_the_index_holds():
    options = parser().parse_args(["serve", "a.hwdag", "--compare", "bm25", "--compare", "bm25"])
    with index() as served:
        systems = Systems(served, CONFIG, others(options, served))
        assert list(systems) == ["hwdag", "garlic", "similarity", "bm25"]
        other, _ = systems.named("bm25")
        assert dict(other.documents) == {one.id: one for one in DOCUMENTS}
        [first, *_] = other.search(QUESTION, config=CONFIG).steps
        assert "Clara Holm" in first.node.text
        new = Document("harbour.md", "The harbour was rebuilt by Ada Brun.")
        systems.insert([new], Silent())
        assert other.documents["harbour.md"] == served.documents["harbour.md"] == new
        systems.delete("harbour.md")
        assert set(other.documents) == set(served.documents) == {"keepers.txt"}


def test_unsupported_options_of_a_chat_are_reported(client):
    def status(**body):
        return client.post("/v1/chat/completions", json=body).status_code

    message = [{"role": "user", "content": QUESTION}]
    assert status(messages=message) == 200
    assert status(messages=[]) == status(messages="hi") == status(messages=["hi"]) == 400
    assert status(messages=message, tools=[{}]) == status(messages=message, n=2) == 400
    assert status(messages=message, max_tokens=-1) == status(messages=message, max_tokens=0) == 400
    assert status(messages=message, max_completion_tokens=0, max_tokens=9) == 400
    assert status(messages=message, model="gpt-4") == 404


def test_a_token_is_asked_for_beyond_this_machine(monkeypatch):
    monkeypatch.delenv("HWDAG_TOKEN", raising=False)
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "box")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert token_for("127.0.0.1") is None
    assert len({token_for("0.0.0.0"), token_for("0.0.0.0")}) == 2
    monkeypatch.setenv("HWDAG_TOKEN", "short")
    with pytest.raises(InputError, match=r"\b16\b"):
        token_for("0.0.0.0")


def test_the_command_refuses_before_it_serves(tmp_path, capsys):
    missing = str(tmp_path / "none.hwdag")
    assert main(["serve", missing, "--read-only"]) == 2
    assert "index" in capsys.readouterr().err


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A server in a process of its own; its address, and the file of the nodes that it has read."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    httpx = pytest.importorskip("httpx")
    read = tmp_path_factory.mktemp("served") / "read.txt"
    read.touch()
    server = subprocess.Popen([sys.executable, WORLD, read, str(port)])
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(f"{address}/health")
                break
            except httpx.ConnectError:
                assert server.poll() is None
                time.sleep(0.1)
        yield address, read
    finally:
        server.terminate()
        server.wait(20)


def test_the_client_of_openai_asks_and_a_client_that_leaves_ends_its_question(process):
    openai = pytest.importorskip("openai")
    address, read = process
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0)
    assert {model.id for model in client.models.list()} >= {"hwdag", "garlic"}
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()
    message = [{"role": "user", "content": QUESTION}]
    with index() as same:
        expected = same.answer(QUESTION, config=CONFIG)
    before = len(read.read_text().splitlines())
    answer = client.chat.completions.create(model="hwdag", messages=message)
    said = answer.choices[0].message
    assert said.content == expected.text
    assert said.citations == expected.to_dict()["citations"]
    assert answer.usage.total_tokens == expected.usage.tokens
    nodes = len(read.read_text().splitlines()) - before
    assert nodes == len(expected.retrieval.steps)

    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = client.chat.completions.create(model="hwdag", messages=message, **options)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected.text
    assert chunks[-1].choices[0].delta.citations == said.citations
    assert last.usage == answer.usage
    cut = client.chat.completions.create(model="hwdag", messages=message, max_tokens=1)
    assert (answer.choices[0].message.notes, len(cut.choices[0].message.notes)) == ([], 1)
    for found, finish, tokens in ((answer, "stop", None), (cut, "length", 1)):
        assert found.choices[0].finish_reason == finish
        assert found.usage.completion_tokens == (
            tokens or same.reader.count_tokens([said.content])[0]
        )

    slowly = [{"role": "user", "content": f"{QUESTION} Take it slowly."}]
    for stream in (True, False):
        before = len(read.read_text().splitlines())
        with pytest.raises(openai.APITimeoutError):
            found = client.chat.completions.create(
                model="hwdag", messages=slowly, stream=stream, timeout=0.5
            )
            list(found)
        metrics = {"Authorization": f"Bearer {TOKEN}"}
        httpx = pytest.importorskip("httpx")
        for _ in range(100):
            text = httpx.get(f"{address}/metrics", headers=metrics).text
            if "hwdag_questions_running 0.0" in text:
                break
            time.sleep(0.05)
        assert 0 < len(read.read_text().splitlines()) - before < nodes


def test_the_live_page_is_used_as_a_person_would(process, browser, tmp_path):
    address, _ = process
    page = browser.new_page()
    complaints, elsewhere = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: None if r.url.startswith(address) else elsewhere.append(r.url))
    page.goto(f"{address}/#token={TOKEN}")
    assert page.get_by_label("Documents in the index").count() == 0
    page.get_by_text("Documents in the index").click()
    page.get_by_role("button", name="Delete harbour.md").wait_for()
    assert TOKEN not in page.url

    hostile = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    file = tmp_path / "hostile.txt"
    file.write_text(f"The harbour was built by {hostile}.\n")
    page.get_by_label("Add documents").set_input_files(file)
    page.locator(".uploads").get_by_text("done").wait_for()
    page.get_by_role("button", name="Delete hostile.txt").wait_for()  # one; the list is read anew

    page.get_by_label("Question").fill(f"Who built the harbour so slowly? {hostile}")
    assert page.locator(".greeting button").count() >= 2
    page.get_by_text("Ways to search").click()
    page.get_by_label("Compare with").select_option("similarity")
    page.get_by_label("Question").press("Enter")
    page.locator(".result .steps li").nth(1).wait_for()
    growing = page.locator(".result[aria-label=hwdag] .steps .card")
    seen = growing.count()
    page.wait_for_function(
        "seen => document.querySelectorAll('.result[aria-label=hwdag] .card').length > seen",
        arg=seen,
    )
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped").first.wait_for()
    assert page.locator(".result").count() == 2

    page.get_by_label("Question").fill("Who built the harbour?")
    page.get_by_label("Compare with").select_option("")
    page.get_by_label("Question").press("Enter")
    page.locator(".citations li").first.click(timeout=60_000)
    assert page.locator("mark.selected").count() >= 1
    assert page.locator(".turn").count() == 2
    assert not page.locator(".turn .cost").first.is_visible()
    page.get_by_text("How was this found?").first.click()
    assert page.locator(".turn .cost").first.is_visible()
    page.get_by_label("Question").fill("When?")
    with page.expect_request("**/api/ask") as asked:
        page.get_by_label("Question").press("Enter")
    [[question, said]] = asked.value.post_data_json["history"]
    assert question == "Who built the harbour?" and said
    page.locator(".turn").first.locator(".citations li").first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Show the graph").click()
    page.get_by_label("Find in nodes").fill("built in 1871")
    page.locator(".found button").first.click()
    assert "Clara Holm" in page.locator(".details").inner_text()
    assert page.title() == "hwdag"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete hostile.txt").click()
    page.get_by_role("button", name="Delete hostile.txt").wait_for(state="detached")
    page.close()
    assert (complaints, elsewhere) == ([], [])


def test_the_live_page_asks_for_the_token_that_it_was_not_given(process, browser):
    address, _ = process
    page = browser.new_page(viewport={"width": 360, "height": 640})
    page.goto(address)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_label("Token").press("Enter")
    page.get_by_text("Documents in the index").click()
    page.get_by_role("button", name="Delete harbour.md").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()
