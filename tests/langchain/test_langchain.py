"""The LangChain package on small worlds: the finds of the core in LangChain's shapes."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.load import dumpd, dumps, loads
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_world import DOCUMENTS, QUESTION, an_index, available, texts
from processes import python
from pydantic import ValidationError

import hwdag
from hwdag.config import NEVER, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag.text.headings import in_context
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import CoreRetriever, HWDAGIndex, HWDAGRetriever

# --- retrieval ----------------------------------------------------------------------------------


def test_an_explicit_k_is_exact_and_best_first():
    index = an_index()
    total = available(index)
    for k in range(1, total + 3):
        best = index.index.search(QUESTION, k=k).best(k)
        documents = index.invoke(QUESTION, k=k)
        assert [d.id for d in documents] == [step.node.id for step in best]
        assert len(documents) == min(k, total)
        assert documents == index.as_retriever(k=k).invoke(QUESTION)


@pytest.mark.parametrize("k", [0, -1, True, "3", 2.0])
def test_an_impossible_k_is_refused(k):
    index = an_index()
    with pytest.raises(InputError, match=r"\bk\b"):
        index.invoke(QUESTION, k=k)
    with pytest.raises(ValidationError, match=r"\bk\b"):
        HWDAGRetriever(index=index.index, k=k)


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"k": 0}, r"\bk\b"),
        ({"search": {"budget": 3}}, "'budget'"),
        ({"filters": {}}, "filter"),
        ({"filters": {"n": {"over": 3}}}, "'over'"),
        ({"document_ids": "mill"}, "document_ids"),
    ],
)
def test_what_cannot_be_searched_with_is_refused_before_the_build(options, seen):
    lm = ScriptedLM()
    with pytest.raises(ValidationError, match=seen):
        an_index(reader=lm, **options)
    assert lm.usage == ScriptedLM().usage
    with pytest.raises(ValidationError, match=seen):
        an_index([]).as_retriever(**options)


def test_search_kwargs_are_options():
    index = an_index()
    wanted = index.as_retriever(k=2, filters={"source": "b.txt"}).invoke(QUESTION)
    kwargs = {"k": 2, "filter": {"source": "b.txt"}}
    assert index.as_retriever(search_kwargs=kwargs).invoke(QUESTION) == wanted
    with pytest.raises(UnknownOption, match="'fetch_k'"):
        index.as_retriever(search_kwargs={"fetch_k": 20})


def test_changing_a_returned_document_changes_nothing_else():
    index = an_index()
    index.get(["mill"])[0].metadata["n"].append(2)
    for document in index.invoke(QUESTION):
        document.metadata.clear()
    assert index.get(["mill", "ferry"]) == DOCUMENTS


def test_a_retriever_takes_the_options_of_its_index():
    index = an_index(k=2, search=SearchConfig(token_budget=50))
    retriever = index.as_retriever()
    assert (retriever.k, retriever.search) == (2, SearchConfig(token_budget=50))
    assert index.as_retriever(k=3).k == 3
    index = an_index([], returns="sources", document_ids={"mill"}, filters={"n": 1})
    assert index.as_retriever().model_dump() == index.model_dump()
    assert index.as_retriever().document_ids == ("mill",)
    assert index.as_retriever(returns="nodes").returns == "nodes"
    assert index.as_retriever(tags=["a"], metadata={"b": 1}).tags == ["a"]


@pytest.mark.parametrize("make", [HWDAGRetriever, HWDAGIndex])
def test_unknown_options_are_refused_by_name(make):
    index = an_index()
    with pytest.raises(ValidationError, match="top_k"):
        make(index=index.index, top_k=3)
    with pytest.raises(ValidationError, match="'budget'"):
        make(index=index.index, search={"budget": 3})
    with pytest.raises(ValidationError, match="top_k"):
        make.from_documents(DOCUMENTS, top_k=3)
    with pytest.raises(UnknownOption, match="'top_k'"):
        make(index=index.index).invoke(QUESTION, top_k=3)


def test_a_question_that_is_no_text_is_refused_with_the_way_out():
    index = an_index()
    with pytest.raises(InputError, match="dict"):
        index.invoke({"question": QUESTION})
    assert (itemgetter("question") | index).invoke({"question": QUESTION}) == index.invoke(QUESTION)


def test_scores_are_cosines_descend_and_are_cut_at_a_threshold():
    index, embedder = an_index(), HashingEmbedder()
    rated = index.similarity_search_with_relevance_scores(QUESTION, k=4)
    scores = [score for _, score in rated]
    assert scores == sorted(scores, reverse=True)
    assert rated == index.similarity_search_with_score(QUESTION, k=4)
    assert {d.id for d, _ in rated} == {d.id for d in index.similarity_search(QUESTION, k=4)}
    query = embedder.embed_query(QUESTION)
    for document, score in rated:
        [vector] = embedder.embed([in_context(document.metadata["heading"], document.page_content)])
        cosine = vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)
        assert score == pytest.approx(min(1, max(0, float(cosine))), abs=1e-6)
    cut = scores[1]
    kept = [document for document, score in rated if score >= cut]
    assert 0 < len(kept) < 4
    options = {"search_kwargs": {"k": 4, "score_threshold": cut}}
    found = index.as_retriever(search_type="similarity_score_threshold", **options).invoke(QUESTION)
    assert found == kept == index.as_retriever(k=4, score_threshold=cut).invoke(QUESTION)
    with_cut = index.similarity_search_with_relevance_scores(QUESTION, k=4, score_threshold=cut)
    assert [document for document, _ in with_cut] == kept


def test_mmr_chooses_among_fetch_k_nodes_that_differ():
    twins = [Document(f"The smith mends the bell of the ferry {n}.") for n in ("now", "then")]
    index = an_index([*twins, *DOCUMENTS])
    most, least = (
        index.max_marginal_relevance_search(QUESTION, k=2, fetch_k=9, lambda_mult=mult)
        for mult in (1.0, 0.2)
    )
    assert (
        most == [document for document, _ in index.similarity_search_with_score(QUESTION, k=9)][:2]
    )
    assert all("mends the bell" in text for text in texts(most))
    assert least[0] == most[0]
    assert least[1] not in most
    kwargs = {"k": 2, "fetch_k": 9, "lambda_mult": 0.2}
    assert index.as_retriever(search_type="mmr", search_kwargs=kwargs).invoke(QUESTION) == least
    assert len(index.as_retriever(search_type="mmr").invoke(QUESTION)) == 4


async def test_scores_and_mmr_do_not_block_the_event_loop():
    index = an_index()
    rated = await index.asimilarity_search_with_relevance_scores(QUESTION, k=3)
    assert rated == await index.asimilarity_search_with_score(QUESTION, k=3)
    assert rated == index.similarity_search_with_score(QUESTION, k=3)
    found = await index.amax_marginal_relevance_search(QUESTION, k=2)
    assert found == index.max_marginal_relevance_search(QUESTION, k=2)


def test_options_of_vector_stores_are_refused_with_those_that_there_are():
    index = an_index([])
    with pytest.raises(InputError, match="'hybrid'"):
        index.as_retriever(search_type="hybrid")
    with pytest.raises(InputError, match="score_threshold"):
        index.as_retriever(search_type="similarity_score_threshold", search_kwargs={"k": 3})
    with pytest.raises(UnknownOption, match="'lambda_mult'"):
        index.as_retriever(search_kwargs={"lambda_mult": 0.3})
    with pytest.raises(ValidationError, match="score_threshold"):
        index.as_retriever(score_threshold=7)


def test_the_representation_shows_no_index_and_no_text():
    assert "index" not in repr(an_index()).removeprefix("HWDAGIndex")
    assert "index" not in an_index().model_dump()


# --- LCEL ---------------------------------------------------------------------------------------


def test_it_is_a_link_of_a_chain():
    index = an_index()
    prompt = PromptTemplate.from_template("{context}\n{question}")
    asked: list[str] = []

    def remember(value: Any) -> Any:
        asked.append(value.to_string())
        return value

    chain = (
        {
            "context": index.as_retriever(k=2) | (lambda found: "\n".join(texts(found))),
            "question": RunnablePassthrough(),
        }
        | prompt
        | remember
        | FakeListLLM(responses=["the smith"])
        | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "the smith"
    assert asked == ["\n".join([*texts(index.invoke(QUESTION, k=2)), QUESTION])]


def test_it_works_together_with_other_retrievers():
    index = an_index()
    words = CoreRetriever.from_documents(DOCUMENTS, BM25Retriever, reader=ScriptedLM(), k=1)
    both = RunnableParallel(walk=index.as_retriever(k=1), words=words)
    found = both.invoke(QUESTION)
    assert {name: texts(documents) for name, documents in found.items()} == {
        "walk": texts(index.invoke(QUESTION, k=1)),
        "words": texts(words.invoke(QUESTION)),
    }
    fused = index | (lambda one: one[:1])
    assert fused.batch([QUESTION] * 2) == [index.invoke(QUESTION)[:1]] * 2
    fallback = words.bind(document_ids=["nope"]).with_fallbacks([index])
    assert fallback.invoke(QUESTION) == index.invoke(QUESTION)


@pytest.mark.parametrize("response_format", ["content", "content_and_artifact"])
async def test_it_becomes_a_tool(response_format):
    retriever = an_index().as_retriever(k=2)
    tool = create_retriever_tool(
        retriever, "notes", "Searches the village notes.", response_format=response_format
    )
    assert list(tool.args) == ["query"]
    documents = retriever.invoke(QUESTION)
    expected = "\n\n".join(texts(documents))
    assert tool.invoke({"query": QUESTION}) == await tool.ainvoke({"query": QUESTION}) == expected

    call = {"name": "notes", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert message.content == expected
    if response_format == "content_and_artifact":
        assert message.artifact == documents
        assert json.loads(message.model_dump_json())["artifact"][0]["metadata"]["hwdag"]
    assert tool.invoke({"query": "How deep is the sea?"}) != ""


# --- serialisation and tracing -------------------------------------------------------------------


def test_a_dump_shows_no_text_and_no_model():
    retriever = an_index().as_retriever(k=2)
    dumped = dumpd(retriever)
    assert dumped["type"] == "not_implemented"
    assert dumped["repr"] == repr(retriever) == "HWDAGRetriever(k=2)"
    assert "miller" not in dumps({"retriever": retriever, "index": an_index()})


def test_pickling_is_refused_with_the_way_out():
    for made in (an_index(), CoreRetriever(retriever=BM25Retriever())):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(made)


@pytest.fixture
def filed(tmp_path):
    """A retriever with all options over a file, which names models that its tests can load."""
    an_index(path=tmp_path / "town.hwdag").index.close()
    index = hwdag.HWDAGIndex.load(
        tmp_path / "town.hwdag", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    return HWDAGRetriever(
        index=index,
        k=2,
        search=SearchConfig(token_budget=99, confidence=NEVER),
        filters={"source": {"in": ["a.txt", "b.txt"]}},
        document_ids=["ferry"],
        returns="sources",
        tags=["town"],
    )


def reads_the_same(again, first):
    """Pass the same options and documents; the models of a test cannot be loaded by their names."""
    assert again.model_dump() == first.model_dump()
    assert again.index.path == first.index.path
    assert again.index.documents == dict(first.index.documents)
    given = hwdag.HWDAGIndex.load(again.index.path, reader=ScriptedLM(), embedder=HashingEmbedder())
    over = again.model_copy(update={"index": given})
    assert texts(over.invoke(QUESTION)) == texts(first.invoke(QUESTION))


def test_a_retriever_over_a_file_is_pickled_with_its_path(filed):
    reads_the_same(pickle.loads(pickle.dumps(filed)), filed)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_a_retriever_over_a_file_is_dumped_and_loaded(filed):
    written = dumps(filed)
    assert "miller" not in written
    again = loads(written, allowed_objects=[HWDAGRetriever], valid_namespaces=["langchain_hwdag"])
    assert isinstance(again, HWDAGRetriever)
    reads_the_same(again, filed)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_loading_a_retriever_in_memory_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="HWDAGRetriever"):
        loads(dumps(an_index().as_retriever()), allowed_objects=[HWDAGRetriever])


def test_a_copy_is_over_the_same_index_or_refused():
    index = an_index()
    copied = index.as_retriever().model_copy(update={"k": 1})
    assert copied.index is index.index
    assert copied.invoke(QUESTION) == index.invoke(QUESTION, k=1)
    for copy in (deepcopy, lambda made: made.model_copy(deep=True)):
        with pytest.raises(TypeError, match="model_copy"):
            copy(index)


@pytest.mark.parametrize(
    ("retriever", "name"),
    [
        (an_index([]), "hwdag"),
        (an_index([]).as_retriever(), "hwdag"),
        (CoreRetriever(retriever=BM25Retriever()), "bm25"),
        (CoreRetriever(retriever=BM25Retriever(), name="TownRetriever"), "town"),
    ],
)
def test_traces_name_the_method(retriever, name):
    class Tracer(BaseCallbackHandler):
        def on_retriever_start(self, *_: Any, metadata: Any, **__: Any) -> None:
            traced.append(metadata["ls_retriever_name"])

    traced: list[str] = []
    with pytest.raises(InputError):
        retriever.invoke(" ", {"callbacks": [Tracer()]})
    assert traced == [name]


# --- the package --------------------------------------------------------------------------------


def test_a_missing_framework_is_named_with_the_command():
    code = "import sys; sys.modules['langchain_core'] = None; import langchain_hwdag"
    assert (
        python(code, ends=1)
        .stderr.strip()
        .endswith(
            'ImportError: langchain_hwdag needs langchain-core: pip install "hwdag[langchain]"'
        )
    )


@pytest.mark.model
def test_the_example_runs(capsys):
    import runpy

    example = Path(__file__).parents[2] / "examples" / "langchain_quickstart.py"
    answer = runpy.run_path(str(example))["main"]()
    printed = capsys.readouterr().out
    assert printed.count("lighthouses.txt  level") == 3
    assert "His tower was lit in 1759." in printed
    assert answer.strip()
    assert printed.rstrip().endswith(answer.rstrip())
