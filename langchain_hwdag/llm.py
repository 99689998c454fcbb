"""An hwdag `Writer`, such as the reader of an index, as a LangChain LLM."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, LLMResult
from pydantic import BeforeValidator, ConfigDict, Field

from hwdag.checks import refuse
from hwdag.config import REPLY_TOKENS
from hwdag.errors import UnknownOption
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import as_writer


class HWDAGLLM(BaseLLM):
    """Greedy replies, each in one piece; a chat is written out as one prompt.

    Relations: `hwdag.HWDAGIndex.answer` decodes from the KV cache of the walk, so it costs less, and
    cites. This class fits into any chain.

    Attributes:
        writer: such as `index.reader`, or a function from prompt to text.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    writer: Annotated[Writer, BeforeValidator(as_writer)] = Field(exclude=True, repr=False)
    max_new_tokens: int = Field(default=REPLY_TOKENS, ge=1)

    @property
    def _llm_type(self) -> str:
        return "hwdag"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Identify the model in LangChain's caches."""
        return {"model_name": self.writer.name, "max_new_tokens": self.max_new_tokens}

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text; a local model counts its own."""
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
        refuse(options, "HWDAGLLM", "max_new_tokens, an argument of the class")
        if stop:
            raise UnknownOption("HWDAGLLM takes no stop strings; cut the reply in the next step")
        replies = self.writer.write(prompts, max_new_tokens=self.max_new_tokens)
        return LLMResult(generations=[[Generation(text=reply)] for reply in replies])
