"""Loading a model shows no bars of other libraries; a download of gigabytes still does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep transformers from showing bars meanwhile, unless the user has done so already."""
    bars: Any = import_module("transformers.utils.logging")
    hub: Any = import_module("huggingface_hub.utils")
    if not bars.is_progress_bar_enabled():
        yield
        return
    # why: transformers' switch is that of downloads too
    as_before = (
        hub.disable_progress_bars if hub.are_progress_bars_disabled() else hub.enable_progress_bars
    )
    bars.disable_progress_bar()
    as_before()
    try:
        yield
    finally:
        bars.enable_progress_bar()
        as_before()
