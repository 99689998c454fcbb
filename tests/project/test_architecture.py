"""The steps in docs/architecture.md name functions and classes that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
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
