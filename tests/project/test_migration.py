"""Every line of the migration tables runs, and the integration pages are programs that run."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app_world import AppLLM
from llama_index.core.embeddings import MockEmbedding

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (?P<before>[^|]+) \| `(?P<now>.+)` \|$", re.MULTILINE)

pytestmark = [
    pytest.mark.model,
    # why: LlamaIndex's chat memory leaves connections and an event loop to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def tables() -> dict[str, tuple[str, list[str]]]:
    """Return the program above a table and the lines of its right column, by the title of the section."""
    text = (DOCS / "migration.md").read_text("utf-8")
    found = {}
    for section in re.split(
        r"^## (?=From )", text.partition("\n## Modules that moved")[0], flags=re.MULTILINE
    )[1:]:
        (setup,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        rows = section.count("\n| ") - 1  # without the header
        lines = [row["now"] for row in ROW.finditer(section)]
        assert len(lines) == rows, section
        found[section.partition("\n")[0]] = (setup, lines)
    return found


TABLES = tables()
POINT = "* Clara Holm built the harbour in 1871."


@pytest.fixture(autouse=True)
def collected():
    """Collect the garbage of a row before the next test; nothing else is walked."""
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture
def my_app(monkeypatch):
    """The module that the page takes from the reader's own application."""
    module: Any = ModuleType("my_app")
    module.llm, module.embed_model = AppLLM(reply=lambda _: POINT), MockEmbedding(embed_dim=8)
    monkeypatch.setitem(sys.modules, "my_app", module)


def test_all_that_people_come_from_is_there():
    titles = " ".join(TABLES)
    for wanted in ("VectorStoreIndex", "ParentDocumentRetriever", "RaptorPack", "vector store"):
        assert wanted in titles


@pytest.mark.usefixtures("my_app")
@pytest.mark.parametrize("title", TABLES)
def test_every_row_runs(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setup, lines = TABLES[title]
    names: dict[str, Any] = {"__name__": "migration"}
    exec(compile(setup, title, "exec", dont_inherit=True), names)
    for line in lines:
        found = eval(compile(line, line, "eval", dont_inherit=True), names)
        # why: a row that asks a question must find something; the others return anything
        assert found or "question" not in line, line


@pytest.mark.parametrize("page", ["llama-index", "langchain"])
def test_the_integration_pages_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "integrations" / f"{page}.md").read_text("utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(program, page, "exec", dont_inherit=True), {"__name__": page})
    assert "Clara Holm" in capsys.readouterr().out
