"""Parameters of GraphReader; the paper's numbers are those of section 4.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwdag_lab.methods.options import CheckedOptions, at_least, share

Facts = Literal["auto", "written", "sentences"]
"""Who says what the facts of a chunk are: the writer, or the text itself."""


@dataclass(frozen=True, slots=True)
class GraphReaderConfig(CheckedOptions):
    """How graphs are built and explored. The first four numbers are the paper's, the rest ours.

    Attributes:
        answers: "notebooks" is the paper's answer, reasoned by the writer over all notebooks. Where
            that fails twice, or no notebook says anything, the nodes are answered from, and a note
            says so. "nodes" lets the reader answer from the nodes, as every other retriever.
        chunk_tokens: size of a chunk (L); smaller where the window is small.
        initial_nodes: nodes that are explored, each on a path with its own notebook (N).
        max_calls: function calls per path.
        window_tokens: size of a prompt and its reply. Lists of facts and elements are cut to it.
        facts: "written" asks the writer for atomic facts and key elements, "sentences" takes the
            sentences of a chunk and their names and content words. "auto" is "sentences" for a
            reader that prefers extraction where no writer was given, else "written".
        alias_similarity: cosine from which two elements are taken for one.
        max_elements: elements shown at a time, those most similar to the question.
        fact_tokens: length limit of the reply that lists the facts of a chunk.
        plan_tokens: length limit of the plan.
        notebook_tokens: size of a notebook.
        reply_tokens: length limit of all other replies; a notebook has to fit into it.
    """

    answers: Literal["notebooks", "nodes"] = "notebooks"
    chunk_tokens: int = at_least(8, 2000)
    initial_nodes: int = at_least(1, 5)
    max_calls: int = at_least(1, 10)
    window_tokens: int = at_least(64, 4096)
    facts: Facts = "auto"
    alias_similarity: float = share(0.9)
    max_elements: int = at_least(1, 100)
    fact_tokens: int = at_least(8, 1024)
    plan_tokens: int = at_least(8, 128)
    notebook_tokens: int = at_least(8, 192)
    reply_tokens: int = at_least(8, 320)
