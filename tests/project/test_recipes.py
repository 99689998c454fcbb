"""Every recipe of the framework pages is a program that runs as it is printed."""

from __future__ import annotations

import gc
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app_world import QUESTION, AppChatModel, AppLLM
from chat_world import serving
from fastapi.testclient import TestClient

DOCS = Path(__file__).parents[2] / "docs"
POINT = "* Clara Holm built the harbour in 1871."

pytestmark = pytest.mark.model


def recipes(page: str) -> list[tuple[str, str]]:
    """Return title and program of every section that has one; the blocks of a section belong together."""
    sections = re.split(r"^## ", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = []
    for section in sections:
        title = section.partition("\n")[0].strip()
        if blocks := re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            found.append((title, "\n".join(blocks)))
    return found


LLAMA_INDEX, LANGCHAIN = recipes("llama-index.md"), recipes("langchain.md")
RECIPES = {
    f"{page}: {title}": code
    for page, sections in (("llama-index", LLAMA_INDEX), ("langchain", LANGCHAIN))
    for title, code in sections
}
WANTED = (
    "quickstart",
    "existing",
    "remote writer",
    "filters",
    "streaming",
    "chat",
    "agents",
    "persistence",
    "fastapi",
    "reranking",
    "with other retrievers",
    "tracing",
)


@pytest.fixture
def server():
    with serving(lambda request: request.completion(POINT)) as listening:
        yield listening.url


def with_a_tool(prompt: str) -> str:
    """Reply as an agent's LLM: ask the tool once, then answer."""
    if "Observation:" in prompt.rpartition("user:")[2]:
        return "Thought: I can answer.\nAnswer: Clara Holm"
    action = json.dumps({"input": QUESTION})
    return f"Thought: I need a tool.\nAction: town_records\nAction Input: {action}"


def last_line(prompt: str) -> str:
    """Reply as a chat model that repeats its prompt."""
    return f"The records say: {prompt}"


@pytest.fixture
def my_app(monkeypatch):
    """The module that the recipes take from the reader's own application."""
    module = ModuleType("my_app")
    module.llm, module.chat_model = AppLLM(reply=with_a_tool), AppChatModel(reply=last_line)
    monkeypatch.setitem(sys.modules, "my_app", module)


@pytest.mark.parametrize("page", [LLAMA_INDEX, LANGCHAIN], ids=["llama-index", "langchain"])
@pytest.mark.parametrize("wanted", WANTED)
def test_every_page_has_all_recipes(page, wanted):
    assert any(wanted in title.lower() for title, _ in page)


# why: LlamaIndex's chat memory leaves connections and an event loop to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# why: LlamaIndex's agents use what pydantic and its own workflows have deprecated
@pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
# why: LangChain calls its own `loads` a beta
@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("title", RECIPES)
@pytest.mark.usefixtures("my_app")
def test_recipes_run(title, tmp_path, monkeypatch, capsys, server):
    gc.freeze()  # why: the collection below walks the garbage of the recipe, and nothing else
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WRITER_URL", server)
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(RECIPES[title], title, "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out
    if "app" in names:
        with TestClient(names["app"]) as client:
            printed = client.get("/ask", params={"question": QUESTION}).raise_for_status().text
    assert "Clara Holm" in printed
    names.clear()
    gc.collect()  # why: the garbage of a recipe is not that of the next test
