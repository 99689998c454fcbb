"""`hwdag demo`: the whole method on real prose, hwdag's documentation, with the default models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hwdag.cli.asking import show_answer
from hwdag.cli.inputs import read
from hwdag.config import BuildConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.default import cache_folder, default_reader
from hwdag.lm.writers import as_writer
from hwdag.store.schema import SCHEMA_VERSION
from hwdag.version import __version__

QUESTIONS = (
    ("one fact", "Which wheel carries the default language model?"),
    (
        "two facts from different files",
        "Which database file holds an index, and which wheel carries the default language model?",
    ),
    ("an overview", "How does a question walk the graph?"),
)
"""Kind of question, and the question."""

PAGES = ("how-it-works", "index-files", "method", "models", "writers")
"""Pages of the documentation: enough prose for a walk, little enough for two cores.

The model writes points for the first one alone, in half a minute.
"""


def demo(options: argparse.Namespace) -> int:
    """Build (or reuse) the index and ask every question, the last one in the papers' way too."""
    files = [documentation() / f"{page}.md" for page in PAGES]
    model = default_reader().name.rsplit("/")[-1].lower()
    # another model, or another version, has another file
    path = cache_folder() / f"demo-{__version__}-{SCHEMA_VERSION}-{model}.hwdag"
    path.parent.mkdir(parents=True, exist_ok=True)
    index = build_or_reuse(files, path)
    for kind, question in QUESTIONS:
        print(f"\n--- {kind} " + "-" * (90 - len(kind)))
        show_answer(index, question)
    print(
        "\n--- the papers' way: points written, attention as edges, from the top down " + "-" * 19
    )
    papers = BuildConfig(method="garlic")
    short = build_or_reuse(files[:1], path.with_stem(path.stem + "-papers"), papers)
    answer = show_answer(short, question)
    page = path.with_suffix(".html")
    page.write_text(answer.to_html(), "utf-8")
    print(
        "\nThe default model has 135 million parameters: look at the walks and the sources rather "
        f"than at its answers.\nThe last answer with its walk, in a browser: {page}\n"
        f'Ask your own: hwdag ask {path} "..."'
    )
    return 0


def build_or_reuse(
    files: Sequence[Path], path: Path, config: BuildConfig | None = None
) -> HWDAGIndex:
    """The index over files. Unchanged documents cost nothing."""
    # ids that do not depend on where the package is installed
    documents = [replace(document, id=Path(document.id).name) for document in read(files)[0]]
    words = sum(len(document.text.split()) for document in documents)
    print(f"{len(documents)} documents, {words:,} words: {files[0].parent}")
    # the default reader is too small to write, and is made to
    writer = None if config is None else as_writer(default_reader())
    index = HWDAGIndex.from_documents(
        documents, path=path, config=config, writer=writer, show_progress=True
    )
    print(f"{index.report}\nindex: {path}")
    return index


def documentation() -> Path:
    """The folder of the documentation, in the installed package or in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "documentation", package.parent.parent / "docs"):
        if folder.is_dir():
            return folder
    raise InputError("this installation has no documentation; install hwdag from its wheel")
