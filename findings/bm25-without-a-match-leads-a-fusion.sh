#!/usr/bin/env bash
# llama-index-retrievers-bm25 0.8.0, llama-index-core 0.14.25; langchain-community 0.4.2 (rank-bm25
# 0.2.2), langchain-classic 1.0.8 (2026-11-29)
# Expected: a retriever by words returns nothing for a question that shares no word with the texts, so
#   a fusion with a retriever by meaning is that retriever's list. Haystack's BM25 (3.4.1) does so.
# Seen: both BM25Retrievers return `k` texts with a score of 0 (LangChain's documents do not even have
#   a score), and reciprocal rank fusion, the usual mode of both frameworks, counts their ranks. The text
#   that happens to come first of them gets as much as the best one by meaning; if it is anywhere in the
#   other list too, it becomes the first of all.
# Costs: a question in another language than the texts, or in other words, has an arbitrary first result,
#   although hybrid search was added for the sake of such questions.
. "$(dirname "$0")/lib/setup.sh" llama-index-retrievers-bm25==0.8.0 llama-index-core==0.14.25 \
    langchain-community==0.4.2 langchain-classic==1.0.8 rank-bm25==0.2.2
python - <<'PY'
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever as LangChainBM25
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from still import still

TEXTS = ["Refunds take five days.", "The harbour was built in 1871.", "Granite is a stone.",
         "Parking costs two euros."]
QUESTION = "Wann entstand der Hafen?"  # when was the harbour built?
nodes = [TextNode(id_=str(i), text=text) for i, text in enumerate(TEXTS)]


class Meaning(BaseRetriever):
    def _retrieve(self, query):
        return [NodeWithScore(node=nodes[i], score=1 / (1 + n)) for n, i in enumerate(order)]


words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=1)
still([one.score for one in words.retrieve(QUESTION)], [0.0], "scores of LlamaIndex's BM25")
fusion = QueryFusionRetriever([Meaning(), words], llm=MockLLM(), mode="reciprocal_rerank",
                              num_queries=1, use_async=False)
others = LangChainBM25.from_texts(TEXTS, k=1)
still(len(others.invoke(QUESTION)), 1, "documents of LangChain's BM25")
meaning = RunnableLambda(lambda _: [Document(TEXTS[i]) for i in order])
ensemble = EnsembleRetriever(retrievers=[meaning, others], weights=[0.5, 0.5])
first = {"LlamaIndex": [], "LangChain": []}
for best in range(4):  # each text once as the best one by meaning
    order = [best, *(i for i in range(4) if i != best)]
    first["LlamaIndex"].append(fusion.retrieve(QUESTION)[0].text)
    first["LangChain"].append(ensemble.invoke(QUESTION)[0].page_content)
for framework, texts in first.items():
    wrong = sum(text != best for text, best in zip(texts, TEXTS))
    still((wrong, len(set(texts))), (3, 1), f"of 4 wrong, and texts that come first, by {framework}")
PY
