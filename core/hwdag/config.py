"""`BuildConfig` and `SearchConfig`: immutable, validated, JSON-able. Numbers of the papers live here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from hwdag.checks import one_of, positive, refuse, whole
from hwdag.errors import InputError, UnknownOption

PAPER_CHUNK_TOKENS = 300  # length of a level-1 node (GARLIC 3.1)

PAPER_WINDOW_TOKENS = 8192  # n_s: prompt, window and summary together (GARLIC 4.1)

PAPER_CONFIDENCE = 0.5  # GARLIC, and PECAN for two of its data sets

PECAN_CONFIDENCE = {"narrativeqa": 0.5, "qasper": 0.98, "hotpotqa": 0.5, "musique": 0.55}
"""PECAN App. E."""

PAPER_PATIENCE = 1  # number of "Yes" that end the walk (GARLIC 3.2.1)

Leaves = Literal["sentences", "chunks"]
Points = Literal["auto", "generated", "required", "extractive"]
Edges = Literal["auto", "attention"]
Windows = Literal["content", "greedy"]
Progress = Literal["budget", "p_yes"]
Words = Literal["reader", "papers"]
HeadList = tuple[tuple[int, int], ...]  # (layer, query head) pairs, both counted from 0

Heads = Literal["auto", "all"] | HeadList


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """How a document becomes a graph.

    The defaults are ours; `BuildConfig.garlic()` has the papers' settings.

    Attributes:
        leaves: what level 1 consists of: "sentences", or "chunks" of many sentences as in the
            papers (`docs/evaluation.md` compares them).
        contextual: embed a leaf or a picked point together with the heading above it.
        chunk_tokens: the largest leaf, in tokens of the reader's tokenizer.
        window_tokens: tokens of prompt, window and points in one summary call, never more than the
            model's context. None is the reader's own default: 8,192 as in the papers, 2,048 for the
            embedded model.
        windows: where a window ends. "greedy" fills it, as the papers do. "content" may end it
            earlier, so that most windows stay the same after an edit.
        points: who makes the Information Points. "generated": the writer. "required": the writer,
            and an error if it is a reader too small to write. "extractive": sentences are picked.
            "auto": "extractive" for the embedded model, "generated" for any other.
        edges: where the edges of a point come from. "attention": the reader's attention to the
            window while it reads the point. "auto": the same for written points; a picked point has
            one edge, to its source, and needs no model (`docs/evaluation.md` compares them).
        language: language of written points: "same" as the text, or a name such as "German".
        edge_heads: heads whose attention makes the edges: "auto", "all" (the papers' mean) or
            (layer, head) pairs.
    """

    leaves: Leaves = "sentences"
    contextual: bool = True
    chunk_tokens: int = PAPER_CHUNK_TOKENS
    window_tokens: int | None = None
    windows: Windows = "content"
    points: Points = "auto"
    edges: Edges = "auto"
    language: str = "same"
    edge_heads: Heads = "auto"

    def __post_init__(self) -> None:
        whole("chunk_tokens", self.chunk_tokens, 8)
        if self.window_tokens is not None:
            whole("window_tokens", self.window_tokens, 64)
        words = {"leaves": Leaves, "points": Points, "edges": Edges, "windows": Windows}
        for name, legal in words.items():
            one_of(name, getattr(self, name), get_args(legal))
        object.__setattr__(self, "edge_heads", _heads(self.edge_heads, "edge_heads"))
        if not isinstance(self.language, str) or not self.language.strip():
            raise InputError(
                f'language must be "same" or a name such as "German", got {self.language!r}'
            )

    @classmethod
    def garlic(cls, **options: Any) -> Self:
        """The papers' settings: 300-token chunks, embedded as they are, the mean over all heads.

        Windows take 8,192 tokens and are filled to the brim, and points are written: a reader that
        is too small for it is an error, unless `points="generated"` insists, or a writer is passed.
        """
        papers: dict[str, Any] = {
            "leaves": "chunks",
            "contextual": False,
            "window_tokens": PAPER_WINDOW_TOKENS,
            "windows": "greedy",
            "points": "required",
            "edges": "attention",
            "edge_heads": "all",
        }
        return cls(**papers | options)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        return cls(**known_options(cls, options))


@dataclass(frozen=True, slots=True)
class Scoring:
    """What the score of an unvisited node consists of.

    The defaults are ours, found on training data (`docs/evaluation.md`); `Scoring.garlic()` and
    `Scoring.pecan()` are the formulas of the papers.

    Attributes:
        attention: weight of z = E^T r, the relevance that visited nodes pass on along the edges.
        similarity: weight of the similarity to the question.
        sparse: share of BM25 in the similarity. The rest is cosine similarity of embeddings.
        paragraph: share of the most similar leaf of the same paragraph in a node's similarity, so
            that sentences beside a good one are read sooner.
        mentions: weight for nodes under a heading that a visited node mentions.
        echoes: weight for nodes that share rare words with a visited node, other than those of the
            question.
        scale: how attention and similarity are made comparable. "peak" divides each by its largest
            value (of attention, among nodes that are not read yet). "share" divides each by its sum
            over all nodes (GARLIC 3.2.2). "none" adds both as they are (PECAN).
    """

    attention: float = 0.1
    similarity: float = 1.0
    sparse: float = 0.3
    paragraph: float = 0.1
    mentions: float = 0.3
    echoes: float = 0.3
    scale: Literal["share", "peak", "none"] = "peak"

    def __post_init__(self) -> None:
        one_of("scale", self.scale, ("share", "peak", "none"))
        for name in ("attention", "similarity", "sparse", "paragraph", "mentions", "echoes"):
            value = getattr(self, name)
            if not 0.0 <= value < float("inf"):
                raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")
        for name in ("sparse", "paragraph"):
            if getattr(self, name) > 1.0:
                raise InputError(f"{name} is a share, at most 1, got {getattr(self, name)!r}")

    @property
    def refers(self) -> bool:
        """Whether visited nodes pass relevance on to what they refer to."""
        return self.mentions > 0 or self.echoes > 0

    @classmethod
    def garlic(cls) -> Self:
        """Z / sum(z) + sim / sum(sim) (GARLIC 3.2.2)."""
        ours = dict.fromkeys(("sparse", "paragraph", "mentions", "echoes"), 0.0)
        return cls(attention=1.0, similarity=1.0, scale="share", **ours)

    @classmethod
    def pecan(cls) -> Self:
        """z, which PECAN's equation 1 defines, and the similarity added as it is."""
        return replace(cls.garlic(), scale="none")


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How a question walks the graph.

    The defaults are ours; `SearchConfig.garlic()` and `SearchConfig.pecan()` have the papers' settings.

    Attributes:
        token_budget: node tokens put before the reader, at most. The embedded model answers worse
            from 1,024 than from 512 (`docs/evaluation.md`); a larger one may use more.
        progress: when the walk stops. "budget": when the budget is used. "p_yes": when the reader
            says that it has enough, as in the papers; the embedded model says so too early
            (`docs/progress.md`).
        confidence: a "Yes" counts if p_yes exceeds this (t_p of PECAN). None is the reader's own
            value, or PECAN's 0.5.
        patience: number of counted "Yes" that stop the walk (t_s of PECAN).
        heads: heads whose attention to the question is read: "all" (the papers' mean), "auto" (the
            head list of the model, else "all"), or (layer, head) pairs.
        scoring: what the score of the next node consists of.
        navigator: embeds the question again, together with each of the first nodes that were read,
            to find the next hop, and chooses among the best nodes. "default" is the one for the default
            embedder; a folder holds your own; None is none. "auto" is "default" where the embedder is
            that one, `scoring` is the default, and no relevance is passed on along edges.
        initial_share: share of the budget for the most similar top-level nodes, which are read
            first: a number, or "equal" for 1 / number of levels (GARLIC 4.4). "auto" is "equal" for
            written points and 0 for extractive ones, which only repeat leaves.
        max_new_tokens: the longest answer, in tokens.
        max_seconds: read no more nodes after this time, and answer from what was read.
        words: how the reader is asked. "reader": as it is used to, in one turn where nobody trained
            it. "papers": in the two turns of the papers. `Prompts.search` goes before both.
    """

    token_budget: int = 512
    progress: Progress = "budget"
    confidence: float | None = None
    patience: int = PAPER_PATIENCE
    heads: Heads = "auto"
    scoring: Scoring = field(default_factory=Scoring)
    navigator: str | None = "auto"
    initial_share: float | Literal["auto", "equal"] = "auto"
    max_new_tokens: int = 64
    max_seconds: float | None = None
    words: Words = "reader"

    def __post_init__(self) -> None:
        for name in ("token_budget", "patience", "max_new_tokens"):
            whole(name, getattr(self, name), 1)
        if self.max_seconds is not None:
            positive("max_seconds", self.max_seconds)
        one_of("progress", self.progress, get_args(Progress))
        one_of("words", self.words, get_args(Words))
        if self.confidence is not None and not 0.0 <= self.confidence < 1.0:
            raise InputError(f"confidence must be in [0, 1), got {self.confidence!r}")
        share = self.initial_share
        if share not in ("auto", "equal") and not (
            isinstance(share, int | float) and 0.0 <= share <= 1.0
        ):
            raise InputError(
                f'initial_share must be "auto", "equal" or a number in [0, 1], got {share!r}'
            )
        object.__setattr__(self, "heads", _heads(self.heads, "heads"))

    @classmethod
    def garlic(cls, **options: Any) -> Self:
        """GARLIC's settings: its score, the mean over all heads, p_yes above 0.5 ends the walk.

        All top-level nodes are read first, the most similar ones where they exceed the budget.
        """
        papers: dict[str, Any] = {
            # why: p_yes is to end the walk, not a budget that top level and one chunk use up
            "token_budget": 1024,
            "progress": "p_yes",
            "scoring": Scoring.garlic(),
            "heads": "all",
            "navigator": None,
            "initial_share": 1.0,
            "confidence": PAPER_CONFIDENCE,
            "patience": PAPER_PATIENCE,
            "words": "papers",
        }
        return cls(**papers | options)

    @classmethod
    def pecan(cls, data: str | None = None, **options: Any) -> Self:
        """PECAN's settings: as GARLIC's, with its score and its confidence.

        Args:
            data: one of its data sets, which decides the confidence (`PECAN_CONFIDENCE`); None
                for 0.5.
            options: any others.
        """
        if data is not None and data not in PECAN_CONFIDENCE:
            known = ", ".join(PECAN_CONFIDENCE)
            raise UnknownOption(f"PECAN has thresholds for {known}, got {data!r}")
        confidence = PAPER_CONFIDENCE if data is None else PECAN_CONFIDENCE[data]
        papers: dict[str, Any] = {"scoring": Scoring.pecan(), "confidence": confidence}
        return cls.garlic(**papers | options)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        found = known_options(cls, options)
        if isinstance(found.get("scoring"), Mapping):
            found["scoring"] = Scoring(**known_options(Scoring, found["scoring"]))
        return cls(**found)


def known_options(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` as a dict, after checking every name against the fields of dataclass `cls`."""
    names = [f.name for f in fields(cls)]
    unknown = {name: value for name, value in options.items() if name not in names}
    refuse(unknown, cls.__name__, ", ".join(names))
    return dict(options)


def checked_k(k: int | None) -> int | None:
    """`k` itself. Raises `InputError` unless it is a whole number of at least 1, or None."""
    return None if k is None else whole("k", k, 1)


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
