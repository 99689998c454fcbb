"""The two roles of a language model. A Reader has attention; a Writer only has text.

Any engine may be a Writer. A Reader is a local causal LM whose attention can be captured; the same
object may play both roles (`hwdag.lm.huggingface.HuggingFaceLM` does).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hwdag.arrays import Floats, Ints
from hwdag.config import HeadList, Heads
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One window to be replayed: `[before, segments, after, points]`, teacher-forced.

    `units[i]` cuts segment i into the parts that attention is reported for (its sentences): disjoint,
    ascending, together every non-blank character.
    """

    before: str
    segments: tuple[str, ...]
    after: str
    points: tuple[str, ...]
    units: tuple[tuple[Span, ...], ...]


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
    """What one forward over appended nodes tells.

    `attention` is the mean of each node's tokens to those of the question (PECAN App. C, without the
    position factor), `p_yes` is read in the answer slot after the last of them.
    """

    attention: Floats  # (nodes,)
    p_yes: float


class Decoding(Protocol):
    """An answer being decoded: iterate for text pieces; the rest is complete when exhausted."""

    def __iter__(self) -> Iterator[str]: ...

    @property
    def text(self) -> str:
        """What was decoded so far, stripped."""

    @property
    def attention(self) -> Floats:
        """Attention mass on each of the asked spans, mean over the decoded tokens, (spans,)."""

    @property
    def likelihood(self) -> float | None:
        """Mean log-probability per token of what was decoded so far; None where nothing was."""


class Session(Protocol):
    """One question's KV cache: `[prefix, question, node, node, ...]`, only ever appended to.

    A session belongs to one thread; sessions of the same reader may run in several.
    """

    def cost(self, text: str) -> int:
        """Tokens that appending `text` as a node would take."""

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context, room for the answer kept free."""

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot, in one forward; the probe is then forgotten."""

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """Append the first reply ("Yes" or "No") and the second turn, and decode the answer.

        `spans` are (node in appending order, characters of its text) to report attention for.
        """

    def likelihoods(self, texts: Sequence[str], *, enough: bool) -> Floats:
        """Mean log-probability per token of each text as the answer that `decode` gives, (texts,).

        The session stays as it is: more nodes can be read, and an answer decoded.
        """

    @property
    def usage(self) -> Usage:
        """Cost so far."""


class WalkSession(Session, Protocol):
    """A session that can read ahead of the end of a walk."""

    def costs(self, texts: Sequence[str]) -> list[int]:
        """Tokens that appending each of these texts as a node would take: `cost` of many at once."""

    def read_each(self, texts: Sequence[str]) -> list[Reading]:
        """Append nodes and probe behind each: what `read` tells of them one by one."""

    def forget(self, count: int) -> None:
        """Take the last `count` nodes back."""


@runtime_checkable
class Reader(Protocol):
    """A local causal LM whose attention can be read."""

    @property
    def name(self) -> str:
        """Recorded in the index; what `load_reader` takes."""

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
        """Windows that a build has replayed at a time."""

    @property
    def prefers_extraction(self) -> bool:
        """True for a model known to be too small to write Information Points."""

    @property
    def confidence(self) -> float:
        """A "Yes" is counted above this p_yes, unless the search says otherwise (t_p of PECAN)."""

    @property
    def search_prompts(self) -> SearchPrompts:
        """How it is asked whether it has enough, and for the answer, unless the index says otherwise.

        A reader that was trained for this keeps the turns that it was trained on.
        """

    @property
    def known_heads(self) -> HeadList | None:
        """What "auto" stands for: (layer, head) pairs, best first; None is all heads."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, control tokens taken as plain text."""

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Attention of points to their windows."""

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> WalkSession:
        """A fresh session. Raises `QuestionTooLong` if question and prompts leave no room."""

    @property
    def usage(self) -> Usage:
        """Cost of all replays (and writing, where it is a Writer too) so far."""


def heads_of(reader: Reader, heads: Heads) -> Heads:
    """The heads themselves where "auto" stands for a list that the reader knows."""
    return reader.known_heads or heads if heads == "auto" else heads


@runtime_checkable
class Writer(Protocol):
    """Anything that turns prompts into text."""

    @property
    def name(self) -> str:
        """Recorded in the index."""

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """One reply per prompt, in order."""


@runtime_checkable
class ConcurrentWriter(Writer, Protocol):
    """A Writer that hands over every reply as soon as it has it; optional.

    It answers `concurrency` prompts at a time, an attribute, where that is more than one.
    """

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """(Ordinal of the prompt, reply), each as soon as it is finished, in any order.

        Closing the iterator gives up what is not finished.
        """


@runtime_checkable
class Metered(Protocol):
    """Something that counts what it costs; optional for a Writer."""

    @property
    def usage(self) -> Usage:
        """Cost of all calls so far."""
