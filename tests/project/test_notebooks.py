"""The notebooks run from top to bottom, and their stored outputs are right."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
SHOWN = {"1_first_answer": 1, "2_a_walk_step_by_step": 2, "3_two_ways_to_search": 0}
"""Pages that a notebook shows."""

pytestmark = pytest.mark.model


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, capsys):
    names, shown = {"__name__": "__main__"}, []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            shown.append(executed("".join(cell["source"]), names))
    names["index"].close()
    pages = [page for page in shown if page is not None]
    assert len(pages) == SHOWN[path.stem]
    assert all("hwdag-data" in page for page in pages)
    assert "quarry" in capsys.readouterr().out


def executed(source, names):
    """Run a cell; the page of its last value, as a notebook would show it."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    )
    show = getattr(value, "_repr_html_", None)
    return show and show()
