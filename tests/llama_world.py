"""Three small documents and a scripted model, shared by the tests of the LlamaIndex package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from llama_index.core import Document, StorageContext
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.memory import ChatMemoryBuffer

from hwdag.config import NEVER, BuildConfig, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import HWDAGIndex

TEXTS = {
    "mill": "The miller keeps grain behind the river. He counts the sacks at night. "
    "His daughter sells the flour in town. The town lies beyond the hill.",
    "ferry": "The ferry crosses the river at dawn. Its bell wakes the village. "
    "The smith mends the bell of the ferry. He is paid in grain.",
    "orchard": "Nobody owns the orchard. Its apples go to whoever rises first.",
}

QUESTION = "Who mends the bell of the ferry?"

CONFIG = BuildConfig(chunk_tokens=12, window_tokens=220, method="hwdag")
"""Several chunks, windows and levels for texts of four sentences."""

ALL = SearchConfig(confidence=NEVER)


def models(**changes):
    return {"reader": ScriptedLM(), "embedder": HashingEmbedder()} | changes


def documents(*names):
    return [
        Document(
            id_=name,
            text=TEXTS[name],
            metadata={"place": name, "path": f"/secret/{name}"},
            excluded_llm_metadata_keys=["path"],
        )
        for name in names or TEXTS
    ]


def built(*names, **options):
    return HWDAGIndex.from_documents(documents(*names), **models(config=CONFIG, **options))


def plain(found):
    """Everything that a user sees of retrieved nodes."""
    return [(n.node.node_id, n.text, n.score, n.node.metadata, n.node.hash) for n in found]


def persisted(index, folder):
    index.storage_context.persist(str(folder))
    return StorageContext.from_defaults(persist_dir=str(folder))


def chat_memory():
    """Not the default one, which leaves a database connection open."""
    return ChatMemoryBuffer.from_defaults(token_limit=1000)


@contextmanager
def events_seen(*kinds):
    """Collect the events that a handler of the root dispatcher sees; all of them if no kind is named."""
    seen: list[Any] = []

    class Handler(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            if not kinds or isinstance(event, kinds):
                seen.append(event)

    handler = Handler()
    get_dispatcher().add_event_handler(handler)
    try:
        yield seen
    finally:
        get_dispatcher().event_handlers.remove(handler)
