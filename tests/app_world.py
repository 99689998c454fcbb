"""Models that an application already has, for both frameworks: a function decides their replies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback

QUESTION = "Who built the harbour?"


class AppLLM(CustomLLM):
    """An LLM of LlamaIndex; it streams word by word."""

    reply: Callable[[str], str]
    name: str = "app"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.name, context_window=4096)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self.reply(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        said = ""
        for word in re.findall(r"\S+\s*", self.reply(prompt)):
            said += word
            yield CompletionResponse(text=said, delta=word)


class AppChatModel(BaseChatModel):
    """A chat model of LangChain; it calls a tool once if it has one."""

    reply: Callable[[str], str]
    tools: int = 0

    @property
    def _llm_type(self) -> str:
        return "app"

    def bind_tools(self, tools: Any, **_: Any) -> AppChatModel:
        return AppChatModel(reply=self.reply, tools=len(tools))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        call = {"name": "town_records", "args": {"query": QUESTION}, "id": "1"}
        reply = AIMessage(self.reply("\n".join(str(one.content) for one in messages)))
        if self.tools and not isinstance(messages[-1], ToolMessage):
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])
