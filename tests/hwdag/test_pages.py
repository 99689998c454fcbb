"""Pages: what they hold, that nothing in a text can act, and that the built script is that of web/."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.lm.scripted import ScriptedLM
from hwdag.trace.pages import answer_page, graph_page, places, retrieval_page
from hwdag.types import Node, Span

WEB = Path(__file__).parents[2] / "web"
BUILT = Path(__file__).parents[2] / "core" / "hwdag" / "trace" / "page"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
)
DOCUMENTS = [
    Document(
        "harbour",
        "The harbour was built in 1871 by Clara Holm 😀. "
        "The stone for its walls came from the quarry at Elm Hill.",
        title="Harbour 😀",
    ),
    Document("quarry" + HOSTILE, f"The quarry at Elm Hill belonged to the Holms. {HOSTILE}"),
]
QUESTION = f"Who owned the quarry that the harbour walls came from? {HOSTILE}"


@pytest.fixture(scope="module")
def world():
    index = HWDAGIndex.from_documents(DOCUMENTS, reader=ScriptedLM(), embedder=HashingEmbedder())
    answer = index.answer(QUESTION, config=SearchConfig(token_budget=200, progress="budget"))
    graphs = [(document, index.graphs[document.id]) for document in DOCUMENTS]
    return answer, graphs


def data_of(page):
    found = re.search(r'<script type="application/json" id="hwdag-data">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def utf16(text, start, end):
    """A slice as a browser takes it."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def test_every_link_of_an_answer_leads_to_its_exact_characters(world):
    answer, graphs = world
    data = data_of(answer_page(answer, graphs))
    documents = data["documents"]
    assert "".join(text for text, _ in data["answer"]["words"]) == answer.text
    for shown, citation in zip(data["answer"]["citations"], answer.citations, strict=True):
        number, start, end = shown["span"]
        assert documents[number]["id"] == citation.document_id
        assert utf16(documents[number]["text"], start, end) == citation.text
        assert data["walk"]["steps"][shown["step"]]["id"] == citation.node_id
    for shown, step in zip(data["walk"]["steps"], answer.retrieval.steps, strict=True):
        texts = [utf16(documents[n]["text"], start, end) for n, start, end in shown["spans"]]
        assert " ".join(texts) == step.node.text
        parts = shown["attention"] + shown["similarity"] + shown["reference"]
        assert parts == pytest.approx(step.score, abs=2e-4)


def test_a_word_links_to_the_strongest_citation_that_says_it(world):
    answer, _ = world
    data = data_of(answer_page(answer))
    linked = [(text, number) for text, number in data["answer"]["words"] if number is not None]
    assert linked
    for text, number in linked:
        word = text.strip(".,").lower()
        saying = [i for i, c in enumerate(answer.citations) if word in c.text.lower()]
        assert number == saying[0]


def test_a_graph_page_has_all_nodes_and_the_edges_strongest_first(world):
    _, graphs = world
    graph = data_of(graph_page(graphs, "town"))["graph"]
    assert [node["id"] for node in graph["nodes"]] == [n.id for _, g in graphs for n in g.nodes]
    weights = [weight for _, _, weight in graph["edges"]]
    assert weights == sorted(weights, reverse=True)
    for start, end, _ in graph["edges"]:
        assert graph["nodes"][start]["level"] > graph["nodes"][end]["level"]
        assert graph["nodes"][start]["document"] == graph["nodes"][end]["document"]


def test_points_stand_above_what_they_rest_on():
    r"""Leaves a b c d; p rests on c and d, q on a: q is left of p."""
    nodes = [
        Node(name, "d", 1, name, "chunk", 1, (Span(i, i + 1),)) for i, name in enumerate("abcd")
    ]
    nodes += [Node(name, "d", 2, name, "generated", 1, (Span(0, 1),)) for name in "pq"]
    rows = [EdgeRow(4, np.array([2, 3]), np.ones(2)), EdgeRow(5, np.array([0]), np.ones(1))]
    assert places(HWDAG.from_rows(nodes, rows)).tolist() == [0.125, 0.375, 0.625, 0.875, 0.75, 0.25]


def test_no_text_can_act(world):
    answer, graphs = world
    for page in (answer_page(answer, graphs), retrieval_page(answer.retrieval)):
        assert len(re.findall(r"<script", page)) == 2  # the data, and the page's own
        assert "<img" not in page
        assert "default-src &#x27;none&#x27;" in page
        assert "unsafe-inline" not in page


@pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules").is_dir(),
    reason="the script is built by node: run `npm ci` in web/",
)
def test_the_built_script_is_that_of_the_sources(tmp_path):
    subprocess.run(["npm", "run", "--silent", "check"], cwd=WEB, check=True)
    subprocess.run(["node", "build.mjs", tmp_path], cwd=WEB, check=True)
    for name in ("page.js", "page.css"):
        assert (tmp_path / name).read_bytes() == (BUILT / name).read_bytes(), name


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    quiet = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader"]
    with sync_api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield found
        found.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page from a file; it may ask for nothing else, and may raise nothing."""
    pages, requests, complaints = [], [], []

    def open_(text, **options):
        file = tmp_path / "page.html"
        file.write_text(text, "utf-8")
        page = browser.new_page(**options)
        pages.append(page)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto(file.as_uri())
        return page

    yield open_
    for page in pages:
        assert page.title() != "owned"
        page.close()
    assert len(requests) == len(pages)
    assert complaints == []


def test_a_citation_is_clicked_and_both_views_follow(world, opened):
    answer, graphs = world
    page = opened(answer_page(answer, graphs))
    page.locator(".citations li").first.click()
    assert page.locator("mark.selected").first.inner_text() in answer.citations[0].text
    assert page.locator(".steps li.selected").count() == 1
    page.locator("mark").last.click()
    assert page.locator(".steps li.selected, .citations li.selected").count() >= 1
    page.keyboard.press("Escape")
    assert page.locator(".selected").count() == 0


def test_a_node_is_found_expanded_and_the_walk_replayed(world, opened):
    answer, graphs = world
    page = opened(answer_page(answer, graphs), reduced_motion="reduce")
    page.get_by_label("Find in nodes").fill("quarry")
    page.locator(".found button").first.click()
    assert "quarry" in page.locator(".details").inner_text()
    page.get_by_role("button", name="Replay the walk").click()
    last = answer.retrieval.steps[-1].node.text
    page.wait_for_function(
        "text => document.querySelector('.steps li.selected')?.innerText.includes(text)",
        arg=last[:40],
    )


def test_a_page_is_used_by_keyboard_on_a_narrow_dark_screen(world, opened):
    answer, _ = world
    page = opened(answer_page(answer), viewport={"width": 360, "height": 640}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.citations li')"):
            break
    page.keyboard.press("Enter")
    assert page.locator(".citations li.selected").count() == 1
    for role, name in (("region", "Answer"), ("region", "Walk"), ("combobox", "Document")):
        assert page.get_by_role(role, name=name).count() == 1
