"""The promises of hwdag about versions, and the modules that its packages load."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from environments import outside, run, take_over_bytecode
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

HEAVY = {"torch", "transformers", "sentence_transformers", "scipy", "sklearn", "networkx"}
LLAMA_INDEX = "import llama_index.core"
LANGCHAIN = (
    "import langchain_core.callbacks, langchain_core.documents, langchain_core.embeddings, "
    "langchain_core.indexing.base, langchain_core.language_models.chat_models, "
    "langchain_core.language_models.llms, langchain_core.messages, langchain_core.outputs, "
    "langchain_core.retrievers, langchain_core.runnables"
)


def pins(file):
    lines = (ROOT / file).read_text("utf-8").splitlines()
    named = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in named}


def asked(*extras):
    """Requirements on other packages, of the core and of some extras."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return [one for one in map(Requirement, lines) if one.name != "hwdag"]


def lower_bound(requirement):
    return next(one.version for one in requirement.specifier if one.operator == ">=")


def loaded(*steps, before=""):
    """Names of the modules that each step loads in a process that has executed `before`."""
    script = "import json, sys\nnow = lambda: set(sys.modules)\n" + before
    for step in steps:
        script += f"\nbefore = now()\n{step}\nprint(json.dumps(sorted(now() - before)))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def tops(modules):
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def test_importing_the_core_loads_nothing_else():
    (modules,) = loaded("import hwdag")
    assert tops(modules) == {"hwdag"}


def test_help_loads_nothing_else():
    """So it is there at once, and without the libraries of any extra."""
    (modules,) = loaded("from hwdag_app.main import parser; parser()")
    assert tops(modules) == {"hwdag", "hwdag_lab", "hwdag_app"}


@pytest.mark.parametrize(
    ("package", "framework"), [("llama_index_hwdag", LLAMA_INDEX), ("langchain_hwdag", LANGCHAIN)]
)
def test_importing_a_face_loads_nothing_but_itself_and_using_it_no_heavy_library(
    package, framework
):
    """Its classes are loaded when they are first named, as those of `hwdag`.

    Beyond its framework: an old langchain-core loads transformers by itself.
    """
    at_first, named = loaded(
        f"import {package}", f"from {package} import *; HWDAGIndex", before=framework
    )
    assert tops(at_first) == {package}
    assert set(at_first) <= {package, "llama_index_hwdag.index_struct"}
    assert not tops(named) & (HEAVY | {"hwdag_lab"})


def test_ray_is_not_imported_before_it_is_used():
    (modules,) = loaded("import hwdag; hwdag.HWDAGIndex; hwdag.RayExecutor")
    assert "ray" not in tops(modules)


def test_requirements_are_ranges():
    for requirement in asked(*PROJECT["optional-dependencies"]):
        assert {one.operator for one in requirement.specifier} <= {">=", "<"}, requirement


def test_the_lowest_versions_that_are_tested_are_those_of_pyproject():
    lowest = pins("constraints-lowest.txt")
    promised = {
        canonicalize_name(one.name): lower_bound(one)
        for one in asked("llama-index", "langchain", "openai", "serve", "lab")
    }
    exact = {name: re.sub(r"(\.0)+$", "", lowest[name]) for name in promised}
    assert exact == {name: re.sub(r"(\.0)+$", "", bound) for name, bound in promised.items()}


def test_everything_that_is_asked_for_is_pinned_within_its_range():
    pinned = pins("constraints.txt")
    for requirement in asked(
        "llama-index", "langchain", "haystack", "openai", "serve", "lab", "fuzz", "dev"
    ):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


@pytest.mark.package
@pytest.mark.model
def test_the_lowest_versions_work(tmp_path):
    """With the torch of this machine, and without the libraries that take long to compile; CI tries both, too."""
    venv = tmp_path / "venv"
    torch = f"LOWEST_TORCH=torch=={pins('constraints.txt')['torch']}"
    make = ("make", f"LOWEST={venv}", f"PYTHON={sys.executable}", torch)
    make += (f"UV={sys.executable} -m uv", "PARTS=core llama_index langchain evaluation")
    run(*make, "lowest-installed", cwd=ROOT)
    take_over_bytecode(venv / "bin" / "python")  # of torch
    # why a cache of its own: another test may have converted the default reader with newer packages
    own = outside(HWDAG_CACHE=str(tmp_path / "cache"))
    run(*make, "lowest", "--assume-old=lowest-installed", cwd=ROOT, env=own)
