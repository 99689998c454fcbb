"""The LLM of a framework as answerer: the search and the citations stay ours."""

import re
from typing import Any

import langchain_world
import llama_world
from app_world import AppLLM
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

SENTENCE = "The smith mends the bell of the ferry"


def number_of(prompt: str) -> str:
    """Return the number in front of the sentence that answers."""
    found = re.search(rf"^\[(\d+)\] {SENTENCE}", prompt, re.MULTILINE)
    assert found is not None, prompt
    return found[1]


def citing() -> AppLLM:
    """Names the sentence that answers."""
    return AppLLM(reply=lambda prompt: f"The smith [{number_of(prompt)}].", name="citing")


def assert_cited(answer: dict[str, Any]) -> None:
    assert answer["answer"] == "The smith [1]."
    [cited] = answer["citations"]
    assert cited["by"] == "number"
    assert cited["text"].startswith(SENTENCE)


def test_llama_index():
    for index, llm in (
        (llama_world.built(answerer=citing()), None),
        (llama_world.built(), citing()),
    ):
        for streaming in (False, True):
            engine = index.as_query_engine(llm, answer_mode="walk", streaming=streaming)
            response = engine.query(llama_world.QUESTION)
            assert str(response) == "The smith [1]."
            assert_cited(response.metadata["hwdag"])
            assert response.metadata["hwdag"]["answered_by"] == "llama-index:AppLLM:citing"


def test_langchain(tmp_path):
    asked: list[str] = []

    class CitingChat(GenericFakeChatModel):
        def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
            asked.append(messages[0].content)
            self.messages = iter([AIMessage(f"The smith [{number_of(asked[-1])}].")])
            return super()._generate(messages, *args, **options)

    model = CitingChat(messages=iter([]))
    index = langchain_world.an_index(answerer=model)
    assert_cited(index.index.answer(langchain_world.QUESTION).to_dict())
    index.save_local(tmp_path)
    options = {"reader": index.index.reader, "embedder": index.index.embedder}
    loaded = langchain_world.HWDAGIndex.load_local(tmp_path, answerer=model, **options)
    stream = loaded.index.stream(langchain_world.QUESTION)
    assert len(list(stream)) > 1
    assert_cited(stream.answer.to_dict())
