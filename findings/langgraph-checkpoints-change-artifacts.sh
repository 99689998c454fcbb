#!/usr/bin/env bash
# langgraph 1.2.22, langgraph-checkpoint 4.3.2, langchain-core 1.8.3 (2026-11-29)
# Expected: a graph that was interrupted goes on with the state that it had.
# Seen: a list of documents that is a value of the state comes back from a checkpoint as documents. The
#   same list as the artifact of a tool's message, where retriever tools put it, comes back as plain
#   dicts, without a warning. In a run without an interruption the next node sees documents.
# Costs: an agent works until a person has to approve a step or a process restarts; then
#   `message.artifact[0].page_content` fails, sets of ids and equality find nothing twice, and classes
#   of one's own in an artifact are gone.
. "$(dirname "$0")/lib/setup.sh" langgraph==1.2.22 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
python - <<'PY'
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from still import still


class State(MessagesState):
    found: list[Document]


def retrieve(state: State) -> dict:
    documents = [Document("Clara Holm built the harbour.", id="harbour")]
    message = ToolMessage("Clara Holm ...", artifact=documents, tool_call_id="1")
    return {"messages": [message], "found": documents}


def answer(state: State) -> dict:
    artifact = state["messages"][-1].artifact
    seen.append((type(artifact[0]).__name__, type(state["found"][0]).__name__))
    return {}


graph = StateGraph(State)
graph.add_node(retrieve)
graph.add_node(answer)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "answer")
graph.add_edge("answer", END)
seen: list[tuple[str, str]] = []

whole = graph.compile(checkpointer=InMemorySaver())
whole.invoke({"messages": []}, {"configurable": {"thread_id": "1"}})
still(seen.pop(), ("Document", "Document"), "artifact and value of the state, in one run")

halting = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["answer"])
thread = {"configurable": {"thread_id": "2"}}
halting.invoke({"messages": []}, thread)
halting.invoke(None, thread)
still(seen.pop(), ("dict", "Document"), "the same after an interruption")
PY
