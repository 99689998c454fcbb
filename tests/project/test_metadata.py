"""Citation and changelog agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import yaml

from hwdag import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_citation_and_changelog_are_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])
    assert citation["abstract"] == PROJECT["description"]
    assert citation["authors"] == PROJECT["authors"]
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == __version__
    date = citation.get("date-released")
    assert newest[2] == ("unreleased" if date is None else str(date))
