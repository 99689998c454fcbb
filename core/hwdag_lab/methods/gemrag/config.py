"""Options and prompts of GEM-RAG. The paper describes its prompts but does not print them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hwdag.errors import UnknownOption
from hwdag_lab.methods.options import check_counts, check_shares

Mode = Literal["graph", "questions"]
"""Best-first search over the graph (the paper's text), or a ranking of all utility questions (its
Algorithm 1)."""

Themes = Literal["spectral", "kmeans"]
"""What the summarised nodes have in common: an eigenvector of the graph, or a cluster (Table I)."""

SUMMARY = (
    "The following passages of a document belong to one theme. Summarize what they say about it, "
    "including as many key details as possible: {text}:"
)


@dataclass(frozen=True, slots=True)
class GemRagConfig:
    """How memory graphs are built.

    Length of chunks, number of questions and of eigenvectors are the paper's; the rest is ours.

    Attributes:
        chunk_tokens: of a node; chunks end with sentences.
        questions: m, asked for per node; 0 compares the texts themselves (paper, Figure 2).
        question_tokens: length limit of a reply with questions.
        themes: what is summarised.
        components: number of themes; None counts them by the gap rule of Remark 2.
        members: e, nodes that a theme is summarised of, at most.
        near_one: how far below 1 the ratio of eigenvalue d to the first may be for d themes.
        gap: c, how far the next ratio must be below that one.
        max_components: themes that the gap rule looks for.
        summary_tokens: at most this many tokens per summary.
        ratio: tokens of an extractive summary per token of its members.
    """

    chunk_tokens: int = 100
    questions: int = 5
    question_tokens: int = 192
    themes: Themes = "spectral"
    components: int | None = 2
    members: int = 10
    near_one: float = 0.5
    gap: float = 0.1
    max_components: int = 10
    summary_tokens: int = 100
    ratio: float = 0.28

    def __post_init__(self) -> None:
        least = {
            "chunk_tokens": 8,
            "questions": 0,
            "question_tokens": 8,
            "components": 0,
            "members": 2,
            "max_components": 2,
            "summary_tokens": 8,
        }
        check_counts(self, least, may_be_none=("components",))
        check_shares(self, ("near_one", "gap", "ratio"))
        if self.themes not in get_args(Themes):
            raise UnknownOption(f'themes must be "spectral" or "kmeans", got {self.themes!r}')
