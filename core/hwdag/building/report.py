"""What a build did: counted, so that nothing degrades silently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hwdag.types import Usage

Stop = Literal["max_tokens", "max_seconds"]  # the limit that ended a run
MOST_NAMED = 5  # skipped documents that are named for one reason


@dataclass(slots=True)
class BuildReport:
    """What an insertion did.

    Attributes:
        built: ids of documents whose graph was built.
        unchanged: ids of documents that were there already, with the same content.
        skipped: (document id, reason) of input that holds nothing to index.
        deleted: ids of documents that were removed because they are gone from the source.
        nodes: nodes made.
        retries: windows whose first reply held no bullet.
        fallbacks: windows whose second reply held none either; their points are extractive.
        reused: calls of a model that an earlier run, or an earlier version of a document, had
            finished: replies, replayed windows, extractions and batches of embeddings.
        notes: guards that came into effect, in words.
        usage: tokens, TFLOPs and seconds of the local model.
        writing: the same of a writer beside it; zero where it does not count them.
        stopped: the limit that ended the run, None if it went through.
        pending: documents that were not finished because of that; None if their number is not
            known, because they came from an iterator.
    """

    built: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    nodes: int = 0
    retries: int = 0
    fallbacks: int = 0
    reused: int = 0
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    writing: Usage = field(default_factory=Usage)
    stopped: Stop | None = None
    pending: int | None = 0

    def __str__(self) -> str:
        lines = [
            f"{len(self.built)} documents built, {len(self.unchanged)} unchanged, "
            f"{len(self.skipped)} skipped, {len(self.deleted)} deleted; {self.nodes} nodes",
            f"{_spent(self.usage)} in the model",
        ]
        if self.writing != Usage():
            lines.append(f"{_spent(self.writing)} in the writer")
        if self.reused:
            lines.append(f"{self.reused} finished calls were used again")
        if self.retries or self.fallbacks:
            lines.append(
                f"{self.retries} retries, {self.fallbacks} windows fell back to extraction"
            )
        if self.stopped:
            left = "more documents" if self.pending is None else f"{self.pending} documents"
            lines.append(f"stopped at {self.stopped}, {left} to go; run the same again to go on")
        lines += _skipped_lines(self.skipped)
        return "\n".join([*lines, *self.notes])


def _skipped_lines(skipped: Sequence[tuple[str, str]]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield f"skipped {', '.join(names[:MOST_NAMED])}{more}: {reason}"


def _spent(usage: Usage) -> str:
    return f"{usage.tokens:,} tokens, {usage.tflops:.2f} TFLOPs, {usage.seconds:.1f} s"
