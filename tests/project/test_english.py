"""The check of wording finds the sentences that CONTRIBUTING.md warns of, and accepts their cures."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def english():
    spec = importlib.util.spec_from_file_location("english", ROOT / "tools" / "english.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(english, source):
    return {
        text
        for prose in english.python(source)
        for problem in english.problems(prose)
        for text in problem[1:]
    }


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """The nodes of a graph."""\n',
        '"""What a reader is shown."""\n',
        "x = 1  # as it stands in the file\n",
        'def f():\n    raise ValueError("none of them fits")\n',
        'LIMIT = 3\n"""Nodes, where there are any."""\n',
        "def test_damage_is_said():\n    pass\n",
    ],
)
def test_a_breach_is_found_in_docstrings_comments_messages_and_names(english, source):
    assert len(found(english, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return the nodes of a graph."""\n',
        '@property\ndef f(self):\n    """The nodes of a graph."""\n',
        'x = "what is quoted is data"\n',
        "def test_names_are_told_apart():\n    pass\n",
        '"""Is this what we want? Words in "what is" quotes are examples."""\n',
    ],
)
def test_prose_that_follows_the_rules_passes(english, source):
    assert not found(english, source)


def test_the_pairs_of_the_guide_differ_by_the_check(english):
    rows = re.findall(
        r'^\| "(.+?)" \| "(.+?)" \|$', (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M
    )
    cures = [english.Prose(1, cure) for _, cure in rows]
    assert len(rows) == 10 and not [
        problem for prose in cures for problem in english.problems(prose)
    ]


def test_lines_of_code_on_a_page_are_not_prose(english):
    page = "Text.\n\n```sh\nwhat stands behind it\n```\n\nMore `what` text.\n"
    assert not [problem for prose in english.markdown(page) for problem in english.problems(prose)]
