"""An index of the LlamaIndex package whose docstore, file or ids have other users too."""

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_world import TEXTS, built, documents, models

import hwdag
from hwdag.errors import InputError
from llama_index_hwdag import HWDAGIndex


def part(node_id, text):
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="mill")}
    return TextNode(id_=node_id, text=text, relationships=source)


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_hash_that_another_user_of_the_docstore_stored_is_ignored(in_a_file, tmp_path):
    index = built("mill", "ferry", path=tmp_path / "town.hwdag" if in_a_file else None)
    changed = Document(id_="mill", text="The mill burned down.")
    index.docstore.set_document_hash("mill", changed.hash)
    assert index.refresh_ref_docs([changed, *documents("ferry")]) == [True, False]
    assert index.core.documents["mill"].text == changed.text


def test_what_others_have_changed_in_the_file_is_not_up_to_date(tmp_path):
    index = built("mill", "ferry", path=tmp_path / "town.hwdag")
    index.core.refresh([hwdag.Document("mill", "The mill burned down.")])
    assert index.refresh_ref_docs(documents("mill", "ferry")) == [True, False]
    assert index.core.documents["mill"].text == TEXTS["mill"]


@pytest.mark.parametrize("in_a_file", [False, True])
def test_another_index_of_the_docstore_keeps_its_nodes_of_a_document_that_is_deleted_here(
    in_a_file, tmp_path
):
    index = built("mill", path=tmp_path / "town.hwdag" if in_a_file else None)
    other = VectorStoreIndex(
        [part("one", "The miller keeps grain.")],
        storage_context=index.storage_context,
        embed_model=MockEmbedding(embed_dim=4),
        transformations=[SentenceSplitter()],
    )
    index.delete_ref_doc("mill", delete_from_docstore=True)
    assert set(index.docstore.docs) == {"one"}
    assert [found.text for found in other.as_retriever().retrieve("grain")] == [
        "The miller keeps grain."
    ]


def test_a_node_that_only_points_elsewhere_is_refused():
    with pytest.raises(InputError, match="'town'"):
        HWDAGIndex([IndexNode(text="About the town.", index_id="town")], **models())
