"""A LangGraph agent whose tool is an HWDAG: it asks for passages until it knows enough.

    pip install "hwdag[langchain]" langgraph
    python examples/langgraph_agent.py

Runs on the embedded default models, on a CPU, without a network. The embedded language model is too
small to plan, so `Planner` plays by a script. Any chat model that calls tools takes its place:
`main(chat_model=ChatOpenAI(...))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, create_retriever_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_hwdag import HWDAGIndex

DOCUMENTS = [
    Document(
        id="harbour",
        page_content=(
            "The harbour of Brightwater was built in 1871 by the engineer Clara Holm. Its walls are "
            "of granite from the quarry at Elm Hill. The first ship to use it was the Petrel."
        ),
        metadata={"source": "harbour.txt"},
    ),
    Document(
        id="quarry",
        page_content=(
            "The quarry at Elm Hill belonged to the Sorensen family until 1940. Granite was cut "
            "there by hand. Today the quarry is a lake where the children of the town swim."
        ),
        metadata={"source": "quarry.txt"},
    ),
]

QUESTION = "Who owned the quarry that the walls of the harbour came from?"

TOOL = "town_records"

SCRIPT = (
    "What are the walls of the harbour made of?",
    "Which family did the quarry at Elm Hill belong to?",
)


class Planner(BaseChatModel):
    """Asks the tool for the script, and answers with the first passage of the last reply."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[LanguageModelInput, Any]:
        return self

    @property
    def _llm_type(self) -> str:
        return "planner"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        found = [message.text for message in messages if isinstance(message, ToolMessage)]
        if len(found) < len(SCRIPT):
            call = {"name": TOOL, "args": {"query": SCRIPT[len(found)]}, "id": str(len(found))}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage(found[-1].partition("\n")[0])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def agent(tool: BaseTool, chat_model: BaseChatModel) -> Any:
    """Return a graph of two nodes: the model thinks, the tool is called, until no call is wanted."""
    model = chat_model.bind_tools([tool])

    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "think")
    return graph.compile()


def main(index: HWDAGIndex | None = None, chat_model: BaseChatModel | None = None) -> str:
    index = index or HWDAGIndex.from_documents(DOCUMENTS)
    tool = create_retriever_tool(
        index.as_retriever(k=1),
        TOOL,
        "Finds passages about the history of the town of Brightwater.",
        response_format="content_and_artifact",  # so that the documents come back, not only texts
    )
    graph = agent(tool, chat_model or Planner())
    messages = graph.invoke({"messages": [HumanMessage(QUESTION)]})["messages"]

    replies = [message.artifact for message in messages if isinstance(message, ToolMessage)]
    # by id: two finds of one passage have different scores
    found = {document.id: document for documents in replies for document in documents}
    for document in found.values():
        node = document.metadata["hwdag"]
        print(f"{node['document_id']} {node['spans']}: {document.page_content}")
    answer = messages[-1].text
    print(f"\n{QUESTION}\n{answer}")
    return answer


if __name__ == "__main__":
    main()
