"""A deterministic language model without weights: Reader and Writer for tests, docs and examples.

All results can be derived by hand. Attention goes from a point to a unit (replay), from a node to
the question (reading), and from the decoded text to a span (answering). There is one head, so head
lists are accepted and change nothing.

A token is a run of word characters, a single CJK ideograph, or a single other visible character.
Attention is lexical (`attention_between`):

    attention(query -> key) = (EPSILON + content words shared by both) / (tokens of the key)

Content words are lower-cased, without `STOPWORDS`, each counted once. A token that occurred before,
in any case, has probability 1/2; any other 1 / (2 + its characters) (`logprobs_after`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from threading import Lock

import numpy as np

from hwdag.arrays import Floats
from hwdag.config import HeadList, Heads
from hwdag.errors import ContextTooSmall, InputError, QuestionTooLong
from hwdag.lm.base import Reading, Replay, ReplayRequest
from hwdag.lm.cards import Card
from hwdag.text.prompts import CONDENSE, SUMMARY, SearchPrompts
from hwdag.types import Span, Usage

EPSILON = 0.01  # keeps attention positive without a shared word

_STOPWORDS = """
a an and are as at be by can did do does for from had has have he her his how i in is it its me my
of on or she that the their they this to was we were what when where which who whom whose why will
with you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
LISTED = re.compile(r"^([A-Z])\. (.*)$", re.MULTILINE)  # an option and its letter
TOKEN = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+|[^\w\s]")
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*")


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, in order; at least one unless it is blank."""
    return TOKEN.findall(text)


@lru_cache(maxsize=10_000)
def content_words(text: str) -> frozenset[str]:
    """Return lower-cased words without stopwords and punctuation."""
    words = {token.lower() for token in tokens_of(text) if token[0].isalnum()}
    return frozenset(words - STOPWORDS)


def attention_between(query: str, key: str) -> float:
    """Return attention as in the module docstring; positive and finite."""
    shared = content_words(query) & content_words(key)
    return (EPSILON + len(shared)) / max(1, len(tokens_of(key)))


def logprobs_after(before: str, text: str) -> Floats:
    """Return log-probabilities of the tokens of `text` as in the module docstring, (tokens,)."""
    seen, found = {token.lower() for token in tokens_of(before)}, list[float]()
    for token in tokens_of(text):
        found.append(-math.log(2 if token.lower() in seen else 2 + len(token)))
        seen.add(token.lower())
    return np.array(found, np.float64)


def pieces_of(text: str) -> Iterator[str]:
    """Yield the tokens of a text with the white space before each."""
    end = 0
    for match in TOKEN.finditer(text):
        yield text[end : match.end()]
        end = match.end()


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, stripped."""
    return [sentence for match in _SENTENCE.findall(text) if (sentence := match.strip())]


def cut(text: str, max_tokens: int) -> str:
    """Return the first `max_tokens` tokens of a text."""
    ends = [match.end() for match in islice(TOKEN.finditer(text), max_tokens + 1)]
    return text if len(ends) <= max_tokens else text[: ends[max_tokens - 1]]


BULLET_TOKENS = 1  # the bullet before every node and point
VERDICT_TOKENS = 1  # the first reply, "Yes" or "No"

YesScript = Sequence[float] | Callable[[str, list[str]], float]
"""p_yes of successive probes (the last repeats), or a function of question and node texts."""


class ScriptedLM:
    """A Reader and a Writer that follow a script.

    Args:
        name: recorded in an index.
        context_tokens: longer prompts raise `QuestionTooLong` or `ContextTooSmall`.
        window_tokens: default length of a summary call; cut to the context. There is no chat
            template, so `template_tokens` is 0.
        p_yes: results of probes, starting again in every session. By default the share of the question's
            content words that occur in the nodes read so far (0 for a question without any).
        reply: maps a prompt to a reply; by default the `summary` of the information in it.
        writes: whether it writes, by its card; it judges and attends.
        replay_batch: windows that a build has replayed at a time.

    Attributes:
        writes: prompts written so far.
        replays: windows replayed so far.
        reads: forwards over appended nodes so far, in all sessions.
        sessions: all sessions, oldest first; `texts` of each are its nodes.
    """

    def __init__(
        self,
        *,
        name: str = "scripted",
        context_tokens: int = 4096,
        window_tokens: int = 1024,
        p_yes: YesScript | None = None,
        reply: Callable[[str], str] | None = None,
        writes: bool = False,
        replay_batch: int = 4,
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.window_tokens = min(window_tokens, context_tokens)
        self.template_tokens = 0
        self.tokenizer_fingerprint = "scripted"
        self.card = Card(writes, judges=True, attends=True, prompts=SearchPrompts())
        self.replay_batch = replay_batch
        self.known_heads: HeadList | None = None
        self.writes = 0
        self.replays = 0
        self.reads = 0
        self.sessions: list[ScriptedSession] = []
        self._p_yes = share_of_question if p_yes is None else p_yes
        if not callable(self._p_yes) and len(self._p_yes) == 0:
            raise InputError("p_yes is an empty script; give at least one value, or a function")
        self._reply = reply or summary
        self._usage = Usage()
        self._lock = Lock()

    @property
    def usage(self) -> Usage:
        """Tokens of all prompts, replies and windows; FLOPs and time are zero."""
        return self._usage

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of `tokens_of` each text."""
        return [len(tokens_of(text)) for text in texts]

    def count_lines(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text and its bullet."""
        return [BULLET_TOKENS + count for count in self.count_tokens(texts)]

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return `reply` of every prompt, cut after `max_new_tokens` tokens."""
        replies = [cut(self._reply(prompt), max_new_tokens) for prompt in prompts]
        with self._lock:
            self.writes += len(prompts)
            self._usage += Usage(sum(self.count_tokens([*prompts, *replies])))
        return replies

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Return lexical attention of every point to every unit; `heads` changes nothing.

        Raises:
            ContextTooSmall: a window with its prompt and points is longer than the context.
        """
        lengths = [self._length(request) for request in requests]
        with self._lock:
            self.replays += len(requests)
            self._usage += Usage(sum(lengths))
        return [_replay(request) for request in requests]

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> ScriptedSession:
        """Return a fresh session, also kept in `sessions`; `heads` changes nothing."""
        session = ScriptedSession(self, question, prompts=prompts, max_new_tokens=max_new_tokens)
        with self._lock:
            self.sessions.append(session)
        return session

    def _length(self, request: ReplayRequest) -> int:
        length = sum(self.count_tokens([request.prompt, *request.points]))
        length += BULLET_TOKENS * len(request.points)
        if length > self.context_tokens:
            raise ContextTooSmall(
                f"a window with its prompt and points takes {length} tokens, but the context of "
                f"{self.name} holds {self.context_tokens}; use a smaller window_tokens"
            )
        return length

    def charge(self, tokens: int, *, reads: int = 0) -> None:
        """Add to `usage`, and to `reads`."""
        with self._lock:
            self._usage += Usage(tokens)
            self.reads += reads


class ScriptedSession:
    """See `hwdag.lm.base.Session`.

    A probe costs nothing; prompt, nodes (`BULLET_TOKENS` more than their text), the second turn and
    the answer are counted once each.

    Attributes:
        question: the question.
        texts: the nodes appended so far, in order.
        enough: the verdict that `decode` was given; None before.
    """

    def __init__(
        self, lm: ScriptedLM, question: str, *, prompts: SearchPrompts, max_new_tokens: int
    ) -> None:
        before, between, after = prompts.cut()
        prompt, self._second_turn = lm.count_tokens(
            [before + question + between, after + prompts.ask(question)]
        )
        self.question = question
        self.texts: list[str] = []
        self.enough: bool | None = None
        self._lm = lm
        self._probes = 0
        self._usage = Usage()
        self._pending = prompt  # passes through the model together with the first nodes
        answering = VERDICT_TOKENS + self._second_turn + max_new_tokens
        self._room = lm.context_tokens - prompt - answering
        if self._room < 1:
            raise QuestionTooLong(
                f"question and prompts take {prompt} tokens and the answer may take {answering}, "
                f"but the context of {lm.name} holds {lm.context_tokens}; shorten the question, "
                "lower max_new_tokens, or use a model with a longer context"
            )

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return self._usage

    @property
    def room(self) -> int:
        """Node tokens that still fit next to the second turn and the answer."""
        return self._room

    def cost(self, text: str) -> int:
        """Return tokens of the text and its bullet."""
        return self._lm.count_lines([text])[0]

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe; raises `InputError` if they exceed `room`."""
        self._lm.charge(0, reads=1)
        return self._probed(self._append(texts))

    def append(self, texts: Sequence[str]) -> Floats:
        """Append nodes; raises `InputError` if they exceed `room`."""
        self._lm.charge(0, reads=1)
        return self._append(texts)

    def score_only(self, texts: Sequence[str]) -> Floats:
        """Read nodes and remove them again; their cost stays counted."""
        attention = self.append(texts)
        kept = len(self.texts) - len(texts)
        self._room += sum(map(self.cost, self.texts[kept:]))
        del self.texts[kept:]
        return attention

    def _append(self, texts: Sequence[str]) -> Floats:
        cost = sum(map(self.cost, texts))
        if cost > self._room:
            raise InputError(
                f"{len(texts)} nodes of {cost} tokens were appended where {self._room} fit; "
                "check `room` before reading"
            )
        self._room -= cost
        self.charge(cost)
        self.texts += texts
        return np.array([attention_between(text, self.question) for text in texts])

    def _probed(self, attention: Floats) -> Reading:
        script = self._lm._p_yes
        if callable(script):
            return Reading(attention, script(self.question, list(self.texts)))
        self._probes += 1
        return Reading(attention, float(script[min(self._probes, len(script)) - 1]))

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> ScriptedDecoding:
        """Answer with the sentence read that shares most content words with the question.

        The first of equals wins; empty if nothing was read.
        """
        self.enough = enough
        self.charge(VERDICT_TOKENS + self._second_turn)
        keys = [self.texts[node][span.start : span.end] for node, span in spans]
        whole = self._nearest()
        given = cut(whole, max_new_tokens)
        return ScriptedDecoding(self, given, keys, is_cut=given != whole)

    def likelihoods(self, texts: Sequence[str], *, enough: bool, ask: str | None = None) -> Floats:
        """Return the mean of `logprobs_after` the question and all nodes, (texts,).

        The letter of an option that `ask` lists is as likely as the option. `enough` changes nothing.
        Raises `InputError` for a text without tokens.
        """
        if blank := [text for text in texts if not tokens_of(text)]:
            raise InputError(f"the text {blank[0]!r} has no tokens, so it has no likelihood")
        if texts:
            lengths = (len(tokens_of(text)) for text in texts)
            asked = self._second_turn if ask is None else len(tokens_of(ask))
            self.charge(VERDICT_TOKENS + asked + sum(lengths))
        listed = dict(LISTED.findall(ask or ""))
        return np.array([self.likelihood(listed.get(text, text)) for text in texts], np.float64)

    def likelihood(self, text: str) -> float:
        """Return the mean of `logprobs_after` the question and all nodes."""
        return float(logprobs_after("\n".join([self.question, *self.texts]), text).mean())

    def _nearest(self) -> str:
        """Return the sentence read that shares most content words with the question."""
        sentences = [sentence for text in self.texts for sentence in sentences_of(text)]
        asked = content_words(self.question)
        return max(sentences, key=lambda s: len(content_words(s) & asked), default="")

    def charge(self, tokens: int) -> None:
        """Add to `usage`, the first time including the prompt."""
        self._usage += Usage(self._pending + tokens)
        self._pending = 0


class ScriptedDecoding:
    """See `hwdag.lm.base.Decoding`: one token per piece, with the white space before it."""

    def __init__(
        self, session: ScriptedSession, answer: str, keys: Sequence[str], *, is_cut: bool = False
    ) -> None:
        self._session = session
        self.is_cut = is_cut
        self._keys = keys
        self._shown = ""
        self._pieces = self._run(answer)

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    @property
    def text(self) -> str:
        """Return the text decoded so far."""
        return self._shown.strip()

    @property
    def attention(self) -> Floats:
        """Mass: `attention_between` times the tokens of the span; 0 before the first token."""
        shown = self._shown
        masses = [attention_between(shown, key) * max(1, len(tokens_of(key))) for key in self._keys]
        return bool(shown) * np.array(masses)

    @property
    def likelihood(self) -> float | None:
        """The result of `ScriptedSession.likelihoods` for the text."""
        return self._session.likelihood(self.text) if self.text else None

    def _run(self, answer: str) -> Iterator[str]:
        for piece in pieces_of(answer):
            self._shown += piece
            self._session.charge(1)
            yield piece


def share_of_question(question: str, texts: list[str]) -> float:
    """Share of the question's content words that occur in the texts; 0 if it has none."""
    asked = content_words(question)
    found = asked & content_words("\n".join(texts))
    return len(found) / len(asked) if asked else 0.0


def summary(prompt: str) -> str:
    """Summarise the information in a prompt of the library's own.

    In the prompt of "hwdag" every six sentences give a bullet with the first two words of each, which is
    no copy of any. In the papers' prompt, and in others, every line gives one with its first sentence.
    """
    if prompt.startswith(CONDENSE.partition("{")[0]):
        sentences = sentences_of(" ".join(_information(prompt, CONDENSE)))
        starts = [" ".join(tokens_of(sentence)[:2]) for sentence in sentences]
        groups = (starts[i : i + TOLD_TOGETHER] for i in range(0, len(starts), TOLD_TOGETHER))
        found = [f"Here {' '.join(group)}." for group in groups]
    else:
        lines = (line.strip().removeprefix("* ") for line in _information(prompt, SUMMARY))
        firsts = (next(iter(sentences_of(line)), "") for line in lines)
        found = [first for first in firsts if first]
    return "\n".join(f"* {point}" for point in found)


TOLD_TOGETHER = 6


def _information(prompt: str, template: str) -> list[str]:
    """Return the lines of the information in a prompt."""
    head, tail = template.split("{information}")
    closing = tail.partition("{")[0]  # the text after it depends on the language
    return prompt.removeprefix(head).partition(closing)[0].splitlines()


def _replay(request: ReplayRequest) -> Replay:
    units = [
        (segment, text[span.start : span.end])
        for segment, (text, spans) in enumerate(zip(request.segments, request.units, strict=True))
        for span in spans
    ]
    attention = [[attention_between(point, unit) for _, unit in units] for point in request.points]
    return Replay(
        attention=np.array(attention, np.float64).reshape(len(request.points), len(units)),
        unit_tokens=np.array([len(tokens_of(unit)) for _, unit in units], np.int64),
        unit_segment=np.array([segment for segment, _ in units], np.int64),
    )
