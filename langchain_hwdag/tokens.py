"""How long a text or a chat is, in the tokens of the model itself; LangChain would ask GPT-2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hwdag.errors import InputError, ModelError, QuestionTooLong
from hwdag.lm.base import Message, Reader, Writer
from hwdag.lm.chat import as_chat


def text_tokens(model: Reader | Writer, text: str) -> int:
    """Tokens of a text, without a chat template. Raises `InputError` where nobody can tell."""
    return sum(_counting(model).count_tokens([text]))


def chat_tokens(model: Reader | Writer, messages: Sequence[Message]) -> int:
    """Tokens of a chat in its template up to the reply, 0 for no messages.

    A bound from above where the chat is longer than the context, or the template refuses it, as it
    may refuse a part of a chat. Raises `InputError` where nobody can tell.
    """
    counting = _counting(model)
    if not messages:
        return 0
    try:
        with_template = as_chat(model).reply(messages, max_new_tokens=1).prompt_tokens
    except (QuestionTooLong, ModelError):
        with_template = 0
    if with_template:
        return with_template
    lengths = counting.count_tokens([message.text for message in messages])
    return sum(lengths) + counting.template_tokens * len(messages)


def refuse_ids(name: str) -> NoReturn:
    """Raise the error for somebody who wants the tokens themselves."""
    raise InputError(
        f"{name} counts tokens (get_num_tokens), but does not tell their ids; pass "
        "custom_get_token_ids, or ask the tokenizer of the model"
    )


def _counting(model: Reader | Writer) -> Reader:
    if isinstance(model, Reader):
        return model
    raise InputError(
        f"{model.name} cannot count tokens, since it is no local model; pass custom_get_token_ids, "
        "or another token counter"
    )
