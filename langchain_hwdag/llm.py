"""An hwdag `Writer`, such as the reader that is loaded already, as a LangChain LLM."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, LLMResult
from pydantic import BeforeValidator, ConfigDict, Field

from hwdag.checks import refuse
from hwdag.errors import UnknownOption
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import as_writer

DEFAULT_NEW_TOKENS = 128
"""Length limit of a reply."""


class HWDAGLLM(BaseLLM):
    """Greedy replies, each of them in one piece; a chat is written out as one prompt.

    Relations: `hwdag.HWDAGIndex.answer` is cheaper, since it decodes from the KV cache of the walk, and
    it cites; this one fits into any chain.

    Attributes:
        writer: such as `index.reader` of a core index, or a function from prompt to text.
        max_new_tokens: length limit of a reply.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    writer: Annotated[Writer, BeforeValidator(as_writer)] = Field(exclude=True, repr=False)
    max_new_tokens: int = Field(default=DEFAULT_NEW_TOKENS, ge=1)

    @property
    def _llm_type(self) -> str:
        return "hwdag"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What LangChain's caches tell models apart by."""
        return {"model_name": self.writer.name, "max_new_tokens": self.max_new_tokens}

    def get_num_tokens(self, text: str) -> int:
        """Tokens of a text, counted by the model itself where it is a local one."""
        if isinstance(self.writer, Reader) and self.custom_get_token_ids is None:
            return self.writer.count_tokens([text])[0]
        return super().get_num_tokens(text)

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> LLMResult:
        refuse(options, "HWDAGLLM", "max_new_tokens, set when it is made")
        if stop:
            raise UnknownOption("HWDAGLLM has no stop strings; cut its reply in the next link")
        replies = self.writer.write(prompts, max_new_tokens=self.max_new_tokens)
        return LLMResult(generations=[[Generation(text=reply)] for reply in replies])
