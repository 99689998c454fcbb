"""Parameters of GraphReader; the numbers of the paper are in section 4.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwdag.options import CheckedOptions, at_least, share

Facts = Literal["auto", "written", "sentences"]
"""Where the facts of a chunk come from: the writer, or the text itself."""


@dataclass(frozen=True, slots=True)
class GraphReaderConfig(CheckedOptions):
    """How graphs are built and explored; the first four numbers are the paper's.

    Attributes:
        answers: "notebooks" is the paper's answer, reasoned by the writer over all notebooks. If
            that fails twice, or no notebook says anything, the reader answers from the nodes, and a
            note reports it. "nodes" always answers from the nodes, like all other methods.
        chunk_tokens: size of a chunk (L); smaller if the window is small.
        initial_nodes: nodes to explore, each on a path with its own notebook (N).
        max_calls: function calls per path.
        window_tokens: size of a prompt with its reply. Lists of facts and elements are cut to it.
        facts: "written" asks the writer for atomic facts and key elements. "sentences" takes the
            sentences of a chunk, with their names and content words. "auto" is "sentences" for a
            reader that prefers extraction if no writer was given, else "written".
        alias_similarity: cosine at which two elements merge.
        max_elements: elements shown at a time, those most similar to the question.
        fact_tokens: longest reply with the facts of a chunk.
        plan_tokens: longest plan.
        notebook_tokens: size of a notebook.
        reply_tokens: longest other reply; it must hold a notebook.
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
