"""Source code has no headings but its title; its text stays."""

import pytest

from hwdag.text.chunking import leaves
from hwdag.text.headings import headings
from hwdag_files.read import read_documents

PYTHON = '''# type: ignore
# Copyright 2019 Example Ltd.
import os

# TODO: remove this hack before the release
def refund(order):
    """Return the sum.

    Fees
    ====
    They are kept.
    """
    return order.total - 12


# noqa: E501

def shipping(order):
    return "```" + order.weight + """
````
"""
'''
SHELL = "#!/bin/sh\n# old server\nset -e\n\n# restart\nsystemctl restart nightly-7\n"
YAML = "# Settings\nsite:\n  name: mill  # of Berg\n\n## colours\ncolour: red\n"
MARKUP = "/* Title */\n\nPrices\n\n# define A 1\n"


def tokens(texts):
    return [max(1, len(text) // 4) for text in texts]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("shop.py", PYTHON),
        ("run.sh", SHELL),
        ("run", SHELL),
        ("run.txt", SHELL),
        ("a.yml", YAML),
        ("a.toml", YAML),
        ("a.c", MARKUP),
        ("a.sql", "-- Prices\n\nselect 1\n=====\n"),
    ],
)
def test_comments_are_no_headings(tmp_path, name, code):
    (tmp_path / name).write_text(code)
    [document] = read_documents([tmp_path / name])
    assert code.strip("\n") in document.text and document.metadata["notes"] == []
    spans = leaves(document.text, count_tokens=tokens, limit=40)
    assert set(headings(document.text, spans, document.title)) == {document.title}


def test_an_empty_module_is_blank(tmp_path):
    (tmp_path / "__init__.py").write_text("\n\n")
    [document] = read_documents([tmp_path / "__init__.py"])
    assert not document.text.strip()
