"""Asking a writer: every reply is kept at once, and whatever goes wrong names the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hwdag.building.calls import Calls, Finished, is_text
from hwdag.errors import WriterFailed
from hwdag.lm.base import ConcurrentWriter, Writer
from hwdag.store.calls import key_of

PROMPTS_AT_ONCE = 4  # for a writer that does not say how many it answers at once

WAVE = 4
"""So many rounds of concurrent prompts are asked for between two looks at the limits of a run: few,
so that a limit holds, and several, so that a slow reply keeps few others waiting."""


def replies(
    writer: Writer,
    prompts: Sequence[str],
    calls: Calls,
    *,
    limit: int,
    advance: Callable[[int], object] = lambda amount: None,
) -> list[str]:
    """Ask for the replies, of `limit` tokens at most, that are not among the finished calls.

    A writer gets as many prompts at a time as its `concurrency` says, else `PROMPTS_AT_ONCE`; the
    longest first.
    A `ConcurrentWriter` gets `WAVE` times as many. Raises `WriterFailed` as `ask` does.
    """
    # why: a writer's settings, where it has some, decide about its replies as its name does
    asked = writer.name, getattr(writer, "settings", "")
    keys = [key_of("write", *asked, prompt, limit) for prompt in prompts]

    # why callable: any attribute of that name makes a ConcurrentWriter for isinstance
    if isinstance(writer, ConcurrentWriter) and callable(writer.replies):
        return calls.streamed(
            keys,
            is_text,
            lambda missing: _waves(writer, prompts, missing, calls, limit),
            advance=advance,
        )

    return calls.results(
        keys,
        is_text,
        lambda batch: ask(writer, [prompts[i] for i in batch], max_new_tokens=limit),
        size=int(getattr(writer, "concurrency", PROMPTS_AT_ONCE)),
        order=lambda i: -len(prompts[i]),
        advance=advance,
    )


def _waves(
    writer: ConcurrentWriter, prompts: Sequence[str], missing: list[int], calls: Calls, limit: int
) -> Finished[str]:
    at_once = getattr(writer, "concurrency", 1)
    size = WAVE * at_once if at_once > 1 else 1
    for start in range(0, len(missing), size):
        # why not between replies: giving up those that are under way would lose them
        calls.before_call()
        wave = missing[start : start + size]
        for i, reply in ask_at_once(writer, [prompts[i] for i in wave], max_new_tokens=limit):
            yield {wave[i]: reply}


def ask(writer: Writer, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
    """Ask for one reply per prompt; raises `WriterFailed` if the writer raised or did not give that."""
    with _blaming(writer):
        found = writer.write(prompts, max_new_tokens=max_new_tokens)
    if len(found) != len(prompts) or not all(isinstance(reply, str) for reply in found):
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: {len(prompts)} prompts, "
            f"got {len(found)} replies of {sorted({type(r).__name__ for r in found})}"
        )
    return found


def ask_at_once(
    writer: ConcurrentWriter, prompts: Sequence[str], *, max_new_tokens: int
) -> Iterator[tuple[int, str]]:
    """Yield (ordinal of the prompt, reply) as the writer finishes them; raises as `ask` does."""
    waiting = set(range(len(prompts)))
    with _blaming(writer):
        for i, reply in writer.replies(prompts, max_new_tokens=max_new_tokens):
            if i not in waiting or not isinstance(reply, str):
                raise WriterFailed(
                    f"the writer {writer.name} must return one text per prompt: got "
                    f"{type(reply).__name__} for prompt {i!r} of {len(prompts)}"
                )
            waiting.remove(i)
            yield i, reply
    if waiting:
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: of {len(prompts)} prompts, "
            f"{len(waiting)} got no reply"
        )


@contextmanager
def _blaming(writer: Writer) -> Iterator[None]:
    try:
        yield
    except WriterFailed:
        raise
    except Exception as error:
        raise WriterFailed(
            f"the writer {writer.name} raised {type(error).__name__}: {error}. What was finished "
            "is kept; mend the writer and try again, or build with points='extractive'"
        ) from error
