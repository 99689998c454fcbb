"""A seeded choice of questions that needs few documents, because those are dear to index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from hwdag.errors import InputError
from hwdag_lab.eval.schema import Record

PER_DOCUMENT = 10
"""Questions of one document that `sample` takes before it goes on to the next."""


def by_dataset(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by the name of their data set, both in order of appearance."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.dataset, []).append(record)
    return groups


def sample(
    records: Iterable[Record], *, limit: int | None, seed: int, per_document: int = PER_DOCUMENT
) -> list[Record]:
    """At most `limit` questions per data set (all if None); records keep the chosen ones only.

    Documents come in a random order, and give their first `per_document` questions, also in a
    random order, before the next one is taken, because a document is dear to index; once all had
    their turn, they give the next `per_document`, until `limit` is reached. Both orders are hashes
    of id and `seed`, so that they do not depend on the order of the input, and a larger limit holds
    all questions of a smaller one. Data sets come sorted by name; documents and questions in the
    order of the choice. A document none of whose questions is chosen is left out.

    Raises:
        InputError: `limit` or `per_document` is below 1.
    """
    if (limit is not None and limit < 1) or per_document < 1:
        raise InputError(
            f"limit={limit} and per_document={per_document} must be 1 or more (limit may be None)"
        )
    return [
        chosen
        for _, group in sorted(by_dataset(records).items())
        for chosen in _chosen(group, limit, seed, per_document)
    ]


def _chosen(
    records: list[Record], limit: int | None, seed: int, per_document: int
) -> Iterator[Record]:
    shuffled = [
        replace(record, questions=tuple(sorted(record.questions, key=lambda q: _draw(q.id, seed))))
        for record in sorted(records, key=lambda r: _draw(r.id, seed))
    ]
    left = sum(len(record.questions) for record in shuffled)
    left = left if limit is None else min(limit, left)
    taken = [0] * len(shuffled)
    while left:
        for i, record in enumerate(shuffled):
            more = min(per_document, len(record.questions) - taken[i], left)
            taken[i] += more
            left -= more
    for record, count in zip(shuffled, taken, strict=True):
        if count:
            yield replace(record, questions=record.questions[:count])


def _draw(name: str, seed: int) -> tuple[bytes, str]:
    """A random key that is the same in every process; the name breaks ties."""
    return blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest(), name
