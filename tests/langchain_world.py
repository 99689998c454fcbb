"""Two documents of a village in the LangChain package, shared by its tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from hwdag.arrays import Vectors
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import BUILD_EVENT, STEP_EVENT, HWDAGIndex

QUESTION = "Who mends the bell of the ferry?"

MILL = (
    "The miller keeps grain behind the river. He counts the sacks at night. "
    "Every autumn the wheel is greased with tallow."
)
FERRY = (
    "The ferry crosses the river at dawn. Its bell wakes the village. "
    "The smith mends the bell of the ferry and is paid in grain."
)
DOCUMENTS = [
    Document(id="mill", page_content=MILL, metadata={"source": "a.txt", "title": "Mill", "n": [1]}),
    Document(id="ferry", page_content=FERRY, metadata={"source": "b.txt"}),
]

CHUNKS = BuildConfig(chunk_tokens=12, method="hwdag")
"""Small enough that every document has several chunks and a level above them."""


def an_index(documents=None, **options):
    made = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "config": CHUNKS} | options
    return HWDAGIndex.from_documents(DOCUMENTS if documents is None else documents, **made)


def a_slow_index(p_yes):
    """Return its walks call `p_yes` from their thread after every forward."""
    return an_index(reader=ScriptedLM(p_yes=p_yes))


def available(index, question=QUESTION):
    """Number of nodes, without those that are read as a part of another."""
    return len(index.index.search(question, k=99).best(99))


def texts(documents):
    return [document.page_content for document in documents]


@dataclass(frozen=True)
class Told:
    """A custom event."""

    name: str
    data: dict[str, Any]
    run_id: UUID
    tags: list[str]
    metadata: dict[str, Any]


class Recorder(BaseCallbackHandler):
    """Custom events; `raise_error` so that an assertion is not swallowed."""

    raise_error = True

    def __init__(self, on_step: Callable[[], object] = lambda: None) -> None:
        self.told: list[Told] = []
        self._on_step = on_step

    def on_custom_event(
        self, name: str, data: Any, *, run_id: UUID, tags: Any, metadata: Any, **_: Any
    ) -> None:
        self.told.append(Told(name, data, run_id, list(tags), dict(metadata)))
        if name == STEP_EVENT:
            self._on_step()

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [told.data for told in self.told if told.name == STEP_EVENT]

    @property
    def builds(self) -> list[dict[str, Any]]:
        return [told.data for told in self.told if told.name == BUILD_EVENT]


class CountingEmbedder(HashingEmbedder):
    """Counts the texts that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed(texts)
