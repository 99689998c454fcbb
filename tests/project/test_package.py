"""Wheels, sdists and the image, built and installed in one clean environment, far from the checkout."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

import pytest
from environments import run, take_over_bytecode
from filelock import FileLock
from image_world import STEPS, Image, arguments
from packaging.requirements import Requirement
from readme_renderer import markdown

from hwdag import __version__
from hwdag.lm.default import converted, embedded_gguf

ROOT = Path(__file__).parents[2]
PINS = ROOT / "constraints.txt"
ADAPTER = "hwdag/lm/adapters/smollm2-135m-instruct"
KINDS = ("rankers", "retrievers")  # of components for Haystack
ADAPTER_FILES = {"adapter_config.json", "adapter_model.safetensors", "README.md", "NOTICE"}
INSTALLED = ROOT / "tests" / "installed.py"
THIN = {
    "llama-index-retrievers-hwdag": "llama_index",
    "langchain-hwdag": "langchain",
    "hwdag-haystack": "haystack",
}
"""Frameworks by the distributions that only ask for `hwdag` with an extra."""
TOKEN = "0123456789abcdef"

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


class Built(NamedTuple):
    """The distributions, and the wheels of the thin ones by name."""

    wheel: Path
    sdist: Path
    thin: dict[str, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Every sdist, and the wheels that are built from them."""

    def make(folder):
        for name in (".", *(f"packages/{name}" for name in THIN)):
            build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
            run(*build, folder / Path(name).name, ROOT / name, cwd=ROOT)

    folder = once(tmp_path_factory, "dist", make)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist, {name: next((folder / name).glob("*.whl")) for name in THIN})


def test_the_wheel_holds_the_packages_and_their_data(built):
    names = zipfile.ZipFile(built.wheel).namelist()
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
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "constraints.txt", "constraints-lowest.txt", "LICENSE", "mkdocs.yml"}
    wanted |= {"CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "CHANGELOG.md"}
    assert wanted | {"tests/worlds.py", "tools/site.py", "docs/guide.md"} <= names
    assert {f"core/{ADAPTER}/{file}" for file in ADAPTER_FILES} <= names
    assert not any(name.startswith((".venv", "shared")) for name in names)


def test_a_package_index_takes_both_and_shows_the_readme_without_dead_links(built):
    every = [file for file in built.wheel.parent.rglob("*hwdag*") if file.is_file()]
    run(sys.executable, "-m", "twine", "check", "--strict", *every, cwd=ROOT)
    wheel = zipfile.ZipFile(built.wheel)
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    readme = message_from_bytes(wheel.read(metadata)).get_payload()
    shown = markdown.render(readme)
    assert shown and "<table>" in shown
    targets = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert all(target.startswith(("https://", "#user-content-")) for target in targets), targets


def test_the_adapter_is_small_and_whole(built):
    wheel = zipfile.ZipFile(built.wheel)
    found = {name for name in wheel.namelist() if name.startswith(f"{ADAPTER}/")}
    assert {Path(name).name for name in found} == ADAPTER_FILES
    assert sum(wheel.getinfo(name).file_size for name in found) <= 12_000_000
    for name in found:
        assert wheel.read(name) == (ROOT / "core" / name).read_bytes()


@pytest.mark.parametrize("name", THIN)
def test_a_thin_package_asks_for_this_version_with_the_extra_of_its_framework(name):
    project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    (requirement,) = map(Requirement, project["dependencies"])
    assert project["name"] == name
    assert (ROOT / "packages" / name / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (requirement.name, requirement.extras) == ("hwdag", {THIN[name].replace("_", "-")})
    assert project["version"] == __version__ and requirement.specifier.contains(__version__)


def test_a_thin_wheel_holds_a_namespace_at_most(built):
    for wheel in built.thin.values():
        names = zipfile.ZipFile(wheel).namelist()
        tops = {name.split("/")[0] for name in names}
        assert {top for top in tops if not top.endswith(".dist-info")} <= {"llama_index"}
        assert "llama_index/__init__.py" not in names


@pytest.mark.model
@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_wheels_work_with_each_framework_and_alone_and_the_image_answers(built, tmp_path):
    """One environment, made by the steps of the image: torch and models, then wheels, then the image's own.

    `test_compat.py` installs all extras, of the lowest versions, and uses both default models.
    """
    image = Image(tmp_path)
    python = image.bin / "python"
    ours = STEPS.index(("COPY", "core ./core"))
    for step in STEPS[:ours]:
        image.step(*step)
    install(python, built.wheel)
    take_over_bytecode(python)
    run(python, INSTALLED, cwd=tmp_path)

    alone = installed(python)
    for name, framework in THIN.items():
        install(python, built.wheel, built.thin[name])
        take_over_bytecode(python)
        parts = [framework, *(["thin_llama_index"] if framework == "llama_index" else [])]
        run(python, INSTALLED, *parts, cwd=tmp_path)
        uv(python, "uninstall", *installed(python) - alone)
        assert installed(python) == alone

    # why: the same versions have converted the reader here; `test_compat.py` converts it with others
    reader = converted(embedded_gguf())
    shutil.copytree(reader, Path(image.variables["HWDAG_CACHE"], reader.name))
    for step in STEPS[ours:]:
        image.step(*step)
    for one in (image.at / "models").rglob("*"):
        needed = 0o555 if one.is_dir() else 0o444
        assert one.stat().st_mode & needed == needed, f"{one} is for root alone"
    image.hwdag("build", ROOT / "SECURITY.md", "-o", image.put("/data/index.hwdag"), "--quiet")
    assert_serves(image)


def assert_serves(image):
    """Start the image's command; its health check succeeds, and it has the index of the volume."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [*json.loads(arguments("CMD")[0]), "--port", str(port)]
    check = json.loads(arguments("HEALTHCHECK")[0].partition("CMD ")[2])
    check = [part.replace("8000", str(port)) for part in check]
    with subprocess.Popen(
        [image.bin / "hwdag", *map(image.put, command)],
        cwd=image.folder,
        env=image.variables | {"HWDAG_TOKEN": TOKEN},
    ) as server:
        try:
            while subprocess.run(check, env=image.variables, capture_output=True).returncode:
                assert server.poll() is None
                time.sleep(0.5)
            asked = Request(
                f"http://127.0.0.1:{port}/api/state", headers={"Authorization": f"Bearer {TOKEN}"}
            )
            (document,) = json.load(urlopen(asked, timeout=30))["documents"]
            assert "SECURITY" in document["id"]
        finally:
            server.terminate()
