"""Query and chat engines of LlamaIndex over an index; options go to whom they belong to."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Protocol, get_args

from llama_index.core import Settings
from llama_index.core.base.base_query_engine import BaseQueryEngine
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

from hwdag.checks import refuse
from hwdag.errors import UnknownOption
from llama_index_hwdag.query_engine import HWDAGQueryEngine
from llama_index_hwdag.retriever import HWDAGRetriever, SearchOptions

logger = logging.getLogger(__name__)

AnswerMode = Literal["synthesize", "walk"]
"""Who answers: a response synthesizer with any LLM, or the reader from the walk's KV cache."""

CHAT_ENGINES: dict[ChatMode, tuple[Callable[..., BaseChatEngine], str]] = {
    ChatMode.BEST: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_PLUS_CONTEXT: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONTEXT: (ContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_QUESTION: (CondenseQuestionChatEngine.from_defaults, "query_engine"),
    ChatMode.SIMPLE: (SimpleChatEngine.from_defaults, ""),
}
"""How each mode is made, and what it is given besides an LLM."""


class AskedIndex(Protocol):
    """What the engines need of an index, which is `llama_index_hwdag.HWDAGIndex`."""

    @property
    def as_retriever(self) -> Callable[..., HWDAGRetriever]:
        """Makes a retriever."""

    @property
    def as_query_engine(self) -> Callable[..., BaseQueryEngine]:
        """Makes a query engine."""

    @property
    def as_llm(self) -> Callable[[], LLM]:
        """Makes an LLM of the reader."""

    @property
    def callback_manager(self) -> CallbackManager:
        """Who is told of what happens."""


def query_engine(
    index: AskedIndex, llm: LLMType | None, answer_mode: AnswerMode, options: Mapping[str, Any]
) -> BaseQueryEngine:
    """See `HWDAGIndex.as_query_engine`."""
    if answer_mode == "walk":
        if llm is not None:
            raise UnknownOption(
                'answer_mode="walk" answers with the reader and takes no llm; leave it out, or '
                'use answer_mode="synthesize"'
            )
        ours, rest = _split(options, HWDAGQueryEngine, 'as_query_engine(answer_mode="walk")')
        return HWDAGQueryEngine(index.as_retriever(**ours), **rest)
    if answer_mode != "synthesize":
        raise UnknownOption(
            f"answer_mode must be one of {', '.join(get_args(AnswerMode))}, got {answer_mode!r}"
        )
    ours, rest = _split(options, RetrieverQueryEngine.from_args, "as_query_engine")
    return RetrieverQueryEngine.from_args(
        index.as_retriever(**ours), llm=_resolved(index, llm), **rest
    )


def chat_engine(
    index: AskedIndex,
    chat_mode: ChatMode | str,
    llm: LLMType | None,
    options: Mapping[str, Any],
) -> BaseChatEngine:
    """See `HWDAGIndex.as_chat_engine`."""
    mode = next((known for known in CHAT_ENGINES if known.value == chat_mode), None)
    if mode is None:
        raise UnknownOption(
            f"chat_mode must be one of {', '.join(known.value for known in CHAT_ENGINES)}, got "
            f"{chat_mode!r}; agents take the query engine as a tool"
        )
    make, source = CHAT_ENGINES[mode]
    ours, rest = _split(options, make, f"as_chat_engine({mode.value!r})")
    model = _resolved(index, llm)
    if source == "retriever":
        rest["retriever"] = index.as_retriever(**ours)
    elif source == "query_engine":
        rest["query_engine"] = index.as_query_engine(model, **ours)
    return make(llm=model, **rest)


def _resolved(index: AskedIndex, llm: LLMType | None) -> Any:
    # why not `Settings.llm`: where nothing was set it makes OpenAI's, or fails
    wanted = Settings._llm if llm is None else llm
    if wanted is None:
        _say_who_answers()
        return index.as_llm()
    return resolve_llm(wanted, callback_manager=index.callback_manager)


@cache
def _say_who_answers() -> None:
    """Say once what is easily overlooked."""
    logger.warning(
        "neither llm= nor Settings.llm is set, so the index's own reader answers; a larger model "
        "answers better"
    )


def _split(
    options: Mapping[str, Any], make: Callable[..., object], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the retriever and those of `make`. Raises `UnknownOption` for all others."""
    taken = {"self", "retriever", "query_engine", "llm", "kwargs"}
    theirs = [name for name in inspect.signature(make).parameters if name not in taken]
    known = [*SearchOptions.__annotations__, *theirs]
    refuse({k: v for k, v in options.items() if k not in known}, where, ", ".join(known))
    ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
    return ours, {k: v for k, v in options.items() if k not in ours}
