"""`hwdag demo`: the whole method on real prose, hwdag's documentation, with the default models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hwdag.cli.asking import show_answer
from hwdag.cli.inputs import read
from hwdag.config import BuildConfig, SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.default import cache_folder, default_reader
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
"""Pages of the documentation: enough prose for a walk, little enough for two cores."""


PAPERS_WAY = "How does a question walk the graph?"
"""Asked of the first page alone: to write its points takes the model half a minute."""


def demo(options: argparse.Namespace) -> int:
    """Build (or reuse) the index and ask every question, then one in the papers' way."""
    folder = options.docs or documentation()
    files = [folder] if options.docs else [folder / f"{page}.md" for page in PAGES]
    model = default_reader().name.rsplit("/")[-1].lower()
    # another model, or another version, has another file
    name = f"demo-{__version__}-{SCHEMA_VERSION}-{model}.hwdag"
    path = options.output or cache_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    index = build_or_reuse(folder, files, path)
    for kind, question in QUESTIONS:
        print(f"\n--- {kind} " + "-" * (90 - len(kind)))
        answer = show_answer(index, question, SearchConfig())
    if not options.docs:
        print(
            "\n--- the papers' way: points written, attention as edges, from the top down "
            + "-" * 19
        )
        papers = BuildConfig.garlic(points="generated")
        short = build_or_reuse(folder, files[:1], path.with_stem(path.stem + "-papers"), papers)
        answer = show_answer(short, PAPERS_WAY, SearchConfig.garlic())
    page = path.with_suffix(".html")
    page.write_text(answer.to_html(), "utf-8")
    print(
        "\nThe default model has 135 million parameters: look at the walks and the sources rather "
        f"than at its answers.\nThe last answer with its walk, in a browser: {page}\n"
        f'Ask your own: hwdag ask {path} "..."'
    )
    return 0


def build_or_reuse(
    folder: Path, files: Sequence[Path], path: Path, config: BuildConfig | None = None
) -> HWDAGIndex:
    """The index over files of a folder. Unchanged documents cost nothing."""
    found, _ = read(files)
    # ids that do not depend on where the package is installed
    documents = [replace(d, id=Path(d.id).relative_to(folder).as_posix()) for d in found]
    words = sum(len(document.text.split()) for document in documents)
    print(f"{len(documents)} documents, {words:,} words: {folder}")
    index = HWDAGIndex.from_documents(documents, path=path, config=config, show_progress=True)
    for gone in index.documents.keys() - {document.id for document in documents}:
        index.delete(gone)
    print(f"{index.report}\nindex: {path}")
    return index


def documentation() -> Path:
    """The folder of the documentation, in the installed package or in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "documentation", package.parent.parent / "docs"):
        if folder.is_dir():
            return folder
    raise InputError("this installation came without its documentation; pass --docs FOLDER")
