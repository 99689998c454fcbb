"""Parameters of GraphReader; the paper's numbers are those of section 4.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hwdag.errors import UnknownOption
from hwdag_lab.methods.options import check_counts, check_shares

Facts = Literal["auto", "written", "sentences"]
"""Who says what the facts of a chunk are: the writer, or the text itself."""

Answers = Literal["nodes", "notebooks"]
"""What `answer` rests on: the nodes, as for all retrievers, or the agent's notebooks, as the paper."""


@dataclass(frozen=True, slots=True)
class GraphReaderConfig:
    """How graphs are built and explored. The first four numbers are the paper's, the rest ours.

    Attributes:
        chunk_tokens: of a chunk (L); cut down where the window is small.
        initial_nodes: that are explored, each on a path with a notebook of its own (N).
        max_calls: function calls per path.
        window_tokens: of a prompt and its reply. Lists of facts and elements are cut to it.
        facts: "written" asks the writer for atomic facts and key elements, "sentences" takes the
            sentences of a chunk and their names and content words. "auto" is "sentences" for a
            reader that prefers extraction where no writer was given, else "written".
        alias_similarity: cosine from which two elements are taken for one.
        max_elements: shown at a time, those most similar to the question.
        fact_tokens: length limit of the reply that lists the facts of a chunk.
        plan_tokens: length limit of the plan.
        notebook_tokens: of a notebook.
        reply_tokens: length limit of all other replies; a notebook has to fit into it.
        batch_size: prompts that are answered in one forward.
    """

    chunk_tokens: int = 2000
    initial_nodes: int = 5
    max_calls: int = 10
    window_tokens: int = 4096
    facts: Facts = "auto"
    alias_similarity: float = 0.9
    max_elements: int = 100
    fact_tokens: int = 1024
    plan_tokens: int = 128
    notebook_tokens: int = 192
    reply_tokens: int = 320
    batch_size: int = 5

    def __post_init__(self) -> None:
        least = {
            "chunk_tokens": 8,
            "initial_nodes": 1,
            "max_calls": 1,
            "window_tokens": 64,
            "max_elements": 1,
            "fact_tokens": 8,
            "plan_tokens": 8,
            "notebook_tokens": 8,
            "reply_tokens": 8,
            "batch_size": 1,
        }
        check_counts(self, least)
        check_shares(self, ("alias_similarity",))
        if self.facts not in get_args(Facts):
            known = ", ".join(map(repr, get_args(Facts)))
            raise UnknownOption(f"facts must be one of {known}, got {self.facts!r}")
