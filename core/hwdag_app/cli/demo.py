"""`hwdag demo`: the method on hwdag's documentation, with the default models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import hwdag
from hwdag.config import BuildConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.default import cache_folder, load_reader
from hwdag.lm.writers import as_writer
from hwdag.store.schema import SCHEMA_VERSION
from hwdag.version import __version__
from hwdag_app.cli.asking import show_answer
from hwdag_app.cli.inputs import read

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
"""Pages of the documentation that two cores can index quickly.

The model writes points for the first page only, in half a minute.
"""


def demo(options: argparse.Namespace) -> int:
    """Build (or reuse) the index and ask every question, the last one with the papers' method too."""
    files = [documentation() / f"{page}.md" for page in PAGES]
    model = load_reader().name.rsplit("/")[-1].lower()
    # one file per model and version
    path = cache_folder() / f"demo-{__version__}-{SCHEMA_VERSION}-{model}.hwdag"
    path.parent.mkdir(parents=True, exist_ok=True)
    index = build_or_reuse(files, path)
    for kind, question in QUESTIONS:
        print(f"\n--- {kind} " + "-" * (90 - len(kind)))
        show_answer(index, question, verbose=True)
    print(
        "\n--- the papers' way: points written, attention as edges, from the top down " + "-" * 19
    )
    papers = BuildConfig(method="garlic")
    short = build_or_reuse(files[:1], path.with_stem(path.stem + "-papers"), papers)
    answer = show_answer(short, question, verbose=True)
    page = path.with_suffix(".html")
    page.write_text(answer.to_html(), "utf-8")
    print(
        "\nThe default model has only 135 million parameters: judge the walks and the sources, not "
        f"the answers.\nTo see the last answer with its walk, open {page} in a browser.\n"
        f'Ask your own: hwdag ask {path} "..."'
    )
    return 0


def build_or_reuse(
    files: Sequence[Path], path: Path, config: BuildConfig | None = None
) -> HWDAGIndex:
    """Return the index over files; unchanged documents cost nothing."""
    # why: ids must not depend on the place of installation
    documents = [replace(document, id=Path(document.id).name) for document in read(files)[0]]
    words = sum(len(document.text.split()) for document in documents)
    print(f"{len(documents)} documents, {words:,} words: {files[0].parent}")
    # the default reader is too small to write well, but shows the method
    writer = None if config is None else as_writer(load_reader())
    index = HWDAGIndex.from_documents(
        documents, path=path, config=config, writer=writer, show_progress=True
    )
    print(f"{index.report}\nindex: {path}")
    return index


def documentation() -> Path:
    """Return the folder of the documentation, in the package or in a checkout."""
    package = Path(hwdag.__file__).parent
    for folder in (package / "documentation", package.parent.parent / "docs"):
        if folder.is_dir():
            return folder
    raise InputError("this installation has no documentation; install hwdag from its wheel")
