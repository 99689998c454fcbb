"""Information Points of windows: written by an LM, or picked from the text.

Ours, not the papers': points are written passage by passage, and one that copies the text, or moves a
year, is refused. A reply without a usable point costs one bounded retry. If that has none either, points are
extracted; both are counted in the report and the origin of the node is `extractive`. Every reply is kept at once, and an error
of the writer names the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import chain
from operator import add
from typing import NamedTuple, TypeGuard

import numpy as np

from hwdag.building.extractive import CandidateSentence, pick_points
from hwdag.building.windows import POINTS_RATIO, Window, WindowPlan, WindowSentence, line_costs
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded
from hwdag.errors import InputError, OutOfMemory, WriterFailed
from hwdag.lm.base import ConcurrentWriter, Reader, Writer
from hwdag.store.calls import CallCache, Calls, Finished, SharedCalls, is_text, key_of, picks_of
from hwdag.text.characters import without_surrogates
from hwdag.text.near_copies import grounded, originals
from hwdag.text.points import parse_points, parse_statement
from hwdag.text.prompts import SAYS, SUMS_UP
from hwdag.text.sentences import ends_sentence
from hwdag.trace.bars import Advance
from hwdag.types import Origin, Span

RETRY = "\n\nBegin every summary point with an asterisk and a space, one summary point per line."
"""Added to the prompt after a reply without points; greedy decoding of the same prompt would not change."""

PROMPTS_AT_ONCE = 4  # for a writer without a number of prompts that it answers at once

WAVE = 4
"""Rounds of concurrent prompts between two looks at the limits of a run: few,
so that a limit holds, and several, so that a slow reply keeps few others waiting."""


Write = Callable[..., list[str]]  # as `Writer.write`

CUT_SHARE = 0.95
"""A reply of so much of its limit that ends in mid-sentence was cut there: another tokenizer than the
writer's may count a little less."""


@dataclass(frozen=True, slots=True)
class Point:
    """An Information Point before it is a node; generated ones get their sources from the replay."""

    text: str
    origin: Origin
    sources: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Counts of replies by outcome, as in `BuildReport`."""

    retries: int = 0
    fallbacks: int = 0
    refused: int = 0
    too_long: int = 0
    without_points: int = 0

    def __add__(self, other: GenerationStats) -> GenerationStats:
        return GenerationStats(*map(add, astuple(self), astuple(other)))


def points_writer(config: BuildConfig, writer: Writer | None, reader: Reader) -> Writer | None:
    """Return the writer of the points, which may be the reader; None if no points are written.

    Raises `InputError` if the method needs written points and no model can write them.
    """
    if not config.rules.has_points or config.points == "extractive":
        return None
    if writer is not None:
        return writer
    if isinstance(reader, Writer) and reader.card.writes:
        return reader
    if config.points == "auto":
        return None
    unfit = f"does not ({reader.card.source})" if isinstance(reader, Writer) else "cannot"
    raise InputError(
        f"the reader {reader.name} {unfit} write Information Points, which method="
        f'"{config.method}" needs; pass a writer or another reader, or have sentences picked '
        'with points="extractive", or build with method="evidence"'
    )


class PendingPrompts(NamedTuple):
    """First prompts about a document that were not replied to, and of how many."""

    prompts: list[str]
    asked: int

    @property
    def share(self) -> int:
        """Prompts that the document adds to a batch; at least 1, so that every document is built at last."""
        # why 0 for written prompts: a resumed run has the batches of an uninterrupted one
        return 0 if self.asked and not self.prompts else max(1, self.asked)


def passages_in(windows: Iterable[Window]) -> list[Window]:
    """Return the passages of windows, and windows without passages: points are written about these."""
    return [passage for window in windows for passage in window.passages or (window,)]


def pending_prompts(
    windows: Sequence[Window], plan: WindowPlan, writer: Writer, calls: CallCache
) -> PendingPrompts:
    """Find the prompts about a document to which nothing was replied yet."""
    prompts = [passage.request().prompt for passage in passages_in(windows)]
    keys = keys_of(writer, prompts, limit=plan.reply_tokens, condense=plan.has_passages)
    missing = [prompt for prompt, key in zip(prompts, keys, strict=True) if calls.get(key) is None]
    return PendingPrompts(missing, len(prompts))


def generate_batch(
    documents: Sequence[tuple[PendingPrompts, CallCache]],
    plan: WindowPlan,
    writer: Writer,
    before_call: Callable[[], None],
    advance: Advance,
) -> None:
    """Have the first replies about several documents written together, since a short one fills no batch.

    Each is kept with the documents that need it, so that `make_points` finds it. `before_call` is as in
    `Calls`.
    """
    limit, condense = plan.reply_tokens, plan.has_passages
    owners: dict[bytes, list[CallCache]] = {}
    asked: dict[bytes, str] = {}
    for one, calls in documents:
        keys = keys_of(writer, one.prompts, limit=limit, condense=condense)
        for key, prompt in zip(keys, one.prompts, strict=True):
            owners.setdefault(key, []).append(calls)
            asked[key] = prompt
    together = SharedCalls(owners)
    together.before_call = before_call
    prompts = sorted(asked.values(), key=len, reverse=True)
    # why at once: a run resumed after a part of it would write the rest in other batches
    replies(
        writer,
        prompts,
        together,
        limit=limit,
        condense=condense,
        advance=advance,
        size=max(1, len(prompts)),
    )


def make_points(
    windows: Sequence[Window],
    plan: WindowPlan,
    reader: Reader,
    writer: Writer | None,
    embedder: Embedder,
    calls: CallCache,
    advance: Advance,
) -> tuple[list[list[Point]], GenerationStats]:
    """Have the points of every window written, at least one each, or pick them without a writer."""
    limit, passages = plan.reply_tokens, passages_in(windows)
    pick = partial(extract, reader=reader, embedder=embedder, calls=calls, limit=limit)
    if writer is None:
        return pick([window.parts for window in windows], advance=advance), GenerationStats()
    prompts = [passage.request().prompt for passage in passages]
    read = partial(_points_in, plan=plan, reader=reader)
    asked = partial(replies, writer, calls=calls, limit=limit, condense=plan.has_passages)
    found = asked(prompts, advance=advance)
    written = list(map(read, passages, found))
    second = {
        i: prompt
        for i, (texts, counts) in enumerate(written)
        if not texts and (prompt := _second_prompt(passages[i], counts))
    }
    for i, reply in zip(second, asked(list(second.values())), strict=True):
        texts, counts = read(passages[i], reply)
        written[i] = texts, written[i][1] + counts
    points = [[Point(text, "generated") for text in texts] for texts, _ in written]
    failed = [i for i, texts in enumerate(points) if not texts]
    for i, picked in zip(failed, pick([passages[i].parts for i in failed]), strict=True):
        points[i] = picked
    counted = sum((counts for _, counts in written), GenerationStats(len(second), len(failed)))
    each = iter(points)
    by_window = [list(chain.from_iterable(next(each) for _ in passages_in([w]))) for w in windows]
    return [_first(several, reader, plan.points_tokens) for several in by_window], counted


def _second_prompt(passage: Window, counts: GenerationStats) -> str:
    """Return the second prompt if the first reply has nothing usable: it asks for the form, or for no copy.

    Empty if greedy decoding would give the same reply again: a refused reply to a prompt of the caller's own,
    and one that is too long.
    """
    if counts == GenerationStats():
        return passage.request().prompt + RETRY
    if counts.refused and SAYS in passage.after:
        return replace(passage, after=passage.after.replace(SAYS, SUMS_UP)).request().prompt
    return ""


def _first(points: list[Point], reader: Reader, limit: int) -> list[Point]:
    """Return the first points that fit into `limit` tokens, at least one."""
    return points[: max(1, len(fitting([point.text for point in points], reader, limit)))]


def _points_in(
    passage: Window, reply: str, *, plan: WindowPlan, reader: Reader
) -> tuple[list[str], GenerationStats]:
    """Find the usable points of a reply: in full, uncopied, and as many as may be.

    Of a statement without a bullet, each sentence is kept or left out.
    """
    points, limit = parse_points(reply), plan.reply_tokens
    if not plan.has_passages:
        return fitting(points, reader, limit), GenerationStats()
    texts = points or parse_statement(reply)
    [length] = reader.count_tokens([reply])
    share = plan.points_of(passage)
    is_cut = length >= CUT_SHARE * limit and not ends_sentence(reply)
    complete = texts[:-1] if is_cut else texts
    # why first: to compare points with each other takes their number squared
    complete = fitting(complete, reader, plan.points_tokens)
    shown = [part.text for part in passage.parts]
    kept = grounded(originals(complete, shown), shown, " ".join(passage.leads))
    counts = GenerationStats(
        refused=len(complete) - len(kept),
        too_long=int(length >= CUT_SHARE * share),
    )
    usable = fitting(kept, reader, share)
    return usable if points or not usable else [" ".join(usable)], counts


def extract(
    windows: Sequence[Sequence[WindowSentence]],
    reader: Reader,
    embedder: Embedder,
    calls: CallCache,
    *,
    limit: int,
    ratio: float = POINTS_RATIO,
    advance: Advance = lambda amount: None,
) -> list[list[Point]]:
    """Pick points from the parts of each window: `ratio` of their tokens, at most `limit`.

    A heading is picked only if a window has nothing else. The choice depends on the window alone:
    one call embeds the parts of one window.
    """
    allowed = [
        [i for i, part in enumerate(parts) if not part.is_heading] or list(range(len(parts)))
        for parts in windows
    ]
    texts = [[part.text for part in parts] for parts in windows]
    costs = [line_costs(several, reader) for several in texts]
    budgets = [min(limit, max(1, int(ratio * sum(several)))) for several in costs]

    def one(i: int) -> list[int]:
        vectors, parts = embedded(embedder, texts[i]), windows[i]
        candidates = [
            CandidateSentence(parts[at].text, costs[i][at], parts[at].segment, vectors[at])
            for at in allowed[i]
        ]
        return [allowed[i][at] for at in pick_points(candidates, token_budget=budgets[i])]

    keys = [
        key_of(
            "pick",
            embedder.name,
            texts[i],
            [part.segment for part in parts],
            allowed[i],
            costs[i],
            budgets[i],
        )
        for i, parts in enumerate(windows)
    ]
    picks = picks_of(list(map(len, windows)))
    chosen = calls.results(keys, picks, lambda at: [one(i) for i in at], advance=advance)
    return [
        [Point(part.text, part.origin, part.sources) for part in map(parts.__getitem__, at)]
        for parts, at in zip(windows, chosen, strict=True)
    ]


def fitting(texts: list[str], reader: Reader, limit: int) -> list[str]:
    """Take the first points whose lines fit into `limit` tokens."""
    if not texts:
        return []
    held = np.cumsum(line_costs(texts, reader))
    return texts[: int(np.searchsorted(held, limit, side="right"))]


def replies(
    writer: Writer,
    prompts: Sequence[str],
    calls: Calls,
    *,
    limit: int,
    condense: bool = False,
    advance: Advance = lambda amount: None,
    size: int = 0,
) -> list[str]:
    """Ask for the replies, of `limit` tokens at most, that are not among the finished calls.

    With `condense`, a writer that has a method of that name is kept from copying the prompts. A writer gets
    `batch_size` prompts at a time, or `size` if it takes batches, the longest first. Raises
    `WriterFailed` as `ask` does.
    """
    keys = keys_of(writer, prompts, limit=limit, condense=condense)
    condensing = _condensing(writer) if condense else None
    if condensing is None and _is_streaming(writer):
        return calls.streamed(
            keys,
            is_text,
            lambda missing: _waves(writer, prompts, missing, calls, limit),
            advance=advance,
        )

    return calls.results(
        keys,
        is_text,
        lambda batch: ask(
            writer,
            [prompts[i] for i in batch],
            max_new_tokens=limit,
            write=condensing,
        ),
        size=size or _concurrency(writer),
        order=lambda i: -len(prompts[i]),
        advance=advance,
    )


def keys_of(
    writer: Writer, prompts: Sequence[str], *, limit: int, condense: bool = False
) -> list[bytes]:
    """Return the key of each prompt's reply among the finished calls."""
    # why: a writer's settings, if it has any, decide about its replies as its name does
    asked = writer.name, getattr(writer, "settings", "")
    kind = "condense" if condense and _condensing(writer) else "write"
    return [key_of(kind, *asked, prompt, limit) for prompt in prompts]


def batch_size(writer: Writer, *, condense: bool = False) -> int:
    """Prompts that a writer is given at a time: its `concurrency`, else `PROMPTS_AT_ONCE`.

    One that replies to several at the same time is given `WAVE` times as many.
    """
    is_batch = (condense and _condensing(writer)) or not _is_streaming(writer)
    at_once = _concurrency(writer)
    return at_once if is_batch or at_once == 1 else WAVE * at_once


def _concurrency(writer: Writer) -> int:
    default = 1 if _is_streaming(writer) else PROMPTS_AT_ONCE
    return int(getattr(writer, "concurrency", default))


def _condensing(writer: Writer) -> Write | None:
    # why no isinstance: from Python 3.12 on, a wrapper's property of that name would do for it
    found = getattr(writer, "condense", None)
    return found if callable(found) else None


def _is_streaming(writer: Writer) -> TypeGuard[ConcurrentWriter]:
    # why callable: any attribute of that name makes a ConcurrentWriter for isinstance
    return isinstance(writer, ConcurrentWriter) and callable(writer.replies)


def _waves(
    writer: ConcurrentWriter,
    prompts: Sequence[str],
    missing: list[int],
    calls: Calls,
    limit: int,
) -> Finished[str]:
    size = batch_size(writer)
    for start in range(0, len(missing), size):
        # why not between replies: giving up those that are under way would lose them
        calls.before_call()
        wave = missing[start : start + size]
        for i, reply in ask_at_once(writer, [prompts[i] for i in wave], max_new_tokens=limit):
            yield {wave[i]: reply}


def ask(
    writer: Writer,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    write: Write | None = None,
) -> list[str]:
    """Ask for one reply per prompt; raises `WriterFailed` if the writer raised or did not give that.

    Asks through `write`, a method of the writer; the default is the method of that name. Lone surrogates
    are replaced: JSON can spell them, and no tokenizer takes them.
    """
    with _failing_as_writer(writer):
        found = (write or writer.write)(prompts, max_new_tokens=max_new_tokens)
    if len(found) != len(prompts) or not all(isinstance(reply, str) for reply in found):
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: {len(prompts)} prompts, "
            f"got {len(found)} replies of {sorted({type(r).__name__ for r in found})}"
        )
    return [without_surrogates(reply)[0] for reply in found]


def ask_at_once(
    writer: ConcurrentWriter, prompts: Sequence[str], *, max_new_tokens: int
) -> Iterator[tuple[int, str]]:
    """Yield (ordinal of the prompt, reply) as the writer finishes them; raises as `ask` does."""
    waiting = set(range(len(prompts)))
    with _failing_as_writer(writer):
        for i, reply in writer.replies(prompts, max_new_tokens=max_new_tokens):
            if i not in waiting or not isinstance(reply, str):
                raise WriterFailed(
                    f"the writer {writer.name} must return one text per prompt: got "
                    f"{type(reply).__name__} for prompt {i!r} of {len(prompts)}"
                )
            waiting.remove(i)
            yield i, without_surrogates(reply)[0]
    if waiting:
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: of {len(prompts)} prompts, "
            f"{len(waiting)} got no reply"
        )


@contextmanager
def _failing_as_writer(writer: Writer) -> Iterator[None]:
    try:
        yield
    except (OutOfMemory, WriterFailed):
        raise
    except Exception as error:
        raise WriterFailed(
            f"the writer {writer.name} raised {type(error).__name__}: {error}. Finished work "
            "is kept; mend the writer and try again, or build with points='extractive'"
        ) from error
