"""Where an index lives: in the stores of a `StorageContext`, or in the core's own single file.

- In the stores: docstore nodes are what a document's text is read from (the `Document` itself, or
  the nodes of a pipeline), and a `TextNode` per chunk and Information Point with weighted edges;
  embeddings are in the vector store. Any docstore will do, and any vector store.
- In a file (`path=`): the graphs with everything that belongs to them; the docstore has the input
  documents alone.

Either way the index store has ids, names and hashes, and lists a document last: one that it does not
list is not in the index, and is built when it is given again. What an interrupted change has left of
it is removed then, by the ids that the index store noted before the change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from llama_index.core import Settings
from llama_index.core.schema import BaseNode
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.storage_context import StorageContext
from pydantic import TypeAdapter, ValidationError

from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexCorrupt, IndexMismatch
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from hwdag.types import Document
from llama_index_hwdag.adapters import FOREIGN, as_embedder
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.nodes import Source


def check(struct: HWDAGIndexStruct) -> None:
    """Raise `IndexCorrupt` where a value is not of its type: a struct may come from anybody's file."""
    kinds = get_type_hints(HWDAGIndexStruct)
    for name in HWDAGIndexStruct.__annotations__:
        try:
            TypeAdapter(kinds[name]).validate_python(getattr(struct, name), strict=True)
        except ValidationError as error:
            raise IndexCorrupt(
                f"the index store holds no index of hwdag: {name} is not {kinds[name]} "
                f"({error.errors()[0]['msg']}); load a folder that the index was persisted to"
            ) from error


@dataclass(frozen=True)
class Options:
    """What the core builds and searches with; models as the core takes them."""

    reader: Any = None
    writer: Any = None
    embedder: Embedder | str | None = None
    config: BuildConfig | None = None
    prompts: Prompts | None = None

    def models(self) -> dict[str, Any]:
        """As keyword arguments of the core's index."""
        names = ("reader", "writer", "embedder", "prompts")
        return {name: getattr(self, name) for name in names}

    def with_settings(self, struct: HWDAGIndexStruct) -> Options:
        """With `Settings.embed_model`, if none was passed and it is the one that the nodes need."""
        # why not `Settings.embed_model`: it would make OpenAI's
        if self.embedder is not None or Settings._embed_model is None:
            return self
        found = as_embedder(Settings._embed_model)
        fits = not struct.embedder or getattr(found, "name", None) == struct.embedder
        return replace(self, embedder=found) if fits else self

    def as_recorded(self, struct: HWDAGIndexStruct) -> Options:
        """With the embedder that the nodes were embedded with, if there are any.

        Raises:
            IndexMismatch: another one was given, or none where only its maker can make it again.
        """
        if not struct.embedder:
            return self
        return replace(self, embedder=_same_embedder(self.embedder, struct.embedder))


@dataclass(frozen=True)
class Kept:
    """A document that was built: its source and the nodes that its text is read from."""

    source: Source
    parts: Sequence[BaseNode]

    @property
    def ref_doc_id(self) -> str:
        """Its id."""
        return self.source.document.id


class Storage(ABC):
    """Keeps what the core has built, beside the core itself.

    Attributes:
        core: the index without a framework.
        struct: what the index store has of it.
    """

    def __init__(self, context: StorageContext, struct: HWDAGIndexStruct, core: CoreIndex) -> None:
        self.core = core
        self.struct = struct
        self._context = context
        self._docstore = context.docstore

    @abstractmethod
    def ref_doc_ids(self) -> Collection[str]:
        """Of all documents that are in the index."""

    @abstractmethod
    def source(self, document: Document) -> Source:
        """What a document of the core was read from."""

    @abstractmethod
    def info(self, ref_doc_id: str) -> RefDocInfo | None:
        """Metadata and node ids of a document."""

    @abstractmethod
    def check_ids(self, ids: Mapping[str, Collection[str]]) -> None:
        """Raise `InputError` where ids of given nodes, by ref doc id, cannot be used here."""

    @abstractmethod
    def is_as_kept(self, ref_doc_id: str) -> bool:
        """Whether the core holds a document as it was kept here."""

    @abstractmethod
    def keep(self, documents: Sequence[Kept]) -> None:
        """Keep documents that the core holds, in place of what was kept of them."""

    @abstractmethod
    def drop(self, ref_doc_id: str, *, from_docstore: bool) -> None:
        """Forget a document that the core no longer holds."""

    def built_of(self, documents: Sequence[LlamaDocument]) -> None:
        """Note what has been built, blank or not, so that it need not be built again."""
        hashes = {document.id_: document.hash for document in documents}
        self._docstore.set_document_hashes(hashes)
        if not hashes.items() <= self.struct.hashes.items():
            self.struct.hashes |= hashes
            self.commit()

    def commit(self) -> None:
        """Let the index store know."""
        self._context.index_store.add_index_struct(self.struct)

    def _named(self) -> None:
        """Note by which models the graphs were made."""
        self.struct.reader = self.core.built_by or ""
        self.struct.embedder = self.core.embedder.name

    def _note_parts(self, kept: Kept) -> None:
        """Parts have ids of their own, by which they are found again after an interruption."""
        key = kept.ref_doc_id
        if parts := [part.node_id for part in kept.parts if part.node_id != key]:
            self.struct.unfinished[key] = [*self.struct.unfinished.get(key, ()), *parts]

    def _note_hash(self, kept: Kept) -> None:
        """Where it was given whole; what made parts of it will say by `built_of`."""
        if isinstance(whole := kept.parts[0], LlamaDocument):
            self.struct.hashes[kept.ref_doc_id] = whole.hash

    def _forget_nodes(self, node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            self._docstore.delete_document(node_id, raise_error=False)

    def _forget_ref_doc(self, ref_doc_id: str, own: Collection[str]) -> None:
        """Its own nodes, since another index may have nodes of that ref doc; if none are known, all."""
        if not own:
            self._docstore.delete_ref_doc(ref_doc_id, raise_error=False)
        self._forget_nodes([*own, ref_doc_id])  # why: with the hash that is under its own id


def _same_embedder(passed: Embedder | str | None, recorded: str) -> Embedder | str:
    """The embedder that the nodes were embedded with. Raises `IndexMismatch` for another one."""
    if passed is None and not recorded.startswith(FOREIGN):
        return recorded
    name = passed if passed is None or isinstance(passed, str) else passed.name
    if passed is None or name != recorded:
        raise IndexMismatch(
            f"the nodes were embedded with {recorded!r}, which similarity needs too; got {name!r}. "
            "Pass that model as embedder, or build anew"
        )
    return passed
