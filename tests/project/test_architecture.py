"""The steps in docs/architecture.md name functions and classes that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SEARCH = ROOT / "core" / "hwdag" / "search"
STRATEGIES = {
    "select": "select_evidence",
    "walk": "walk_graph",
    "overview": "read_overview",
}
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)))


def test_both_lives_are_there():
    for title, steps in (("A document in seven steps", 7), ("A question in nine steps", 9)):
        section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^(\d+)\. ", section, re.MULTILINE) == [
            str(i) for i in range(1, steps + 1)
        ]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_step_names_what_is_there(path, name):
    tree = ast.parse((ROOT / "core" / "hwdag" / path).read_text("utf-8"))
    assert name in [getattr(node, "name", None) for node in tree.body]


def function(file, name):
    tree = ast.parse((SEARCH / file).read_text("utf-8"))
    return next(node for node in tree.body if getattr(node, "name", None) == name)


def test_find_chooses_one_of_three_strategies_of_one_signature():
    """So that none takes an option of another, and none grows over the others."""
    find = function("find.py", "find")
    assert find.end_lineno - find.lineno < 30
    for module, name in STRATEGIES.items():
        assert ast.unparse(function(f"{module}.py", name).args) == ast.unparse(find.args)
        assert len((SEARCH / f"{module}.py").read_text("utf-8").splitlines()) <= 120
