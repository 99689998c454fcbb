"""`hwdag demo`: questions about a town that no model has heard of, with the default models."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import hwdag
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.default import cache_folder, load_reader
from hwdag.store.schema import SCHEMA_VERSION
from hwdag.types import Document
from hwdag.version import __version__
from hwdag_app.cli.asking import show_answer
from hwdag_app.cli.inputs import read

TIMETABLE = Document(
    "ferry.md",
    """# The ferry

The ferry crosses the bay all year. In a storm it stays in the harbour.

| Ferry | Leaves at | Fare in crowns | Bicycles |
| -- | -- | -- | -- |
| Morning boat | 7:15 | 30 | 12 |
| Noon boat | 12:40 | 25 | 20 |
| Evening boat | 18:05 | 45 | 8 |
""",
    "The ferry",
)

QUESTIONS = (
    (
        "two hops: the harbour names a quarry, and the quarry its owners",
        "Who owned the quarry that the stone of the harbour came from?",
        "the Sorensen family",
    ),
    ("a row of a table", "How many bicycles does the noon boat take?", "20"),
    ("a question that nothing answers", "How much is a night in the hotel at the station?", ""),
)
"""Kind of question, the question, and its answer; "" if it is refused."""


def demo(options: argparse.Namespace) -> int:
    """Build (or reuse) an index of six pages, and ask it; every answer names its sources."""
    documents = town()
    model = load_reader().name.rsplit("/")[-1].lower()
    # one file per model and version
    path = cache_folder() / f"demo-{__version__}-{SCHEMA_VERSION}-{model}.hwdag"
    path.parent.mkdir(parents=True, exist_ok=True)
    words = sum(len(document.text.split()) for document in documents)
    print(f"{len(documents)} pages about the town of Brightwater, {words} words:")
    print("  " + ", ".join(document.id for document in documents))
    with HWDAGIndex.from_documents(documents, path=path) as index:
        for kind, question, _ in QUESTIONS:
            print(f"\n--- {kind} " + "-" * (90 - len(kind)))
            print(f"question: {question}")
            answer = show_answer(index, question)
    page = path.with_suffix(".html")
    page.write_text(answer.to_html(), "utf-8")
    print(
        f"\nThe default model has 135 million parameters and quotes; for answers in sentences name a server: "
        f"--answerer URL.\nThe last answer as a page: {page}\n"
        f'Ask it yourself: hwdag ask {path} "When was the harbour built?"\n'
        "Your own files:   hwdag build FOLDER"
    )
    return 0


def town() -> list[Document]:
    """Return the pages of `examples/town`, in the package or in a checkout, and a timetable."""
    package = Path(hwdag.__file__).parent
    for folder in (package / "documentation" / "town", package.parent.parent / "examples" / "town"):
        if folder.is_dir():
            # why: ids must not depend on the place of installation
            pages = [replace(one, id=Path(one.id).name) for one in read([folder])[0]]
            return [*pages, TIMETABLE]
    raise InputError("this installation has no examples; install hwdag from its wheel")


def documentation() -> Path:
    """Return the folder of the documentation, in the package or in a checkout."""
    package = Path(hwdag.__file__).parent
    for folder in (package / "documentation", package.parent.parent / "docs"):
        if folder.is_dir():
            return folder
    raise InputError("this installation has no documentation; install hwdag from its wheel")
