"""Twenty programs as people write them for a vector index, run with an HWDAG in its place.

Each takes the class that makes the index, so nothing but an import changes. The programs of the framework pages (`test_recipes.py`) and of the migration tables
(`test_migration.py`) are others.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from app_world import QUESTION, AppChatModel, AppLLM
from langchain_classic.chains import (
    RetrievalQA,
    create_history_aware_retriever,
    create_retrieval_chain,
)
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, MultiQueryRetriever
from langchain_classic.retrievers.document_compressors import LLMChainExtractor
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_text_splitters import RecursiveCharacterTextSplitter
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from llama_index.core import (
    Document,
    PromptTemplate,
    Settings,
    SimpleDirectoryReader,
    StorageContext,
    SummaryIndex,
    get_response_synthesizer,
    load_index_from_storage,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool, ToolMetadata
from llama_index.core.vector_stores import ExactMatchFilter, MetadataFilters
from llama_world import chat_memory

import langchain_hwdag
import llama_index_hwdag
from hwdag.embedding.hashing import HashingEmbedder

TEXTS = {
    "harbour": "The harbour was built in 1871 by the engineer Clara Holm.",
    "ferry": "The ferry across the river was replaced by a bridge.",
}

pytestmark = [
    pytest.mark.model,
    # why: LlamaIndex's chat memory leaves connections and an event loop to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning"),
]


def answered(prompt: str) -> str:
    """Reply as a capable model: the first known sentence of a prompt, or the form that it asks for."""
    if "sub questions" in prompt.lower() or "sub-questions" in prompt.lower():
        return json.dumps({"items": [{"sub_question": QUESTION, "tool_name": "town"}]})
    if "Some choices are given below" in prompt:
        return json.dumps([{"choice": 2, "reason": "it asks for one fact"}])
    if "different versions" in prompt:
        return f"{QUESTION}\nWho made the harbour?"
    return "Clara Holm" if "Clara Holm" in prompt else "I do not know."


class AppEmbedding(BaseEmbedding):
    """The embedding model that an application already has."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return HashingEmbedder().embed([text])[0].tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class AppEmbeddings(Embeddings):
    """The same for LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return HashingEmbedder().embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    """The settings of an application, and its folder with documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Settings, "_llm", AppLLM(reply=answered))
    monkeypatch.setattr(Settings, "_embed_model", AppEmbedding())
    (tmp_path / "data").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "data" / f"{name}.txt").write_text(text, "utf-8")
    yield
    gc.collect()  # why: the garbage of a program is not that of the next test


def a_folder_and_a_query_engine(index_class: Any) -> str:
    documents = SimpleDirectoryReader("data").load_data()
    index = index_class.from_documents(documents)
    response = index.as_query_engine(similarity_top_k=2).query(QUESTION)
    assert {"harbour.txt"} <= {node.metadata["file_name"] for node in response.source_nodes}
    assert len(response.get_formatted_sources()) > 10
    return str(response)


def a_retriever_and_a_synthesizer(index_class: Any) -> str:
    index = index_class.from_documents(documents(), embed_model=AppEmbedding())
    engine = RetrieverQueryEngine(
        retriever=index.as_retriever(similarity_top_k=2),
        response_synthesizer=get_response_synthesizer(response_mode="tree_summarize"),
    )
    return str(engine.query(QUESTION))


def persist_and_load(index_class: Any) -> str:
    index = index_class.from_documents(documents())
    index.set_index_id("town")
    index.storage_context.persist(persist_dir="storage")
    context = StorageContext.from_defaults(persist_dir="storage")
    loaded = load_index_from_storage(context, index_id="town")
    return str(loaded.as_query_engine().query(QUESTION))


def a_chat_that_streams(index_class: Any) -> str:
    index = index_class.from_documents(documents())
    chat = index.as_chat_engine(
        chat_mode="condense_plus_context",
        memory=chat_memory(),
        similarity_top_k=2,
        system_prompt="You know the town.",
    )
    first = "".join(chat.stream_chat(QUESTION).response_gen)
    assert chat.chat("And when?").source_nodes
    chat.reset()
    assert chat.chat_history == []
    return first


def citations(index_class: Any) -> str:
    index = index_class.from_documents(documents())
    engine = CitationQueryEngine.from_args(index, similarity_top_k=2, citation_chunk_size=512)
    response = engine.query(QUESTION)
    assert response.source_nodes[0].node.get_text().startswith("Source 1:")
    return str(response)


def a_router(index_class: Any) -> str:
    docs = documents()
    tools = [
        QueryEngineTool.from_defaults(
            query_engine=SummaryIndex.from_documents(docs).as_query_engine(),
            description="Useful for summaries.",
        ),
        QueryEngineTool.from_defaults(
            query_engine=index_class.from_documents(docs).as_query_engine(),
            description="Useful for single facts.",
        ),
    ]
    router = RouterQueryEngine(selector=LLMSingleSelector.from_defaults(), query_engine_tools=tools)
    response = router.query(QUESTION)
    assert response.metadata["selector_result"].ind == 1
    return str(response)


def sub_questions(index_class: Any) -> str:
    engine = index_class.from_documents(documents()).as_query_engine(similarity_top_k=1)
    tool = QueryEngineTool(
        query_engine=engine, metadata=ToolMetadata(name="town", description="the town's records")
    )
    asking = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=[tool],
        question_gen=LLMQuestionGenerator.from_defaults(),
        use_async=False,
        verbose=False,
    )
    return str(asking.query("Who built what, and when?"))


def a_pipeline_and_its_nodes(index_class: Any) -> str:
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0)])
    nodes = pipeline.run(documents=documents())
    index = index_class(nodes, storage_context=StorageContext.from_defaults())
    filters = MetadataFilters(filters=[ExactMatchFilter(key="place", value="harbour")])
    found = index.as_retriever(similarity_top_k=3, filters=filters).retrieve("Who?")
    assert {node.metadata["place"] for node in found} == {"harbour"}
    return str(index.as_query_engine(filters=filters).query(QUESTION))


def streams_prompts_and_async(index_class: Any) -> str:
    index = index_class.from_documents(documents(), show_progress=False)
    prompt = PromptTemplate("{context_str}\nAnswer: {query_str}\n")
    engine = index.as_query_engine(
        streaming=True, text_qa_template=prompt, similarity_top_k=2, use_async=True
    )
    assert "".join(engine.query(QUESTION).response_gen) == "Clara Holm"
    plain = index.as_query_engine(response_mode="refine")
    plain.update_prompts({"response_synthesizer:text_qa_template": prompt})

    async def ask() -> list[Any]:
        return await asyncio.gather(*(plain.aquery(QUESTION) for _ in range(2)))

    first, second = asyncio.run(ask())
    assert str(first) == str(second)
    return str(first)


def documents_that_change_and_hyde(index_class: Any) -> str:
    index = index_class.from_documents(documents("ferry"))
    index.insert(documents("harbour")[0])
    assert index.refresh_ref_docs(documents()) == [False, False]
    changed = documents("ferry")[0]
    changed.set_content("The ferry was sold.")
    index.update_ref_doc(changed)
    assert index.docstore.get_document_hash("ferry") == changed.hash
    index.delete_ref_doc("ferry", delete_from_docstore=True)
    assert set(index.ref_doc_info) == {"harbour"}
    hyde = HyDEQueryTransform(include_original=True)
    return str(TransformQueryEngine(index.as_query_engine(), hyde).query(QUESTION))


def documents(*names: str) -> list[Document]:
    return [
        Document(text=TEXTS[name], id_=name, metadata={"place": name}) for name in names or TEXTS
    ]


LLAMA_INDEX: list[Callable[[Any], str]] = [
    a_folder_and_a_query_engine,
    a_retriever_and_a_synthesizer,
    persist_and_load,
    a_chat_that_streams,
    citations,
    a_router,
    sub_questions,
    a_pipeline_and_its_nodes,
    streams_prompts_and_async,
    documents_that_change_and_hyde,
]


def langchain_documents() -> list[LangChainDocument]:
    return [
        LangChainDocument(id=name, page_content=text, metadata={"source": name})
        for name, text in TEXTS.items()
    ]


def joined(found: list[LangChainDocument]) -> str:
    return "\n\n".join(document.page_content for document in found)


PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Answer from this:\n{context}"), ("human", "{input}")]
)


def a_retrieval_chain(store_class: Any) -> str:
    store = store_class.from_documents(langchain_documents(), AppEmbeddings())
    answering = create_stuff_documents_chain(AppChatModel(reply=answered), PROMPT)
    chain = create_retrieval_chain(store.as_retriever(search_kwargs={"k": 2}), answering)
    result = chain.invoke({"input": QUESTION})
    assert "harbour" in {document.metadata["source"] for document in result["context"]}
    return result["answer"]


def a_history_aware_chain(store_class: Any) -> str:
    retriever = store_class.from_documents(langchain_documents(), AppEmbeddings()).as_retriever()
    with_history = ChatPromptTemplate.from_messages(
        [("system", "Rephrase."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    aware = create_history_aware_retriever(AppChatModel(reply=answered), retriever, with_history)
    answering = create_stuff_documents_chain(AppChatModel(reply=answered), PROMPT)
    chain = create_retrieval_chain(aware, answering)
    history = [HumanMessage("What about Clara Holm and the harbour?"), AIMessage("Ask on.")]
    return chain.invoke({"input": "What did she build?", "chat_history": history})["answer"]


def several_queries(store_class: Any) -> str:
    store = store_class.from_texts(list(TEXTS.values()), AppEmbeddings())
    retriever = MultiQueryRetriever.from_llm(
        retriever=store.as_retriever(), llm=AppChatModel(reply=answered)
    )
    found = retriever.invoke(QUESTION)
    assert len(found) == len({document.page_content for document in found})
    return joined(found)


def compression(store_class: Any) -> str:
    store = store_class.from_documents(langchain_documents(), embedding=AppEmbeddings())
    compressing = ContextualCompressionRetriever(
        base_compressor=LLMChainExtractor.from_llm(AppChatModel(reply=answered)),
        base_retriever=store.as_retriever(search_type="similarity", search_kwargs={"k": 2}),
    )
    return joined(compressing.invoke(QUESTION))


def answers_with_sources(store_class: Any) -> str:
    store = store_class.from_documents(langchain_documents(), AppEmbeddings())
    answering = (
        {"context": lambda given: joined(given["context"]), "input": itemgetter("input")}
        | PROMPT
        | AppChatModel(reply=answered)
        | StrOutputParser()
    )
    chain = RunnableParallel(
        {"context": store.as_retriever(), "input": RunnablePassthrough()}
    ).assign(answer=answering)
    result = chain.invoke(QUESTION)
    assert all(isinstance(document, LangChainDocument) for document in result["context"])
    return result["answer"]


def batches_and_streams(store_class: Any) -> str:
    store = store_class.from_documents(langchain_documents(), AppEmbeddings())
    retriever = store.as_retriever(search_kwargs={"k": 1}).with_config(tags=["town"])
    chain = {"context": retriever | joined, "input": RunnablePassthrough()} | PROMPT
    chain = chain | AppChatModel(reply=answered) | StrOutputParser()
    assert len(retriever.batch([QUESTION, "Which bridge?"])) == 2

    async def ask() -> tuple[list[str], str]:
        many = await chain.abatch([QUESTION, QUESTION])
        return many, "".join([piece async for piece in chain.astream(QUESTION)])

    many, streamed = asyncio.run(ask())
    assert many == [streamed, streamed]
    return streamed


def retrieval_qa(store_class: Any) -> str:
    splitter = RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0)
    store = store_class.from_documents(
        splitter.split_documents(langchain_documents()), AppEmbeddings()
    )
    qa = RetrievalQA.from_chain_type(
        llm=AppChatModel(reply=answered),
        chain_type="stuff",
        retriever=store.as_retriever(search_kwargs={"k": 2}),
        return_source_documents=True,
    )
    result = qa.invoke({"query": QUESTION})
    assert len(result["source_documents"]) == 2
    return result["result"]


def searches(store_class: Any) -> str:
    metadatas = [{"place": name} for name in TEXTS]
    store = store_class.from_texts(list(TEXTS.values()), AppEmbeddings(), metadatas=metadatas)
    best, *_ = store.similarity_search("Clara Holm built the harbour", k=2)
    (scored, score), *_ = store.similarity_search_with_score("Clara Holm built the harbour", k=1)
    assert (scored.page_content, scored.metadata["place"]) == (best.page_content, "harbour")
    assert isinstance(score, float)
    again, *_ = asyncio.run(store.asimilarity_search("Clara Holm built the harbour", k=2))
    assert again.page_content == best.page_content
    return best.page_content


def documents_that_come_and_go(store_class: Any) -> str:
    store = store_class.from_documents(langchain_documents()[1:], AppEmbeddings())
    assert store.add_documents(langchain_documents()[:1]) == ["harbour"]
    (added,) = store.add_texts(["A lighthouse is planned."], metadatas=[{"year": 1900}])
    (there,) = store.get_by_ids([added])
    assert (there.page_content, there.metadata["year"]) == ("A lighthouse is planned.", 1900)
    store.delete([added])
    assert store.get_by_ids([added]) == []
    return joined(store.as_retriever(search_kwargs={"k": 3}).invoke(QUESTION))


def an_agent(store_class: Any) -> str:
    retriever = store_class.from_documents(langchain_documents(), AppEmbeddings()).as_retriever()
    tool = create_retriever_tool(retriever, "town_records", "Searches the town's records.")
    model = AppChatModel(reply=answered).bind_tools([tool])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "agent")
    (*_, last) = graph.compile().invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    return last.text


LANGCHAIN: list[Callable[[Any], str]] = [
    a_retrieval_chain,
    a_history_aware_chain,
    several_queries,
    compression,
    answers_with_sources,
    batches_and_streams,
    retrieval_qa,
    searches,
    documents_that_come_and_go,
    an_agent,
]


@pytest.mark.parametrize("program", LLAMA_INDEX, ids=lambda program: program.__name__)
def test_of_llama_index(program):
    assert "Clara Holm" in program(llama_index_hwdag.HWDAGIndex)


@pytest.mark.parametrize("program", LANGCHAIN, ids=lambda program: program.__name__)
def test_of_langchain(program):
    assert "Clara Holm" in program(langchain_hwdag.HWDAGIndex)
