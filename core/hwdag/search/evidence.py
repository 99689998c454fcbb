"""The result of a search: a retrieval, and the KV cache that an answer is decoded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hwdag.config import MAX_NEW_TOKENS
from hwdag.lm.base import Session
from hwdag.types import Retrieval, Usage


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finished search, and how an answer is made of it.

    Attributes:
        retrieval: the nodes that were found.
        session: its cache holds `shown`.
        says_yes: the reader's last reply to whether it has enough; True if it was not asked.
        shown: ordinals of steps with their texts as they were read, in the order of the cache.
        spent: cost of the search outside of the session.
        max_new_tokens: tokens of the longest answer, unless the caller limits it.
        is_quoted: the answer quotes the evidence; the reader is too small to sum it up.
        left_out: a note on documents that an answer about the whole leaves out, or "".
    """

    retrieval: Retrieval
    session: Session
    says_yes: bool
    shown: Sequence[tuple[int, str]]
    spent: Usage = field(default_factory=Usage)
    max_new_tokens: int = MAX_NEW_TOKENS
    is_quoted: bool = False
    left_out: str = ""
