"""Decoding with any model: greedy tokens, and whole characters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

REPLACEMENT = "\ufffd"  # an incomplete multi-byte character decodes to this


def greedy(
    step: Callable[[list[int]], int],
    prompt: list[int],
    *,
    max_new_tokens: int,
    end_tokens: Collection[int],
) -> Iterator[int]:
    """Yield the tokens of a reply, without its end token.

    `step` runs new tokens on top of its cache and returns the next token.
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
    """Yield the text of the tokens in pieces, each as soon as its characters are complete.

    Decodes only the tokens since the last two pieces again: the text of a token may depend on the one
    before it, but not on more.
    """
    window: list[int] = []
    known, shown = 0, ""  # tokens of the window that were yielded, and their text
    for token in tokens:
        window.append(token)
        text = decode(window)
        if len(text) > len(shown) and not text.endswith(REPLACEMENT):
            yield text[len(shown) :]
            window = window[known:]
            known, shown = len(window), decode(window)
    if rest := decode(window)[len(shown) :]:
        yield rest
