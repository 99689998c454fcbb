"""Decoding, whatever the model: greedy tokens, whole characters, and what is shown of a reply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

REPLACEMENT = "\ufffd"  # what half of a multi-byte character is decoded to


def greedy(
    step: Callable[[list[int]], int],
    prompt: list[int],
    *,
    max_new_tokens: int,
    end_tokens: Collection[int],
) -> Iterator[int]:
    """The tokens of a reply, its end token left out.

    `step` runs new tokens on top of its cache and tells which one comes next.
    """
    ids = prompt
    for _ in range(max_new_tokens):
        token = step(ids)
        if token in end_tokens:
            return
        yield token
        ids = [token]


def whole_characters(
    tokens: Iterable[int], decode: Callable[[Sequence[int]], str]
) -> Iterator[str]:
    """Pieces of the text of all tokens, each as soon as its characters are complete.

    Only the tokens since the last two pieces are decoded again: what a token looks like may depend
    on the one before it, but not on more.
    """
    window: list[int] = []
    known, shown = 0, ""  # tokens of the window that are shown already, and their text
    for token in tokens:
        window.append(token)
        text = decode(window)
        if len(text) > len(shown) and not text.endswith(REPLACEMENT):
            yield text[len(shown) :]
            window = window[known:]
            known, shown = len(window), decode(window)
    if rest := decode(window)[len(shown) :]:
        yield rest


def visible(pieces: Iterable[str], stop: Sequence[str]) -> Generator[str, None, bool]:
    """Pieces without the white space around the whole, up to the stop string that is complete first.

    However the text is cut, the pieces join to the same. Returns whether a stop string was found.
    """
    held, begun = "", False
    for piece in pieces:
        held = held + piece if begun else (held + piece).lstrip()
        found = _first(held, stop)
        ready = held[: len(held) - _begun(held, stop) if found is None else found].rstrip()
        if ready:
            yield ready
            held, begun = held[len(ready) :], True
        if found is not None:
            return True
    if rest := held.rstrip():
        yield rest
    return False


def _first(text: str, stop: Sequence[str]) -> int | None:
    """Where the stop string begins that ends first; of several the longest."""
    starts = ((text.find(end), len(end)) for end in stop)
    found = [(start + length, start) for start, length in starts if start >= 0]
    return min(found)[1] if found else None


def _begun(text: str, stop: Sequence[str]) -> int:
    """Characters at the end of a text that a stop string may begin with."""
    longest = max((len(end) - 1 for end in stop), default=0)
    for length in range(min(longest, len(text)), 0, -1):
        if any(end.startswith(text[-length:]) for end in stop if len(end) > length):
            return length
    return 0
