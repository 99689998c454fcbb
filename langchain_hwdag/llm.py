"""The reader's weights as a LangChain LLM, for the last link of a chain."""

from __future__ import annotations

import re
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.llms import LLM
from pydantic import ConfigDict, Field

from hwdag.config import refuse
from hwdag.lm.base import Writer

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""


class HWDAGLLM(LLM):
    """Greedy replies of a model that is loaded already.

    Relations: `hwdag.HWDAGIndex.answer` is cheaper, since it decodes from the KV cache of the walk
    and cites; this one fits into any chain.

    Attributes:
        reader: an hwdag model that can write, such as `index.reader` of a core index.
        max_new_tokens: length limit of a reply; `bind(max_new_tokens=...)` overrides it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Writer = Field(exclude=True, repr=False)
    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1)

    @property
    def _llm_type(self) -> str:
        return "hwdag"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What LangChain's caches tell models apart by."""
        return {"model_name": self.reader.name, "max_new_tokens": self.max_new_tokens}

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        *,
        max_new_tokens: int | None = None,
        **unknown: Any,
    ) -> str:
        refuse(unknown, "HWDAGLLM", "stop, max_new_tokens")
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        reply = self.reader.write([prompt], max_new_tokens=limit)[0]
        return re.split("|".join(map(re.escape, stop)), reply, maxsplit=1)[0] if stop else reply
