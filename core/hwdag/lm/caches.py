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
from transformers import Cache, DynamicCache, PreTrainedConfig, cache_utils
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from hwdag.lm.attention import LINEAR_LAYER, is_hybrid


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
    """
    accepted = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in accepted else "past_key_values": cache}


class Checkpoint:
    """A moment of a cache, to come back to; does not change the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._tokens = int(cache.get_seq_length())
        # why getattr: earlier versions have no such layers, and `check_supported` refuses hybrids there
        kind = getattr(cache_utils, LINEAR_LAYER, ())
        linear = [layer for layer in cache.layers if isinstance(layer, kind)]
        self._states = [(layer, _copied(layer)) for layer in linear]

    def restore(self) -> None:
        """Take back all that was appended since. A checkpoint is used once."""
        if removed := int(self._cache.get_seq_length()) - self._tokens:
            for layer in self._cache.layers:
                if isinstance(layer, DynamicLayer):
                    layer.crop(-removed)
        for layer, kept in self._states:
            for name, values in kept.items():
                getattr(layer, name).update(values)


def _copied(layer: Any) -> dict[str, dict[int, Any]]:
    names = ["conv_states", "recurrent_states", "has_previous_state"]
    names += ["is_conv_states_initialized", "is_recurrent_states_initialized"]
    return {
        name: {
            key: value.clone() if isinstance(value, torch.Tensor) else value
            for key, value in getattr(layer, name).items()
        }
        for name in names
    }
