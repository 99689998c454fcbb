"""An index as a folder of JSON lines and safetensors, and back, to the last bit.

    header.json               what the index was built with
    documents.jsonl           a document per line
    nodes.jsonl               a node per line, document by document
    arrays-00001.safetensors  edges and embeddings of the first documents, and so on
    manifest.json             size and SHA-256 of every file

For other programs and for keeping: every file has a common format. Groups of corpus layers are not
exported, since they follow from the documents, and neither are cached calls.
"""

from __future__ import annotations

from hwdag.store.exchange.exporting import Exported, export_index
from hwdag.store.exchange.importing import import_index

__all__ = ["Exported", "export_index", "import_index"]
