"""`BuildConfig` and `SearchConfig`: immutable, validated, JSON-able. Numbers of the papers live here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from hwdag.errors import InputError, UnknownOption

PAPER_CHUNK_TOKENS = 300
"""Length of a level-1 node (GARLIC 3.1)."""

PAPER_WINDOW_TOKENS = 8192
"""n_s: prompt, window and summary together (GARLIC 4.1)."""

PAPER_CONFIDENCE = 0.5
"""PECAN App. E for NarrativeQA and HotpotQA; it uses 0.98 for Qasper and 0.55 for MuSiQue."""

PAPER_PATIENCE = 1
"""Number of "Yes" that end the walk (GARLIC 3.2.1)."""

Points = Literal["auto", "generated", "extractive"]
Progress = Literal["auto", "p_yes", "budget"]
HeadList = tuple[tuple[int, int], ...]
"""(layer, query head) pairs, both counted from 0."""

Heads = Literal["auto", "all"] | HeadList


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """How a document becomes a graph.

    Attributes:
        chunk_tokens: at most this many tokens of the reader's tokenizer per chunk.
        window_tokens: tokens of prompt + window + points in one summary call; None takes the
            reader's own default (8,192 as in the papers, 2,048 for the embedded model), and the
            model's context is never exceeded.
        points: who makes the Information Points. "generated" asks the writer, "extractive" picks
            sentences, "auto" is extractive for the embedded model and generated for any other.
        points_ratio: tokens of extractive points per token of the window.
        summary_tokens: room for the points within `window_tokens`, as a share of it.
        language: of generated points: "same" as the text, or a language's name ("German").
        edge_heads: heads whose attention makes the edges ("all" is the papers' mean).
        batch_size: windows that are summarised or replayed in one forward.
        max_levels: guard for texts that do not shrink.
    """

    chunk_tokens: int = PAPER_CHUNK_TOKENS
    window_tokens: int | None = None
    points: Points = "auto"
    points_ratio: float = 0.2
    summary_tokens: float = 0.25
    language: str = "same"
    edge_heads: Heads = "auto"
    batch_size: int = 4
    max_levels: int = 12

    def __post_init__(self) -> None:
        _at_least(self, "chunk_tokens", 8)
        _at_least(self, "batch_size", 1)
        _at_least(self, "max_levels", 2)
        if self.window_tokens is not None:
            _at_least(self, "window_tokens", 64)
        _one_of(self, "points", get_args(Points))
        _share(self, "points_ratio")
        _share(self, "summary_tokens")
        object.__setattr__(self, "edge_heads", _heads(self.edge_heads, "edge_heads"))
        if not self.language.strip():
            raise InputError('language is empty; use "same" or a name such as "German"')

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        return cls(**known_options(cls, options))


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How a question walks the graph.

    Attributes:
        token_budget: node tokens put before the reader, at most.
        progress: who says "enough". "p_yes" is the papers' rule; "budget" walks until the budget is
            used; "auto" is "p_yes" unless the reader says that its p_yes carries no information.
        confidence: a "Yes" is counted where p_yes exceeds it (t_p of PECAN).
        patience: counted "Yes" that stop the walk (t_s of PECAN).
        heads: heads whose attention to the question is read: "all" (the papers' mean), "auto" (the
            head list known for the model, else "all"), or (layer, head) pairs.
        max_new_tokens: length limit of the answer.
    """

    token_budget: int = 1024
    progress: Progress = "auto"
    confidence: float = PAPER_CONFIDENCE
    patience: int = PAPER_PATIENCE
    heads: Heads = "auto"
    max_new_tokens: int = 64

    def __post_init__(self) -> None:
        _at_least(self, "token_budget", 1)
        _at_least(self, "patience", 1)
        _at_least(self, "max_new_tokens", 1)
        _one_of(self, "progress", get_args(Progress))
        if not 0.0 <= self.confidence < 1.0:
            raise InputError(f"confidence must be in [0, 1), got {self.confidence!r}")
        object.__setattr__(self, "heads", _heads(self.heads, "heads"))

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Self:
        """Build from JSON-like options; an unknown name raises `UnknownOption`."""
        return cls(**known_options(cls, options))


def known_options(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` as a dict, after checking every name against the fields of dataclass `cls`."""
    names = [f.name for f in fields(cls)]
    unknown = {name: value for name, value in options.items() if name not in names}
    refuse(unknown, cls.__name__, ", ".join(names))
    return dict(options)


def checked_k(k: int | None) -> int | None:
    """`k` itself. Raises `InputError` unless it is a whole number of at least 1, or None."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InputError(
            f"k must be a whole number of at least 1, got {k!r}; leave it out to let the walk decide"
        )
    return k


def refuse(unknown: Mapping[str, object], where: str, known: str) -> None:
    """Raise `UnknownOption` for whatever `**kwargs` left over."""
    if unknown:
        names = ", ".join(map(repr, sorted(unknown)))
        raise UnknownOption(f"{where} has no option {names}; it has {known}")


def _at_least(config: object, name: str, minimum: int) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")


def _share(config: object, name: str) -> None:
    value = getattr(config, name)
    if not 0.0 < value < 1.0:
        raise InputError(f"{name} must be between 0 and 1, got {value!r}")


def _one_of(config: object, name: str, legal: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in legal:
        raise UnknownOption(f"{name} must be one of {', '.join(legal)}, got {value!r}")


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
