"""Token layouts: the turns of a chat, a question's prompt, a replayed window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from hwdag.arrays import Floats
from hwdag.errors import InputError
from hwdag.lm.base import Replay, ReplayRequest
from hwdag.lm.templates import cut_conversation
from hwdag.lm.tokens import Codec, Range
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span

if TYPE_CHECKING:
    from hwdag.lm.attention import SpanRequest


@dataclass(frozen=True, slots=True)
class Turns:
    """A chat template as the token ids around its messages.

    `head` user text `reply` assistant text `between` user text `second_reply` assistant text;
    `summary_reply` comes between the summary prompt and the points. A base model without a template
    gets plain lines.
    """

    head: list[int]
    reply: list[int]
    between: list[int]
    second_reply: list[int]
    summary_reply: list[int]
    are_plain: bool

    @classmethod
    def of(cls, codec: Codec) -> Self:
        """Render a tokenizer's chat template around sentinels, and cut it there."""
        if not codec.tokenizer.chat_template:
            texts = _PLAIN_REPLY, _PLAIN_BETWEEN, _PLAIN_SECOND_REPLY, _PLAIN_SUMMARY_REPLY
            reply, between, second_reply, summary_reply = map(codec.encode, texts)
            return cls(codec.opening, reply, between, second_reply, summary_reply, are_plain=True)
        head, reply = cut_conversation(codec, ["user"])
        _, _, between, second_reply = cut_conversation(codec, ["user", "assistant", "user"])
        return cls(head, reply, between, second_reply, reply, are_plain=False)


_PLAIN_REPLY = "\nAnswer (Yes or No):"  # the space belongs to the token of " Yes"
_PLAIN_BETWEEN = "\n\n"
_PLAIN_SECOND_REPLY = "\nAnswer:"
_PLAIN_SUMMARY_REPLY = "\n\n"


def bullet_line(text: str) -> tuple[str, str, str]:
    """Return a node as one bullet line: the parts before, of and after its text."""
    return "* ", one_line(text), "\n"


def writing_ids(codec: Codec, turns: Turns, prompt: str) -> list[int]:
    """Return the token ids of a prompt for writing."""
    return [*turns.head, *codec.encode(prompt), *turns.summary_reply]


class SearchLayout:
    """Token ids of one question's prompt: the first turn up to the nodes, nodes, and the text after them.

    `opening` is everything before the nodes, `question` the range of the question in it, `slot` the
    text after the nodes at which p_yes is read, `yes` and `no` the first tokens of the spellings of the reply.
    """

    def __init__(self, codec: Codec, turns: Turns, question: str, prompts: SearchPrompts) -> None:
        before, between, after = prompts.cut()
        asked, parts = codec.encode_parts(before, question, between)
        start, end = parts[1]
        head = len(turns.head)
        self.opening = [*turns.head, *asked]
        self.question: Range = (head + start, head + end)
        probe = prompts.probe.replace("{question}", question)
        self.slot = [*codec.encode(after + probe), *turns.reply]
        self.yes, self.no = verdict_tokens(codec, prompts)
        self._second_turn = prompts.second_turn
        self._reply_head = (
            turns.second_reply if turns.are_plain or prompts.second_turn else turns.reply
        )
        self._before_ask = [] if prompts.second_turn else codec.encode(after)
        self._ask = prompts.ask(question)
        self._between = turns.between
        self._verdicts = prompts.yes[0], prompts.no[0]
        self._codec, self._turns = codec, turns
        self._nodes: dict[str, tuple[list[int], Range]] = {}

    @property
    def answering_tokens(self) -> int:
        """Tokens between the nodes and the answer, at most."""
        return max(len(self.until_answer(enough=enough)) for enough in (True, False))

    def node(self, text: str) -> tuple[list[int], Range]:
        """Return a node as one bullet line: ids, and the token range of the text itself."""
        if text not in self._nodes:
            ids, parts = self._codec.encode_parts(*bullet_line(text))
            self._nodes[text] = ids, parts[1]
        return self._nodes[text]

    def part_of_node(self, text: str, span: Span) -> Range:
        """Return the token range of the characters `span` of a node's text, within its ids."""
        line = one_line(text)
        parts = "* " + line[: span.start], line[span.start : span.end], line[span.end :] + "\n"
        return self._codec.encode_parts(*parts)[1][1]

    def until_answer(self, *, enough: bool, ask: str | None = None) -> list[int]:
        """Return everything between the nodes and the answer; `ask` takes the place of the answer prompt."""
        words = self._codec.encode(self._ask if ask is None else ask)
        asked = [*self._before_ask, *words, *self._reply_head]
        if not self._second_turn:
            return asked
        verdict = self._verdicts[0 if enough else 1]
        return [*self.slot, *self._reply(verdict), *self._between, *asked]

    def answer(self, text: str) -> list[int]:
        """Return the token ids of a given answer. Raises `InputError` if it is blank."""
        ids = self._reply(text)
        if not text.strip() or not ids:
            raise InputError(f"the text {text!r} has no tokens, so it has no likelihood")
        return ids

    def _reply(self, text: str) -> list[int]:
        """Return the token ids of a reply, with a leading space if there is no template."""
        return self._codec.encode(" " + text if self._turns.are_plain else text)


def verdict_tokens(codec: Codec, prompts: SearchPrompts) -> tuple[list[int], list[int]]:
    """Return first tokens of all spellings of "Yes" and of "No", without those that both share."""
    yes, no = ({codec.encode(word)[0] for word in words} for words in (prompts.yes, prompts.no))
    if not yes - no or not no - yes:
        raise InputError(
            f"the tokenizer of {codec.tokenizer.name_or_path or 'this model'} starts {prompts.yes} "
            f"and {prompts.no} with the same tokens, so p_yes cannot be read; pass SearchPrompts "
            "with other spellings"
        )
    return sorted(yes - no), sorted(no - yes)


class ReplayLayout:
    """Token ids of one replayed window, and the ranges of its units and points.

    Up to the points they equal `writing_ids` of the request's prompt, so keys are the same as when a local
    model wrote the points. Points are encoded anew, as `* point` lines.
    """

    def __init__(self, codec: Codec, turns: Turns, request: ReplayRequest) -> None:
        parts, units, self.segments = [request.before], list[int](), list[int]()
        for i, ((lead, text), spans) in enumerate(zip(request.shown, request.units, strict=True)):
            borders = [border for span in spans for border in (span.start, span.end)]
            cuts = zip([0, *borders], [*borders, len(text)], strict=True)
            units += range(len(parts) + 2, len(parts) + 2 + 2 * len(spans), 2)
            parts += [lead, *(text[a:b] for a, b in cuts)]
            self.segments += [i] * len(spans)
        self.ids = list(turns.head)
        ranges = self._append(codec, [*parts, request.after])
        self.units = [ranges[part] for part in units]
        self.ids += turns.summary_reply
        lines = [part for point in request.points for part in ("* ", one_line(point), "\n")]
        self.points = self._append(codec, lines)[1::3]

    def _append(self, codec: Codec, parts: list[str]) -> list[Range]:
        origin = len(self.ids)
        ids, ranges = codec.encode_parts(*parts)
        self.ids += ids
        return [(origin + start, origin + end) for start, end in ranges]

    def request(self, pad: int) -> SpanRequest:
        """Return the request to capture, shifted by `pad` tokens of left padding."""
        from hwdag.lm.attention import SpanRequest

        rows, keys = (
            [(start + pad, end + pad) for start, end in spans]
            for spans in (self.points, self.units)
        )
        return SpanRequest(rows, keys)

    def replay(self, attention: Floats) -> Replay:
        """Return the captured means, with lengths and segments of the units."""
        lengths = np.array([end - start for start, end in self.units], dtype=np.int64)
        return Replay(attention, lengths, np.array(self.segments, dtype=np.int64))
