"""How long graph pages take to open and to use, in a headless browser.

    python benchmarks/pages.py 10000 100000

Graphs are random: documents of 2,000 nodes, a fifth as many points on each level as there are nodes
below, ten edges a point. The browser draws without a graphics card. For each size: bytes of the page,
seconds until the graph is drawn and can be used, then until a search has found, until a node that was
clicked in the list is shown, and until the graph is drawn again from the next level. CPU seconds are
those of the browser and its driver: they are more reliable if other work shares the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.page import page
from hwdag.types import Node, Span

A_DOCUMENT = 2000
EDGES = 10
WORDS = [
    "amber",
    "bridge",
    "castle",
    "dragon",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jungle",
    "kettle",
    "ladder",
]

DRAWN = """() => new Promise(done => {
    const look = () => document.querySelector('.canvas canvas')
        ? requestAnimationFrame(() => requestAnimationFrame(() => done(true)))
        : setTimeout(look, 10);
    look();
})"""


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="+")
    options = parser.parse_args()
    print("| nodes | MB | open | search | select | next level |\n|---|---|---|---|---|---|")
    for nodes in options.nodes:
        print("| " + " | ".join(measured(nodes)) + " |", flush=True)


def measured(nodes: int) -> list[str]:
    """Return the cells of a row."""
    with TemporaryDirectory() as folder, sync_playwright() as play:
        file = Path(folder) / "page.html"
        file.write_text(page("The graph", world(nodes)), "utf-8")
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--enable-unsafe-swiftshader"],
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 860})
        tab.set_default_timeout(300_000)

        def opened() -> None:
            tab.goto(file.as_uri())
            tab.evaluate(DRAWN)

        def searched() -> None:
            tab.get_by_label("Find in nodes").fill("harbour 77")
            tab.locator(".found button").first.wait_for()

        def selected() -> None:
            tab.locator(".found button").first.click()
            tab.locator(".details .facts").wait_for()

        def raised() -> None:
            tab.locator("input[type=range]").first.press("ArrowRight")
            tab.evaluate(DRAWN)

        times = [timed(act) for act in (opened, searched, selected, raised)]
        size = file.stat().st_size / 1e6
        browser.close()
    return [f"{nodes:,}", f"{size:.1f}", *times]


def timed(act: Callable[[], None]) -> str:
    """Seconds on the clock that something takes, and CPU seconds of the browser."""
    began, used = time.perf_counter(), cpu_seconds()
    act()
    return f"{time.perf_counter() - began:.1f} ({cpu_seconds() - used:.1f})"


def cpu_seconds() -> float:
    """Return the sum over all processes that this one has started, directly or not."""
    parents, used = dict[int, int](), dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        process = int(stat.parent.name)
        parents[process], used[process] = int(fields[1]), int(fields[11]) + int(fields[12])
    started = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in started} - started:
        started |= more
    return sum(used.get(one, 0) for one in started - {os.getpid()}) / 100


def world(nodes: int) -> dict[str, Any]:
    """Return the input of a page: documents with their graphs."""
    rng = np.random.default_rng(0)
    documents, graphs = [], []
    for i in range(max(1, nodes // A_DOCUMENT)):
        name = f"document-{i}"
        text, graph = document(rng, name, min(nodes, A_DOCUMENT))
        documents.append({"id": name, "title": name, "text": text})
        graphs.append({"document_id": name, **graph.to_dict(least_weight=0.01)})
    return {"documents": documents, "graphs": graphs}


def document(rng: np.random.Generator, name: str, nodes: int) -> tuple[str, HWDAG]:
    """Return a text and its graph of this many nodes."""
    sizes = [int(nodes * 0.8)]
    while sizes[-1] > EDGES:
        sizes.append(sizes[-1] // 5)
    made, rows, text, first = list[Node](), list[EdgeRow](), "", 0
    for level, size in enumerate(sizes, 1):
        below, start = first, len(made)
        for i in range(size):
            said = f"The {' '.join(rng.choice(WORDS, 8))} {i}."
            if level == 1:
                span = Span(len(text), len(text) + len(said))
                text += said + " "
            else:
                children = np.unique(rng.integers(below, start, EDGES))
                rows.append(EdgeRow(len(made), children, rng.uniform(0.01, 1, len(children))))
                span = made[children[0]].sources[0]
            origin = "chunk" if level == 1 else "generated"
            made.append(Node(f"{name}#{level}.{i}", name, level, said, origin, 12, (span,)))
        first = start
    return text, HWDAG.from_rows(made, rows)


if __name__ == "__main__":
    main()
