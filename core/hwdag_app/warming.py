"""Models that are loaded before the first question, for commands that stay."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

from hwdag.errors import HWDAGError
from hwdag.index import HWDAGIndex


def warm(index: HWDAGIndex) -> threading.Thread | None:
    """Load the reader in the background, and print that; None if an answerer answers.

    A question that comes earlier waits for it. An error is that of the first question.
    """
    if index.answerer is not None:
        return None
    print("the reader is loading in the background", file=sys.stderr, flush=True)
    thread = threading.Thread(target=_load, args=(index,), name="hwdag-warming")
    thread.start()
    return thread


def _load(index: HWDAGIndex) -> None:
    with suppress(HWDAGError):
        _ = getattr(index.reader, "model", None)  # its weights are loaded on first use
