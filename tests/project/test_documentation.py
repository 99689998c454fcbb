"""The documentation, rendered: pages, links, anchors, and every public docstring."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.package
def test_it_renders_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index", "guide", "api/hwdag", "api/llama_index_hwdag", "api/langchain_hwdag"):
        assert (tmp_path / "site" / f"{page}.html").is_file(), page
