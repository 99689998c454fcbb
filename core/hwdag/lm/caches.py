"""Caches that come back to an earlier length, for attention and for linear-attention layers.

Keys and values of attention layers are cropped. The states of linear-attention layers (LFM2's
convolutions, the recurrences of Qwen3.5 and Granite 4) are copied beforehand, and
put back: `crop` of transformers 5.24 takes back convolutions alone, and only those of a cache that has
recorded its past.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import Cache, DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from hwdag.errors import CaptureUnsupported
from hwdag.lm.attention import is_hybrid


def new_cache(config: PreTrainedConfig) -> DynamicCache:
    """Make an empty cache for a sequence; sliding-window layers keep everything, so that they can be cropped."""
    if not is_hybrid(config):
        return DynamicCache()
    cache = DynamicCache(config=config)
    cache.layers = [
        DynamicLayer() if isinstance(layer, DynamicSlidingWindowLayer) else layer  # type: ignore[no-untyped-call]
        for layer in cache.layers
    ]
    return cache


def croppable_cache(config: PreTrainedConfig) -> DynamicCache | None:
    """Make an empty cache that `crop` brings back; None for a hybrid, which is read anew instead."""
    return None if is_hybrid(config) else DynamicCache()


def cache_option(model: torch.nn.Module, cache: Cache) -> dict[str, Cache]:
    """Return the keyword argument that passes a cache to a model's forward.

    transformers 5.24 renamed it from `past_key_values` to `cache`, and 5.40 removes the old name.
    Raises `CaptureUnsupported` if it has neither: others would take the cache as an option, and ignore it.
    """
    accepted = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values"):
        if name in accepted:
            return {name: cache}
    raise CaptureUnsupported(f"the forward of {type(model).__name__} takes no cache")


class Checkpoint:
    """A moment of a cache, to come back to; does not change the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._tokens = int(cache.get_seq_length())
        # why all that they hold: an architecture may keep states of its own
        others = [layer for layer in cache.layers if type(layer) is not DynamicLayer]
        self._states = [(layer, _copied(vars(layer))) for layer in others]

    def restore(self) -> None:
        """Take back all that was appended since. A checkpoint is used once."""
        if removed := int(self._cache.get_seq_length()) - self._tokens:
            for layer in self._cache.layers:
                if type(layer) is DynamicLayer:
                    layer.crop(-removed)
        for layer, kept in self._states:
            vars(layer).clear()
            vars(layer).update(kept)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(_copied, value))
    return value.clone() if isinstance(value, torch.Tensor) else value
