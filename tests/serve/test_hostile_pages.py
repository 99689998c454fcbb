"""Hostile texts in a real browser: no script of theirs runs on any page, and no page asks elsewhere."""

import threading
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

import uvicorn

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.page import framed
from hwdag_app.serve.application import application
from hwdag_lab.scripted import ScriptedLM

pytestmark = pytest.mark.slow  # a browser

ELSEWHERE = "//elsewhere.invalid"
ACT = f"top.name='owned';self.owned=1;document.title='owned';fetch('{ELSEWHERE}')"
PAYLOADS = [
    f"javascript:{ACT}",  # at the beginning of the title of its document
    f"<script>{ACT}</script>",
    f"</script><script>{ACT}</script>",
    f"--></textarea></title></style></template><script>{ACT}</script>",
    f'<img src=x onerror="{ACT}">',
    f'"><svg onload="{ACT}">',
    f"' autofocus onfocus=\"{ACT}\" x='",
    f'<a href="javascript:{ACT}" onmouseover="{ACT}">here</a>',
    f'<iframe srcdoc="<script>{ACT.replace("self", "parent")}</script>"></iframe>',
    f"<iframe src='{ELSEWHERE}/frame'></iframe><object data='{ELSEWHERE}/object'></object>",
    f"<style>@import '{ELSEWHERE}/a.css'</style><link rel=stylesheet href='{ELSEWHERE}/b.css'>",
    f"[here](javascript:{ACT}) ![there]({ELSEWHERE}/image.png)",
    f'${{{ACT}}} {{{{constructor.constructor("{ACT}")()}}}} `;{ACT};`',
    f"\\u003cscript\\u003e{ACT}\\u003c/script\\u003e \u2028{ACT}//",
]
CONFIG = SearchConfig(token_budget=20_000, confidence=NEVER)
QUESTION = f"Who built the harbour? {' '.join(PAYLOADS)}"
DOCUMENTS = [
    Document(
        f"file {payload}.md",
        f"The harbour number {i} was built by {payload} in 1871.\n\n# {payload}\n\nIt has a tower.",
        payload,
        {"author": payload, payload: payload, "page_starts": [0, 20]},
    )
    for i, payload in enumerate(" ".join(PAYLOADS[i::3]) for i in range(3))
]


@pytest.fixture(scope="module")
def index():
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder()}
    with HWDAGIndex.from_documents(DOCUMENTS, method="hwdag", **models) as made:
        yield made


@pytest.fixture(scope="module")
def answer(index):
    found = index.answer(QUESTION, config=CONFIG)
    assert {step.node.document_id for step in found.retrieval.steps} == {d.id for d in DOCUMENTS}
    return found


@pytest.fixture
def visit(browser, tmp_path):
    """Open a page, a text or an address, and in the end look for effects of the payloads."""
    opened, asked, complaints = [], [], []

    def open_(text):
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("popup", lambda other: complaints.append(other.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        if not text.startswith("http://"):
            file = tmp_path / f"{len(opened)}.html"
            file.write_text(f"<!doctype html>{text}", "utf-8")
            text = file.as_uri()
        page.goto(text)
        opened.append((page, text))
        return page

    yield open_
    for page, address in opened:
        page.wait_for_timeout(100)
        assert page.evaluate("top.name") != "owned"
        for frame in page.frames:
            assert frame.evaluate("[self.owned ?? null, document.title == 'owned']") == [
                None,
                False,
            ]
        own = (address.split("#")[0], "about:", "data:")
        assert [url for url in asked if not url.startswith(own)] == []
        page.close()
    assert complaints == []


def touch_everything(inside):
    """Select every document, sentence, node and match."""
    for select in inside.get_by_role("combobox", name="Document").all():
        for i in range(len(DOCUMENTS)):
            select.select_option(index=i)
    for summary in inside.locator("summary").all():
        if summary.is_visible():
            summary.click()
    for kind in (".citations li", ".steps .card[role]", "mark", ".word"):
        for one in inside.locator(kind).all()[:5]:
            if one.is_visible():
                for event in ("mouseover", "focus", "click"):
                    one.dispatch_event(event)
    find_everything(inside)


def find_everything(inside):
    """Search the graph for payloads, if there is a graph, and select the nodes found."""
    search = inside.get_by_label("Find in nodes")
    for payload in PAYLOADS[::3] if search.count() else ():
        search.fill(payload[:40])
        for button in inside.locator(".found button").all()[:1]:
            button.click()


@pytest.mark.parametrize("is_framed", [False, True], ids=["page", "notebook"])
def test_a_page_shows_hostile_texts_without_running_them(index, answer, visit, is_framed):
    """Show an answer, its walk and its graphs; in the frame of a notebook, answer and walk."""
    page = visit(framed(answer.to_html()) if is_framed else index.to_html(walk=answer))
    inside = page.frame_locator("iframe") if is_framed else page
    inside.get_by_role("combobox", name="Document").first.wait_for()
    touch_everything(inside)


@contextmanager
def serving(index):
    """Yield the address of a server in a thread."""
    app = application(index, CONFIG)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def test_the_live_page_shows_hostile_texts_without_running_them(index, visit, tmp_path):
    with serving(index) as address:
        page = visit(address)
        page.get_by_text("Documents in the index").click()
        page.get_by_role("button", name="Delete").first.wait_for()
        for payload in PAYLOADS[1::6]:
            name = payload.replace("/", "").replace("\\", "").replace("\u2028", "")[:100]
            file = tmp_path / f"{name}.txt"
            file.write_text(f"The harbour was built by {payload}.\n", "utf-8")
            page.get_by_label("Add documents").set_input_files(file)
            page.locator(".uploads").get_by_text("done").last.wait_for()
        for _ in range(2):  # the second time with the conversation so far
            page.get_by_label("Question").fill(QUESTION)
            page.get_by_label("Question").press("Enter")
            page.locator(".turn").last.locator(".citations li").first.wait_for(state="attached")
        page.get_by_role("button", name="Show the graph").last.click()
        touch_everything(page)
