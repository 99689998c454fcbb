"""Chat templates: the text around messages, up to the place where a reply begins.

A template's generation prompt does not always end there. Some end in an open thought (`<think>`), some
leave it to the model to name a channel first (gpt-oss).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hwdag.errors import ModelError
from hwdag.lm.tokens import Codec

THINKING_OFF: dict[str, Any] = {"enable_thinking": False, "thinking": False, "reasoning": False}
"""Variables that templates of reasoning models read. Other templates ignore them."""

_MARK = r"[<\[◁]{}[^\s<>\[\]◁▷]*(?:think|thought|reason)[^\s<>\[\]◁▷]*[>\]▷]"
_ANY = _MARK.format("")
_OPENING = _MARK.format(r"(?!\|?(?:/|end))") + "|Here are my reasoning steps:"
_OPEN_THOUGHT = re.compile(
    rf"(?P<mark>{_OPENING})(?P<begun>(?:(?!{_ANY}|\[BEGIN).)*)\Z", re.IGNORECASE | re.DOTALL
)
_CLOSED_THOUGHT = re.compile(rf"{_ANY}\s*{_ANY}\s*\Z", re.IGNORECASE)

_CLOSINGS = [
    (r"<([^|]+)>", r"</\1>\n\n"),  # DeepSeek-R1, MiniMax-M2, Nemotron, StepFun
    (r"◁(.+)▷", r"◁/\1▷"),  # Kimi-VL
    (r"\[(.+)\]", r"[/\1]\n\n"),  # Mistral
    (r"<\|START_(.+)\|>", r"<|END_\1|>"),  # Cohere
    (r"<\|begin_of_(.+)\|>", r"<|end_of_\1|>\n\n"),
    (r"Here are my reasoning steps:", r"[BEGIN FINAL RESPONSE]\n"),  # Apriel
]
"""Marks that open a thought, and those that close it."""

_WAY_OUT = (
    "pass a tokenizer with another chat_template, or with chat_template=None for plain prompts"
)


def cut_conversation(codec: Codec, roles: Sequence[str]) -> list[list[int]]:
    """Return ids of the chat template around messages: before, between, and after them, up to a reply.

    Raises `ModelError` for a template that does not show every message once, in order, or that opens a
    thought with no known end.
    """
    pieces = _pieces(codec, roles, ends_in_prompt=True)
    pieces[-1] = up_to_reply(pieces[-1], _before_shown_reply(codec, roles))
    return [codec.control(piece) for piece in pieces]


def up_to_reply(prompt: str, shown: str) -> str:
    """Extend a generation prompt to the place where a reply begins.

    `shown` is the text between the last message and a reply that the template itself renders. Raises
    `ModelError` for an open thought with no known end.
    """
    prompt = _without_open_thought(shown if shown.startswith(prompt) else prompt)
    thought = _CLOSED_THOUGHT.search(prompt)
    if thought and shown.startswith(header := prompt[: thought.start()]):
        # replies of Cohere's models begin with a mark of their own, which follows the thought
        prompt += re.sub(_ANY, "", shown.removeprefix(header), flags=re.IGNORECASE).strip()
    return prompt


def _without_open_thought(prompt: str) -> str:
    if not (found := _OPEN_THOUGHT.search(prompt)):
        return prompt
    mark, begun = found["mark"], found["begun"]
    gap = begun if begun.isspace() else "\n" if begun else ""
    for opening, closing in _CLOSINGS:
        if known := re.fullmatch(opening, mark, re.IGNORECASE):
            end = known.expand(closing)
            return prompt + gap + (end if gap else end.rstrip())
    raise ModelError(
        f"the chat template opens a thought with {mark!r} before the reply, and hwdag does not know "
        f"the mark that closes it, so the model would be asked within its thought; {_WAY_OUT}"
    )


def _before_shown_reply(codec: Codec, roles: Sequence[str]) -> str:
    """Return the text before a reply that a template renders; "" if it renders none.

    A space at its end belongs to the token of the reply's first word.
    """
    try:
        pieces = _pieces(codec, [*roles, "assistant"], ends_in_prompt=False)
    except ModelError:
        return ""
    return pieces[-2].rstrip(" ")


def _pieces(codec: Codec, roles: Sequence[str], *, ends_in_prompt: bool) -> list[str]:
    """Return the text of the template around messages of these roles."""
    sentinels = [f"hwdag{i}message" for i in range(len(roles))]
    messages = [
        {"role": role, "content": sentinel} for role, sentinel in zip(roles, sentinels, strict=True)
    ]
    rendered = _rendered(codec, messages, ends_in_prompt)
    pieces = re.split(f"({'|'.join(sentinels)})", rendered)
    if pieces[1::2] != sentinels:
        times = Counter(pieces[1::2])
        wrong = [times[sentinel] for sentinel in sentinels if times[sentinel] != 1]
        seen = (
            f"a message {wrong[0]} times instead of once" if wrong else "messages in another order"
        )
        raise ModelError(f"the chat template shows {seen}; {_WAY_OUT}")
    return pieces[::2]


def _rendered(codec: Codec, messages: list[dict[str, str]], ends_in_prompt: bool) -> str:
    try:
        rendered = codec.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=ends_in_prompt, **THINKING_OFF
        )
    except Exception as error:  # a template is a program: it may fail in any way
        roles = ", ".join(message["role"] for message in messages)
        raise ModelError(
            f"the chat template refuses messages of the roles {roles}: "
            f"{type(error).__name__}: {error}; send them in an order that it takes, or {_WAY_OUT}"
        ) from error
    return str(rendered)
