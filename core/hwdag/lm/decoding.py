"""Decoded tokens as whole characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

REPLACEMENT = "\ufffd"  # an incomplete multi-byte character decodes to this


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
