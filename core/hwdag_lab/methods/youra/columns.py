"""The means of a reader's columns, whatever the reader is; `hwdag_lab.methods.youra.protocol`."""

from __future__ import annotations

from hwdag.errors import ReaderRequired
from hwdag.lm.base import Reader
from hwdag_lab.methods.youra.protocol import ColumnHeads, ColumnReader


def column_reader(reader: Reader, heads: ColumnHeads, *, memory_bytes: int) -> ColumnReader:
    """The means of a reader's columns.

    Args:
        reader: `HuggingFaceLM`, `ScriptedLM`, or one with a method `columns(heads, memory_bytes=)`
            of its own.
        heads: whose attention is averaged.
        memory_bytes: KV caches of contexts are kept up to this size, the latest used ones; a
            question then costs its own tokens only.

    Raises:
        ReaderRequired: the reader has nothing of the kind.
    """
    from hwdag.lm.scripted import ScriptedLM
    from hwdag_lab.methods.youra.scripted_columns import ScriptedColumns

    if make := getattr(reader, "columns", None):
        made: ColumnReader = make(heads, memory_bytes=memory_bytes)
        return made
    if isinstance(reader, ScriptedLM):
        return ScriptedColumns(reader)
    # why: torch is imported only by those who need a model
    from hwdag.lm.huggingface import HuggingFaceLM
    from hwdag_lab.methods.youra.model_columns import ModelColumns

    if isinstance(reader, HuggingFaceLM):
        return ModelColumns(reader, heads, memory_bytes=memory_bytes)
    raise ReaderRequired(
        f"the columns of attention were asked of a {type(reader).__name__}, which cannot tell them; "
        "use HuggingFaceLM as the reader, or give yours the method columns of "
        "hwdag_lab.methods.youra.columns.column_reader"
    )
