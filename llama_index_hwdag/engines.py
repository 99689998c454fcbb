"""Helpers for LlamaIndex's engines: the LLM that answers, and the split of options."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from llama_index.core import Settings
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.query_engine.retriever_query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer, ResponseMode
from llama_index.core.response_synthesizers.context_only import ContextOnly
from llama_index.core.response_synthesizers.no_text import NoText

from hwdag.checks import refuse
from hwdag.errors import UnknownOption
from llama_index_hwdag.retriever import SearchOptions

logger = logging.getLogger(__name__)

AnswerMode = Literal["synthesize", "walk"]
"""The answering part: a response synthesizer with any LLM, or `HWDAGQueryEngine`."""

CHAT_ENGINES: dict[ChatMode, tuple[Callable[..., BaseChatEngine], str]] = {
    ChatMode.BEST: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_PLUS_CONTEXT: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONTEXT: (ContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_QUESTION: (CondenseQuestionChatEngine.from_defaults, "query_engine"),
    ChatMode.SIMPLE: (SimpleChatEngine.from_defaults, ""),
}
"""The function that makes each engine, and what it takes besides an LLM."""


def chat_engine_of(mode: ChatMode | str) -> tuple[Callable[..., BaseChatEngine], str]:
    """Return the entry of `CHAT_ENGINES`. Raises `UnknownOption` for modes that LlamaIndex has dropped."""
    for known, engine in CHAT_ENGINES.items():
        if known.value == mode:
            return engine
    raise UnknownOption(
        f"chat_mode must be one of walk, {', '.join(known.value for known in CHAT_ENGINES)}, got "
        f"{mode!r}; agents take the query engine as a tool"
    )


def resolved_llm(
    llm: LLMType | None, callback_manager: CallbackManager, reader: Callable[[], LLM]
) -> LLM:
    """Return the passed LLM, else that of `Settings`, else the reader."""
    # why not `Settings.llm`: if none is set, reading it creates OpenAI's, or fails
    wanted = Settings._llm if llm is None else llm
    if wanted is None:
        warn_reader_answers()
        return reader()
    return resolve_llm(wanted, callback_manager=callback_manager)


@cache
def warn_reader_answers() -> None:
    """Warn once that the index's own reader answers."""
    logger.warning(
        "neither llm= nor Settings.llm is set, so the index's own reader answers; a larger model "
        "answers better"
    )


def is_llm_set() -> bool:
    """Return whether `Settings.llm` is set; warn once if not."""
    if Settings._llm is None:
        warn_reader_answers()
    return Settings._llm is not None


def takes(make: Callable[..., object], options: Mapping[str, Any]) -> bool:
    """Return False if an option belongs only to other engines than `make`."""
    ours = {*inspect.signature(make).parameters, *SearchOptions.__annotations__}
    makers: list[Callable[..., object]] = [RetrieverQueryEngine.from_args]
    makers += [made for made, _ in CHAT_ENGINES.values()]
    theirs = {name for maker in makers for name in inspect.signature(maker).parameters}
    return not (set(options) & theirs) - ours


def with_silent_synthesizer(options: dict[str, Any], llm: LLM) -> dict[str, Any]:
    """Return options of `RetrieverQueryEngine.from_args`, with the synthesizer of a mode that writes nothing.

    LlamaIndex makes these without an LLM, and so asks for OpenAI's.
    """
    make = _SILENT.get(options.get("response_mode", ""))
    if make is None or options.get("response_synthesizer") is not None:
        return options
    streaming = bool(options.get("streaming"))
    return {**options, "response_synthesizer": make(llm=llm, streaming=streaming)}


_SILENT: Mapping[str, Callable[..., BaseSynthesizer]] = {
    ResponseMode.NO_TEXT: NoText,
    ResponseMode.CONTEXT_ONLY: ContextOnly,
}


def split_options(
    options: Mapping[str, Any], make: Callable[..., object], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the retriever and of `make`. Raises `UnknownOption` for others."""
    taken = {"self", "retriever", "query_engine", "llm", "answerer", "kwargs"}
    theirs = [name for name in inspect.signature(make).parameters if name not in taken]
    known = [*SearchOptions.__annotations__, *theirs]
    refuse({k: v for k, v in options.items() if k not in known}, where, ", ".join(known))
    ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
    return ours, {k: v for k, v in options.items() if k not in ours}
