"""The models of a run: one reader for all systems, a writer, and the embedders."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Writer
from hwdag.store.calls import CallCache
from hwdag.types import Usage
from hwdag_lab.eval.cached_models import CachedReader, remembering, spent


@dataclass(frozen=True, slots=True)
class Models:
    """What all systems of a run share.

    Attributes:
        reader: reads, counts tokens and answers, for every system.
        embedder: embeds, for every system that does.
        writer: writes Information Points and summaries; None is the reader (PECAN Table 2 has a
            larger writer and a smaller reader).
        dense: embeds for the `dense` systems only (Dragon and the like); None is `embedder`.
        precision: of the reader's weights, recorded with the run.
        heads: digest of a head list that the reader was given, recorded with the run; empty where it
            has its own.
    """

    reader: Reader
    embedder: Embedder
    writer: Writer | None = None
    dense: Embedder | None = None
    precision: str = ""
    heads: str = ""

    def remembering(self, calls: CallCache) -> Models:
        """The same models, with their writing remembered in `calls`."""
        reader = CachedReader(self.reader, calls) if isinstance(self.reader, Writer) else None
        same = id(self.writer) == id(self.reader)
        writer = self.writer and (reader if same else remembering(self.writer, calls))
        return replace(self, reader=reader or self.reader, writer=writer)

    @property
    def spent(self) -> Usage:
        """What reader and writer cost so far, outside of sessions."""
        apart = id(self.writer) != id(self.reader)  # one object may play both roles
        return self.reader.usage + (spent(self.writer) if apart else Usage())

    @property
    def names(self) -> dict[str, str]:
        """Names by role, as they are recorded."""
        listed = {"heads": self.heads} if self.heads else {}
        return listed | {
            "reader": self.reader.name,
            "precision": self.precision,
            "writer": (self.writer or self.reader).name,
            "embedder": self.embedder.name,
            "dense_embedder": (self.dense or self.embedder).name,
        }


def load_models(
    *,
    reader: str | None = None,
    writer: str | None = None,
    embedder: str | None = None,
    dense: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    heads: str | None = None,
) -> Models:
    """Models by name; None is the embedded default, and the reader's own part for the writer.

    `dtype` and `device` are those of reader and writer, `heads` is the file of a head list for the
    reader.

    Raises:
        ModelNotFound: no model under one of the names.
        InputError: the dtype is unknown, or the head list does not fit the reader.
    """
    from hwdag.embedding.default import as_embedder
    from hwdag.lm.default import load_reader
    from hwdag.lm.heads import HeadFile
    from hwdag_lab.methods.two_encoders import pair_or_as_it_is

    listed = None if heads is None else HeadFile.load(heads)
    loaded = load_reader(reader, dtype=dtype, device=device)
    if listed is not None:
        loaded = loaded.with_heads(listed)
    return Models(
        reader=loaded,
        embedder=as_embedder(pair_or_as_it_is(embedder or None)),
        writer=load_reader(writer, dtype=dtype, device=device) if writer else None,
        dense=as_embedder(pair_or_as_it_is(dense)) if dense else None,
        precision=str(loaded.model.dtype).removeprefix("torch."),
        heads="" if listed is None else listed.digest,
    )
