"""A test of a model when its weights are loaded: hwdag reads a few tokens as the model itself does.

Architectures differ in how they call attention, in their masks and in their states. An architecture that
breaks a rule of hwdag's forwards would give wrong numbers without an error. So it is refused.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from hwdag.errors import CaptureUnsupported, HWDAGError, first_line
from hwdag.lm.attention import (
    Capture,
    SpanRequest,
    describe,
    is_hybrid,
    running,
    silent_layers,
    switched,
)
from hwdag.lm.caches import Checkpoint, cache_option, new_cache
from hwdag.lm.packing import (
    AskedMask,
    SequenceRow,
    cached_forward,
    depends_on_length,
    packed_forward,
)

SHARED = 4  # tokens that begin both sequences
LENGTH = 8
CUT = 5  # tokens of the first chunk
MOST_POSITIONS = 1 << 20  # some models make a table of them

ROUNDINGS = 10
"""Largest difference of logits, in roundings of the dtype and standard deviations of the logits.

Medians of a chunk's tokens, in bfloat16: 0 to 4 for 90 random architectures and readers of 0.5B and 1.5B, 7
for one mixture of experts, in which a rounding changes the choice; 12 to 150 for architectures that are
read wrongly (docs/architectures.md).
"""

NOISE = 4  # times the noise of the model itself, up to the limit, if that is more

LEAST_ERROR = 1e-3
"""In standard deviations: sums in another order differ by more than a rounding of float32."""

_PASSED: WeakSet[PreTrainedModel] = WeakSet()


def check_forwards(model: PreTrainedModel) -> None:
    """Raise `CaptureUnsupported` unless hwdag's forwards equal the model's own; once for a model.

    Takes four forwards of a few tokens, and more for each suspicion.
    """
    with running(model):
        if model in _PASSED:
            return
        try:
            reason = _fault(model)
        except CaptureUnsupported as error:
            reason = str(error)
        except HWDAGError:
            raise
        except Exception as error:
            reason = f"a forward fails ({type(error).__name__}: {first_line(error)})"
        if reason:
            raise CaptureUnsupported(
                f"{describe(model.config, type(model))} cannot be read: {reason}. Any model can be the "
                "writer or the answerer; docs/architectures.md lists those that can be the reader"
            )
        _PASSED.add(model)


def _fault(model: PreTrainedModel) -> str:
    """Return the first difference, or ""."""
    ids = _ids(model)
    cache_option(model, new_cache(model.config))
    own = own_logits(model, ids)
    limit = max(LEAST_ERROR, ROUNDINGS * _rounding(model))
    if _error(own[0, :SHARED], own[1, :SHARED]) > limit:
        _check_steady(model, ids, own, limit)
        return "it is not causal, its tokens see later ones"
    rows, asked = _rows(model, ids.tolist()), list[AskedMask]()
    read, chunks = _read(model, rows, asked), [own[0, :CUT], own[0, CUT:]]
    if len(read) > len(chunks):
        chunks.append(own_logits(model, ids[1:], _late_cache(model))[0])
    for row, found, right in zip(rows, read, chunks, strict=True):
        if row.capture and (silent := silent_layers(model, row.capture)):
            return f"layers {silent} do not call transformers' AttentionInterface"
        if not (found.isfinite().all() and right.isfinite().all()):
            return f"its logits in {model.dtype} are not finite, load it in another dtype"
        if (error := _error(found, right)) <= limit:
            continue
        _check_steady(model, ids, own, limit)
        if error > NOISE * min(limit, _noise(model, ids, own)):
            return (
                "hwdag's forward gives other logits than the model's own (the difference is "
                f"{error:.2g} of their standard deviation)"
            )
    if not all(map(_is_window, asked)):
        return "it asks for a mask that is neither causal nor a sliding window"
    return ""


def own_logits(model: PreTrainedModel, ids: Tensor, cache: Cache | None = None) -> Tensor:
    """Return logits of the model's own forward, in float32."""
    options = {} if cache is None else cache_option(model, cache)
    sizes = model.config.get_text_config(decoder=True)
    # why eager: torch's kernel leaves out soft caps, and early versions of transformers use it all the same
    is_capped = getattr(sizes, "attn_logit_softcapping", None) is not None
    with switched(model, "eager") if is_capped else nullcontext():
        return model(ids, use_cache=True, **options).logits.float()  # type: ignore[no-any-return]


def _ids(model: PreTrainedModel) -> Tensor:
    """Make two sequences with equal beginnings, of words: special tokens have the first or last ids."""
    words = int(model.config.get_text_config(decoder=True).vocab_size)
    ids = torch.arange(2 * LENGTH).reshape(2, LENGTH) * 7919 % max(1, words // 2) + words // 8
    ids[1, :SHARED] = ids[0, :SHARED]
    return ids.to(model.device)


def _rows(model: PreTrainedModel, ids: list[list[int]]) -> list[SequenceRow]:
    """Return the first sequence in two chunks, and the second one, late; a hybrid would read it apart."""
    cache = new_cache(model.config)
    rows = [_row(ids[0][:CUT], cache), _row(ids[0][CUT:], cache)]
    return rows if is_hybrid(model.config) else [*rows, _row(ids[1], _late_cache(model))]


class _LateLayer(DynamicLayer):
    """A layer that counts tokens before its own, which no token sees."""

    def __init__(self, earlier: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.earlier = earlier

    def get_seq_length(self) -> int:
        return self.earlier + super().get_seq_length()

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        length, _ = super().get_mask_sizes(query_length)
        return length - self.earlier, self.earlier


def _late_cache(model: PreTrainedModel) -> Cache:
    """Make an empty cache whose next token has one of the last positions that the model knows.

    Attention scales and positions that change after thousands of tokens have changed there.
    """
    sizes = model.config.get_text_config(decoder=True)
    known = min(getattr(sizes, "max_position_embeddings", None) or 0, MOST_POSITIONS)
    earlier = max(0, known - 2 * LENGTH)  # why twice: some models count from 2
    return Cache(layers=[_LateLayer(earlier) for _ in range(sizes.num_hidden_layers)])


def _row(ids: list[int], cache: Cache) -> SequenceRow:
    request = SpanRequest([(0, len(ids))], [(0, 1)])
    return SequenceRow(ids, cache, last=len(ids), capture=Capture([request], None))


def _read(model: PreTrainedModel, rows: list[SequenceRow], asked: list[AskedMask]) -> list[Tensor]:
    """Return logits of the rows; the second chunk shares a forward with the second sequence, if rows may.

    A hybrid reads other tokens in between, and comes back.
    """
    if is_hybrid(model.config):
        first, second = rows
        begun, before = cached_forward(model, first), Checkpoint(first.cache)
        cached_forward(model, SequenceRow(second.ids[::-1], first.cache))
        before.restore()
        return [begun, cached_forward(model, second)]
    later = [[row] for row in rows[1:]] if depends_on_length(model) else [rows[1:]]
    found = packed_forward(model, rows[:1], asked)
    return found + [logits for some in later for logits in packed_forward(model, some)]


def _error(found: Tensor, right: Tensor) -> float:
    """Return the difference of logits, (tokens, vocabulary), in standard deviations; median over the tokens."""
    errors = (found - right).square().mean(-1).sqrt() / right.std(-1).clamp(min=1e-9)
    return float(errors.median())


def _check_steady(model: PreTrainedModel, ids: Tensor, own: Tensor, limit: float) -> None:
    """Raise `CaptureUnsupported` if the model's own forward does not repeat itself."""
    error = _error(own_logits(model, ids).flatten(0, 1), own.flatten(0, 1))
    if error > limit:
        hint = ", model.eval() ends dropout" if model.training else ""
        raise CaptureUnsupported(
            "its own forward is not deterministic, the same tokens get other logits (the difference is "
            f"{error:.2g} of their standard deviation){hint}"
        )


def _noise(model: PreTrainedModel, ids: Tensor, own: Tensor) -> float:
    """Return the difference between two of the model's own forwards: kernels round otherwise at other sizes."""
    alone = own_logits(model, ids[:1, :-1])
    return _error(alone[0], own[0, :-1])


def _rounding(model: PreTrainedModel) -> float:
    """Return relative rounding of the model's products."""
    # why: quantised layers round to fewer bits, and torch may compute float32 in TF32 or bfloat16
    is_exact = torch.get_float32_matmul_precision() == "highest"
    if getattr(model.config, "quantization_config", None) is not None or not is_exact:
        return torch.finfo(torch.bfloat16).eps
    return torch.finfo(model.dtype).eps


def _is_window(mask: AskedMask) -> bool:
    """Return whether a token sees itself and those before it, within the window if there is one."""
    edges = [*(2**i for i in range(5, 20)), mask.window or LENGTH, 2 * (mask.window or LENGTH)]
    try:
        return _is_window_at(mask, {*range(32), *(at + by for at in edges for by in (-1, 0, 1))})
    except IndexError:  # its mask depends on the tokens, such as those of an image
        return _is_window_at(mask, set(range(CUT)))


def _is_window_at(mask: AskedMask, places: set[int]) -> bool:
    keys = torch.tensor(sorted(places))
    queries, zero = keys.unsqueeze(1), torch.zeros(1, 1, dtype=torch.long)
    expected = keys <= queries
    if mask.window is not None:
        expected &= keys > queries - mask.window
    return bool((mask.sees(zero, zero, queries, keys.unsqueeze(0)) == expected).all())
