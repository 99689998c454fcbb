"""Pages: their content, that nothing in a text can act, and that the built script is that of web/."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.page import framed, page
from hwdag.types import Node, Span, shown_documents
from hwdag_lab.scripted import ScriptedLM

WEB = Path(__file__).parents[2] / "web"
BUILT = Path(__file__).parents[2] / "core" / "hwdag" / "page"

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
def index():
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder()}
    return HWDAGIndex.from_documents(DOCUMENTS, method="hwdag", **models)


@pytest.fixture(scope="module")
def answer(index):
    return index.answer(QUESTION, config=SearchConfig(token_budget=200, confidence=NEVER))


@pytest.fixture(scope="module")
def whole(index, answer):
    """The page of an answer with its graphs."""
    return index.to_html(walk=answer)


def data_of(text):
    found = re.search(r'<script type="application/json" id="hwdag-data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_a_page_has_what_the_answer_has(answer):
    data = data_of(answer.to_html())
    assert data["answer"] == answer.to_dict()
    assert {document["id"]: document["text"] for document in data["documents"]} == {
        step.node.document_id: answer.retrieval.sources[step.node.document_id].text
        for step in answer.retrieval.steps
    }
    assert data_of(answer.retrieval.to_html())["walk"] == answer.retrieval.to_dict()


def test_a_walk_is_shown_on_the_graphs_of_what_it_read(index, answer, whole):
    data = data_of(whole)
    assert data["answer"] == answer.to_dict()
    read = {step.node.document_id for step in answer.retrieval.steps}
    assert {graph["document_id"] for graph in data["graphs"]} == read == {d.id for d in DOCUMENTS}
    alone = data_of(index.to_html(["harbour"], walk=answer.retrieval))
    assert alone["walk"] == answer.retrieval.to_dict()
    assert [graph["document_id"] for graph in alone["graphs"]] == ["harbour"]
    assert {document["id"] for document in alone["documents"]} == read


def test_a_document_that_has_changed_since_the_walk_has_no_graph_on_its_page():
    first, second = Document("a", "The harbour is old."), Document("b", "The quarry is deep.")
    with HWDAGIndex.from_documents(
        [first, second], reader=ScriptedLM(), embedder=HashingEmbedder()
    ) as changing:
        found = changing.search("How old is the harbour?")
        changing.refresh([Document("a", "The harbour is new.")])
        data = data_of(changing.to_html(walk=found))
    assert [graph["document_id"] for graph in data["graphs"]] == ["b"]
    assert {one["id"]: one["text"] for one in data["documents"]} == {
        "a": first.text,
        "b": second.text,
    }


def test_the_dict_of_a_walk_leads_to_the_exact_characters(answer):
    sources = answer.retrieval.sources
    for shown, step in zip(answer.to_dict()["walk"]["steps"], answer.retrieval.steps, strict=True):
        text = sources[shown["document_id"]].text
        assert " ".join(text[a:b] for a, b in shown["spans"]) == step.node.text
        assert shown["attention"] + shown["similarity"] + shown["reference"] == shown["score"]


def test_the_attention_of_an_answer_is_that_of_all_sentences_read(answer):
    assert answer.citations == answer.attended[: len(answer.citations)]
    assert sum(one.weight for one in answer.attended) == pytest.approx(1)
    shown = answer.to_dict()["attended"]
    for (document, start, end, weight), one in zip(shown, answer.attended, strict=True):
        assert answer.retrieval.sources[document].text[start:end] == one.text
        assert weight == one.weight


def test_points_are_drawn_above_their_sources():
    """Leaves a b c d; p rests on c and d, q on a: q is left of p."""
    nodes = [
        Node(name, "d", 1, name, "chunk", 1, (Span(i, i + 1),)) for i, name in enumerate("abcd")
    ]
    nodes += [Node(name, "d", 2, name, "generated", 1, (Span(0, 1),)) for name in "pq"]
    rows = [EdgeRow(4, np.array([2, 3]), np.ones(2)), EdgeRow(5, np.array([0]), np.ones(1))]
    shown = HWDAG.from_rows(nodes, rows).to_dict(least_weight=0.6)
    assert shown["x"] == [0.125, 0.375, 0.625, 0.875, 0.75, 0.25]
    assert shown["edges"] == [[5, 0, 1.0]]
    assert shown["nodes"][4] == nodes[4].to_dict()


def test_no_text_can_act(answer, whole):
    for text in (whole, answer.to_html(), answer.retrieval.to_html()):
        assert len(re.findall(r"<script", text)) == 2  # the data, and the page's own
        assert "<img" not in text
        assert "default-src &#x27;none&#x27;" in text
        assert "unsafe-inline" not in text


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(answer):
    shown = answer._repr_html_()
    assert shown == framed(answer.to_html())
    assert shown.count("<") == 2
    assert 'sandbox="allow-scripts"' in shown


@pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules").is_dir(),
    reason="the script is built by node: run `npm ci` in web/",
)
def test_the_built_script_is_that_of_the_sources(tmp_path):
    subprocess.run(["npm", "run", "--silent", "check"], cwd=WEB, check=True)
    subprocess.run(["node", "build.mjs", tmp_path], cwd=WEB, check=True)
    for name in ("page.js", "page.css"):
        assert (tmp_path / name).read_bytes() == (BUILT / name).read_bytes(), name


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page from a file; it may ask for nothing else, and may raise nothing."""
    pages, requests, complaints = [], [], []

    def open_(text, **options):
        file = tmp_path / "page.html"
        file.write_text(text, "utf-8")
        made = browser.new_page(**options)
        pages.append(made)
        made.on("request", lambda request: requests.append(request.url))
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        made.goto(file.as_uri())
        return made

    yield open_
    for one in pages:
        assert one.title() != "owned"
        one.close()
    assert len(requests) == len(pages)
    assert complaints == []


def test_a_citation_is_clicked_and_both_views_follow(whole, answer, opened):
    page = opened(whole)
    for shown, citation in zip(page.locator("mark.cited").all(), answer.citations, strict=False):
        assert shown.inner_text() in {one.text for one in answer.citations}, citation
    words = page.locator(".answer").inner_text()
    assert words == answer.text
    assert page.locator(".word").count() > 0
    page.locator(".citations li").first.click()
    assert page.locator("mark.selected").first.inner_text() in answer.citations[0].text
    assert page.locator(".steps li.selected").count() == 1
    page.locator("mark").last.click()
    assert page.locator(".steps li.selected, .citations li.selected").count() >= 1
    page.keyboard.press("Escape")
    assert page.locator(".selected").count() == 0


def test_runners_up_and_all_attention_is_shown_and_leads_back(whole, answer, opened):
    page = opened(whole)
    others = [step.runners_up for step in answer.retrieval.steps if step.runners_up]
    assert page.get_by_text("runners-up:").count() == len(others)
    page.get_by_text("runners-up:").first.click()
    shown = page.locator(".steps .unread .node-text").first
    assert shown.inner_text() == others[0][0].node.text
    seen = DOCUMENTS[page.locator(".sources select").evaluate("one => one.selectedIndex")].id
    hot = [one for one in answer.attended if one.weight > 0 and one.document_id == seen]
    assert page.locator("mark.cited, mark.attended").count() >= len(hot) > 0
    page.locator(".word").first.click()
    selected = page.locator(".citations li.selected")
    assert page.locator(".word.selected").count() >= 1
    page.keyboard.press("Escape")
    assert page.locator(".word.selected").count() == 0
    page.locator(".citations li").first.click()
    assert selected.count() == 1
    assert page.locator(".word.selected").count() >= 1


def test_a_citation_shows_its_page(opened):
    text = "The tower is tall.\n\nThe harbour was built by Clara Holm.\n"
    starts = [0, text.index("The harbour")]
    paged = Document("report.pdf", text, metadata={"page_starts": starts})
    with HWDAGIndex.from_documents(
        [paged], reader=ScriptedLM(), embedder=HashingEmbedder()
    ) as made:
        answer = made.answer("Who built the harbour?")
    page = opened(answer.to_html())
    assert page.locator(".page-number").all_inner_texts() == ["page 1", "page 2"]
    citation = page.locator(".citations li", has_text="Clara Holm")
    assert "page 2" in citation.first.locator(".place").inner_text()


def test_a_sentence_of_the_source_leads_to_its_node_in_the_graph(index, opened):
    page = opened(index.to_html())
    page.locator(".sources .text").click(position={"x": 40, "y": 20})
    said = page.locator(".details p").first.inner_text()
    assert said in {node.text for node in index.graphs["harbour"].nodes if node.level == 1}
    page.get_by_label("from level").fill("2")
    page.get_by_label("edges from").fill("0.5")
    page.get_by_label("Document").first.select_option(index=1)
    assert page.locator(".details p").first.inner_text() == said


def test_a_node_is_found_expanded_and_the_walk_replayed(whole, answer, opened):
    page = opened(whole, reduced_motion="reduce")
    page.get_by_label("Find in nodes").fill("quarry")
    page.locator(".found button").first.click()
    assert "quarry" in page.locator(".details").inner_text()
    drawn = page.locator(".graph [role=status]")
    everything = drawn.inner_text()
    page.get_by_label("from level").fill("2")
    points = drawn.inner_text()
    assert points != everything
    page.get_by_label("Find in nodes").fill("Clara Holm")
    page.locator(".found button", has_text="L2").first.click()
    page.get_by_role("button", name="Expand or collapse").click()
    assert int(drawn.inner_text().split()[0]) > int(points.split()[0])
    page.get_by_role("button", name="Expand or collapse").click()
    assert drawn.inner_text() == points
    page.get_by_label("Document").first.select_option(index=1)
    assert int(drawn.inner_text().split()[0]) < int(points.split()[0])
    replay = page.get_by_role("button", name="Replay the walk")
    replay.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    replay.click()
    last = answer.retrieval.steps[-1].node.text
    page.wait_for_function(
        "text => document.querySelector('.steps li.selected')?.innerText.includes(text)",
        arg=last[:40],
    )
    assert page.evaluate("scrollY") == before


def test_a_page_is_used_by_keyboard_on_a_narrow_dark_screen(whole, answer, opened):
    page = opened(answer.to_html(), viewport={"width": 360, "height": 640}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    columns = [column.bounding_box() for column in page.locator(".column").all()]
    assert [column["x"] for column in columns] == [columns[0]["x"]] * 2  # one below the other
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.citations li')"):
            break
    page.keyboard.press("Enter")
    assert page.locator(".citations li.selected").count() == 1
    for role, name in (("region", "Answer"), ("region", "Walk"), ("combobox", "Document")):
        assert page.get_by_role(role, name=name).count() == 1


@pytest.mark.parametrize(
    ("judged", "shown"),
    [
        ({"found": True, "confidence": 0.834}, "83 % likely to be right"),
        ({"found": False, "confidence": 0.02}, "Not found in the documents"),
        ({"found": None, "confidence": None}, None),
    ],
)
def test_how_sure_an_answer_is_comes_before_it_and_notes_after_it(answer, opened, judged, shown):
    data = answer.to_dict() | judged | {"notes": ["the reply was cut off"]}
    made = opened(page(QUESTION, {"documents": shown_documents(answer.retrieval), "answer": data}))
    assert made.locator(".judged").all_inner_texts() == [shown][: shown is not None]
    assert "the reply was cut off" in made.locator(".note").all_inner_texts()
    is_refused = judged["found"] is False
    assert made.get_by_text("It rests on").count() == (not is_refused)
    assert (made.locator(".word").count() == 0) is is_refused


def test_numbers_in_the_reply_of_an_answerer_lead_to_its_citations(answer, opened):
    text = "**Clara Holm** [2] built it[1].\n\n| Who | When |\n|---|---|\n| Clara | 1871 [1] |"
    data = answer.to_dict() | {"answer": text, "answered_by": "m", "found": True}
    made = opened(page(QUESTION, {"documents": shown_documents(answer.retrieval), "answer": data}))
    assert made.locator(".word").all_inner_texts() == ["[2]", "[1]", "[1]"]
    assert made.locator(".answer strong").inner_text() == "Clara Holm"
    assert made.locator(".answer th").all_inner_texts() == ["Who", "When"]
    assert made.locator(".answer").evaluate("one => one.textContent") == text
    made.locator(".word").first.click()
    assert made.locator(".citations li.selected .number").inner_text() == "[2]"


FLOODS = {
    "stars": "**a *b __c `d " * 7_000,
    "brackets": "[" * 35_000 + "](" * 30_000,
    "bars": "|" * 100_000,
    "columns": "| a" + ", name" * 7_000 + "\n" + "| x, name: y\n" * 4_000,
    "rows": "| a, b\n" + "| x, b: y\n" * 10_000,
    "fences": "```\n" * 25_000,
    "hashes": "# x\n" * 25_000,
    "rules": "|-\n|" + "-" * 100_000,
    "long": "| a, b\n" + "| x, b: y\n" * 35_000,  # too long to be formatted
}


def test_a_flood_of_marks_is_shown_soon_and_whole(opened):
    documents = [{"id": name, "title": name, "text": text} for name, text in FLOODS.items()]
    made = opened(page("Flood", {"documents": documents}))
    document = made.get_by_role("combobox", name="Document")
    for i, (name, flood) in enumerate(FLOODS.items()):
        began = time.monotonic()
        document.select_option(index=i)
        text = made.locator(".sources .text").evaluate("one => one.textContent")
        assert text == flood, name
        assert time.monotonic() - began < 30, name
