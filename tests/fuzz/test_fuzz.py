"""A property is fuzzed for a while; longer runs, and those of others, are by hand, see guided.py."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("atheris") is None,
    reason="atheris is not installed: pip install 'hwdag[fuzz]' (Linux, Python 3.11 to 3.13)",
)


def test_no_finding(tmp_path):
    named = ("test_properties", "test_any_page_is_read_or_refused")
    guided = Path(__file__).with_name("guided.py")
    run = subprocess.run(
        [sys.executable, guided, *named, "-runs=100", "-seed=1", f"-artifact_prefix={tmp_path}/"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert "Done 100 runs" in run.stderr
