"""The two roles of a language model: a Reader exposes attention, a Writer only text.

Any engine can be a Writer. A Reader is a local causal LM whose attention can be captured. One object
may have both roles, as `hwdag.lm.huggingface.HuggingFaceLM` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hwdag.arrays import Floats, Ints
from hwdag.config import HeadList, Heads
from hwdag.lm.cards import Card
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One window to be replayed: `[before, segments, after, points]`, teacher-forced.

    `units[i]` splits segment i into the parts to report attention for (its sentences): disjoint,
    ascending, and covering every non-blank character. `leads[i]` precedes segment i; without
    leads every segment is a line with a bullet, as in the papers.
    """

    before: str
    segments: tuple[str, ...]
    after: str
    points: tuple[str, ...]
    units: tuple[tuple[Span, ...], ...]
    leads: tuple[str, ...] = ()

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Each segment as the model sees it, character by character, with the lead before it."""
        if self.leads:
            return list(zip(self.leads, self.segments, strict=True))
        return [("\n* " if i else "* ", one_line(text)) for i, text in enumerate(self.segments)]

    @property
    def prompt(self) -> str:
        """Return the prompt that the points reply to."""
        return self.before + "".join(lead + text for lead, text in self.shown) + self.after


@dataclass(frozen=True, slots=True)
class Replay:
    """Attention of every point to every unit of its window: means over heads and tokens.

    `unit_tokens` are the tokens of each unit, `unit_segment` the segment it belongs to.
    """

    attention: Floats  # (points, units)
    unit_tokens: Ints  # (units,)
    unit_segment: Ints  # (units,)


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of one forward over appended nodes.

    `attention` is the mean attention from each node's tokens to the question's (PECAN App. C, without
    the position factor). `p_yes` is read in the answer slot after the last node.
    """

    attention: Floats  # (nodes,)
    p_yes: float


class Decoding(Protocol):
    """An answer being decoded: iterate for pieces of text; the properties cover the text so far."""

    def __iter__(self) -> Iterator[str]: ...

    @property
    def text(self) -> str:
        """The text decoded so far, stripped."""

    @property
    def attention(self) -> Floats:
        """Attention mass on each requested span, mean over the decoded tokens, (spans,)."""

    @property
    def likelihood(self) -> float | None:
        """Mean log-probability per decoded token; None before the first."""

    @property
    def is_cut(self) -> bool:
        """Return whether it ended at `max_new_tokens`."""


class Session(Protocol):
    """One question's KV cache: `[prefix, question, node, node, ...]`, append-only.

    A session belongs to one thread; sessions of one reader may run in several threads.
    """

    def cost(self, text: str) -> int:
        """Return tokens that appending `text` as a node would take."""

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context, with space kept for the answer."""

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot in one forward, then crop the probe."""

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """Append the first reply ("Yes" or "No") and the second turn, and decode the answer.

        `spans` are the (ordinal of the appended node, characters of its text) to report attention for.
        """

    def likelihoods(self, texts: Sequence[str], *, enough: bool, ask: str | None = None) -> Floats:
        """Return the mean log-probability per token of each text as the answer, (texts,).

        `ask` takes the place of the answer prompt.
        Does not change the session: it can read more nodes and decode an answer.
        """

    @property
    def usage(self) -> Usage:
        """Cost so far."""


class WalkSession(Session, Protocol):
    """A session that can also read without a probe."""

    def append(self, texts: Sequence[str]) -> Floats:
        """Append nodes in one forward without a probe; return their attention as `read` does, (nodes,)."""

    def score_only(self, texts: Sequence[str]) -> Floats:
        """Return attention of nodes as `append` does, without keeping them, (nodes,)."""


@runtime_checkable
class Reader(Protocol):
    """A local causal LM whose attention can be read."""

    @property
    def name(self) -> str:
        """Name recorded in the index; `load_reader` accepts it."""

    @property
    def context_tokens(self) -> int:
        """Length of the model's context."""

    @property
    def window_tokens(self) -> int:
        """Default length of a summary call, at most `context_tokens`."""

    @property
    def template_tokens(self) -> int:
        """Tokens that the chat template puts around a prompt."""

    @property
    def replay_batch(self) -> int:
        """Number of windows that a build replays at a time."""

    @property
    def card(self) -> Card:
        """Whether it writes, judges and attends, and how it is asked."""

    @property
    def known_heads(self) -> HeadList | None:
        """The heads meant by "auto": (layer, head) pairs, best first; None means all heads."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, control tokens taken as plain text."""

    @property
    def tokenizer_fingerprint(self) -> str:
        """Fingerprint of the tokenizer: readers that have the same one count alike."""

    def count_lines(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text as a node: a line with a bullet; as `Session.cost`."""

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Return attention of points to their windows."""

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> WalkSession:
        """Return a fresh session. Raises `QuestionTooLong` if question and prompts leave no room."""

    @property
    def usage(self) -> Usage:
        """Cost of all replays so far, and of writing if it is a Writer too."""


def heads_of(reader: Reader, heads: Heads) -> Heads:
    """Replace "auto" with the reader's known heads, if it has any."""
    return reader.known_heads or heads if heads == "auto" else heads


@runtime_checkable
class Writer(Protocol):
    """Anything that turns prompts into text."""

    @property
    def name(self) -> str:
        """Name recorded in the index."""

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return one reply per prompt, in order."""


@runtime_checkable
class ConcurrentWriter(Writer, Protocol):
    """A Writer that yields each reply as soon as it is finished; optional.

    An attribute `concurrency` is the number of prompts that it answers at a time; the default is one.
    """

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """Yield (ordinal of the prompt, reply) as soon as each is finished, in any order.

        Closing the iterator abandons unfinished replies.
        """


class StopFlag(Protocol):
    """A cancellation flag, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether it was set."""


@runtime_checkable
class StreamingWriter(Writer, Protocol):
    """A Writer that yields a reply in pieces, as they are decoded; optional."""

    def stream(self, prompt: str, *, max_new_tokens: int) -> Iterator[str]:
        """Yield the pieces of one reply. Closing the iterator abandons the rest.

        If it has a further parameter `stop`, an answerer's stream gets a `StopFlag`. It should end soon
        after the flag is set, even while it waits for a piece, when nobody can close it.

        A generator may return a `hwdag.types.ReplyEnd`, or the `hwdag.types.TokenCount` of the call.
        """


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a model is.

    Attributes:
        read: seconds per token that it reads.
        step: seconds per step of decoding, which writes one token of every reply of a batch. On a CPU a
            batch takes hardly longer than one reply: the weights are read once.
    """

    read: float
    step: float


@runtime_checkable
class Timed(Protocol):
    """A local model that can estimate the cost of a call; optional for a Reader."""

    def speed(self) -> Speed:
        """Time a call of a few seconds, the first time it is asked."""

    def tflops(self, new_tokens: int, cached_tokens: int, *, logit_rows: int = 1) -> float:
        """Return analytic TFLOPs of one causal forward of `new_tokens` on top of `cached_tokens`."""


@runtime_checkable
class Metered(Protocol):
    """Something that counts its own cost; optional for a Writer."""

    @property
    def usage(self) -> Usage:
        """Cost of all calls so far."""
