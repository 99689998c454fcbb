"""How questions are searched for: models, options and the wishes of the caller."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwdag.config import MAX_NEW_TOKENS, SearchPlan
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader
from hwdag.search.latest import Metadata
from hwdag.search.navigator import Navigator
from hwdag.search.stopping import Deadline
from hwdag.text.prompts import SearchPrompts
from hwdag.types import OnStep


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search for any question; see `HWDAGIndex.search`.

    Attributes:
        reader, embedder, navigator: the models; without a navigator the score alone chooses.
        plan: the options with all that the method decides.
        prompts: the reader's.
        has_token_counts: the nodes carry the reader's own token counts; otherwise it counts again.
        k: number of nodes wanted; the search itself does not depend on it.
        max_new_tokens: tokens that the reader keeps free for its answer.
        will_decode: the reader answers from the session. Otherwise nothing is read that the search itself
            does not need.
        on_step: called with every node.
        deadline: ends the search.
        metadata: returns the metadata of a document by its id.
    """

    reader: Reader
    embedder: Embedder
    plan: SearchPlan
    prompts: SearchPrompts
    navigator: Navigator | None = None
    has_token_counts: bool = False
    k: int | None = None
    max_new_tokens: int = MAX_NEW_TOKENS
    will_decode: bool = True
    on_step: OnStep | None = None
    deadline: Deadline = field(default_factory=Deadline)
    metadata: Metadata = lambda _: {}
