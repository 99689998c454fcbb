"""The thin distributions, built and installed beside a framework, without their dependencies again."""

import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from environments import PURELIB, environment, run
from packaging.requirements import Requirement

from hwdag import __version__

ROOT = Path(__file__).parents[2]

LLAMA_INDEX = """
from llama_index.core import Document
from llama_index.retrievers.hwdag import HWDAGIndex, HWDAGRetriever
import llama_index.retrievers.hwdag as thin
import llama_index_hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

assert all(getattr(thin, name) is getattr(llama_index_hwdag, name) for name in thin.__all__)
index = HWDAGIndex.from_documents(
    [Document(text="Clara Holm built the harbour.")], reader=ScriptedLM(), embedder=HashingEmbedder()
)
retriever = index.as_retriever(similarity_top_k=1)
assert isinstance(retriever, HWDAGRetriever)
print(retriever.retrieve("Who built it?")[0].text)
"""

LANGCHAIN = """
from langchain_core.documents import Document
from langchain_hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

index = HWDAGIndex.from_documents(
    [Document("Clara Holm built the harbour.")], reader=ScriptedLM(), embedder=HashingEmbedder()
)
print(index.as_retriever(k=1).invoke("Who built it?")[0].page_content)
"""

HAYSTACK = """
from haystack_integrations.components.retrievers.hwdag import HWDAGRetriever
from hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

index = HWDAGIndex.from_documents(
    ["Clara Holm built the harbour."], reader=ScriptedLM(), embedder=HashingEmbedder()
)
print(HWDAGRetriever(index, top_k=1).run("Who built it?")["documents"][0].content)
"""

PACKAGES = {
    "llama-index-retrievers-hwdag": ("llama-index", LLAMA_INDEX),
    "langchain-hwdag": ("langchain", LANGCHAIN),
    "hwdag-haystack": ("haystack", HAYSTACK),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_it_asks_for_this_version_with_the_extra_of_its_framework(name):
    project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    (requirement,) = map(Requirement, project["dependencies"])
    assert project["name"] == name
    assert (ROOT / "packages" / name / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (requirement.name, requirement.extras) == ("hwdag", {PACKAGES[name][0]})
    assert project["version"] == __version__ and requirement.specifier.contains(__version__)


@pytest.mark.package
@pytest.mark.parametrize("name", PACKAGES)
def test_it_works_in_an_environment_of_its_own(name, tmp_path):
    folder = ROOT / "packages" / name
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, folder, cwd=ROOT)
    dists = wheel, _ = (*tmp_path.glob("*.whl"), *tmp_path.glob("*.tar.gz"))
    run(sys.executable, "-m", "twine", "check", "--strict", *dists, cwd=ROOT)
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} <= {"llama_index"}
    assert not any(name == "llama_index/__init__.py" for name in zipfile.ZipFile(wheel).namelist())

    python = environment(tmp_path, "--without-pip")
    # why not the dependencies: they are gigabytes, and test_package.py installs them
    shared = [ROOT / "core", ROOT, sysconfig.get_path("purelib")]
    purelib = run(python, "-c", PURELIB, cwd=tmp_path)
    (Path(purelib.strip()) / "shared.pth").write_text("\n".join(map(str, shared)))
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    run(*uv, "--no-deps", "--no-index", wheel, cwd=tmp_path)
    assert run(python, "-c", PACKAGES[name][1], cwd=tmp_path).strip() == (
        "Clara Holm built the harbour."
    )
