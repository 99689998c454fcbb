"""HWDAG: rows become shares, every violation is caught, paths and exports follow the edges."""

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from worlds import graphs

from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.dag import HWDAG, EdgeRow, union_of_spans
from hwdag.types import Node, Span


def node(identity, level, start=0):
    origin = "chunk" if level == 1 else "generated"
    return Node(identity, "d", level, identity, origin, 1, (Span(start, start + 1),))


def row(parent, **raw):
    """Out-edges as keywords: `n0=0.3` is 0.3 to node 0."""
    children = np.array([int(name[1:]) for name in raw], dtype=np.int32)
    return EdgeRow(parent, children, np.array(list(raw.values())))


def diamond():
    """Two chunks that both points share.

    r -0.75-> p -0.9-> x        p -0.1-> y
    r -0.25-> q -0.2-> x        q -0.8-> y
    """
    nodes = [node("x", 1, 0), node("y", 1, 1), node("p", 2), node("q", 2), node("r", 3)]
    rows = [row(4, n2=0.03, n3=0.01), row(3, n0=1.0, n1=4.0), row(2, n0=0.09, n1=0.01)]
    return HWDAG.from_rows(nodes, rows)


def test_rows_become_shares_and_raw_attention_stays():
    graph = diamond()
    graph.check_integrity()
    assert graph.edges.toarray()[2:] == pytest.approx(
        np.array([[0.9, 0.1, 0, 0, 0], [0.2, 0.8, 0, 0, 0], [0, 0, 0.75, 0.25, 0]])
    )
    assert graph.raw.toarray()[4].tolist() == [0, 0, 0.03, 0.01, 0]
    assert not graph.edges.toarray()[:2].any()


def test_levels_and_children():
    graph = diamond()
    assert (len(graph), graph.height) == (5, 3)
    assert graph.levels.tolist() == [1, 1, 2, 2, 3]
    assert graph.at_level(2).tolist() == [2, 3]
    assert graph.top.tolist() == [4]
    children, weights = graph.children(3)
    assert (children.tolist(), weights.tolist()) == ([0, 1], [0.2, 0.8])
    assert graph.children(0)[0].tolist() == []


def test_networkx_has_both_weights():
    graph = diamond().to_networkx()
    assert list(graph) == ["x", "y", "p", "q", "r"]
    assert graph.nodes["p"] == {
        "level": 2,
        "text": "p",
        "origin": "generated",
        "tokens": 1,
        "document_id": "d",
    }
    assert graph.edges["r", "q"] == {"weight": pytest.approx(0.25), "attention": 0.01}
    assert nx.is_directed_acyclic_graph(graph)


def test_an_empty_graph_is_valid():
    graph = HWDAG.from_rows([], [])
    graph.check_integrity()
    assert (len(graph), graph.height, graph.top.tolist()) == (0, 0, [])
    assert len(graph.to_networkx()) == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, n0=1.0), row(1, n0=2.0)], r"\[1, 1\]"),
        ([row(2, n0=1.0)], r"\[2\]"),
        ([row(-1, n0=1.0)], r"\[-1\]"),
        ([row(1, n0=0.0)], r"\b0\.0"),
        ([row(1, n0=float("nan"))], "nan"),
        ([row(1)], r"\[1\]"),
    ],
)
def test_rows_that_cannot_be_shared_out_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        HWDAG.from_rows([node("x", 1), node("p", 2)], rows)


def broken(**changes):
    """Return the diamond with a node replaced (`n2={...}`) or its edges (`edges=`, `raw=`)."""
    graph = diamond()
    nodes = tuple(
        replace(n, **changes[f"n{i}"]) if f"n{i}" in changes else n
        for i, n in enumerate(graph.nodes)
    )
    edges = changes.get("edges", graph.edges)
    return HWDAG(nodes, edges, changes.get("raw", edges if "edges" in changes else graph.raw))


def edges(*triples, size=5):
    """(parent, child, weight), in the order of the rows; the same child may come twice."""
    parents, children, weights = zip(*triples, strict=True)
    indptr = np.searchsorted(parents, range(size + 1)).astype(np.int32)
    return csr_array((np.array(weights), np.array(children, np.int32), indptr), shape=(size, size))


REST = ((3, 1, 1.0), (4, 2, 1.0))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n1": {"id": "x"}}, r"\bid"),
        ({"n1": {"text": " \n"}}, "text"),
        ({"n2": {"tokens": 0}}, "tokens"),
        ({"n3": {"sources": ()}}, "sources"),
        ({"n0": {"level": 0}}, "levels"),
        ({"n4": {"level": 4}}, "levels"),
        ({"n1": {"level": 2}, "n2": {"level": 1}}, "levels"),
        ({"edges": csr_array((4, 4))}, r"\(4, 4\)"),
        ({"raw": csr_array((5, 4))}, r"\(5, 4\)"),
        ({"raw": csr_array((5, 5))}, "sparsity"),
        ({"edges": edges((2, 0, 1.0), (3, 7, 1.0), (4, 2, 1.0))}, "exist"),
        ({"edges": edges((2, -1, 1.0), *REST)}, "exist"),
        ({"edges": edges((2, 0, -0.5), (2, 1, 1.5), *REST)}, "negative"),
        ({"edges": edges((2, 0, float("nan")), *REST)}, "negative"),
        ({"edges": edges((2, 0, float("inf")), *REST)}, "negative"),
        ({"edges": edges((2, 0, 1.0), (3, 1, 1.0), (4, 0, 1.0))}, "level"),
        ({"edges": edges((2, 3, 1.0), *REST)}, "level"),
        ({"edges": edges((1, 4, 1.0), (2, 0, 1.0), *REST)}, "level"),
        ({"edges": edges((2, 0, 0.5), (2, 0, 0.5), *REST)}, "two edges"),
        ({"edges": edges((2, 0, 0.9), *REST)}, "sum"),
        ({"edges": edges(*REST)}, "sum"),
    ],
)
def test_every_violation_is_caught(changes, problem):
    with pytest.raises(IndexCorrupt, match=problem):
        broken(**changes).check_integrity()


def test_descending_row_pointers_are_caught():
    graph = diamond()
    for matrix in (graph.edges, graph.raw):
        matrix.indptr[3] = 9
    with pytest.raises(IndexCorrupt):
        graph.check_integrity()


@given(graphs())
def test_random_graphs_are_valid_and_their_paths_follow_the_heaviest_edges(graph):
    graph.check_integrity()
    dense = graph.edges.toarray()
    assert dense.sum(axis=1) == pytest.approx((graph.levels > 1).astype(float))


@given(graphs())
def test_networkx_has_every_edge_once(graph):
    exported = graph.to_networkx()
    ids = [n.id for n in graph.nodes]
    assert list(exported) == ids
    for name, matrix in (("weight", graph.edges), ("attention", graph.raw)):
        array = nx.to_numpy_array(exported, nodelist=ids, weight=name)
        assert np.array_equal(array, matrix.toarray())


@given(graphs())
def test_the_order_of_rows_does_not_matter(graph):
    parents = graph.at_level(1).size + np.arange(len(graph) - graph.at_level(1).size)
    rows = [
        EdgeRow(int(p), graph.children(p)[0], graph.raw[[p], graph.children(p)[0]]) for p in parents
    ]
    again = HWDAG.from_rows(graph.nodes, rows[::-1])
    assert np.array_equal(again.edges.toarray(), graph.edges.toarray())
    assert np.array_equal(again.raw.toarray(), graph.raw.toarray())


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6))))
def test_the_union_covers_the_same_characters(pairs):
    spans = [Span(start, start + length) for start, length in pairs]
    merged = union_of_spans(spans)
    assert {c for s in merged for c in range(s.start, s.end)} == {
        c for s in spans for c in range(s.start, s.end)
    }
    assert all(a.end < b.start for a, b in pairwise(merged))
