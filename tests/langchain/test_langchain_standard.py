"""LangChain's own test suites, unmodified."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.indexer import (
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

import hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import HWDAGIndex, HWDAGRetriever

TEXTS = [
    "The miller keeps grain behind the river. He counts the sacks at night.",
    "The ferry crosses the river at dawn. Its bell wakes the village.",
    "The smith mends the bell of the ferry. He is paid in grain.",
    "Nobody owns the orchard. Its apples go to whoever rises first.",
]


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HWDAGRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        index = hwdag.HWDAGIndex.from_documents(
            TEXTS, reader=ScriptedLM(), embedder=HashingEmbedder()
        )
        return {"index": index}

    @property
    def retriever_query_example(self) -> str:
        return "Who mends the bell of the ferry?"


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self) -> Iterator[HWDAGIndex]:
        yield HWDAGIndex.from_documents([], reader=ScriptedLM(), embedder=HashingEmbedder())


class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self) -> AsyncIterator[HWDAGIndex]:
        yield HWDAGIndex.from_documents([], reader=ScriptedLM(), embedder=HashingEmbedder())


class TestIndexAsRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HWDAGIndex

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return TestRetriever().retriever_constructor_params

    @property
    def retriever_query_example(self) -> str:
        return "Who mends the bell of the ferry?"
