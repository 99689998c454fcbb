"""The entry of an index in the index store: the path of its file, or the file itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.data_structs.struct_type import IndexStructType
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS

# why: the enum is closed, but a plain string works in its place
INDEX_TYPE = cast(IndexStructType, "hwdag")


@dataclass
class HWDAGIndexStruct(IndexStruct):
    """The entry in the index store.

    Attributes:
        path: the index file; empty for an index in memory.
        image: the file of an index in memory, compressed by zlib, in base64.
        config: the build config as JSON values, until the first build writes it to the file.
    """

    path: str = ""
    image: str = ""
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def get_type(cls) -> IndexStructType:
        """`hwdag`."""
        return INDEX_TYPE


def register(index_class: type[BaseIndex[HWDAGIndexStruct]]) -> None:
    """Register the index type for `load_index_from_storage`, which offers no public way."""
    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS[INDEX_TYPE] = HWDAGIndexStruct
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS[INDEX_TYPE] = index_class
