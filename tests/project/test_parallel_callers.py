"""Both framework packages under parallel callers, in threads and as coroutines, while documents change."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llama-index")
pytest.importorskip("langchain_core", reason="needs the extra langchain")

import langchain_world
import llama_world
from langchain_core.documents import Document as LangDocument
from llama_index.core import Document as LlamaDocument

from hwdag.errors import IndexBusy

CALLERS, CALLS = 12, 48
QUESTIONS = [llama_world.QUESTION, "When does the ferry cross the river?", "What is greased?"]
NEW = "The cooper makes barrels for the cellar of the inn, number {}."


def found(nodes):
    """Return text and score of nodes, whichever framework they are of."""
    return [
        (n.page_content, n.metadata.get("score"))
        if hasattr(n, "page_content")
        else (n.text, n.score)
        for n in nodes
    ]


def llama():
    index = llama_world.built()
    retriever = index.as_retriever(similarity_top_k=3)

    def change(number):
        index.insert(LlamaDocument(id_=f"new{number}", text=NEW.format(number)))
        index.delete_ref_doc(f"new{number}")

    return retriever.retrieve, retriever.aretrieve, change


def langchain():
    index = langchain_world.an_index()
    retriever = index.as_retriever(k=3)

    def change(number):
        index.add_documents([LangDocument(id=f"new{number}", page_content=NEW.format(number))])
        index.delete([f"new{number}"])

    return retriever.invoke, retriever.ainvoke, change


@pytest.mark.parametrize("world", [llama, langchain])
def test_parallel_callers_find_what_one_finds(world):
    search, asearch, _ = world()
    alone = {question: found(search(question)) for question in QUESTIONS}
    asked = [QUESTIONS[i % len(QUESTIONS)] for i in range(CALLS)]
    with ThreadPoolExecutor(CALLERS) as threads:
        for question, nodes in zip(asked, threads.map(search, asked), strict=True):
            assert found(nodes) == alone[question]

    async def together():
        return await asyncio.gather(*map(asearch, asked))

    for question, nodes in zip(asked, asyncio.run(together()), strict=True):
        assert found(nodes) == alone[question]


@pytest.mark.parametrize("world", [llama, langchain])
def test_callers_see_whole_documents_while_others_change(world):
    search, _, change = world()
    ended, failures = threading.Event(), []

    def ask(question):
        while not ended.is_set():
            try:
                assert len(search(question)) == 3
            except IndexBusy:  # documents went faster than they were read
                continue
            except BaseException as error:
                failures.append(error)
                return

    askers = [threading.Thread(target=ask, args=[QUESTIONS[i % 3]]) for i in range(6)]
    for asker in askers:
        asker.start()
    for number in range(12):
        change(number)
    ended.set()
    for asker in askers:
        asker.join()
    assert list(map(repr, failures)) == []
    assert len(search(QUESTIONS[0])) == 3
