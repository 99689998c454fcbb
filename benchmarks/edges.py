"""What the edges of a graph are worth: each kind of points with the model's edges, shuffled and uniform.

    python benchmarks/edges.py --model PATH -o runs/edges            # one GPU, about 40 minutes
    python benchmarks/edges.py -o runs/edges --limit 10              # the embedded model, a check

Written points, walked by our method and by the papers': with edges that the model made, with the same
weights dealt out anew, with equal ones, and without any; and `evidence`, which has no points. Retrieval
alone, at three budgets, on three multi-hop sets and their long forms. `hwdag compare` compares any two
rows. Further options go to `hwdag eval`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hwdag.cli.main import main as hwdag

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data") / "dev"
SETS = ("hotpotqa", "2wikimultihopqa", "musique")
SYSTEMS = (
    "evidence,hwdag,hwdag-no-attention,hwdag-shuffled-edges,hwdag-uniform-edges,"
    "hwdag-garlic,hwdag-garlic-no-attention,hwdag-garlic-shuffled-edges,hwdag-garlic-uniform-edges"
)


def main() -> None:
    """Run the study; it goes on where it was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="hub name or path (default: the embedded model)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--limit", default="100", help="questions per data set, or all")
    options, extra = parser.parse_known_args()
    files = [str(DATA / f"{name}{form}.jsonl") for name in SETS for form in ("", "_long")]
    plan = ["--systems", SYSTEMS, "--budgets", "512,1024,2048", "--limit", options.limit]
    plan += ["--no-answers", "--dtype", "bfloat16", "-o", str(options.output)]
    model = ["--reader", options.model] if options.model else []
    sys.exit(hwdag(["eval", *files, *plan, *model, *extra]))


if __name__ == "__main__":
    main()
