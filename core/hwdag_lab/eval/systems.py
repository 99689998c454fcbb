"""The systems of a comparison by name: HWDAG, its ablations, and the alternatives.

hwdag                   the defaults
hwdag-<variant>         VARIANTS: the defaults without one part
hwdag-garlic, -pecan    the papers' own settings; hwdag-garlic-no-...: the ablations of GARLIC Table 2
bm25@300                over 300-token chunks; also @100, @sentence and @passage, and the same for dense
bm25@sentence+title     compares texts with their heading or title
bm25, dense             all three granularities; bm25+title, dense+title: all three with titles
...                     BASELINES: one row each
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hwdag.config import (
    NEVER,
    PAPER_CONFIDENCE,
    PECAN_CONFIDENCE,
    BuildConfig,
    Scoring,
    SearchConfig,
)
from hwdag.errors import InputError, UnknownOption
from hwdag.methods import method_names, retriever_class

if TYPE_CHECKING:  # why: `hwdag --help` lists names without importing torch
    from hwdag.retriever import Retriever
    from hwdag_lab.eval.models import RunModels

Make: TypeAlias = "Callable[[RunModels], Retriever]"
"""Makes a retriever without documents."""

OURS = ("evidence", "hwdag")  # how names of our own systems begin

GRANULARITIES = ("300", "100", "sentence")
"""Cuts of BM25 and dense retrieval in their groups: chunks of that many tokens, or sentences.

"passage", whole paragraphs, exists too, but is in no group.
"""


EdgeSource: TypeAlias = Literal["attention", "shuffled", "uniform"]
"""Edge weights of a graph: the attention of the model, permuted within windows, or all equal."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings of HWDAG; the run sets budget and length of the answer.

    With `tree`, each window gets one written summary, so every node has one parent. `confidence`
    replaces that of the search on some data sets.
    """

    build: BuildConfig = field(default_factory=BuildConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    edges: EdgeSource = "attention"
    tree: bool = False
    confidence: Mapping[str, float] = field(default_factory=dict)


def _ablated(build: Mapping[str, Any] | None = None, **search: Any) -> Variant:
    """Return the papers' settings without a part."""
    return Variant(replace(_GARLIC, **(build or {})), SearchConfig(**search))


_EVIDENCE, _HWDAG = BuildConfig(method="evidence"), BuildConfig(method="hwdag")
_GARLIC, _PECAN = BuildConfig(method="garlic"), BuildConfig(method="pecan")
"""Whoever names such a row insists that points are written, however small the model is."""

_PAPERS = Scoring.papers()


def _scored(**weights: float) -> SearchConfig:
    """Return the evidence search with other weights, which no navigator has learned."""
    return SearchConfig(scoring=replace(Scoring(attention=0.0), **weights))


VARIANTS: Mapping[str, Variant] = {
    "evidence": Variant(_EVIDENCE),
    "evidence-no-navigator": Variant(_EVIDENCE, SearchConfig(navigator="none")),
    "evidence-p-yes": Variant(_EVIDENCE, SearchConfig(confidence=PAPER_CONFIDENCE)),
    "evidence-no-references": Variant(_EVIDENCE, _scored(references=0.0)),
    "evidence-no-sparse": Variant(_EVIDENCE, _scored(bm25_weight=0.0)),
    "evidence-no-paragraph": Variant(_EVIDENCE, _scored(paragraph_weight=0.0)),
    "evidence-chunks": Variant(replace(_EVIDENCE, leaves="chunks")),
    "hwdag": Variant(_HWDAG),
    "hwdag-no-stop": Variant(_HWDAG, SearchConfig(confidence=NEVER)),
    "hwdag-no-navigator": Variant(_HWDAG, SearchConfig(navigator="none")),
    "hwdag-no-attention": Variant(_HWDAG, SearchConfig(scoring=Scoring(attention=0.0))),
    "hwdag-shuffled-edges": Variant(_HWDAG, edges="shuffled"),
    "hwdag-uniform-edges": Variant(_HWDAG, edges="uniform"),
    "hwdag-all-heads": Variant(_HWDAG, SearchConfig(heads="all")),
    "hwdag-garlic": Variant(_GARLIC),
    "hwdag-garlic-no-graph": replace(_ablated(build={"window_tokens": 2048}), tree=True),
    "hwdag-garlic-no-progress": _ablated(confidence=NEVER),
    "hwdag-garlic-no-attention": _ablated(scoring=replace(_PAPERS, attention=0.0)),
    "hwdag-garlic-no-embedding": _ablated(scoring=replace(_PAPERS, similarity=0.0)),
    "hwdag-garlic-shuffled-edges": replace(_ablated(), edges="shuffled"),
    "hwdag-garlic-uniform-edges": replace(_ablated(), edges="uniform"),
    "hwdag-pecan": Variant(_PECAN, confidence=PECAN_CONFIDENCE),
}
"""HWDAG by name: the four methods, and each without a part.

"evidence" is chosen without a model. "hwdag" rows and the papers' need points that a model writes: the
reader's, unless a writer is given. "garlic-no-..." are the ablations of GARLIC Table 2;
"garlic-no-progress" reads a fixed number of tokens: to be compared at the mean that "hwdag-garlic" read
(`Plan.match`). "shuffled-edges" and "uniform-edges" measure the weights: the same points, with edges
that the model did not make. "hwdag-no-attention" reads the same first points, whose edges then add
nothing to a score.
"""


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """One row of a table."""

    name: str  # name of the row
    build: str  # name of the index that it searches; systems with the same name share the build
    make: Make  # makes the retriever, without documents
    graph: BuildConfig | None = None  # how HWDAG builds its graph; None for other methods
    # search settings, except budget and length of the answer
    search: SearchConfig = field(default_factory=SearchConfig)
    edges: EdgeSource = "attention"  # of that graph
    tree: bool = False  # whether that graph is a tree of summaries
    # replaces that of `search`, by data set
    confidence: Mapping[str, float] = field(default_factory=dict)
    bounded: bool = True  # False if it ignores the token budget
    # True if it takes a pool of passages as one document
    whole: bool = False

    def config(self, budget: int, dataset: str = "") -> SearchConfig:
        """Search settings at a budget, for a document of a data set."""
        confidence = self.confidence.get(dataset.partition("_")[0], self.search.confidence)
        return replace(self.search, token_budget=budget, confidence=confidence)

    @property
    def definition(self) -> dict[str, Any]:
        """Return the options that distinguish it from systems of the same name, as JSON-able values."""
        if self.graph is None:
            return {"build": self.build}
        search = asdict(self.search)
        del search["token_budget"]
        found: dict[str, Any] = {"build": asdict(self.graph), "search": search}
        if self.tree:
            found["build"]["tree"] = True
        if self.edges != "attention":
            found["edges"] = self.edges
        return found | ({"confidence": dict(self.confidence)} if self.confidence else {})


def systems(names: Iterable[str]) -> list[ComparedSystem]:
    """Return systems by name, with groups expanded, each once, in the given order.

    Raises:
        UnknownOption: there is no system of this name; the message lists all.
        InputError: there is no name.
    """
    expanded = dict.fromkeys(one for name in names for one in _expanded(name))
    if not expanded:
        raise InputError(f"no system was named; there are {all_names()}")
    return [_system(name) for name in expanded]


def family(name: str) -> str:
    """Return the method of a row: "hwdag", "bm25", "raptor", ..."""
    return next(method for method in (*OURS, "oracle", *method_names()) if name.startswith(method))


def is_baseline(name: str) -> bool:
    """Return whether a row is an alternative to HWDAG, and no oracle."""
    return family(name) not in (*OURS, "oracle")


def all_names() -> str:
    """Return all names, for messages and help."""
    cuts = "|@".join((*GRANULARITIES, "passage"))
    ranked = [f"{name}[@{cuts}][+title]" for name in ("bm25", "dense")]
    return ", ".join([*VARIANTS, *ranked, *BASELINES])


_RANKED = re.compile(rf"(bm25|dense)(?:@({'|'.join(GRANULARITIES)}|passage))?(\+title)?")


def _expanded(name: str) -> list[str]:
    match = _RANKED.fullmatch(name)
    if match and match[2] is None:
        return [f"{match[1]}@{granularity}{match[3] or ''}" for granularity in GRANULARITIES]
    if match or name in VARIANTS or name in BASELINES:
        return [name]
    raise UnknownOption(f"there is no system {name!r}; there are {all_names()}")


def _system(name: str) -> ComparedSystem:
    if name in VARIANTS:
        return _hwdag(name, VARIANTS[name])
    if match := _RANKED.fullmatch(name):
        options = {"granularity": match[2], "contextual": bool(match[3])}
        return ComparedSystem(name, name, partial(_method, match[1], options))
    return BASELINES[name]


def _hwdag(name: str, variant: Variant) -> ComparedSystem:
    """Return a row of HWDAG; variants that build alike share the graph of the first of them."""

    def graph(one: Variant) -> tuple[BuildConfig, EdgeSource, bool]:
        return one.build, one.edges, one.tree

    build = next(other for other, one in VARIANTS.items() if graph(one) == graph(variant))
    return ComparedSystem(
        name,
        build,
        partial(_index, variant.build, variant.tree),
        graph=variant.build,
        search=variant.search,
        edges=variant.edges,
        tree=variant.tree,
        confidence=variant.confidence,
    )


def _index(config: BuildConfig, tree: bool, models: RunModels) -> Retriever:
    from hwdag.index import HWDAGIndex

    return HWDAGIndex(**index_options(config, tree, models))


def index_options(config: BuildConfig, tree: bool, models: RunModels) -> dict[str, Any]:
    """Return arguments of `HWDAGIndex`. The reader writes, however small, unless there is a writer."""
    writer = None
    if config.rules.has_points and config.points != "extractive":
        from hwdag.lm.writers import as_writer

        writer = models.writer or as_writer(models.reader)  # type: ignore[arg-type] # it says so
    if tree:
        from hwdag_lab.eval.one_summary import OneSummaryWriter

        writer = OneSummaryWriter(writer or models.reader, models.reader)
    return {
        "reader": models.reader,
        "writer": writer,
        "embedder": models.embedder,
        "config": config,
    }


def _method(name: str, options: Mapping[str, Any], models: RunModels) -> Retriever:
    """Return a method by name, with the models that it uses."""
    cls = retriever_class(name)
    shared = {role: getattr(models, role) for role in ("reader", "writer", "embedder")}
    if name == "dense":
        shared["embedder"] = models.dense or models.embedder
    used = {role: model for role, model in shared.items() if role in cls.uses}
    made: Retriever = cls(**used, **options)
    return made


def _youra_of_the_paper(models: RunModels) -> Retriever:
    from hwdag_lab.methods.youra import YouraConfig

    return _method("youra", {"config": YouraConfig.paper()}, models)


def _oracle(models: RunModels) -> Retriever:
    from hwdag_lab.eval.oracle import OracleRetriever

    return OracleRetriever(models.reader)


def _baseline(
    name: str,
    method: str | Make = "",
    *,
    bounded: bool = True,
    whole: bool = False,
    **options: Any,
) -> ComparedSystem:
    """Return a row of a method, by default of the same name."""
    named = method or name
    make = partial(_method, named, options) if isinstance(named, str) else named
    return ComparedSystem(name, name, make, bounded=bounded, whole=whole)


BASELINES: Mapping[str, ComparedSystem] = {
    system.name: system
    for system in (
        _baseline("dos-rag"),
        _baseline("linear-rag"),
        _baseline("raptor-collapsed", "raptor", mode="collapsed", whole=True),
        _baseline("raptor-tree", "raptor", mode="tree", whole=True),
        _baseline("memwalker"),
        _baseline("gem-rag-graph", "gem-rag", mode="graph"),
        _baseline("gem-rag-questions", "gem-rag", mode="questions"),
        _baseline("graphreader"),
        _baseline("graphreader-nodes", "graphreader", answers="nodes"),
        _baseline("youra"),
        _baseline("youra-paper", _youra_of_the_paper),
        _baseline("longllmlingua"),
        _baseline("truncate-middle"),
        _baseline("full-context", bounded=False),
        _baseline("oracle", _oracle, whole=True),
    )
}
"""Rows of all other methods; `bounded` repeats that of the class.

"oracle" reads gold evidence only: an upper bound for the answers of the reader.
"""

_SECOND_READINGS = ("oracle", "gem-rag-questions", "graphreader-nodes", "youra-paper")

DEFAULT_SYSTEMS = (
    "evidence",
    "hwdag",
    "bm25",
    "dense",
    "dense@passage+title",
    *(name for name in BASELINES if name not in _SECOND_READINGS),
)
"""The default rows: of a method with two readings, the first."""
