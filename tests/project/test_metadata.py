"""Recipe, citation and changelog say what pyproject.toml says; rattler-build understands the recipe."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from rattler_build import Stage0Recipe

from hwdag import __version__

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"torch": "pytorch"}
"""Packages of other names on conda-forge."""


@pytest.fixture(scope="module")
def recipe():
    (variant,) = Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml").render()
    return variant.recipe.to_dict()


def specs(requirements):
    """(name, set of bounds) of each, under its conda name."""
    found = map(Requirement, requirements)
    return [(CONDA_NAMES.get(r.name, r.name), set(map(str, r.specifier))) for r in found]


def of_conda(specs):
    parts = [spec.partition(" ") for spec in specs]
    return [(name, set(filter(None, bounds.split(",")))) for name, _, bounds in parts]


def test_it_needs_what_the_distribution_needs(recipe):
    python = ("python", {PROJECT["requires-python"]})
    needs = recipe["requirements"]
    assert of_conda(needs["run"]) == [python, *specs(PROJECT["dependencies"])]
    build = [python, ("pip", set()), *specs(PYPROJECT["build-system"]["requires"])]
    assert of_conda(needs["host"]) == build


def test_it_describes_the_distribution(recipe):
    package, about = recipe["package"], recipe["about"]
    assert (package["name"], package["version"]) == (PROJECT["name"], __version__)
    assert about["summary"] == PROJECT["description"]
    assert about["license"] == PROJECT["license"]
    files = [file for pattern in PROJECT["license-files"] for file in ROOT.glob(pattern)]
    assert [ROOT / file for file in about["license_file"]] == files
    (entry,) = recipe["build"]["python"]["entry_points"]
    command, function = re.split(r"\s*=\s*", str(entry))
    assert {command: function} == PROJECT["scripts"]


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
