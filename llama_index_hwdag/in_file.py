"""An index in the core's own single file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.storage_context import StorageContext

from hwdag.errors import IndexFileError
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.store.opening import holds_something
from hwdag.types import Document
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.nodes import Source
from llama_index_hwdag.storage import Kept, Options, Storage

MAX_READ = 256
"""Sources that are remembered, so that a search need not ask the docstore for each of its nodes."""


class InFile(Storage):
    """Graphs and embeddings in one file, which is right about what is in the index."""

    def __init__(self, context: StorageContext, struct: HWDAGIndexStruct, core: CoreIndex) -> None:
        super().__init__(context, struct, core)
        self._read: dict[str, Source] = {}

    @classmethod
    def opened(
        cls, context: StorageContext, struct: HWDAGIndexStruct, options: Options, path: Path
    ) -> InFile:
        """Over a file that is there, or will be with the first document.

        Raises:
            IndexFileError: there should be a file and is none.
            NotAnIndex, IndexVersionError, IndexCorrupt: it cannot be used.
            IndexMismatch: embedder or config are not those that it was built with.
        """
        options, path = options.as_recorded(struct), path.expanduser().resolve()
        models, config = options.models(), options.config
        if holds_something(path):
            core = CoreIndex.load(path, **models, config=config)
        elif struct.sources:
            raise IndexFileError(
                f"the graphs of this index are in the file {path}, which is not there; if it was "
                "moved, load the index with path= and its new place, else build the index anew"
            )
        else:
            core = CoreIndex(**models, config=config, path=path)
        struct.path = str(path)
        return cls(context, struct, core)

    def ref_doc_ids(self) -> Collection[str]:
        """Those in the file, whoever has put them there."""
        return self.core.documents.keys()

    def check_ids(self, ids: Mapping[str, Collection[str]]) -> None:
        """Any will do: the graphs' nodes are not in the docstore."""

    def is_as_kept(self, ref_doc_id: str) -> bool:
        """Not if somebody else has put another one into the file."""
        document = self.core.documents.get(ref_doc_id)
        return document is not None and self._kept_source(ref_doc_id, document) is not None

    def source(self, document: Document) -> Source:
        """Read from the docstore, once; a document that is not there comes as it is."""
        found = self._kept_source(document.id, document) or Source.of_document(document)
        self._remember(found)
        return found

    def info(self, ref_doc_id: str) -> RefDocInfo | None:
        """Made of what the file holds."""
        entry = self.core.entries.get(ref_doc_id)
        if entry is None:
            return None
        parts = [key for key in self.struct.sources.get(ref_doc_id, ()) if key != ref_doc_id]
        nodes = [node.id for node in entry.graph.nodes]
        return RefDocInfo(node_ids=parts + nodes, metadata=dict(entry.document.metadata))

    def keep(self, documents: Sequence[Kept]) -> None:
        """Keep the input documents; the core has written the rest."""
        for kept in documents:
            if self._kept_source(kept.ref_doc_id, kept.source.document) is None:
                self.struct.hashes.pop(kept.ref_doc_id, None)
            self._note_parts(kept)
        if documents:
            self.commit()  # why: whatever interrupts what follows, it is not taken for done
        for kept in documents:
            key, ids = kept.ref_doc_id, [part.node_id for part in kept.parts]
            self._docstore.add_documents(list(kept.parts), allow_update=True)
            old = {*self.struct.sources.get(key, ()), *self.struct.unfinished.pop(key, ())}
            self._forget_nodes(old.difference(ids))
            self.struct.sources[key] = ids
            self._note_hash(kept)
            self._remember(kept.source)
        if documents:
            self._named()
            self.commit()

    def drop(self, ref_doc_id: str, *, from_docstore: bool) -> None:
        """Unlist it, and remove the input documents where that is wanted."""
        struct = self.struct
        parts = [*struct.sources.pop(ref_doc_id, ()), *struct.unfinished.get(ref_doc_id, ())]
        struct.unfinished[ref_doc_id] = parts
        struct.hashes.pop(ref_doc_id, None)
        self._read = {k: v for k, v in self._read.items() if k != ref_doc_id}
        self.commit()
        if from_docstore:
            self._forget_ref_doc(ref_doc_id, parts)
        del struct.unfinished[ref_doc_id]
        self.commit()

    def _kept_source(self, ref_doc_id: str, document: Document) -> Source | None:
        """What the docstore has of a document; None if that is another one."""
        known = self._read.get(ref_doc_id)
        if known is not None and known.document == document:
            return known
        listed = self.struct.sources.get(ref_doc_id, ())
        parts = [self._docstore.get_document(node_id, raise_error=False) for node_id in listed]
        found = Source.of(ref_doc_id, [part for part in parts if part]) if any(parts) else None
        return found if found is not None and found.document == document else None

    def _remember(self, source: Source) -> None:
        # why: replaced, never changed, so that searches need no lock
        kept = self._read if len(self._read) < MAX_READ else {}
        self._read = {**kept, source.document.id: source}
