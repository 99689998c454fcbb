"""LangChain's indexing function keeps an index in step with a source, at no needless cost."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex
from langchain_core.indexing import index as index_documents
from langchain_world import FERRY, MILL, CountingEmbedder, an_index, texts

from hwdag.errors import WriterFailed
from hwdag_lab.scripted import ScriptedLM

CLEANUPS = ["incremental", "full", "scoped_full"]

MILLS = Document(page_content=MILL, metadata={"source": "a.txt"})
FERRIES = Document(page_content=FERRY, metadata={"source": "b.txt"})
SMITHS = Document(page_content="The smith sings. The bell is his.", metadata={"source": "c.txt"})
THREE = [MILLS, FERRIES, SMITHS]


class Village:
    """An index, its models and its record manager."""

    def __init__(self, cleanup: Any = "incremental", **options: Any) -> None:
        self.lm, self.embedder = ScriptedLM(), CountingEmbedder()
        made = {"reader": self.lm, "embedder": self.embedder} | options
        self.index = an_index([], **made)
        self.records = InMemoryRecordManager(namespace="village")
        self.records.create_schema()
        self.options: dict[str, Any] = {
            "cleanup": cleanup,
            "source_id_key": "source",
            "key_encoder": "sha256",
        }

    def run(self, documents: list[Document], **options: Any) -> tuple[int, int, int]:
        """Documents added, skipped and deleted."""
        result = index_documents(documents, self.records, self.index, **self.options | options)
        return result["num_added"], result["num_skipped"], result["num_deleted"]

    async def arun(self, documents: list[Document], **options: Any) -> tuple[int, int, int]:
        result = await aindex(documents, self.records, self.index, **self.options | options)
        return result["num_added"], result["num_skipped"], result["num_deleted"]

    @property
    def held(self) -> list[str]:
        return sorted(texts(self.index.get(list(self.index.index.documents))))

    @property
    def spent(self) -> tuple[int, int]:
        """Tokens of the language model, texts of the embedder."""
        return self.lm.usage.tokens, self.embedder.texts


@pytest.mark.parametrize("cleanup", CLEANUPS)
@pytest.mark.parametrize("batch_size", [1, 100])
@pytest.mark.parametrize("is_async", [False, True])
async def test_it_follows_its_source(cleanup, batch_size, is_async):
    village = Village(cleanup)

    async def run(documents: list[Document]) -> tuple[int, int, int]:
        if is_async:
            return await village.arun(documents, batch_size=batch_size)
        return village.run(documents, batch_size=batch_size)

    assert await run(THREE) == (3, 0, 0)
    assert village.held == sorted(texts(THREE))
    spent = village.spent
    assert await run(THREE) == (0, 3, 0)
    assert village.spent == spent

    edited = Document(page_content="The ferry has sunk.", metadata={"source": "b.txt"})
    assert await run([MILLS, edited, SMITHS]) == (1, 2, 1)
    assert village.held == sorted([MILL, "The ferry has sunk.", SMITHS.page_content])

    gone = 2 if cleanup == "full" else 0
    assert await run([MILLS]) == (0, 1, gone)
    assert len(village.held) == 3 - gone
    assert village.index.invoke("Where does the mill keep grain?", k=99)


def test_duplicates_are_built_once():
    village = Village()
    assert village.run([MILLS, MILLS, FERRIES]) == (2, 1, 0)
    spent = village.spent
    assert village.run([FERRIES, MILLS, FERRIES], batch_size=1) == (0, 3, 0)
    assert village.spent == spent
    assert village.held == sorted([MILL, FERRY])


def test_a_forced_update_of_what_is_unchanged_costs_nothing():
    village = Village()
    village.run(THREE)
    spent = village.spent
    assert village.run(THREE, force_update=True) == (0, 0, 0)
    assert village.spent == spent


@pytest.mark.parametrize("batch_size", [1, 100])
def test_an_interrupted_run_is_repeated_without_paying_twice(batch_size, tmp_path):
    asked: list[str] = []
    broken = {"bell"}

    def write(prompt: str) -> str:
        if any(word in prompt for word in broken):
            raise ConnectionError("the server is gone")
        asked.append(prompt)
        return "* a point"

    path = tmp_path / "village.hwdag"
    village = Village(writer=write, path=path)
    with pytest.raises(WriterFailed, match="server"):
        village.run(THREE, batch_size=batch_size)
    assert village.held == [MILL]
    village.index.index.close()

    broken.clear()
    embedder = CountingEmbedder()
    village.index = an_index([], reader=ScriptedLM(), embedder=embedder, writer=write, path=path)
    added, skipped, deleted = village.run(THREE, batch_size=batch_size)
    assert (added + skipped, deleted) == (3, 0)
    assert village.held == sorted(texts(THREE))
    assert len(asked) == len(set(asked))

    whole = Village(writer=write)
    whole.run(THREE)
    question = "Who mends the bell?"
    assert village.index.invoke(question) == whole.index.invoke(question)
    assert village.run(THREE) == (0, 3, 0)


def test_blank_documents_do_not_stop_a_run():
    village = Village("full")
    blank = Document(page_content=" \n", metadata={"source": "d.txt"})
    assert village.run([blank, MILLS]) == (2, 0, 0)
    assert village.held == [MILL]
    assert village.run([MILLS]) == (0, 1, 1)
    assert village.held == [MILL]


def test_the_indexing_function_may_show_progress(capsys):
    village = Village()
    village.run([MILLS], upsert_kwargs={"show_progress": True})
    assert "documents" in capsys.readouterr().err
