"""Nodes of hierarchical parsers: each passage is indexed once, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_world import QUESTION, TEXTS, models

from llama_index_hwdag import HWDAGIndex
from llama_index_hwdag.nodes import without_repeats

LONG = " ".join(f"The grain of day {i} lies in room {i} of the old mill." for i in range(30))


def parser(overlap=0):
    return HierarchicalNodeParser.from_defaults(chunk_sizes=[200, 60, 20], chunk_overlap=overlap)


@pytest.mark.parametrize("text", [TEXTS["mill"], LONG], ids=["short", "long"])
@pytest.mark.parametrize("whole", [False, True], ids=["nodes", "documents"])
def test_a_hierarchy_is_one_text(text, whole, caplog):
    document = Document(text=text, id_="d")
    index = (
        HWDAGIndex.from_documents([document], transformations=[parser()], **models())
        if whole
        else HWDAGIndex(parser().get_nodes_from_documents([document]), **models())
    )
    assert index.core.documents["d"].text.split() == text.split()
    assert not caplog.text
    found = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    assert len({one.text for one in found}) == len(found)


def test_levels_without_relations_are_warned_of(caplog):
    nodes = parser().get_nodes_from_documents([Document(text=TEXTS["mill"], id_="d")])
    for node in nodes:
        node.relationships = {NodeRelationship.SOURCE: node.relationships[NodeRelationship.SOURCE]}
    HWDAGIndex(nodes, **models())
    assert "repeat text of the chunk before them" in caplog.text


@pytest.mark.parametrize("overlap", [0, 8])
@pytest.mark.parametrize("turned", [False, True], ids=["from the top", "from the leaves"])
def test_levels_that_come_one_after_the_other_are_one_text(overlap, turned):
    nodes = parser(overlap).get_nodes_from_documents([Document(text=LONG, id_="d")])
    leaves = get_leaf_nodes(nodes)
    inner = [node for node in nodes if node not in leaves]
    index = HWDAGIndex([], **models())
    for part in (leaves, inner) if turned else (inner, leaves):
        index.insert_nodes(part)
    assert set(index.ref_doc_info["d"].node_ids) >= {node.node_id for node in leaves}
    text = index.core.documents["d"].text
    assert text == "\n\n".join(node.text for node in leaves)


def family(parent, *children):
    """Return a node with children, as a parser relates them."""
    top = TextNode(id_="top", text=parent)
    below = [TextNode(id_=str(i), text=text) for i, text in enumerate(children)]
    related = [RelatedNodeInfo(node_id=node.node_id) for node in below]
    top.relationships[NodeRelationship.CHILD] = related
    for node in below:
        node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="top")
    return [top, *below]


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [
        (family("Rain. Snow.", "Rain.", "Snow."), ["Rain.", "Snow."]),
        (family("Rain. Rain.", "Rain.", "Rain."), ["Rain.", "Rain."]),
        (family("a b c d e", "a b c", "b c d", "d e"), ["a b c", "b c d", "d e"]),
        (family("Rain.\n\nSnow.", "Rain."), ["Rain.\n\nSnow."]),  # the rest would be lost
        (family("Rain. Hail. Snow.", "Rain.", "Snow."), ["Rain. Hail. Snow."]),
        # the parsers of code put a remark in place of a child
        (family("def f(): # see below", "return 1"), ["def f(): # see below", "return 1"]),
        (family("Rain.")[:1], ["Rain."]),
    ],
)
@pytest.mark.parametrize("link", [NodeRelationship.PARENT, NodeRelationship.CHILD])
def test_children_replace_a_parent_whose_text_they_hold(nodes, kept, link):
    assert [node.text for node in without_repeats(nodes)] == kept
    one_sided = [node.model_copy(update={"relationships": {}}) for node in nodes]
    for node, before in zip(one_sided, nodes, strict=True):
        if link in before.relationships:
            node.relationships[link] = before.relationships[link]
    assert [node.text for node in without_repeats(one_sided)] == kept


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_no_node_vanishes_whatever_the_relations_are(parents):
    """Each node has a text of its own; relations may form circles."""
    nodes = [TextNode(id_=str(i), text=f"text {i}.") for i in range(len(parents))]
    for node, parent in zip(nodes, parents, strict=True):
        node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id=str(parent))
    found = without_repeats(nodes)
    assert sorted(node.node_id for node in found) == [node.node_id for node in nodes]
