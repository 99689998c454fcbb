"""Preparing one record for one system: build, measure, and keep HWDAG's index files."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdag.building.levels import GraphBuilder
from hwdag.config import BuildConfig
from hwdag.errors import HWDAGError, OutOfMemory
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.store.calls import CallCache
from hwdag.text.draft import Draft
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import Reporter
from hwdag.types import Usage
from hwdag_lab.eval.edges import OtherEdges
from hwdag_lab.eval.models import RunModels
from hwdag_lab.eval.oracle import OracleRetriever
from hwdag_lab.eval.peaks import peaks_mb, reset_peaks
from hwdag_lab.eval.records import Build
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.systems import ComparedSystem, index_options

INDEXES = "indexes"
"""Folder of the index files within the folder of a run."""

OnBuild = Callable[[Build], None]


class Builder:
    """Makes retrievers over one record at a time; systems that build alike share one.

    Consecutive records about the same documents share them too. HWDAG's graphs are expensive, so
    each is an index file, named after everything it depends on; it appears after `on_build` has
    returned. A new process builds everything else again, but its writer calls are remembered
    (`hwdag_lab.eval.models`). `on_build` gets the cost of every build. Points are written about
    several of the `records`, which are in working order, at a time: a short document fills no batch.
    """

    def __init__(
        self,
        models: RunModels,
        calls: CallCache,
        folder: Path,
        on_build: OnBuild,
        reporter: Reporter,
        records: Sequence[Record] = (),
    ) -> None:
        self._models = models.remembering(calls)
        self._calls = calls
        self._indexes = folder / INDEXES
        self._on_build = on_build
        self._reporter = reporter
        self._record: Record | None = None
        self._built: dict[str, Retriever | HWDAGError] = {}
        self._places = {record.id: i for i, record in enumerate(records)}
        self._records = records
        self._written: dict[str, int] = {}  # by build: the first record not written about

    def retriever(self, system: ComparedSystem, record: Record) -> Retriever:
        """Return the retriever of a system over the documents of a record.

        Raises:
            HWDAGError: the build failed.
        """
        if self._record is None or record.documents != self._record.documents:
            self._record, self._built = record, {}
        if system.build not in self._built:
            self._built[system.build] = self._made(system, record)
        made = self._built[system.build]
        if isinstance(made, HWDAGError):
            raise made
        if isinstance(made, OracleRetriever):
            made.questions = record.questions
        return made

    def _made(self, system: ComparedSystem, record: Record) -> Retriever | HWDAGError:
        """Return the built retriever or its error, kept so that no build fails once per question."""
        try:
            if system.graph is None:
                return self._plain(system, record)
            return self._graph(system, system.graph, record)
        except OutOfMemory:
            raise  # the machine is at fault, not the system
        except HWDAGError as error:
            return error

    def _plain(self, system: ComparedSystem, record: Record) -> Retriever:
        retriever = system.make(self._models)
        self._on_build(self._measured(system, record, retriever, self._models))
        return retriever

    def _graph(self, system: ComparedSystem, config: BuildConfig, record: Record) -> Retriever:
        models = self._models
        if system.edges != "attention":
            models = replace(models, reader=OtherEdges(models.reader, self._calls, system.edges))
        path = self._indexes / self._file_name(system, record)
        if path.exists():
            return HWDAGIndex.load(path, **index_options(config, system.tree, models))
        self._indexes.mkdir(exist_ok=True)
        options = index_options(config, system.tree, models)
        self._write_ahead(system.build, record, options)
        index = HWDAGIndex(**options)
        measured = self._measured(system, record, index, models)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        index.save(partial)
        # why: recorded before the file appears, or a kill between the two loses the cost
        self._on_build(measured)
        partial.replace(path)
        return index

    def _write_ahead(self, build: str, record: Record, options: Mapping[str, Any]) -> None:
        """Have the first replies about this record and the next ones written; the writer keeps them."""
        config: BuildConfig = options["config"].resolved("evidence")  # unless a method is named
        builder = GraphBuilder(**{**options, "config": config, "prompts": Prompts()})
        place = self._places.get(record.id, 0)
        if not builder.written_ahead or place < self._written.get(build, 0):
            return
        waiting, prompts = [], 0
        while place < len(self._records) and prompts < builder.written_ahead:
            for document in self._records[place].documents:
                with suppress(HWDAGError):  # why: an error is that of the build of its own record
                    calls = CallCache.open()
                    waiting.append((builder.pending_prompts(Draft(document), calls), calls))
                    prompts += waiting[-1][0].asked
            place += 1
        self._written[build] = place
        if len(waiting) < 2:
            return  # alone it is written about in its build
        with suppress(HWDAGError):
            builder.generate_batch(waiting, self._reporter, lambda: None)

    def _file_name(self, system: ComparedSystem, record: Record) -> str:
        documents = [(each.id, each.title, each.text) for each in record.documents]
        depends = [documents, system.definition["build"], system.edges, self._models.names]
        text = json.dumps(depends, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24] + ".hwdag"

    def _measured(
        self, system: ComparedSystem, record: Record, retriever: Retriever, models: RunModels
    ) -> Build:
        documents = [record.whole] if system.whole else record.documents
        reset_peaks()
        began, before = time.perf_counter(), models.spent
        report = retriever.insert(documents, show_progress=self._reporter)
        spent, seconds = models.spent - before, time.perf_counter() - began
        return Build(
            build=system.build,
            dataset=record.dataset,
            document=record.id,
            words=len(record.text.split()),
            nodes=report.nodes,
            retries=report.retries,
            fallbacks=report.fallbacks,
            # remembered calls took their time in another process
            usage=Usage(spent.tokens, spent.tflops, max(seconds, spent.seconds)),
            peak_memory_mb=peaks_mb(),
            notes=tuple(report.notes),
        )
