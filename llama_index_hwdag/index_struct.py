"""What the index store keeps of an index: ids, names and hashes, since every change writes it anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.data_structs.struct_type import IndexStructType
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS

# why: the enum is closed, but wherever it is used a plain string serves as well
INDEX_TYPE = cast(IndexStructType, "hwdag")


@dataclass
class HWDAGIndexStruct(IndexStruct):
    """What the index store keeps.

    Attributes:
        reader: name of the model that built the graphs; empty while there are none.
        embedder: name of the model that embedded the nodes; empty while there are none.
        config: the build config as JSON-able values.
        sources: by ref doc id, the ids of the nodes that its text is joined from.
        nodes: by ref doc id, the ids of its chunks and points in the order of the graph; empty
            where the graphs are in a file.
        hashes: by ref doc id, the hash of the `Document` that it was last built of. The docstore has
            hashes too, but those are written by all of its users.
        unfinished: by ref doc id, the ids of nodes that a change has begun to write or remove: what an
            interruption has left of them is listed nowhere else.
        path: the file that the graphs are in; empty where they are in the docstore.
    """

    reader: str = ""
    embedder: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    unfinished: dict[str, list[str]] = field(default_factory=dict)
    path: str = ""

    @classmethod
    def get_type(cls) -> IndexStructType:
        """`hwdag`."""
        return INDEX_TYPE


def register(index_class: type[BaseIndex[HWDAGIndexStruct]]) -> None:
    """Make the index type known to `load_index_from_storage`, which has no public way to do it."""
    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS[INDEX_TYPE] = HWDAGIndexStruct
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS[INDEX_TYPE] = index_class
