"""Encoded data is no text."""

import base64
import json
import random
import time

import pytest

from hwdag_files.encoded import LONGEST_WORD, without_encoded
from hwdag_files.read import read_documents

DATA = base64.b64encode(random.Random(1).randbytes(3000)).decode()
URI = f"data:image/png;base64,{DATA}"
WRAPPED = "\n".join(DATA[i : i + 76] for i in range(0, len(DATA), 76))
NOTE = "1 piece of encoded data left out"


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("a.md", f"The pump.\n\n![figure 3]({URI})\n\nEnd.", "The pump.\n\nfigure 3\n\nEnd."),
        ("a.md", f'![a mill](<{URI}> "title") turns.', "a mill turns."),
        ("a.md", f"It opens. ![][one]\n\n[one]: {URI}\n", "It opens. ![][one]\n\n"),
        ("a.txt", f"Key {DATA} ends.", "Key  ends."),
        ("a.txt", f"Mail:\n\n{WRAPPED}\n\nEnd.", "Mail:\n\n\n\nEnd."),
        ("a.rst", f".. note:: {URI} is it.", "Note:  is it."),
    ],
)
def test_it_is_left_out_with_a_note(tmp_path, name, text, shown):
    (tmp_path / name).write_text(text)
    [document] = read_documents([tmp_path / name])
    assert document.text == shown and document.metadata["notes"] == [NOTE]


def test_notebooks(tmp_path):
    cell = {"cell_type": "markdown", "source": f"A plot: ![mill]({URI})"}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    [document] = read_documents([tmp_path / "a.ipynb"])
    assert document.text == "A plot: mill" and document.metadata["notes"] == [NOTE]


@pytest.mark.parametrize(
    "text",
    [
        "文" * 5_000,
        "a/path/of/many/parts" * 40,
        f"{DATA[: LONGEST_WORD - 1]} is short",
        "data: the numbers, of 1898",
        f"![alt](figure.png) {URI[:60]}",
        "\n".join([DATA[:70]] * 7),
    ],
)
def test_text_stays(text):
    assert without_encoded(text) == (text, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["a", "![", "data:", "data:a;b", "[x]: ", "![a](data:", "a" * 999 + " ", "A" * 70 + "\n"],
)
def test_it_takes_no_time(unit):
    start = time.perf_counter()
    without_encoded(unit * (200_000 // len(unit)))
    assert time.perf_counter() - start < 5
