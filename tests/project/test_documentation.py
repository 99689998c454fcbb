"""The documentation, rendered: pages, links, anchors, tables of options, help, every docstring."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from tools.tables import OPTIONS, command_help, filled, option_table

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
CONFIGS = sorted({name for page in PAGES for name in OPTIONS.findall(page.read_text("utf-8"))})


@pytest.mark.package
def test_it_renders_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index", "guide", "api/hwdag", "api/llama_index_hwdag", "api/langchain_hwdag"):
        assert (tmp_path / "site" / f"{page}.html").is_file(), page
    assert "token_budget" in (tmp_path / "site" / "options.html").read_text("utf-8")
    assert "--token-budget" in (tmp_path / "site" / "cli.html").read_text("utf-8")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_table_has_every_option_with_its_default_and_what_it_does(name):
    module, _, attribute = name.rpartition(".")
    rows = option_table(name).splitlines()[2:]
    cells = [re.fullmatch(r"\| `(\w+)` \| (\S.*?) \| (\S.*) \|", row) for row in rows]
    assert all(cells), rows
    config = getattr(import_module(module), attribute)
    assert [cell[1] for cell in cells] == [field.name for field in fields(config)]


def test_the_options_of_the_product_are_in_the_documentation():
    assert {f"hwdag.config.{name}" for name in ("BuildConfig", "SearchConfig", "Scoring")} <= set(
        CONFIGS
    )


def test_a_table_of_options_equals_the_docstring():
    table = option_table("hwdag.config.SearchConfig")
    assert "| `patience` | `1` | Number of counted" in table
    assert "| `token_budget` | `None` | Node tokens put before the reader, at most, " in table


def test_help_is_the_same_whatever_the_width_of_the_terminal(monkeypatch):
    wide = command_help()
    monkeypatch.setenv("COLUMNS", "40")
    assert command_help() == wide
    assert os.environ["COLUMNS"] == "40"
    assert "### `hwdag ask`" in wide
    assert "### `hwdag heads detect`" in wide


def test_what_a_page_does_not_ask_for_stays():
    assert filled("text <!-- options: x.Y --> text") == "text <!-- options: x.Y --> text"
