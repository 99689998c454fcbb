"""The walk as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.documents import Document
from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented
from pydantic import Field, field_validator

from hwdag.checks import under_one_name
from hwdag.config import BuildConfig, checked_k, config_with
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from langchain_hwdag.adapters import as_embedder, as_reader, as_writer
from langchain_hwdag.base_retriever import CoreSearchRetriever, OnStep, SearchOptions, unwrapped
from langchain_hwdag.documents import as_core_documents
from langchain_hwdag.events import build_progress, building
from langchain_hwdag.scores import LAMBDA_MULT, diverse, scored

DEFAULT_K = 4  # of vector stores


class LoadingOptions(SearchOptions, total=False):
    """Models and config of an index, and how it is searched (`CoreSearchRetriever`).

    Attributes:
        reader: the local model: a `HuggingFacePipeline` or a `ChatHuggingFace` over one (its loaded
            weights are used), an hwdag `Reader`, a model name, or None for the embedded default.
        writer: writes Information Points: a chat model, an LLM, a chain to text, an hwdag `Writer`, a
            function, or None for the reader itself. LangChain's models are asked one prompt at a
            time; with `model.with_config(max_concurrency=8)`, eight.
        answerer: answers in `index.answer`: the same kinds; None for the reader.
        embedder: LangChain `Embeddings`, an hwdag `Embedder`, a sentence-transformers name, or None
            for the embedded default.
        config: how documents become graphs.
        prompts: replacements for the papers' prompts.
    """

    reader: object
    writer: object
    answerer: object
    embedder: object
    config: BuildConfig | None
    prompts: Prompts | None


class MakingOptions(LoadingOptions, total=False):
    """Arguments of building besides the documents.

    Attributes:
        method: short for the `method` of a `hwdag.BuildConfig`.
        path: file that receives every finished call; the build of an existing file continues.
        show_progress: bars on standard error.
    """

    method: str | None
    path: str | Path | None
    show_progress: bool


def split_options(
    options: Mapping[str, Any], **embeddings: object
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options of loading into those of the core, with converted models, and of searching.

    `embeddings` is `embedder` under the name that vector stores give it.
    """
    known = LoadingOptions.__annotations__.keys() - SearchOptions.__annotations__
    made = {name: value for name, value in options.items() if name in known}
    named = under_one_name(embedder=made.get("embedder"), **embeddings)
    made |= {
        "reader": as_reader(made.get("reader")),
        "writer": as_writer(made.get("writer")),
        "answerer": as_writer(made.get("answerer")),
        "embedder": as_embedder(named),
    }
    return made, {name: value for name, value in options.items() if name not in known}


class HWDAGRetriever(CoreSearchRetriever):
    """Walks the graphs of an index for a question; the visited nodes are the documents.

    Without `k` the walk decides how much is enough, and nodes come in visiting order.

    Relations: `HWDAGIndex` adds changes to the index; `CoreRetriever` wraps any other retriever of the
    core.

    Attributes:
        index: the core index, the path of its file, or a `langchain_hwdag.HWDAGIndex`. Over a file,
            `dumps` and pickling keep the path; `loads` opens it with the models that the file names.
            An index in memory refuses both.
        score_threshold: leaves out nodes whose cosine similarity to the question is lower; the others
            come in descending order of it.
        fetch_k: chooses the `k` (by default 4) nodes from this many, by maximal marginal relevance.
        lambda_mult: how much similarity to the question counts in that, against difference.
    """

    index: CoreIndex = Field(exclude=True, repr=False)
    score_threshold: float | None = Field(default=None, ge=0, le=1)
    fetch_k: int | None = Field(default=None, ge=1)
    lambda_mult: float = Field(default=LAMBDA_MULT, ge=0, le=1)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: object = None,
        *,
        method: str | None = None,
        path: str | Path | None = None,
        show_progress: bool = False,
        **options: Unpack[LoadingOptions],
    ) -> Self:
        """Build the graphs of whole documents; the core cuts them into chunks.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; blank ones are
                listed in `report.skipped`.
            embedding: the `embedder` under the name that vector stores give it.
            method: as in `MakingOptions`.
            path: as in `MakingOptions`.
            show_progress: bars on standard error.
            options: models and config, and how to search.
        """
        core, search = split_options(options, embedding=embedding)
        made = cls(index=CoreIndex(), **search)
        found = as_core_documents(documents)
        core["config"] = config_with(core.get("config"), method)
        progress = build_progress([document.id for document in found], show_progress)
        made.index = CoreIndex.from_documents(found, path=path, show_progress=progress, **core)
        made._report = made.index.report
        return made

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: object = None,
        **options: Unpack[MakingOptions],
    ) -> Self:
        """Run `from_documents` in a thread; cancelling the task ends the build, and keeps what is finished."""
        return await building(partial(cls.from_documents, documents, embedding, **options))

    def _retrieve(
        self, query: str, on_step: OnStep, *, k: int | None = None, **options: Any
    ) -> list[Document]:
        wanted = checked_k(self.k if k is None else k)
        if self.fetch_k is None:
            found = super()._retrieve(query, on_step, k=wanted, **options)
        else:
            wanted = wanted or DEFAULT_K
            among = max(self.fetch_k, wanted)
            found = super()._retrieve(query, on_step, k=among, **options)
            found = diverse(self.index.embedder, query, found, wanted, self.lambda_mult)
        if self.score_threshold is None:
            return found
        rated = scored(self.index.embedder, query, found)
        return [document for document, score in rated if score >= self.score_threshold]

    @field_validator("index", mode="before")
    @classmethod
    def _of_the_core(cls, value: object) -> object:
        return CoreIndex.load(value) if isinstance(value, str | Path) else unwrapped(value)

    @property
    def core(self) -> CoreIndex:
        """The index without a framework: graphs, `search`, `answer`, `save` to one file."""
        return self.index

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True; `to_json` says what is not."""
        return True

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """Return the arguments that `dumps` writes as JSON."""
        found: dict[str, Any] = {"index": str(self.index.path)}
        if self.search is not None:
            found["search"] = asdict(self.search)
        return found

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return what LangChain's `dumps` writes; `loads` refuses an index in memory."""
        return self.to_json_not_implemented() if self.index.path is None else super().to_json()
