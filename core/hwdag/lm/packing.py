"""One forward for many callers: the new tokens of all their sequences in one row.

The weights are read once for all callers. Only attention runs sequence by sequence, each with its own
cache, so nothing is padded, and one forward can read a walk's nodes and decode a token of each answer.
One thread runs the model and serves callers in order of arrival. If too many wait, a new sequence is
refused; a started one never is.
"""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedModel

from hwdag.errors import CaptureUnsupported, ModelBusy
from hwdag.lm.attention import Capture, attend, capturing, is_hybrid, running, switched
from hwdag.lm.caches import cache_option

IMPLEMENTATION = "hwdag_packed"

MOST_ROWS = 64
MOST_TOKENS = 2048  # new tokens of one forward, unless a single sequence has more

MOST_WAITING = 256  # callers in line when no further sequence may begin: each holds a cache

PATIENCE = 0.02
"""Seconds without a new caller after which a forward no longer waits for those of the last one."""


@dataclass(eq=False)
class SequenceRow:
    """The new tokens of one sequence, on top of a cache that they enter.

    `logits` are float32, of the `last` positions, (last, vocabulary). Attention goes to the capture.
    """

    ids: list[int]
    cache: Cache
    last: int = 1
    capture: Capture | None = None
    logits: Future[Tensor] = field(default_factory=Future)


class ForwardQueue:
    """The queue of callers of one model."""

    def __init__(self) -> None:
        self._waiting: deque[SequenceRow] = deque()
        self._changed = Condition()
        self._together = 1  # rows of the last forward
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hwdag-model")

    def run(self, model: PreTrainedModel, row: SequenceRow) -> Tensor:
        """Compute the logits of a row, together with waiting rows. Raises `ModelBusy`."""
        begins = not row.cache.get_seq_length()
        if self._process != os.getpid():  # a fork has no threads
            self.__init__()  # type: ignore[misc]
        with self._changed:
            if begins and len(self._waiting) >= MOST_WAITING:
                raise ModelBusy(
                    f"{len(self._waiting)} callers wait for this model already, and no more than "
                    f"{MOST_WAITING} may; ask again later, or fewer questions at a time"
                )
            self._waiting.append(row)
            self._changed.notify()
        self._thread.submit(self._serve, model)
        try:
            return row.logits.result()
        finally:
            row.logits.cancel()  # does nothing unless the wait was interrupted

    def _serve(self, model: PreTrainedModel) -> None:
        if not (rows := self._next(model)):
            return  # an earlier forward has taken the row that was submitted with this call
        try:
            found = (
                [cached_forward(model, rows[0])]
                if is_hybrid(model.config)
                else packed_forward(model, rows)
            )
        except BaseException as error:
            for row in rows:
                row.logits.set_exception(error)
        else:
            for row, logits in zip(rows, found, strict=True):
                row.logits.set_result(logits)

    def _next(self, model: PreTrainedModel) -> list[SequenceRow]:
        """Take the rows of the next forward, after a short wait for callers of the last one."""
        most = 1 if depends_on_length(model) or is_hybrid(model.config) else MOST_ROWS
        rows, room = list[SequenceRow](), MOST_TOKENS
        with self._changed:
            while 0 < len(self._waiting) < min(most, self._together):
                if not self._changed.wait(PATIENCE):
                    break
            while self._waiting and len(rows) < most:
                if rows and len(self._waiting[0].ids) > room:
                    break
                row = self._waiting.popleft()
                if row.logits.set_running_or_notify_cancel():
                    rows.append(row)
                    room -= len(row.ids)
            self._together = len(rows) or 1
        return rows


_QUEUES: WeakKeyDictionary[PreTrainedModel, ForwardQueue] = WeakKeyDictionary()
_QUEUING = Lock()


def queue_of(model: PreTrainedModel) -> ForwardQueue:
    """Return the queue of a model, one per model."""
    with _QUEUING:
        return _QUEUES.setdefault(model, ForwardQueue())


@dataclass(frozen=True)
class AskedMask:
    """A mask that a model asked for: whether a position sees another one, and the window if there is one."""

    sees: Callable[..., Tensor]  # of the ordinals of sequence, head, query and key
    window: int | None


_ROWS: ContextVar[_Rows] = ContextVar("hwdag_rows")


@dataclass(frozen=True)
class _Rows:
    rows: Sequence[SequenceRow]
    places: Sequence[slice]
    asked: list[AskedMask]
    masks: dict[object, Tensor | None] = field(default_factory=dict)

    def mask(
        self, row: SequenceRow, seen: int, window: int | None, device: torch.device
    ) -> Tensor | None:
        """Mask of the tokens that each new one may see, (1, 1, new, seen); None for a causal mask."""
        key = len(row.ids), seen, window
        if key not in self.masks:
            self.masks[key] = _mask(*key, device)
        return self.masks[key]


def packed_forward(
    model: PreTrainedModel, rows: Sequence[SequenceRow], asked: list[AskedMask] | None = None
) -> list[Tensor]:
    """Return logits of every row from one forward, in float32, (last, vocabulary) each.

    The masks that the model asks for are appended to `asked`.
    """
    ids, positions, wanted, places = list[int](), list[int](), list[int](), list[slice]()
    for row in rows:
        cached = int(row.cache.get_seq_length())
        places.append(slice(len(ids), len(ids) + len(row.ids)))
        positions += range(cached, cached + len(row.ids))
        ids += row.ids
        wanted += range(len(ids) - row.last, len(ids))
    device = model.device
    tensors = (torch.tensor([values], device=device) for values in (ids, positions, wanted))
    token_ids, position_ids, kept = tensors
    options = {"logits_to_keep": kept[0]} if keeps_logits(model) else {}
    token = _ROWS.set(_Rows(rows, places, [] if asked is None else asked))
    try:
        with running(model), switched(model, IMPLEMENTATION):
            found = model(token_ids, position_ids=position_ids, use_cache=False, **options)
    finally:
        _ROWS.reset(token)
    logits = found.logits[0]
    if not options:
        logits = logits[kept[0].to(logits.device)]
    return list(logits.float().split([row.last for row in rows]))


def cached_forward(model: PreTrainedModel, row: SequenceRow) -> Tensor:
    """Return logits of one row, for models whose linear-attention layers must see it alone."""
    ids = torch.tensor([row.ids], device=model.device)
    options: dict[str, Any] = {"logits_to_keep": row.last} if keeps_logits(model) else {}
    options |= cache_option(model, row.cache)
    with running(model), capturing(model, row.capture):
        found = model(ids, use_cache=True, **options)
    return found.logits[0, -row.last :].float()  # type: ignore[no-any-return]


def _attention(
    module: torch.nn.Module,
    query: Tensor,  # (1, heads, new of all rows, dim)
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the registered attention function: every row sees its own cache and itself."""
    packed, outputs, window = _ROWS.get(), list[Tensor](), _window_of(attention_mask, module)
    for row, place in zip(packed.rows, packed.places, strict=True):
        layer = int(module.layer_idx)  # type: ignore[arg-type]
        keys, values = row.cache.update(key[:, :, place], value[:, :, place], layer)
        mask = packed.mask(row, keys.shape[2], window, query.device)
        options = {"scaling": None} | kwargs
        output = attend(row.capture, module, query[:, :, place], keys, values, mask, **options)
        outputs.append(output)
    return torch.cat(outputs, dim=1), None


def _asked_mask(
    *, mask_function: Callable[..., Tensor], local_size: int | None = None, **_: Any
) -> Tensor | None:
    """Return the registered mask function: the window of the layers that get this mask, None without one.

    Each row needs a mask of its own, so that its length alone goes to the layers: as a shape, which no
    device has to be asked for, and as integers, which no mask consists of.
    """
    _ROWS.get().asked.append(AskedMask(mask_function, local_size))
    return (
        None
        if local_size is None
        else torch.zeros((), dtype=torch.int8).expand(1, 1, local_size, 1)
    )


def _window_of(mask: Tensor | None, module: torch.nn.Module) -> int | None:
    """Return the window that `_asked_mask` passed on. Raises `CaptureUnsupported` for another mask."""
    if mask is not None and mask.dtype != torch.int8:
        raise CaptureUnsupported(
            f"{type(module).__name__} makes a mask of its own; hwdag reads models whose masks come from "
            "transformers' AttentionMaskInterface"
        )
    return None if mask is None else mask.shape[2]


def _mask(new: int, seen: int, window: int | None, device: torch.device) -> Tensor | None:
    if (new == 1 or new == seen) and (window is None or seen <= window):
        return None  # the attention call's own
    cached = seen - new
    visible = torch.ones(new, seen, dtype=torch.bool, device=device).tril(cached)
    if window is not None:
        keys = torch.arange(seen, device=device)
        visible &= keys > keys[cached:].unsqueeze(1) - window
    return visible[None, None]


def depends_on_length(model: PreTrainedModel) -> bool:
    """Return whether position embeddings depend on the longest sequence of a forward."""
    rope = str(getattr(model.config.get_text_config(decoder=True), "rope_parameters", ""))
    return "longrope" in rope or "dynamic" in rope


def keeps_logits(model: PreTrainedModel) -> bool:
    """Return whether its forward accepts `logits_to_keep`."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, _asked_mask)
