"""The additions of vector stores to a search: scores that compare between questions, and diverse results."""

from __future__ import annotations

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded_question
from hwdag.embedding.hashing import unit_rows
from hwdag.embedding.titles import embed_parts, parts_of

FETCH_K = 20  # documents that diverse ones are chosen from, as in LangChain's stores
LAMBDA_MULT = 0.5
SEARCH_TYPES = ("similarity", "mmr", "similarity_score_threshold")


def scored(
    embedder: Embedder, question: str, documents: list[Document]
) -> list[tuple[Document, float]]:
    """Return documents with their cosine similarity to a question, clipped to [0, 1], highest first."""
    if not documents:
        return []
    [query] = unit_rows(embedded_question(embedder, question)[None])
    scores = np.clip(_embedded(embedder, documents) @ query, 0.0, 1.0)
    return [(documents[i], float(scores[i])) for i in np.argsort(-scores, kind="stable").tolist()]


def diverse(
    embedder: Embedder, question: str, documents: list[Document], k: int, lambda_mult: float
) -> list[Document]:
    """Choose `k` documents by maximal marginal relevance (Carbonell & Goldstein 1998).

    `lambda_mult` is 1 for the most similar ones, 0 for the most different ones.
    """
    if not documents:
        return []
    rows = _embedded(embedder, documents).tolist()
    query = embedded_question(embedder, question)
    chosen = maximal_marginal_relevance(query, rows, lambda_mult=lambda_mult, k=k)
    return [documents[i] for i in chosen]


def _embedded(embedder: Embedder, documents: list[Document]) -> Vectors:
    """Return the documents as they were embedded, after their headings, (documents, dimension)."""
    parts = [
        parts_of(str(document.metadata.get("heading") or ""), document.page_content)
        for document in documents
    ]
    return unit_rows(embed_parts(embedder, parts))
