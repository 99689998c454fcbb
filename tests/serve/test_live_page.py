"""The page that people use: its sources, questions and messages, wide and narrow, light and dark."""

import pytest
from serve_world import DOCUMENTS, QUESTION, index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_app.serve.greeting import example_questions
from hwdag_files.read import read_bytes
from hwdag_lab.scripted import ScriptedLM

pytestmark = pytest.mark.slow  # a browser

LEASE = (
    """# Lease

The lease is between *Elsa* and the **office**; it names `rent_2024` and [a plan](http://plan.example/).

| Item | Rent | Note |
|------|-----:|------|
| Garage | 60 euros | from June |
| Boat house | 540 euros | without heating |

"""
    + """The tenant brings:

- two ropes,
- an anchor.

"""
    + "\n\n".join(f"Rule {i} is about ropes." for i in range(80))
    + """

## Deposit

The deposit amounts to 1,080 euros.
"""
)
WIDTHS = [(390, "dark"), (1280, "light")]


@pytest.fixture
def opened(browser):
    """Open an address at a size; nothing may complain."""
    pages, complaints = [], []

    def open_(address, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 860}, color_scheme=scheme)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.locator(".greeting p").wait_for()
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def leases(tmp_path_factory):
    """The address of a server over one lease, without a graph."""
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "method": "evidence"}
    path = tmp_path_factory.mktemp("leases") / "boats.hwdag"
    documents = [read_bytes(LEASE.encode(), "lease.md"), *DOCUMENTS]
    with running(HWDAGIndex.from_documents(documents, path=path, **models)) as address:
        yield address


def ask(page, question):
    page.get_by_label("Question").fill(question)
    page.get_by_label("Question").press("Enter")
    turn = page.locator(".turn").first
    turn.locator(".sources").wait_for()
    return turn


@pytest.mark.parametrize(("width", "scheme"), WIDTHS)
def test_a_source_opens_at_the_strongest_citation(leases, opened, width, scheme):
    page = opened(leases, width, scheme)
    turn = ask(page, "To how much does the deposit amount?")
    seen = turn.locator(".sources .text").bounding_box()
    mark = turn.locator("mark.cited", has_text="1,080 euros").bounding_box()
    assert seen["y"] <= mark["y"] <= seen["y"] + seen["height"] - mark["height"]
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_markdown_and_tables_are_shown_as_people_read_them(leases, opened):
    turn = ask(opened(leases), "To how much does the deposit amount?")
    text = turn.locator(".sources .text")
    assert text.locator("th").all_inner_texts() == ["Item", "Rent", "Note"]
    rows = [row.locator("td").all_inner_texts() for row in text.locator("tr").all()[1:]]
    assert rows == [
        ["Garage", "60 euros", "from June"],
        ["Boat house", "540 euros", "without heating"],
    ]
    assert text.locator(".heading").all_text_contents() == ["# Lease\n", "## Deposit\n"]
    assert text.locator(".heading").first.inner_text().strip() == "Lease"
    items = text.locator(".item").all_inner_texts()
    assert [item.strip() for item in items] == ["two ropes,", "an anchor."]
    assert text.locator("em").inner_text() == "Elsa"
    assert text.locator("strong").inner_text() == "office"
    assert text.locator("code").inner_text() == "rent_2024"
    assert "a plan." in text.inner_text() and "plan.example" not in text.inner_text()
    assert text.locator("a").count() == 0
    document = read_bytes(LEASE.encode(), "lease.md")
    assert text.evaluate("one => one.textContent") == document.text  # so that offsets hold


def test_the_greeting_goes_and_every_question_has_one_heading(leases, opened):
    page = opened(leases)
    assert page.locator("h1").all_inner_texts() == ["boats"]
    assert "3 documents" in page.locator(".size").inner_text()
    assert not page.get_by_role("button", name="New conversation").is_visible()
    for number, question in enumerate(["What is a rope?", "Who built the harbour?"], 1):
        ask(page, question)
        assert not page.locator(".greeting").is_visible()
        assert page.get_by_role("heading", name=question).count() == 1
        assert page.locator(".turn h1, .turn h2").count() == number
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".greeting").is_visible()
    assert page.locator(".turn").count() == 0


def test_deleting_asks(opened):
    asked = []
    with running(index()) as address:
        page = opened(address)
        page.get_by_text("Documents in the index").click()
        delete = page.get_by_role("button", name="Delete keepers.txt")
        for answer in ("dismiss", "accept"):
            page.once(
                "dialog", lambda d, answer=answer: (asked.append(d.message), getattr(d, answer)())
            )
            delete.click()
            delete.wait_for(state="visible" if answer == "dismiss" else "detached")
    assert len(asked) == 2 and all("keepers.txt" in message for message in asked)


def test_a_graph_is_offered_if_there_is_one_and_repeats_no_answer(leases, opened):
    assert not opened(leases).get_by_role("button", name="Show the graph").is_visible()
    with running(index()) as address:
        page = opened(address)
        ask(page, QUESTION)
        page.get_by_role("button", name="Show the graph").click()
        page.get_by_label("Find in nodes").wait_for()
        assert page.locator(".answer").count() == 1
        assert page.get_by_role("button", name="Replay the walk").is_visible()


def test_a_server_that_is_gone_is_reported_in_words(opened):
    with running(index()) as address:
        page = opened(address)
    page.get_by_label("Question").fill(QUESTION)
    page.get_by_label("Question").press("Enter")
    page.get_by_text("The server cannot be reached").wait_for()
    assert "Failed to fetch" not in page.locator("body").inner_text()


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("# The mill\n\nThe mill of Elm was built in 1871.", ["When was the mill of Elm built?"]),
        (
            "Clara Holm was born in Aarhus on 3 May 1838. She was given it in 1840.",
            ["When was Clara Holm born?"],
        ),
        (
            "It was opened in 1900. The mills were sold to Ada in 1920.",
            ["When were the mills sold?"],
        ),
        ("The mill is old.", []),
        ("Die Muehle wurde 1871 gebaut.", []),
    ],
)
def test_example_questions_have_an_answer_in_one_sentence(text, questions):
    assert example_questions([Document("a", text)]) == ["What is this document about?", *questions]


def test_example_questions_of_a_flood_take_linear_time():
    text = "The mill was sold " * 500_000
    assert len(example_questions([Document(str(i), text) for i in range(200)])) == 1
    assert example_questions([]) == []


def test_nothing_of_the_folder_is_in_the_state(leases, tmp_path_factory):
    httpx = pytest.importorskip("httpx")
    state = httpx.get(f"{leases}/api/state")
    assert state.json()["name"] == "boats"
    assert str(tmp_path_factory.getbasetemp()) not in state.text
