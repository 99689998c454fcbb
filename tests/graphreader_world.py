"""A small document for GraphReader, and an agent that follows a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hwdag.embedding.hashing import HashingEmbedder
from hwdag.types import Document
from hwdag_lab.methods.graphreader import GraphReaderConfig, GraphReaderRetriever
from hwdag_lab.methods.graphreader.graph import FactGraph
from hwdag_lab.scripted import ScriptedLM

PARAGRAPHS = (
    "The harbour was built by Clara Holm in 1871. It has two walls.",
    "Clara Holm was born in Arden. Her mother Ida Holm painted ships.",
    "Arden lies on the river Tam. A ferry crosses it at dawn.",
    "The bell of the ferry was cast by Otto Brill. It wakes the village.",
)
TEXT = "\n\n".join(PARAGRAPHS)
QUESTION = "Where was the builder of the harbour born?"

SMALL = GraphReaderConfig(chunk_tokens=16, initial_nodes=1)
"""One paragraph per chunk, and one path."""

WRITTEN = {
    "The harbour was built": "* Clara Holm built the harbour in 1871 | Clara Holm; harbour; built\n"
    "* The harbour has two walls | harbour; walls",
    "Clara Holm was born": "* Clara Holm was born in Arden | Clara Holm; Arden; born\n"
    "* Ida Holm painted ships | Ida Holm; ships; painted",
    "Arden lies": "* Arden lies on the river Tam | Arden; Tam; river\n"
    "* A ferry crosses the river Tam at dawn | ferry; Tam; dawn",
    "The bell of": "* Otto Brill cast the bell of the ferry | Otto Brill; bell; ferry\n"
    "* The bell wakes the village | bell; village",
}
"""Facts by the beginning of the paragraph."""

STAGES = {
    "List the atomic facts": "build",
    "Write a plan": "plan",
    "should the search for an answer start": "initial",
    'These are atomic facts about "': "facts",
    "This is chunk ": "chunk",
    "neighboring elements:": "neighbors",
    "Several readers searched": "answer",
}

Reply = str | Callable[[str], str]


def stage_of(prompt: str) -> str:
    """Return the kind of reply that a prompt asks for."""
    return next(stage for mark, stage in STAGES.items() if mark in prompt)


def write_facts(prompt: str) -> str:
    """Return the facts of the one paragraph in a prompt."""
    return "\n".join(reply for mark, reply in WRITTEN.items() if mark in prompt)


class Script:
    """A Writer with replies per stage; the last one of a stage is repeated for ever.

    Attributes:
        asked: (stage, prompt) of all prompts.
        batches: stages of the prompts of every call.
    """

    name = "script"

    def __init__(self, **replies: Reply | Sequence[Reply]) -> None:
        defaults: Mapping[str, Any] = {
            "build": write_facts,
            "plan": "Plan: find who built the harbour, then where she was born.",
            "initial": "* harbour",
            "facts": "no idea",
            "chunk": "no idea",
            "neighbors": "no idea",
            "answer": "no idea",
        }
        self._replies = {
            stage: list(several) if isinstance(several, list | tuple) else [several]
            for stage, several in {**defaults, **replies}.items()
        }
        self.asked: list[tuple[str, str]] = []
        self.batches: list[list[str]] = []

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        self.batches.append([stage_of(prompt) for prompt in prompts])
        return [self._reply(prompt) for prompt in prompts]

    def prompts(self, stage: str) -> list[str]:
        """Return the prompts of one stage."""
        return [prompt for asked, prompt in self.asked if asked == stage]

    def _reply(self, prompt: str) -> str:
        stage = stage_of(prompt)
        self.asked.append((stage, prompt))
        replies = self._replies[stage]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply(prompt) if callable(reply) else reply


count = ScriptedLM().count_tokens


def retriever(
    script: Script | None = None, documents: Sequence[Document] | None = None, **options: Any
) -> GraphReaderRetriever:
    """Over `TEXT`, unless documents are given."""
    given = {
        "reader": ScriptedLM(),
        "embedder": HashingEmbedder(4096),
        "writer": Script() if script is None else script,
        "config": SMALL,
    }
    found = [Document("doc", TEXT)] if documents is None else documents
    return GraphReaderRetriever.from_documents(found, **given | options)


def in_two(**options: Any) -> GraphReaderRetriever:
    """Over two documents that share elements."""
    first, second = "\n\n".join(PARAGRAPHS[:2]), "\n\n".join(PARAGRAPHS[2:])
    documents = [Document("a", first), Document("b", second, metadata={"kind": "river"})]
    return retriever(documents=documents, **options)


def act(function: str, notebook: str = "Clara Holm built it.") -> str:
    """Return a reply in the format that is asked for."""
    return f"Notebook: {notebook}\nReason: so\nAction: {function}"


def last_chunk(prompt: str) -> str:
    """Reads the last chunk that facts are shown of."""
    shown = re.findall(r"Chunk ID (\d+)", prompt)
    return act(f"read_chunk([{shown[-1]}])")


READING = {
    "initial": "* harbour\n* Clara Holm\n* Otto Brill",
    "facts": last_chunk,
    "chunk": act("termination()", "She was born in Arden."),
}
THREE = GraphReaderConfig(chunk_tokens=16, initial_nodes=3)


def graph_of(**options: Any) -> FactGraph:
    """Return the graph of the one document of a retriever."""
    return retriever(**options).graphs["doc"]
