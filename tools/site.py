"""Hooks of `mkdocs build`: additions of the site to the pages of docs/.

README.md is its first page, the API reference is written here (docs/ is read by
`hwdag demo`, too, so it holds prose only), and files of the repository that a page links to come along.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from tables import filled

ROOT = Path(__file__).parent.parent

API = {
    "hwdag": ("hwdag.index", "hwdag.types", "hwdag.config", "hwdag.filters", "hwdag.scope"),
    "errors": ("hwdag.errors",),
    "searching": ("hwdag.retriever", "hwdag.rerank", "hwdag.answers.stream", "hwdag.graph.dag"),
    "building": (
        "hwdag.building.report",
        "hwdag.building.ray",
        "hwdag.text.prompts",
        "hwdag.trace.bars",
        "hwdag_files.read",
    ),
    "models": (
        "hwdag.lm.base",
        "hwdag.lm.cards",
        "hwdag.lm.default",
        "hwdag.lm.huggingface",
        "hwdag.lm.openai_compatible",
        "hwdag.lm.writers",
        "hwdag.embedding",
    ),
    "retrievers": tuple(
        f"hwdag_lab.methods.{name}"
        for name in (
            "bm25",
            "dense",
            "dos_rag",
            "linear_rag",
            "raptor",
            "memwalker",
            "graphreader.retriever",
            "graphreader.config",
            "gemrag.retriever",
            "youra.retriever",
            "longllmlingua.retriever",
            "truncate_middle",
            "full_context",
        )
    ),
    "storage": ("hwdag.store.verify", "hwdag.store.transfer"),
    "serving": ("hwdag_app.serve.application", "hwdag_app.serve.config"),
    "evaluation": tuple(
        f"hwdag_lab.eval.{name}"
        for name in ("run", "report", "schema", "data", "statistics", "text_metrics", "evidence")
    ),
    "llama_index_hwdag": ("llama_index_hwdag",),
    "langchain_hwdag": ("langchain_hwdag",),
    "haystack_hwdag": (
        "haystack_hwdag",
        "haystack_integrations.components.retrievers.hwdag.retriever",
        "haystack_integrations.components.rankers.hwdag.ranker",
    ),
}
"""Modules that people import, by page of the API reference; internal modules are left out."""

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
"""The target of a relative link."""


def on_files(files: Files, config: Any, **_: object) -> Files:
    """Add the first page, the API reference, and the files that pages link to."""
    files.append(File.generated(config, "index.md", content=_home()))
    for name, modules in API.items():
        text = f"# {name}\n\n" + "\n".join(f"::: {module}\n" for module in modules)
        files.append(File.generated(config, f"api/{name}.md", content=text))
    linked = {path for page in (ROOT / "docs").rglob("*.md") for path in _outside(page)}
    linked |= _outside(ROOT / "README.md")
    linked |= {path for one in linked if one.endswith(".md") for path in _outside(ROOT / one)}
    for path in sorted(linked):
        source = ROOT / path
        made = (
            {"content": _copy(source)} if source.suffix == ".md" else {"abs_src_path": str(source)}
        )
        files.append(File.generated(config, f"files/{path}", **made))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Fill in tables made from the code, and let links that leave docs/ lead to copies in the site."""
    if page.file.generated_by:
        return markdown
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda link: _into_files(link, up), filled(markdown))


def _into_files(link: re.Match[str], up: str) -> str:
    """Return A link of a page that lies `up` below docs/."""
    outside = f"](../{up}"
    return link[0].replace(outside, f"]({up}files/", 1) if link[0].startswith(outside) else link[0]


def _home() -> str:
    """Return README.md, as a page in docs/."""

    def moved(link: re.Match[str]) -> str:
        inside = link[1].startswith("docs/")
        return f"]({link[1].removeprefix('docs/') if inside else f'files/{link[1]}'}"

    return LINK.sub(moved, (ROOT / "README.md").read_text("utf-8"))


def _copy(page: Path) -> str:
    """Return a page from outside docs/, in `files/`, where links to docs/ lead upwards."""

    def moved(link: re.Match[str]) -> str:
        target, docs = (page.parent / link[1]).resolve(), ROOT / "docs"
        if not target.is_relative_to(docs):
            return link[0]
        return f"]({'../' * len(page.relative_to(ROOT).parts)}{target.relative_to(docs)}"

    return LINK.sub(moved, page.read_text("utf-8"))


def _outside(page: Path) -> set[str]:
    """Return files outside docs/ that a page links to, relative to the repository."""
    targets = {page.parent / target for target in LINK.findall(page.read_text("utf-8"))}
    files = {target.resolve().relative_to(ROOT) for target in targets if target.is_file()}
    return {file.as_posix() for file in files if file.parts[0] != "docs"}
