"""GraphReader: every branch of the exploration, its defaults and its limits."""

import numpy as np
import pytest
from graphreader_world import QUESTION, TEXT, Script, act, count, retriever
from hypothesis import given, settings
from hypothesis import strategies as st

from hwdag.config import SearchConfig
from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.types import Document
from hwdag_lab.methods.graphreader import FunctionCall, GraphReaderConfig
from hwdag_lab.scripted import ScriptedLM

# the exploration


def test_a_path_with_all_seven_functions():
    script = Script(
        facts=[act("read_chunk([1, 9])"), act("stop_and_read_neighbor()"), act("read_chunk([3])")],
        chunk=[
            act("read_subsequent_chunk()", "* Clara Holm built it."),
            act("search_more()", "* Clara Holm built it.\n* She was born in Arden."),
            act("read_previous_chunk()", "* Clara of Arden"),
            act("read_subsequent_chunk()", "* Clara of Arden"),
            act("termination()", "* Clara of Arden, done"),
        ],
        neighbors=[act("read_neighbor_node(clara holms)"), act("read_neighbor_node(Arden)")],
    )
    config = GraphReaderConfig(chunk_tokens=16, initial_nodes=1, max_calls=20)
    # "Clara Holm" has facts of chunks 1 and 2, which were read when the path came to it
    [path] = retriever(script, config=config).explore(QUESTION).paths
    assert path.calls[:6] == (
        FunctionCall("facts", "read_chunk", ("1",)),
        FunctionCall("chunk", "read_subsequent_chunk"),
        FunctionCall("chunk", "search_more"),
        FunctionCall("neighbors", "read_neighbor_node", ("Clara Holm",)),
        FunctionCall("neighbors", "read_neighbor_node", ("Arden",)),
        FunctionCall("facts", "stop_and_read_neighbor"),
    )
    assert path.chunks[:2] == (0, 1)
    assert path.start == "harbour"
    assert not path.was_stopped


def test_chunks_wait_in_a_queue_and_neighboring_ones_are_read_next():
    script = Script(
        initial="* ferry",
        facts=act("read_chunk([4, 3])"),
        chunk=[
            act("read_subsequent_chunk()", "a"),  # the last of the document: nothing is there
            act("read_previous_chunk()", "b"),
            act("read_previous_chunk()", "c"),
            act("search_more()", "d"),
        ],
        neighbors=act("termination()"),
    )
    [path] = retriever(script).explore(QUESTION).paths
    assert path.chunks == (3, 2, 1, 0)
    assert path.notebook == "d"
    assert [call.function for call in path.calls[-2:]] == ["search_more", "termination"]
    assert path.facts == (5, 6)
    for number, prompt in zip("4321", script.prompts("chunk"), strict=True):
        assert f"This is chunk {number} of the text:" in prompt
    assert "Notebook:\nb\n" in script.prompts("chunk")[2]
    assert "Plan: find who built the harbour, then" in script.prompts("chunk")[0]


def test_termination_ends_a_path_whatever_waits():
    script = Script(initial="* Clara Holm", facts=act("read_chunk(1, 2)"), chunk=act("termination"))
    [path] = retriever(script).explore(QUESTION).paths
    assert path.chunks == (0,)
    assert [call.function for call in path.calls] == ["read_chunk", "termination"]


def test_every_default_is_taken_after_one_retry_and_counted():
    script = Script(plan="...", initial="none of them")
    built = retriever(script)
    explored = built.explore(QUESTION)
    [path] = explored.paths
    assert explored.plan == "Find what answers the question."
    assert path.start == "harbour"  # the most similar to the question
    assert path.calls == (
        FunctionCall("facts", "read_chunk", ("1",), is_default=True),
        FunctionCall("chunk", "search_more", (), is_default=True),
        FunctionCall("neighbors", "termination", (), is_default=True),
    )
    assert path.notebook == "The harbour was built by Clara Holm in 1871."
    assert (explored.requests, explored.retries, explored.defaults) == (10, 5, 5)
    assert explored.notes == (
        "1 of 1 initial nodes are those most similar to the question",
        "5 unusable replies were asked for again",
        "5 decisions were taken by default after two unusable replies",
        "1 chunks without notes were noted by their most similar sentence",
    )
    for stage in ("facts", "chunk", "neighbors"):
        first, again = script.prompts(stage)
        assert again.startswith(first)
        assert "End the reply with one line that says Action:" in again[len(first) :]


def test_a_retry_that_works_is_no_default():
    script = Script(
        plan=["", "Plan: go"],
        initial=["none of them", "* harbour"],
        facts=["no idea", act("read_chunk([1])")],
        chunk=["read_chunk([2])", act("termination()")],
    )
    explored = retriever(script).explore(QUESTION)
    assert (explored.retries, explored.defaults) == (4, 0)
    assert explored.plan == "go"
    assert not any(call.is_default for call in explored.calls)


def test_a_chunk_without_notes_is_noted_by_its_best_sentence():
    script = Script(
        initial="* Clara Holm",
        facts=act("read_chunk([1, 2])", "* first"),
        chunk="Action: search_more()",
        neighbors=act("termination()"),
    )
    explored = retriever(script).explore(QUESTION)
    assert explored.paths[0].notebook.splitlines() == [
        "* first",
        "The harbour was built by Clara Holm in 1871.",
        "Clara Holm was born in Arden.",
    ]
    assert explored.defaults == 0
    short = GraphReaderConfig(chunk_tokens=16, initial_nodes=1, notebook_tokens=12)
    cut = retriever(script, config=short).explore(QUESTION)
    assert cut.paths[0].notebook.splitlines() == ["Clara Holm was born in Arden."]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_calls_are_limited_per_path(limit):
    def onwards(prompt):
        return act(f"read_neighbor_node({prompt.split('* ')[1].splitlines()[0]})")

    script = Script(facts=act("stop_and_read_neighbor()"), neighbors=onwards)
    config = GraphReaderConfig(chunk_tokens=16, initial_nodes=3, max_calls=limit)
    explored = retriever(script, config=config).explore(QUESTION)
    assert [len(path.calls) for path in explored.paths] == [limit] * 3
    assert all(path.was_stopped for path in explored.paths)
    assert explored.notes == (
        "2 of 3 initial nodes are those most similar to the question",
        f"3 paths were stopped by max_calls={limit}",
    )


def test_paths_that_wait_are_asked_together():
    script = Script(initial="* harbour\n* Otto Brill\n* ships", neighbors=act("termination()"))
    config = GraphReaderConfig(chunk_tokens=16, initial_nodes=3)
    retriever(script, config=config).explore(QUESTION)
    exploring = [batch for batch in script.batches if "facts" in batch]
    assert exploring == [["facts"] * 3] * 2  # all three, and once more


def test_where_there_is_nothing_to_choose_nothing_is_asked():
    script = Script(build="* Clara | Clara", chunk=act("search_more()"))
    explored = retriever(script, [Document("doc", "Clara.")]).explore(QUESTION)
    assert not script.prompts("initial")  # one element
    assert not script.prompts("neighbors")  # without a neighbor
    assert [call.stage for call in explored.calls] == ["facts", "chunk"]


FRAGMENTS = [
    "Action:",
    "Notebook:",
    "Plan:",
    "read_chunk([1])",
    "read_chunk([2, 3])",
    "stop_and_read_neighbor()",
    "search_more()",
    "read_previous_chunk()",
    "read_subsequent_chunk()",
    "read_neighbor_node(Clara Holm)",
    "read_neighbor_node(ferry)",
    "termination()",
    "* harbour",
    "* Arden",
    "Answer: Arden",
    "\n",
    "99999999999",
    "{question}",
    "<think>",
    "|",
]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 10]))
def test_any_replies_end_within_the_limits(seed, limit):
    rng = np.random.default_rng(seed)

    def anything(prompt):
        return " ".join(rng.choice(FRAGMENTS, size=rng.integers(0, 9)))

    stages = ("build", "plan", "initial", "facts", "chunk", "neighbors", "answer")
    script = Script(**dict.fromkeys(stages, anything))
    config = GraphReaderConfig(chunk_tokens=16, initial_nodes=3, max_calls=limit)
    built = retriever(script, config=config, answers="notebooks")
    explored = built.explore(QUESTION)
    assert all(len(path.calls) <= limit for path in explored.paths)
    assert explored.requests <= 2 * (2 + 3 * limit)
    assert explored.defaults <= explored.retries
    for path in explored.paths:
        assert len(set(path.chunks)) == len(path.chunks)
        assert count([path.notebook])[0] <= config.notebook_tokens
    retrieval = built.search(QUESTION, config=SearchConfig(token_budget=25))
    assert retrieval.steps
    assert retrieval.context_tokens <= 25


def test_every_prompt_stays_within_the_window():
    class Counting(ScriptedLM):
        def write(self, prompts, *, max_new_tokens):
            lengths.extend(n + max_new_tokens for n in self.count_tokens(prompts))
            return super().write(prompts, max_new_tokens=max_new_tokens)

    lengths = []
    config = GraphReaderConfig(
        window_tokens=500, plan_tokens=16, notebook_tokens=32, reply_tokens=60
    )
    text = "\n\n".join([TEXT.replace("Holm", f"Holm{i}") for i in range(60)])
    reader = Counting(reply=lambda prompt: "Plan: go on. " * 9)
    built = retriever(reader=reader, writer=None, config=config, documents=[Document("d", text)])
    assert max(node.tokens for node in built.graphs["d"].chunks) > 60
    built.search("Who built the harbour in 1871, and where was she born?")
    assert lengths
    assert max(lengths) <= 500


def test_what_does_not_fit_is_an_error():
    with pytest.raises(ContextTooSmall, match="window_tokens"):
        retriever(config=GraphReaderConfig(window_tokens=400))
    small = ScriptedLM(context_tokens=900)
    config = GraphReaderConfig(plan_tokens=8, notebook_tokens=8, reply_tokens=8, fact_tokens=8)
    built = retriever(reader=small, writer=None, config=config)
    with pytest.raises(QuestionTooLong):
        built.explore("why? " * 450)
    with pytest.raises(QuestionTooLong):
        built.search("why? " * 450)
