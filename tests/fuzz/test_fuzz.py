"""Every harness runs for a while; longer runs are by hand, see harness.py."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(
    find_spec("atheris") is None,
    reason="atheris is not installed: pip install 'hwdag[fuzz]' (Linux, Python 3.11 to 3.13)",
)


@pytest.mark.parametrize("harness", sorted(HERE.glob("fuzz_*.py")), ids=lambda path: path.stem)
def test_no_finding(harness, tmp_path):
    run = subprocess.run(
        [sys.executable, harness, "-runs=1000", "-seed=1", f"-artifact_prefix={tmp_path}/"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert "Done 1000 runs" in run.stderr
