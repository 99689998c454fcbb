"""Every recipe of the framework pages is a program that runs as it is printed."""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback

DOCS = Path(__file__).parents[2] / "docs"
QUESTION = "Who built the harbour?"

pytestmark = pytest.mark.model


def recipes(page: str) -> list[tuple[str, str]]:
    """Title and program of every section that has one; the blocks of a section belong together."""
    sections = re.split(r"^## ", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = []
    for section in sections:
        title = section.partition("\n")[0].strip()
        if blocks := re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            found.append((title, "\n".join(blocks)))
    return found


LLAMA_INDEX, LANGCHAIN = recipes("llama-index.md"), recipes("langchain.md")
RECIPES = {
    f"{page}: {title}": code
    for page, sections in (("llama-index", LLAMA_INDEX), ("langchain", LANGCHAIN))
    for title, code in sections
}
WANTED = (
    "quickstart",
    "existing",
    "remote writer",
    "filters",
    "streaming",
    "chat",
    "agents",
    "persistence",
    "fastapi",
    "reranking",
    "beside other retrievers",
    "tracing",
)


class Server(BaseHTTPRequestHandler):
    """Chat completions, as far as a writer asks for them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "* Clara Holm built the harbour in 1871."}
        body = {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16},
        }
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}/v1"
    listening.shutdown()
    thread.join()
    listening.server_close()


class AppLLM(CustomLLM):
    """The LLM that an application already has: asks the tool once, then repeats what it saw."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="app")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        if "Observation:" in prompt.rpartition("user:")[2]:
            return CompletionResponse(text="Thought: I can answer.\nAnswer: Clara Holm")
        action = json.dumps({"input": QUESTION})
        return CompletionResponse(
            text=f"Thought: I need a tool.\nAction: town_records\nAction Input: {action}"
        )

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        reply = self.complete(prompt, formatted, **options)
        yield CompletionResponse(text=reply.text, delta=reply.text)


class AppChatModel(GenericFakeChatModel):
    """The chat model that an application already has: calls the tool once, then repeats it."""

    def __init__(self) -> None:
        super().__init__(messages=iter(()))

    def bind_tools(self, tools: Any, **_: Any) -> AppChatModel:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        last = messages[-1]
        call = {"name": "town_records", "args": {"query": QUESTION}, "id": "1"}
        reply = AIMessage(f"The records say: {last.content}")
        if not isinstance(last, ToolMessage):
            reply = AIMessage("", tool_calls=[call])
        return type(self)._answering(reply)

    @staticmethod
    def _answering(reply: AIMessage) -> Any:
        from langchain_core.outputs import ChatGeneration, ChatResult

        return ChatResult(generations=[ChatGeneration(message=reply)])


@pytest.fixture
def my_app(monkeypatch):
    """What the recipes take from the reader's own application."""
    module = ModuleType("my_app")
    module.llm, module.chat_model = AppLLM(), AppChatModel()
    monkeypatch.setitem(sys.modules, "my_app", module)


@pytest.mark.parametrize("page", [LLAMA_INDEX, LANGCHAIN], ids=["llama-index", "langchain"])
@pytest.mark.parametrize("wanted", WANTED)
def test_every_page_has_all_recipes(page, wanted):
    assert any(wanted in title.lower() for title, _ in page)


# why: LlamaIndex's chat memory leaves connections and an event loop to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# why: LlamaIndex's agents use what pydantic and its own workflows have deprecated
@pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
# why: LangChain calls its own `loads` a beta
@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("title", RECIPES)
@pytest.mark.usefixtures("my_app")
def test_recipes_run(title, tmp_path, monkeypatch, capsys, server):
    gc.freeze()  # why: what is collected below is what the recipe leaves, and nothing else is walked
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WRITER_URL", server)
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(RECIPES[title], title, "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out
    if "app" in names:
        with TestClient(names["app"]) as client:
            printed = client.get("/ask", params={"question": QUESTION}).raise_for_status().text
    assert "Clara Holm" in printed
    names.clear()
    gc.collect()  # why: what a recipe leaves behind is its own, not that of the next test
