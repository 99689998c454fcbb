"""Answers of the core as a LangChain runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    content,
    convert_to_messages,
)
from langchain_core.runnables import Runnable, RunnableGenerator
from langchain_core.runnables.utils import AddableDict

from hwdag.answers.stream import AnswerStream
from hwdag.errors import EmptyIndex, InputError
from hwdag.search.follow_ups import turns_of
from hwdag.threads import each_in_a_thread, in_question_thread
from hwdag.types import Answer
from langchain_hwdag.documents import node_document

QUESTIONS = ("question", "input", "query")  # keys of a question in a mapping
HISTORIES = ("history", "chat_history")
HAS_REFUSALS = hasattr(content, "RefusalContentBlock")  # from langchain-core 1.7.5 on
MESSAGE_ROLES = ("human", "user", "ai", "assistant", "system")  # of messages as tuples


def answering(ask: Callable[..., AnswerStream]) -> Runnable[Any, dict[str, Any]]:
    """Return a runnable that answers with `ask(question, history=...)`; see `HWDAGIndex.as_runnable`."""

    def pieces(inputs: Iterator[Any]) -> Iterator[AddableDict]:
        stream = _asked(ask, _whole(list(inputs)))
        if stream is not None:
            yield AddableDict(context=_context(stream))
            yield from map(_piece, stream)
        yield _end(stream)

    async def apieces(inputs: AsyncIterator[Any]) -> AsyncIterator[AddableDict]:
        given = _whole([chunk async for chunk in inputs])
        stream = await in_question_thread(partial(_asked, ask, given))
        if stream is not None:
            yield AddableDict(context=_context(stream))
            async for piece in each_in_a_thread(iter(stream)):
                yield _piece(piece)
        yield await in_question_thread(partial(_end, stream))

    return RunnableGenerator(pieces, apieces, name="hwdag")


def _piece(text: str) -> AddableDict:
    return AddableDict(answer=text)


def _context(stream: AnswerStream) -> list[Any]:
    retrieval = stream.retrieval
    return [node_document(step, retrieval) for step in retrieval.context]


def _end(stream: AnswerStream | None) -> AddableDict:
    if stream is None:  # empty, like LangChain's own stores at first
        none: dict[str, Any] = {"answer": "", "context": [], "citations": [], "searched_for": None}
        return AddableDict(none, found=False, confidence=None, message=AIMessage(""))
    answer = stream.answer
    found = AddableDict(
        citations=answer.to_dict()["citations"],
        searched_for=stream.retrieval.searched_for,
        found=answer.found,
        confidence=answer.confidence,
        message=as_message(answer),
    )
    if not answer.text:
        found["answer"] = ""
    return found


def as_message(answer: Answer) -> AIMessage:
    """Return an answer as a message; "not found" as a refusal, if this version of LangChain has one.

    The reply of an answerer, which follows "not found", is a text as always.
    """
    if answer.found is not False or not HAS_REFUSALS:
        return AIMessage(answer.text)
    reply = answer.reply if answer.answered_by is not None else ""
    refused = answer.text.removesuffix(reply).strip()
    parts: list[str | dict[Any, Any]] = [{"type": "refusal", "refusal": refused}]
    return AIMessage([*parts, {"type": "text", "text": reply}] if reply else parts)


def _whole(chunks: Sequence[Any]) -> Any:
    """Join the input, which a chain may stream in chunks."""
    if not chunks:
        raise InputError(
            "the input holds no question; invoke it with a text, or a mapping with a question"
        )
    found = chunks[0]
    for chunk in chunks[1:]:
        found = found + chunk
    return found


def _asked(ask: Callable[..., AnswerStream], given: Any) -> AnswerStream | None:
    question, history = given, Ellipsis
    if isinstance(given, Mapping):
        question = next((given[key] for key in QUESTIONS if key in given), None)
        history = next((given[key] for key in HISTORIES if key in given), Ellipsis)
    if isinstance(question, BaseMessage):
        question = str(question.text)
    if not isinstance(question, str):
        raise InputError(
            f"the input must be a text, or a mapping with a text under {', '.join(QUESTIONS)}, got "
            f"{type(given).__name__}"
        )
    turns: list[tuple[str, str]] = [] if history is Ellipsis else _turns(history)
    try:
        return ask(question, **({"history": turns} if turns else {}))
    except EmptyIndex:
        return None


def _is_message(one: object) -> bool:
    return isinstance(one, BaseMessage) or (
        isinstance(one, tuple) and len(one) == 2 and one[0] in MESSAGE_ROLES
    )


def _turns(history: Any) -> list[tuple[str, str]]:
    """Return messages of a chat as (question, answer) pairs, and pairs as they are."""
    given = list(history or ())
    if not any(map(_is_message, given)):
        return given  # the core checks it
    try:
        messages = convert_to_messages(given)
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"a history has messages or (question, answer) pairs, not both: {error}"
        ) from error
    roles = {HumanMessage: "user", AIMessage: "assistant"}
    return turns_of(
        (next((roles[kind] for kind in roles if isinstance(one, kind)), ""), str(one.text))
        for one in messages
    )
