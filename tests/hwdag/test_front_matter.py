"""Front matter is metadata and no text; prose that looks like it stays."""

import json

import pytest

from hwdag.filters import matches
from hwdag.text.headings import headings
from hwdag.text.sentences import sentences
from hwdag_files.content import Content
from hwdag_files.front_matter import MAX_CHARACTERS, with_front_matter
from hwdag_files.read import read_documents

YAML = """---
# Settings of the site
title: "Ferry: timetable"
date: 2024-03-01
tags: [ferry, harbour]
draft: false
weight: 10
version: 1.10
number: "007"
menu:
    main: {parent: Travel, open: [yes, null]}
---

"""
TOML = """+++
title = "Ferry: timetable"
date = 2024-03-01
draft = false  # soon
[menu.main]
parent = "Travel"
+++
"""
JSON = '{\n"title": "Ferry: timetable", "date": "2024-03-01", "draft": false,\n"menu": {"main": {"parent": "Travel"}}\n}\n'
BODY = "# Times\n\nThe ferry leaves at 07:40.\n"


def read(tmp_path, text, name="ferry.md"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    [document] = read_documents([tmp_path / name])
    return document


@pytest.mark.parametrize("front", [YAML, TOML, JSON])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_front_matter_is_title_and_metadata(tmp_path, front, line_end):
    document = read(tmp_path, (front + BODY).replace("\n", line_end))
    assert document.title == document.metadata["title"] == "Ferry: timetable"
    assert document.text.strip() == BODY.strip()
    assert document.metadata["notes"] == []
    assert matches({"date": {"gte": "2024-02"}, "draft": False}, document.metadata)
    assert matches({"menu.main.parent": "Travel"}, document.metadata)
    assert json.loads(json.dumps(document.metadata, allow_nan=False)) == document.metadata


def test_a_comment_in_it_is_no_heading(tmp_path):
    document = read(tmp_path, YAML + "The ferry leaves at 07:40.\n")
    assert headings(document.text, sentences(document.text)) == [""]


def test_values_are_those_that_json_writes_in_the_same_way(tmp_path):
    found = read(tmp_path, YAML + BODY).metadata
    assert (found["weight"], found["version"], found["number"]) == (10, "1.10", "007")
    assert found["tags"] == ["ferry", "harbour"]
    assert found["menu"] == {"main": {"parent": "Travel", "open": ["yes", None]}}
    assert read(tmp_path, "+++\nfar = inf\n+++\nx").metadata["far"] == "Infinity"


@pytest.mark.parametrize(
    "front",
    [
        "title: Ferry: timetable\ntags:\n- ferry\n- harbour\n",
        "title: Ferry\ntags: [ferry, harbour]\nicon: @ferry\n",
        "base: &all [ferry]\ntitle: Ferry\ncopy: *all\ntags: [ferry, harbour]\n",
    ],
)
def test_one_invalid_value_costs_no_other_one(tmp_path, front):
    document = read(tmp_path, f"---\n{front}---\n{BODY}")
    assert document.title.startswith("Ferry") and document.text == BODY
    assert document.metadata["tags"] == ["ferry", "harbour"]
    assert "not valid YAML" in document.metadata["notes"][0]


@pytest.mark.parametrize(
    "text",
    [
        "---\nA rule above and below.\n---\nText.",
        "---\nNote: the ferry\nis late today.\n---\nText.",
        "---\n# Times\n---\nText.",
        "---\n---\nText.",
        "---\ntitle: never closed\n\nText.",
        "+++\nno settings\n+++\nText.",
        "\n---\ntitle: below a blank line\n---\nText.",
        "{braces} begin the text",
        '{"in": "a line"} of text',
        "---\n" + "[" * 9_999 + "\n---\nText.",
        "---\ntitle: x\n" + "# long\n" * MAX_CHARACTERS + "---\nText.",
    ],
)
def test_other_text_stays(text):
    assert with_front_matter(Content(text)) == Content(text)


def test_aliases_are_not_expanded_and_tags_make_nothing(tmp_path):
    block = "one: &one [x]\ntwo: [*one, *one]\nmade: !thing\n"
    document = read(tmp_path, f"---\n{block}---\n{BODY}")
    assert document.metadata["two"] == "[*one, *one]"
    assert document.metadata["made"] is None


def test_names_that_hwdag_uses_are_kept_from_it(tmp_path):
    document = read(tmp_path, "---\npath: /else\nnotes: mine\nauthor: Ada\n---\n" + BODY)
    assert document.metadata["path"] == document.id and document.metadata["author"] == "Ada"
    assert document.metadata["notes"] == [
        "'notes' of its metadata left out: hwdag uses that name",
        "'path' of its metadata left out: hwdag uses that name",
    ]


def test_half_a_surrogate_pair_is_replaced(tmp_path):
    assert read(tmp_path, '---\ntitle: "a\\uD800"\n---\nx').title == "a\ufffd"
