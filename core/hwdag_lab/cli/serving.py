"""What the lab adds to the command `serve`: other methods over the documents of the index."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag_lab.cli.trying import parameters
from hwdag_lab.methods.registry import retriever_class


def others(options: argparse.Namespace, index: HWDAGIndex) -> Mapping[str, Retriever]:
    """Build the methods that `--beside` names; they share the models of the index."""
    found: dict[str, Retriever] = {}
    for name in dict.fromkeys(options.beside):
        cls = retriever_class(name)
        accepted = parameters(cls)
        models = {r: getattr(index, r) for r in ("reader", "embedder") if r in accepted}
        found[name] = cls(**models)
        report = found[name].insert(index.documents.values(), show_progress=True)
        print(f"{name}: {report}", file=sys.stderr)
    return found
