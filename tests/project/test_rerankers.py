"""Both rerankers equal `rank_passages`, inside the frameworks' own pipelines."""

import re
from pathlib import Path

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, TextNode
from llama_world import events_seen
from planted import PLANTED, planted
from pydantic import ValidationError

import langchain_hwdag
import llama_index_hwdag
from hwdag import rank_passages
from hwdag.errors import InputError, ReaderRequired
from hwdag.rerank import RankingPrompt
from hwdag_lab.scripted import ScriptedLM

LETTERS = ("bbbb kkkk bbbb", "zzzz qqqq zzzz", " ", "mmmm rrrr mmmm", "vvvv cccc vvvv")
FILLED = [text for text in LETTERS if text.strip()]
QUESTION = "zzzz"


@pytest.fixture(scope="module")
def reader():
    return planted().with_heads([PLANTED])


def expected(reader, top_n, **options):
    """Texts and scores, best first."""
    scores = rank_passages(reader, QUESTION, FILLED, **options)
    best = np.argsort(-scores, kind="stable")[:top_n]
    return [(FILLED[i], pytest.approx(float(scores[i]))) for i in best]


def reranked(package, reader, **options):
    """Texts and scores, best first, as a framework gives them."""
    made = package.HWDAGReranker(reader=reader, **options)
    if package is langchain_hwdag:
        documents = [Document(text, metadata={"n": 1}) for text in LETTERS]
        found = made.compress_documents(documents, QUESTION)
        assert all(document.metadata["n"] == 1 for document in found)
        assert [document.metadata for document in documents] == [{"n": 1}] * len(LETTERS)
        return [(one.page_content, one.metadata["relevance_score"]) for one in found]
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in LETTERS]
    found = made.postprocess_nodes(nodes, query_str=QUESTION)
    assert {one.score for one in nodes} == {0.5}
    return [(one.text, one.score) for one in found]


@pytest.mark.parametrize("package", [llama_index_hwdag, langchain_hwdag])
@pytest.mark.parametrize("top_n", [1, 3, 9])
def test_the_best_come_first_with_their_scores(package, top_n, reader):
    found = reranked(package, reader, top_n=top_n)
    assert found == expected(reader, top_n)
    assert found[0][0] == "zzzz qqqq zzzz"


@pytest.mark.parametrize("package", [llama_index_hwdag, langchain_hwdag])
def test_heads_and_windows_are_those_that_are_asked_for(package, reader):
    other = reader.with_heads([(1, 0), PLANTED])
    room = len(RankingPrompt.of(reader, QUESTION, FILLED[:2]).ids) + 9
    found = reranked(package, other, top_n=4, window_tokens=room)
    assert found == expected(other, 4, window_tokens=room)
    assert found != expected(reader, 4, window_tokens=room)


@pytest.mark.parametrize("package", [llama_index_hwdag, langchain_hwdag])
def test_layers_after_the_last_head_do_not_run(package, reader):
    ran = []
    hooks = [
        layer.register_forward_hook(lambda *_, i=i: ran.append(i))
        for i, layer in enumerate(reader.model.model.layers)
    ]
    reranked(package, reader)
    for hook in hooks:
        hook.remove()
    assert set(ran) == set(range(PLANTED[0]))


@pytest.mark.parametrize("package", [llama_index_hwdag, langchain_hwdag])
def test_impossible_values_are_reported(package, reader):
    with pytest.raises(ReaderRequired, match="ScriptedLM"):
        reranked(package, ScriptedLM())
    with pytest.raises(ValidationError, match="top_k"):
        package.HWDAGReranker(top_k=3)
    with pytest.raises(ValidationError, match="top_n"):
        package.HWDAGReranker(top_n=0)


def test_nothing_but_blank_text_ranks_to_nothing(reader):
    assert langchain_hwdag.HWDAGReranker(reader=reader).compress_documents([], QUESTION) == []
    blank = [NodeWithScore(node=TextNode(text=" "))]
    made = llama_index_hwdag.HWDAGReranker(reader=reader)
    assert made.postprocess_nodes(blank, query_str=QUESTION) == []
    with pytest.raises(InputError, match="query_bundle"):
        made.postprocess_nodes(blank)


async def test_it_follows_a_retriever_of_langchain(reader):
    chain = ContextualCompressionRetriever(
        base_compressor=langchain_hwdag.HWDAGReranker(reader=reader, top_n=2),
        base_retriever=RunnableLambda(lambda _: [Document(text) for text in LETTERS]),
    )
    found = chain.invoke(QUESTION)
    assert [one.page_content for one in found] == [text for text, _ in expected(reader, 2)]
    assert await chain.ainvoke(QUESTION) == found


async def test_it_emits_llama_index_events_and_keeps_the_first_score(reader):
    made = llama_index_hwdag.HWDAGReranker(reader=reader, top_n=1, keep_retrieval_score=True)
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in FILLED]
    with events_seen(ReRankStartEvent, ReRankEndEvent) as seen:
        (best,) = await made.apostprocess_nodes(nodes, query_str=QUESTION)
    assert best.node.metadata == {"retrieval_score": 0.5}
    assert [type(event) for event in seen] == [ReRankStartEvent, ReRankEndEvent]
    assert (seen[0].top_n, seen[0].model_name) == (1, "nobody/planted")
    assert seen[1].nodes == [best]


@pytest.mark.model
def test_the_program_of_the_documentation_finds_the_passage(capsys):
    page = (Path(__file__).parents[2] / "docs" / "attention.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(from hwdag import rank_passages.*?)```", page, re.DOTALL)
    exec(compile(program, "attention.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out == "1\n"
