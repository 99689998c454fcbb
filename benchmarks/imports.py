"""Measure the cost of importing hwdag and its packages for frameworks, beyond the framework itself.

Every figure is the median over fresh processes that have imported the framework before the clock
starts. CPU time is that of the import itself; wall time includes waiting for the disk and for
other processes. A first round, which reads the files from the disk, is thrown away. Run:

    python benchmarks/imports.py -n 15
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

LLAMA_INDEX = "import llama_index.core"
LANGCHAIN = (
    "import langchain_core.callbacks, langchain_core.documents, langchain_core.embeddings, "
    "langchain_core.indexing.base, langchain_core.language_models.chat_models, "
    "langchain_core.language_models.llms, langchain_core.messages, langchain_core.outputs, "
    "langchain_core.retrievers, langchain_core.runnables"
)
"""`import langchain_core` loads nothing: these are its parts that the package needs."""

CASES = (
    ("", "import hwdag"),
    ("", "from hwdag import HWDAGIndex"),
    ("", LLAMA_INDEX),
    (LLAMA_INDEX, "import llama_index_hwdag"),
    (LLAMA_INDEX, "from llama_index_hwdag import HWDAGIndex"),
    ("", LANGCHAIN),
    (LANGCHAIN, "import langchain_hwdag"),
    (LANGCHAIN, "from langchain_hwdag import HWDAGIndex"),
)

CLOCKED = """
{before}
import json, sys, time
modules, cpu, wall = len(sys.modules), time.process_time(), time.perf_counter()
{what}
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps([cpu * 1e3, wall * 1e3, len(sys.modules) - modules]))
"""


def main() -> None:
    """Measure every import in processes of its own; one row of a table each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=15, help="processes per import")
    options = parser.parse_args()
    print("| import | after | CPU ms | wall ms | modules |\n|---|---|---|---|---|")
    for before, what in CASES:
        rounds = [clocked(before, what) for _ in range(options.n + 1)][1:]
        cpu, wall, modules = (statistics.median(column) for column in zip(*rounds, strict=True))
        after = before.removeprefix("import ").partition(",")[0].partition(".")[0]
        print(f"| `{shown(what)}` | {after} | {cpu:.0f} | {wall:.0f} | {modules:.0f} |", flush=True)


def clocked(before: str, what: str) -> list[float]:
    """CPU milliseconds, wall milliseconds and modules of `what`, in a fresh process."""
    script = CLOCKED.format(before=before, what=what)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return json.loads(done.stdout)


def shown(what: str) -> str:
    """Return the statement, short."""
    return "import langchain_core (parts)" if what == LANGCHAIN else what


if __name__ == "__main__":
    main()
