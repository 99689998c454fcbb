"""Preparing one document for one system: built, measured, and for HWDAG kept in a file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from hwdag.config import BuildConfig
from hwdag.errors import HWDAGError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Usage
from hwdag_lab.eval.memory import peaks_mb, reset_peaks
from hwdag_lab.eval.models import Models
from hwdag_lab.eval.records import Build
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.systems import System, index_options

INDEXES = "indexes"
"""Folder of HWDAG's index files within a run's folder."""

OnBuild = Callable[[Build], None]


class Builder:
    """Retrievers that hold one document each; one at a time, shared by systems that build alike.

    HWDAG's graphs are dear, so each is an index file of its own, named after all that it depends
    on; it appears once `on_build` has returned. Everything else is built again by a new process,
    its calls to the writer apart (`hwdag_lab.eval.calls`).

    Args:
        models: what builds.
        folder: of the run.
        on_build: called with the cost of every build.
        reporter: shows the stages of a build.
    """

    def __init__(self, models: Models, folder: Path, on_build: OnBuild, reporter: Reporter) -> None:
        self._models = models
        self._indexes = folder / INDEXES
        self._on_build = on_build
        self._reporter = reporter
        self._record: Record | None = None
        self._built: dict[str, Retriever | HWDAGError] = {}

    def retriever(self, system: System, record: Record) -> Retriever:
        """The system's retriever over the record's text.

        Raises:
            HWDAGError: whatever the build raises.
        """
        if record is not self._record:
            self._record, self._built = record, {}
        if system.build not in self._built:
            self._built[system.build] = self._made(system, record)
        made = self._built[system.build]
        if isinstance(made, HWDAGError):
            raise made
        return made

    def _made(self, system: System, record: Record) -> Retriever | HWDAGError:
        """What is built; an error is kept too, so that no build fails once per question."""
        document = Document(record.id, record.text, record.title)
        try:
            if system.graph is None:
                return self._plain(system, record, document)
            return self._graph(system, system.graph, record, document)
        except HWDAGError as error:
            return error

    def _plain(self, system: System, record: Record, document: Document) -> Retriever:
        retriever = system.make(self._models)
        self._on_build(self._measured(system, record, document, retriever))
        return retriever

    def _graph(
        self, system: System, config: BuildConfig, record: Record, document: Document
    ) -> Retriever:
        path = self._indexes / self._file_name(config, document)
        if path.exists():
            return HWDAGIndex.load(path, **index_options(config, self._models))
        self._indexes.mkdir(exist_ok=True)
        index = HWDAGIndex(**index_options(config, self._models))
        measured = self._measured(system, record, document, index)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        index.save(partial)
        # why: recorded before it is there to be found, or a kill between the two loses the cost
        self._on_build(measured)
        partial.replace(path)
        return index

    def _file_name(self, config: BuildConfig, document: Document) -> str:
        depends = [document.id, document.title, document.text, asdict(config), self._models.names]
        text = json.dumps(depends, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24] + ".hwdag"

    def _measured(
        self, system: System, record: Record, document: Document, retriever: Retriever
    ) -> Build:
        reset_peaks()
        began, before = time.perf_counter(), self._models.spent
        report = retriever.insert([document], show_progress=self._reporter)
        spent, seconds = self._models.spent - before, time.perf_counter() - began
        return Build(
            build=system.build,
            dataset=record.dataset,
            document=record.id,
            words=len(record.text.split()),
            nodes=report.nodes,
            retries=report.retries,
            fallbacks=report.fallbacks,
            # what was remembered took its time in another process
            usage=Usage(spent.tokens, spent.tflops, max(seconds, spent.seconds)),
            peak_memory_mb=peaks_mb(),
            notes=tuple(report.notes),
        )
