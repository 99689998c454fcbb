"""Leave the thoughts of a reasoning model out of its replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_THOUGHT = re.compile(r"\A(?s:.*?)</think(?:ing)?>[ \t]*\n\s*(?=\S)", re.IGNORECASE)


def without_thinking(pieces: Iterable[str]) -> Iterator[str]:
    """Leave out the thoughts of a reasoning model before its reply, `<think>...</think>`."""
    opening, closing_mark, held, thinks = "<think>", "</think>", "", None
    for piece in pieces:
        held += piece
        if thinks is None:
            bare = held.lstrip()
            if len(bare) < len(opening) and opening.startswith(bare):
                held = bare
                continue
            thinks = bare.startswith(opening)
        if thinks:
            thought, end, held = held.partition(closing_mark)
            if not end:
                held = thought[1 - len(closing_mark) :]  # may end with a part of the mark
                continue
            thinks, held = False, held.lstrip()
        if held:
            yield held
            held = ""
    if held and not thinks:
        yield held


def without_thought(reply: str) -> str:
    """Leave out the thoughts of a reasoning model before a whole reply.

    Some chat templates open the block themselves. Then it ends at the end of a line before the reply.
    """
    return _THOUGHT.sub("", "".join(without_thinking([reply])), count=1)
