"""The models of an index or retriever: named or passed, loaded when first needed, once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hwdag.config import BuildConfig, Method
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import as_embedder
from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import as_writer


class Models:
    """A reader, an embedder and a writer, as `HWDAGIndex` takes them; threads may share them."""

    def __init__(
        self,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
    ) -> None:
        self._reader = reader
        self._embedder = embedder
        self.writer = as_writer(writer)
        self._loading = threading.RLock()

    @property
    def reader(self) -> Reader:
        """The local model."""
        with self._loading:
            if not isinstance(self._reader, Reader):
                # why: torch is imported only by those who need a model
                from hwdag.lm.default import as_reader

                self._reader = as_reader(self._reader)
            return self._reader

    @property
    def embedder(self) -> Embedder:
        """The embedding model."""
        with self._loading:
            self._embedder = as_embedder(self._embedder)
            return self._embedder

    def method(self, config: BuildConfig) -> Method:
        """What "auto" stands for: whether there is somebody who writes Information Points."""
        if config.points == "generated" or self.writer is not None:
            return "hwdag"
        return "evidence" if self.reader.prefers_extraction else "hwdag"

    def points_writer(self, config: BuildConfig) -> Writer | None:
        """Who writes the points; None where none are written."""
        if not config.rules.has_points or config.points == "extractive":
            return None
        if self.writer is not None:
            return self.writer
        reader = self.reader
        if reader.prefers_extraction or not isinstance(reader, Writer):
            if config.points == "auto":
                return None
            unfit = "is too small to" if isinstance(reader, Writer) else "cannot"
            raise InputError(
                f"the reader {reader.name} {unfit} write Information Points, which method="
                f'"{config.method}" needs; pass a writer or another reader, or have sentences picked '
                'with points="extractive", or build with method="evidence"'
            )
        return reader
