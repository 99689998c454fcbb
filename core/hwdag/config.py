"""`BuildConfig` and `SearchConfig`: immutable, validated, JSON-able. Numbers of the papers live here.

A method decides whatever an option leaves open; `METHOD_DEFAULTS` is the table of all four.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, Self, get_args

from hwdag.checks import refuse, whole
from hwdag.errors import InputError
from hwdag.options import CheckedOptions, at_least, between

PAPER_CHUNK_TOKENS = 300  # length of a level-1 node (GARLIC 3.1)

PAPER_WINDOW_TOKENS = 8192  # n_s: prompt, window and summary together (GARLIC 4.1)

PAPER_CONFIDENCE = 0.5  # GARLIC, and PECAN for two of its data sets

PECAN_CONFIDENCE = {"narrativeqa": 0.5, "qasper": 0.98, "hotpotqa": 0.5, "musique": 0.55}
"""PECAN App. E: `SearchConfig(method="pecan", confidence=PECAN_CONFIDENCE["qasper"])`."""

REPLY_TOKENS = 128  # the longest reply of the LLM wrappers in the faces
MAX_NEW_TOKENS = 64  # the longest answer of a reader, unless the call has another length
OVERVIEW_TOKENS = 200  # the same, to a question about the whole of the documents
ANSWERER_TOKENS = 1024  # that of an answerer, which may think before it answers
TOKEN_BUDGET = 512  # of evidence: readers of up to 1.5 billion weights answer no better from more
ANSWERER_BUDGET = 2048  # that of an answerer, which is taken to be a larger model

PAPER_PATIENCE = 1  # number of "Yes" that end the walk (GARLIC 3.2.1)

NEVER = 1.0
"""A confidence that no p_yes exceeds: the reader is not asked whether it has enough."""

Method = Literal["evidence", "hwdag", "garlic", "pecan"]
Leaves = Literal["sentences", "chunks"]
Points = Literal["auto", "generated", "extractive"]
Scale = Literal["share", "peak", "none"]
HeadList = tuple[tuple[int, int], ...]  # (layer, query head) pairs, both counted from 0

Heads = Literal["auto", "all"] | HeadList


@dataclass(frozen=True, slots=True)
class BuildConfig(CheckedOptions):
    """How a document becomes a graph. An option that is None takes the method's default.

    Attributes:
        method: "evidence": leaves alone; no language model is asked. "hwdag" (not in the papers): a model writes
            Information Points level by level, and attention makes their edges. "garlic", "pecan":
            the same to the letter of the papers. "auto": "hwdag" if the reader can write, or a
            writer is passed; else "evidence".
        leaves: the nodes of level 1: "sentences", or "chunks" of many sentences as in the papers
            (`docs/results.md` compares them).
        chunk_tokens: the largest leaf, in tokens of the reader's tokenizer.
        window_tokens: tokens of prompt, window and points in one summary call, never more than the
            model's context. None is 8,192 as in the papers, or the reader's own default.
        points: the origin of Information Points. "generated": a model; an error if none can write.
            "extractive": sentences are picked. "auto": "generated" if a model can write, else
            "extractive"; the papers' methods insist on "generated".
        language: language of written points: "same" as the text, a name such as "German", or "" to
            leave it to the model, as the papers do.
        edge_heads: heads whose attention makes the edges: "auto" (the head list of the model, else
            all of them), "all" (the papers' mean) or (layer, head) pairs.
    """

    method: Method | Literal["auto"] = "auto"
    leaves: Leaves | None = None
    chunk_tokens: int = at_least(8, PAPER_CHUNK_TOKENS)
    window_tokens: int | None = at_least(64, None)
    points: Points = "auto"
    language: str | None = None
    edge_heads: Heads = "auto"

    def __post_init__(self) -> None:
        CheckedOptions.__post_init__(self)
        object.__setattr__(self, "edge_heads", _heads(self.edge_heads, "edge_heads"))
        if self.language and not self.language.strip():
            raise InputError(
                f'language must be "same" or a name such as "German", got {self.language!r}'
            )

    def resolved(self, method: Method) -> Self:
        """Return the config with every field set, for the method that "auto" resolves to."""
        method = method if self.method == "auto" else self.method
        rules = METHOD_DEFAULTS[method]
        return replace(
            self,
            method=method,
            leaves=self.leaves or rules.leaves,
            window_tokens=self.window_tokens or rules.window_tokens,
            points="generated" if rules.follows_papers and self.points == "auto" else self.points,
            language=self.language or ("" if rules.follows_papers else "same"),
            edge_heads="all"
            if rules.follows_papers and self.edge_heads == "auto"
            else self.edge_heads,
        )

    @property
    def rules(self) -> MethodDefaults:
        """The defaults of its method; raises `InputError` if that is still "auto"."""
        if self.method == "auto":
            raise InputError('method="auto" is not resolved yet; it needs a reader')
        return METHOD_DEFAULTS[self.method]

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        return cls(**known_options(cls, options))


@dataclass(frozen=True, slots=True)
class Scoring(CheckedOptions):
    """The parts of the score of an unvisited node.

    The defaults are ours, found on training data (`docs/results.md`).

    Attributes:
        attention: weight of z = E^T r, the relevance that visited nodes pass on along the edges.
        similarity: weight of the similarity to the question.
        bm25_weight: share of BM25 in the similarity. The rest is cosine similarity of embeddings.
        paragraph_weight: share of the most similar leaf of the same paragraph in a node's similarity, so
            that sentences next to a good one are read sooner.
        references: weight for nodes that a visited node refers to: it mentions their heading, or
            shares rare words with them that the question does not have.
    """

    attention: float = at_least(0, 0.1)
    similarity: float = at_least(0, 1.0)
    bm25_weight: float = between(0, 1, 0.3)
    paragraph_weight: float = between(0, 1, 0.1)
    references: float = at_least(0, 0.3)

    @classmethod
    def papers(cls) -> Self:
        """Attention and similarity alone, which count the same (GARLIC 3.2.2, PECAN Eq. 1)."""
        return cls(
            attention=1.0, similarity=1.0, bm25_weight=0.0, paragraph_weight=0.0, references=0.0
        )


@dataclass(frozen=True, slots=True)
class SearchConfig(CheckedOptions):
    """How a question is searched for. An option that is None takes the method's default.

    Attributes:
        method: that of the index, unless it is given here (`BuildConfig.method`): an index of leaves
            alone can only be searched as "evidence".
        token_budget: node tokens put before the reader, at most, and never more than its context
            holds. 512, since small models answer no better from more (`docs/results.md`); 2,048 if an
            answerer answers and the reader need not read along; 8,192 for the papers.
        confidence: a "Yes" counts if p_yes exceeds this (t_p of PECAN). 1 asks for no p_yes: the
            budget alone ends the search, as it does for "evidence". "hwdag" takes the reader's own
            value; the papers have 0.5 (`PECAN_CONFIDENCE` has more).
        patience: number of counted "Yes" that end the walk (t_s of PECAN).
        heads: heads whose attention to the question is read: "all" (the papers' mean), "auto" (the
            head list of the model, else "all"), or (layer, head) pairs.
        scoring: the parts of the score of the next node.
        navigator: embeds the question again, together with each of the first nodes that were read,
            to find the next hop, and chooses among the best nodes. "default" is the one for the
            default embedder; a folder holds your own; "none" is none. "auto" is "default" if the
            embedder is that one and `scoring` is ours, and none for the papers.
    """

    method: Method | None = None
    token_budget: int | None = at_least(1, None)
    confidence: float | None = between(0, NEVER, None)
    patience: int = at_least(1, PAPER_PATIENCE)
    heads: Heads = "auto"
    scoring: Scoring | None = None
    navigator: str = "auto"

    def __post_init__(self) -> None:
        CheckedOptions.__post_init__(self)
        object.__setattr__(self, "heads", _heads(self.heads, "heads"))

    def plan(
        self,
        method: Method = "evidence",
        confidence: float = NEVER,
        *,
        external_generator: bool = False,
    ) -> SearchPlan:
        """Return the plan for an index of this method and a reader of this confidence."""
        method = self.method or method
        rules = METHOD_DEFAULTS[method]
        sure = confidence if rules.confidence is None else rules.confidence
        wanted = sure if self.confidence is None else self.confidence
        plan = SearchPlan(
            rules=rules,
            token_budget=self.token_budget or rules.token_budget,
            confidence=wanted,
            patience=self.patience,
            heads="all" if rules.follows_papers and self.heads == "auto" else self.heads,
            scoring=self.scoring or rules.scoring,
            navigator="none"
            if rules.follows_papers and self.navigator == "auto"
            else self.navigator,
        )
        if external_generator and not self.token_budget and not plan.reads_during_search:
            return replace(plan, token_budget=ANSWERER_BUDGET)
        return plan

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        found = known_options(cls, options)
        if isinstance(found.get("scoring"), Mapping):
            found["scoring"] = Scoring(**known_options(Scoring, found["scoring"]))
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDefaults:
    """The decisions of a method.

    Attributes:
        method: its name.
        follows_papers: as the papers have it, to the letter: their prompts, windows filled to the brim, no
            headings before nodes, all heads, no navigator.
        has_points: a graph of Information Points with edges of attention.
        leaves, window_tokens: of `BuildConfig`.
        token_budget, confidence, scoring: of `SearchConfig`; a confidence of None is the reader's.
        initial_share: share of the budget for top-level nodes, which are read before the reader is
            asked anything.
        points_share: tokens of points, those included, as a share of the budget; then leaves alone
            are read.
        keeps_points: written points stay in the context, and take their tokens from the budget;
            otherwise they only pass on their relevance, and an answer rests on the text alone.
        scale: how attention and similarity become comparable: each divided by its sum over all nodes
            ("share", GARLIC 3.2.2) or its largest value ("peak", of attention among unread nodes), or
            added as they are ("none", PECAN).
    """

    method: Method
    follows_papers: bool = False
    has_points: bool = True
    leaves: Leaves = "sentences"
    window_tokens: int | None = None
    token_budget: int = TOKEN_BUDGET
    confidence: float | None = None
    scoring: Scoring = Scoring()
    initial_share: float = 0.0
    points_share: float = 1.0
    keeps_points: bool = True
    scale: Scale = "peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A `SearchConfig` with everything that its method decides; `SearchConfig.plan` makes it."""

    rules: MethodDefaults
    token_budget: int
    confidence: float
    patience: int
    heads: Heads
    scoring: Scoring
    navigator: str

    @property
    def reads_during_search(self) -> bool:
        """Whether the reader reads every node as it is visited.

        It does if p_yes may end the search, and if points stay in the context. Otherwise leaves are
        read together, and nothing but points before.
        """
        keeps = self.rules.has_points and self.rules.keeps_points
        return keeps or self.confidence < NEVER


_PAPERS = MethodDefaults(
    method="garlic",
    follows_papers=True,
    leaves="chunks",
    window_tokens=PAPER_WINDOW_TOKENS,
    token_budget=PAPER_WINDOW_TOKENS,  # GARLIC 4.1: the search shares n_s
    confidence=PAPER_CONFIDENCE,
    scoring=Scoring.papers(),
    initial_share=1.0,
    scale="share",
)

METHOD_DEFAULTS: Mapping[Method, MethodDefaults] = {
    "evidence": MethodDefaults(
        method="evidence",
        has_points=False,
        confidence=NEVER,
        scoring=Scoring(attention=0.0),
    ),
    "hwdag": MethodDefaults(
        method="hwdag",
        initial_share=1 / 8,
        points_share=1 / 4,
        keeps_points=False,
    ),
    "garlic": _PAPERS,
    "pecan": replace(_PAPERS, method="pecan", scale="none"),
}


def known_options(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` as a dict, after checking every name against the fields of dataclass `cls`."""
    names = [f.name for f in fields(cls)]
    unknown = {name: value for name, value in options.items() if name not in names}
    refuse(unknown, cls.__name__, ", ".join(names))
    return dict(options)


def checked_k(k: int | None) -> int | None:
    """`k` itself. Raises `InputError` unless it is a whole number of at least 1, or None."""
    return None if k is None else whole("k", k, 1)


def checked_config(config: object, cls: type[Any]) -> Any:
    """Return the config, or the defaults for None. Raises `InputError` for anything else."""
    if config is None:
        return _defaults(cls)  # type: ignore[arg-type] # a type is hashable
    if isinstance(config, cls):
        return config
    hint = f'; pass {cls.__name__}(method="{config}")' if config in get_args(Method) else ""
    raise InputError(f"config must be a {cls.__name__}, got {config!r}{hint}")


@cache
def _defaults(cls: type[Any]) -> Any:
    return cls()


def config_with(config: BuildConfig | None, method: str | None) -> BuildConfig | None:
    """Return the config with a method that was given separately. Raises `InputError` for another class."""
    if method is None:
        return config
    found: BuildConfig = checked_config(config, BuildConfig)
    return replace(found, method=method)  # type: ignore[arg-type] # it takes any word


def _heads(value: Any, name: str) -> Heads:
    if value in ("auto", "all"):
        return value  # type: ignore[no-any-return]
    try:
        pairs = tuple((int(layer), int(head)) for layer, head in value)
    except (TypeError, ValueError):
        pairs = ()
    if not pairs or any(layer < 0 or head < 0 for layer, head in pairs):
        raise InputError(
            f'{name} must be "auto", "all" or a non-empty list of (layer, head) pairs '
            f"counted from 0, got {value!r}"
        )
    return pairs
