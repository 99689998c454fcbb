"""Chats of a local model: its own template around the messages, replies from a KV cache."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from transformers import DynamicCache

from hwdag.errors import ModelError
from hwdag.lm.decoding import greedy, whole_characters
from hwdag.lm.messages import NEXT_TURN, Message, plain, tidied, without_system
from hwdag.lm.replies import StreamedReply, check_context
from hwdag.lm.tokens import Codec, cut_conversation, summary_reply
from hwdag.types import Usage

if TYPE_CHECKING:
    from hwdag.lm.huggingface import HuggingFaceLM


class KVReply(StreamedReply):
    """One reply with a cache of its own; the model is locked for a forward at a time.

    So replies interleave, with each other and with all else that the model does.

    Raises:
        QuestionTooLong: messages and reply do not fit into the context.
        ModelError: the model's template cannot show these messages.
    """

    def __init__(
        self,
        lm: HuggingFaceLM,
        messages: Sequence[Message],
        *,
        max_new_tokens: int,
        stop: Sequence[str],
    ) -> None:
        self._lm = lm
        self._prompt = prompt_ids(lm, messages)
        known = len(self._prompt)
        super().__init__(prompt_tokens=known, max_new_tokens=max_new_tokens, stop=stop)
        if not lm.has_chat_template and len(messages) > 1:
            self._stop += (NEXT_TURN,)
        check_context(known, max_new_tokens, name=lm.name, context=lm.context_tokens)

    def _decode(self) -> Iterator[str]:
        lm, cache = self._lm, DynamicCache(config=self._lm.model.config)

        def step(ids: list[int]) -> int:
            began, cached = time.perf_counter(), int(cache.get_seq_length())
            token = int(lm.logits([ids], last=1, cache=cache)[0, -1].argmax())
            cost = Usage(len(ids), lm.tflops(len(ids), cached), time.perf_counter() - began)
            self.usage += cost
            lm.charge(cost)
            return token

        tokens = greedy(step, self._prompt, max_new_tokens=self._limit, end_tokens=lm.end_tokens)
        return whole_characters(self._counted(tokens), lm.codec.decode)


def prompt_ids(lm: HuggingFaceLM, messages: Sequence[Message]) -> list[int]:
    """Token ids up to the reply; those of `HuggingFaceLM.write` for one message of the user.

    Templates that know no system message, or show it out of its place, get its text before the
    user's next one.
    """
    messages = tidied(messages)
    if lm.has_chat_template:
        return _templated(lm.codec, messages)
    if [message.role for message in messages] == ["user"]:
        reply = summary_reply(lm.codec, lm.turns)
        return [*lm.turns.head, *lm.codec.encode(messages[0].text), *reply]
    return [*lm.codec.opening, *lm.codec.encode(plain(messages))]


def _templated(codec: Codec, messages: list[Message]) -> list[int]:
    try:
        pieces = cut_conversation(codec, [message.role for message in messages])
    except ModelError:
        folded = without_system(messages)
        if folded == messages:
            raise
        return _templated(codec, folded)
    ids = list(pieces[0])
    for message, piece in zip(messages, pieces[1:], strict=True):
        ids += [*codec.encode(message.text), *piece]
    return ids
