"""A fact graph as JSON and arrays, and back; nothing that is read is trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.types import Document, Node, Span
from hwdag_lab.methods.graphreader.elements import Element
from hwdag_lab.methods.graphreader.graph import FactGraph
from hwdag_lab.methods.packing import (
    checked_array,
    demand,
    packed_nodes,
    unpacked_groups,
    unpacked_nodes,
    unpacked_texts,
)
from hwdag_lab.methods.saved_file import Arrays


def packed(graph: FactGraph) -> tuple[dict[str, Any], Arrays]:
    """What `unpacked` takes."""
    record = {
        "chunks": packed_nodes(graph.chunks),
        "facts": packed_nodes(graph.facts),
        "chunk_of": list(graph.chunk_of),
        "elements_of": [list(several) for several in graph.elements_of],
        "elements": [[element.name, list(element.keys)] for element in graph.elements],
        "sentences": [[[span.start, span.end] for span in spans] for spans in graph.sentences],
        "counts": [graph.retries, graph.defaults],
        "notes": list(graph.notes),
    }
    return record, {
        "facts": graph.fact_vectors,
        "elements": graph.element_vectors,
        "sentences": graph.sentence_vectors,
    }


def unpacked(document: Document, record: dict[str, Any], arrays: Arrays) -> FactGraph:
    """The graph that was packed; raises one of `hwdag_lab.methods.packing.MALFORMED`."""
    chunks = unpacked_nodes(document, record["chunks"])
    facts = unpacked_nodes(document, record["facts"])
    elements = tuple(_element(*one) for one in record["elements"])
    [chunk_of] = unpacked_groups([record["chunk_of"]], len(chunks))
    elements_of = unpacked_groups(record["elements_of"], len(elements))
    sentences = tuple(
        tuple(_sentence(node, *one) for one in spans)
        for node, spans in zip(chunks, record["sentences"], strict=True)
    )
    retries, defaults = record["counts"]
    demand(type(retries) is type(defaults) is int)
    demand(len(facts) == len(chunk_of) == len(elements_of) and bool(chunks))
    demand(all(elements_of) and all(sentences))
    return FactGraph(
        chunks,
        facts,
        chunk_of,
        elements_of,
        elements,
        sentences,
        _vectors(arrays["facts"], len(facts)),
        _vectors(arrays["elements"], len(elements)),
        _vectors(arrays["sentences"], sum(map(len, sentences))),
        retries,
        defaults,
        unpacked_texts(record["notes"]),
    )


def _element(name: Any, keys: Any) -> Element:
    [name], keys = unpacked_texts([name]), unpacked_texts(keys)
    demand(bool(keys))
    return Element(name, keys)


def _sentence(chunk: Node, start: Any, end: Any) -> Span:
    demand(type(start) is type(end) is int and len(chunk.sources) == 1)
    span = Span(start, end)
    demand(chunk.sources[0].start <= start and end <= chunk.sources[0].end)
    return span


def _vectors(array: Any, count: int) -> Vectors:
    return checked_array(array, np.float32, (count, None))
