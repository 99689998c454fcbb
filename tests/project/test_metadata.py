"""Citation, changelog and the entry of the MCP registry agree with pyproject.toml."""

import json
import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from hwdag import __version__
from hwdag_app.main import parser

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


def test_the_entry_of_the_registry_starts_this_version():
    entry = json.loads((ROOT / "server.json").read_text())
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == __version__
    assert package["identifier"] == PROJECT["name"]
    assert len(entry["description"]) <= 100  # else the registry refuses it
    assert entry["$schema"].startswith("https://static.modelcontextprotocol.io/schemas/")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert "OWNER" not in entry["name"] or "date-released" not in citation
    # the registry compares the name with a line of the README that is on PyPI
    assert re.fullmatch(r"io\.github\.[\w-]+/[\w.-]+", entry["name"])
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text()
    for argument in package["runtimeArguments"]:
        assert argument["name"] == "--with"
        wanted = Requirement(argument["value"])
        if wanted.name == "mcp":
            assert [str(wanted)] == list(
                map(str, map(Requirement, PROJECT["optional-dependencies"]["mcp"]))
            )
    words = [one.get("value", "town.hwdag") for one in package["packageArguments"]]
    options = parser().parse_args(words)
    assert (options.command, str(options.file)) == ("mcp", "town.hwdag")
