"""Short documents that wait for each other: a writer gets their first windows together, as one batch."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from hwdag.building.levels import GraphBuilder
from hwdag.building.points import PendingPrompts
from hwdag.building.report import RunMeter
from hwdag.store.calls import DocumentCalls
from hwdag.text.draft import Draft
from hwdag.threads import Lazy
from hwdag.trace.bars import Reporter


class _Waiting(NamedTuple):
    draft: Draft
    calls: DocumentCalls
    pending_prompts: PendingPrompts


Ready = list[tuple[Draft, DocumentCalls]]
"""Documents whose first points are written, in their order, with the finished calls of each."""


class WriterBatches:
    """Lets documents wait until there are enough windows for a batch of the writer.

    With `is_parallel` no document waits: several builders ask for several documents at the same time.
    """

    def __init__(
        self, builder: Lazy[GraphBuilder], meter: RunMeter, reporter: Reporter, *, is_parallel: bool
    ) -> None:
        self._builder, self._meter, self._reporter = builder, meter, reporter
        self._is_parallel = is_parallel
        self._waiting: dict[str, _Waiting] = {}  # by document id
        self._windows = 0  # that wait

    def __contains__(self, document_id: str) -> bool:
        return document_id in self._waiting

    def add(self, draft: Draft, calls: DocumentCalls) -> Ready:
        """Add a document; return those that no longer wait."""
        if not self._size:
            return [(draft, calls)]
        pending_prompts, ready = self._builder.value.pending_prompts(draft, calls), Ready()
        if self._waiting and self._windows + pending_prompts.share > self._size:
            ready += self.flush()
        self._waiting[draft.document.id] = _Waiting(draft, calls, pending_prompts)
        self._windows += pending_prompts.share
        return ready if self._windows < self._size else ready + self.flush()

    def flush(self) -> Ready:
        """Have the first points of the waiting documents written; return these documents."""
        waiting, self._waiting, self._windows = list(self._waiting.values()), {}, 0
        ahead = [(one.pending_prompts, one.calls) for one in waiting if one.pending_prompts.prompts]
        if len(ahead) > 1:
            self._builder.value.generate_batch(ahead, self._reporter, self._meter.before_call)
        return [(one.draft, one.calls) for one in waiting]

    @cached_property
    def _size(self) -> int:
        """Windows of a batch; 0 if no document waits."""
        return 0 if self._is_parallel else self._builder.value.written_ahead
