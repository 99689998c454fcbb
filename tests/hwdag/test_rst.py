"""reStructuredText as its readers see it."""

import time

import pytest

from hwdag.text.headings import headings
from hwdag.text.sentences import sentences
from hwdag_files.read import read_documents
from hwdag_files.rst import rst_content


def text_of(*lines):
    return rst_content("\n".join(lines).encode()).text


def test_ranks_of_headings_are_their_order_of_appearance(tmp_path):
    signs = ["=", "~", "^", "-", "+", '"', "#", "*", ".", ":", "_", "'", "`"]
    parts = [f"Part {i}\n{sign * 7}\n\nText {i}.\n" for i, sign in enumerate(signs[:6])]
    back = f"Last\n{signs[1] * 4}\n\nEnd."
    (tmp_path / "a.rst").write_text("\n".join(["=====", " Top ", "=====", "", *parts, back]))
    [document] = read_documents([tmp_path / "a.rst"])
    assert document.title == "Top"
    ranks = [line for line in document.text.split("\n") if line.startswith("#")]
    assert ranks[:3] == ["# Top", "## Part 0", "### Part 1"] and ranks[-1] == "### Last"
    spans = sentences(document.text)
    assert headings(document.text, spans, document.title)[-1] == "Top > Part 0 > Last"


@pytest.mark.parametrize("title", ["Größe", "東京の港", "A & B", "``code``"])
def test_titles(title):
    content = rst_content(f"{title}\n{'=' * 2 * len(title)}\n\nText.".encode())
    assert (content.title, content.text) == (title.strip("`"), f"# {title.strip('`')}\n\nText.")


def test_other_lines_are_no_headings():
    assert (
        text_of("One.", "", "----", "", "Two.", "", "--", "", "...") == "One.\n\nTwo.\n\n--\n\n..."
    )


def test_fields_below_the_title_are_metadata():
    content = rst_content(
        b".. _top:\n\nA\n=\n\n:Author: Ada\n  Lind\n:Date: 2024\n\nText.\n\n:later: no\n"
    )
    assert content.metadata == {"author": "Ada Lind", "date": "2024"}
    assert content.text == "# A\n\nAuthor: Ada\nLind\n\nDate: 2024\n\nText.\n\nlater: no"


SIMPLE = """====  =======  =====
Type  Litres   Hours
====  =======  =====
A     2        500
      or 3
B     3        700
====  =======  =====
"""
GRID = """+------+--------+
| Code | Meaning|
+======+========+
| E1   | leak   |
|      | of oil |
+------+--------+
| E2   | heat   |
+------+--------+
"""
SPANNED = """+-------+-----------+
| A     | B         |
|       +-----+-----+
|       | one | two |
+=======+=====+=====+
| x     | 1   | 2   |
|       +-----+-----+
|       | 3   | 4   |
+-------+-----+-----+
| y     | both      |
+-------+-----------+
"""
LISTED = """.. list-table:: Prices
   :header-rows: 1

   * - Town
     - Cars
   * - Hamar
     - 18
       places
"""
SEPARATED = '.. csv-table:: Boats\n   :header: "Name", "Length"\n\n   "Ada", 12\n'


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (SIMPLE, ["| Type, Litres, Hours", "| A, Litres: 2 or 3, Hours: 500", "| B, Litres: 3, Hours: 700"]),
        (GRID, ["| Code, Meaning", "| E1, Meaning: leak of oil", "| E2, Meaning: heat"]),
        (
            SPANNED,
            ["| A, B one, B two", "| x, B one: 1, B two: 2", "| x, B one: 3, B two: 4", "| y, B one: both, B two: both"],
        ),
        (LISTED, ["Prices", "| Town, Cars", "| Hamar, Cars: 18 places"]),
        (SEPARATED, ["Boats", "| Name, Length", "| Ada, Length: 12"]),
    ],
)  # fmt: skip
def test_rows_name_their_columns(table, lines):
    for text in (table, f"Before.\n\n{table}\nAfter."):
        assert [line for line in text_of(text).split("\n") if line] == [
            *["Before."] * text.startswith("Before"),
            *lines,
            *["After."] * text.startswith("Before"),
        ]


@pytest.mark.parametrize(
    "code",
    [
        ".. code-block:: sh\n   :linenos:\n\n   # start\n   run",
        "::\n\n   # start\n   run",
        ".. code::\n\n   # start\n   run\n\n.. end",
    ],
)
def test_code_has_no_headings(code):
    assert text_of("A\n=\n\n" + code) == "# A\n\n```\n# start\nrun\n```"
    assert text_of("Run ::\n\n  # one\n\nEnd.") == "Run\n\n```\n# one\n```\n\nEnd."
    assert text_of("Run::\n\n  ```\n\n>>> 1\n1") == "Run:\n\n````\n```\n````\n\n```\n>>> 1\n1\n```"


def test_words_of_marks():
    line = (
        "*A* **b** ``c_d`` :ref:`see <x>` :class:`~a.B` `link <http://x>`_ name_ `two words`_ [1]_ snake_case"
        r" 2 * 3 * 4 \*x\* |v| |w|"
    )
    assert text_of(line, "", ".. |v| replace:: version 2") == (
        "A b c_d see a.B link name two words [1] snake_case 2 * 3 * 4 *x* version 2 |w|"
    )


def test_directives_by_their_words():
    directives = (
        ".. note:: Short.",
        ".. warning::\n\n   Never run\n   it dry.\n\n   Second.",
        ".. versionadded:: 2.1\n   The option.",
        ".. py:function:: foo(a)\n\n   Does it.\n\n   :param a: the a",
        ".. admonition:: By hand\n\n   - one\n   - two",
        ".. image:: a.png\n   :alt: a mill",
        ".. toctree::\n\n   one",
        ".. include:: secret.txt",
        ".. raw:: html\n\n   <b>x</b>",
        ".. a comment\n   goes on",
        ".. [1] The note\n   goes on.",
    )
    content = rst_content("\n\n".join(directives).encode())
    assert content.text.split("\n\n") == [
        "Note: Short.",
        "Warning: Never run\nit dry.",
        "Second.",
        "Added in 2.1: The option.",
        "foo(a)",
        "Does it.",
        "param a: the a",
        "By hand",
        "- one\n- two",
        "a mill",
        "[1] The note\ngoes on.",
    ]
    assert content.notes == (
        "1 comment left out",
        "2 directives left out that include other files or raw output",
        "1 picture not read",
    )


def test_items_and_terms():
    lines = [
        "- one",
        "  wrapped",
        "- two",
        "",
        "  * inner",
        "",
        "#. auto",
        "",
        "term",
        "    its use",
        "    here",
    ]
    assert text_of(*lines) == "- one wrapped\n- two\n  - inner\n- auto\n- term\n  - its use here"
    assert text_of("1. one", "2. two", "", "| line", "| break") == "1. one\n2. two\n\nline\nbreak"


@pytest.mark.parametrize("unit", ["[a", ":a:", "`a <", "**a ", "- a\n", "+--+\n|a |\n", "a-", "|a"])
def test_marks_without_an_end_take_no_time(unit):
    start = time.perf_counter()
    rst_content((unit * (60_000 // len(unit))).encode())
    assert time.perf_counter() - start < 10
