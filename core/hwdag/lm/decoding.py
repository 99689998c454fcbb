"""Decoding with any model: greedy tokens, and whole characters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

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
