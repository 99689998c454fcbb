"""GraphReader: nodes within a budget, both answers, builds."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from graphreader_world import (
    PARAGRAPHS,
    QUESTION,
    READING,
    TEXT,
    THREE,
    Script,
    act,
    count,
    retriever,
)

from hwdag.config import SearchConfig
from hwdag_lab.eval.choosing import choose
from hwdag_lab.scripted import ScriptedLM

PLENTY = SearchConfig(token_budget=500)


def texts(retrieval):
    return [step.node.text for step in retrieval.steps]


# evidence


def test_chunks_that_were_read_come_whole_and_before_facts():
    built = retriever(Script(**READING), config=THREE)
    explored = built.explore(QUESTION)
    assert [path.chunks for path in explored.paths] == [(0,), (1,), (3,)]
    found = built.search(QUESTION, config=PLENTY)
    assert sorted(texts(found)[:3]) == sorted([PARAGRAPHS[0], PARAGRAPHS[1], PARAGRAPHS[3]])
    assert found.stop == "exhausted"
    assert [step.node.level for step in found.steps] == [1, 1, 1]
    scores = [step.score for step in found.steps]
    assert scores == sorted(scores, reverse=True)


def test_the_chunk_that_more_paths_read_comes_first():
    read = {"ferry": 3, "bell": 3, "harbour": 1}

    def choose(prompt):
        element = re.search(r'facts about "(.*)"', prompt)[1]
        return act(f"read_chunk([{read[element]}])") if element != "bell" else act("read_chunk(4)")

    script = Script(
        initial="* ferry\n* bell\n* harbour", facts=choose, chunk=act("read_previous_chunk()")
    )
    built = retriever(script, config=THREE)
    readers = [path.chunks for path in built.explore(QUESTION).paths]
    found = built.search(QUESTION, config=PLENTY)
    votes = {PARAGRAPHS[i]: sum(i in chunks for chunks in readers) for i in range(4)}
    counted = [votes[text] for text in texts(found) if text in votes]
    assert counted == sorted(counted, reverse=True)
    assert counted[0] > counted[-1]


@pytest.mark.parametrize("budget", [8, 12, 20, 30, 44, 60])
def test_chunks_are_cut_to_the_budget_with_exact_spans(budget):
    script = Script(**READING)
    built = retriever(script, config=THREE)
    found = built.search(QUESTION, config=SearchConfig(token_budget=budget))
    assert found.context_tokens <= budget
    for step in found.steps:
        node = step.node
        assert node.text == " ".join(TEXT[span.start : span.end] for span in node.sources)
        assert node.origin == ("chunk" if node.text in PARAGRAPHS else "extractive")
        assert node.tokens == count([node.text])[0]
    if budget < 44:
        assert found.stop == "budget"
    # the sentence that question and notes say most about
    assert "Clara Holm was born in Arden." in " ".join(texts(found))


def test_facts_of_chunks_that_nobody_read_fill_the_budget():
    script = Script(facts=act("stop_and_read_neighbor()"), neighbors=act("termination()"))
    found = retriever(script).search(QUESTION, config=PLENTY)
    assert texts(found) == ["Clara Holm built the harbour in 1871", "The harbour has two walls"]
    assert {step.node.level for step in found.steps} == {2}
    assert found.steps[0].node.sources[0].start == 0


def test_the_exploration_does_not_depend_on_the_budget():
    prompts = []
    for budget in (10, 1000):
        script = Script(**READING)
        retriever(script, config=THREE).search(QUESTION, config=SearchConfig(token_budget=budget))
        prompts.append(script.asked)
    assert prompts[0] == prompts[1]


def test_the_cost_of_the_exploration_is_counted():
    reader = ScriptedLM()
    built = retriever(reader=reader, writer=None)
    before = reader.usage.tokens
    found = built.search(QUESTION)
    assert found.usage.tokens == reader.usage.tokens - before > 0
    assert retriever().search(QUESTION).usage.tokens == 0  # a writer without a meter


# answers


def test_the_answer_from_notebooks_is_the_writers_with_citations_of_the_reader():
    script = Script(**READING, answer="Notebook 1: Arden\nAnswer: Arden, by the river")
    reader = ScriptedLM()
    built = retriever(script, reader=reader, config=THREE, answers="notebooks")
    assert built.name == "graphreader"
    answer = built.answer(QUESTION, config=PLENTY)
    assert answer.text == "Arden, by the river"
    assert answer.citations[0].text == "Clara Holm was born in Arden."
    assert sum(citation.weight for citation in answer.citations) <= 1 + 1e-9
    assert reader.replays == 1
    assert answer.retrieval.steps[-1].p_yes is not None
    [prompt] = script.prompts("answer")
    assert prompt.count("She was born in Arden.") == 3
    assert "Notebook 3: ..." in prompt
    stream = built.stream(QUESTION, config=PLENTY)
    assert "".join(stream) == answer.text
    assert stream.answer == answer
    assert answer.usage.tokens > answer.retrieval.usage.tokens


def test_a_long_answer_is_cut_to_its_limit():
    script = Script(**READING, answer="Answer: " + "Arden is fine. " * 30)
    built = retriever(script, config=THREE, answers="notebooks")
    answer = built.answer(QUESTION, config=SearchConfig(token_budget=500), max_new_tokens=8)
    assert answer.text == "Arden is fine. Arden is fine."


def test_options_are_chosen_from_the_nodes():
    built = retriever(Script(**READING, answer="Answer: x"), config=THREE, answers="notebooks")
    plain = retriever(Script(**READING), config=THREE)
    options = ["Arden", "Otto Brill"]
    found = choose(built.stream(QUESTION).evidence, options)
    assert found.tolist() == choose(plain.stream(QUESTION).evidence, options).tolist()


def test_without_a_reasoned_answer_the_nodes_are_answered_from():
    script = Script(**READING, answer="I do not know how.")
    built = retriever(script, config=THREE, answers="notebooks")
    plain = retriever(Script(**READING), config=THREE)
    answer = built.answer(QUESTION, config=PLENTY)
    assert answer.text == plain.answer(QUESTION, config=PLENTY).text
    assert answer.citations == plain.answer(QUESTION, config=PLENTY).citations
    assert len(script.prompts("answer")) == 2
    assert answer.retrieval.notes[-1].startswith("the notebooks gave no answer")


def test_empty_notebooks_are_not_reasoned_over():
    script = Script(facts="Action: stop_and_read_neighbor()", neighbors=act("termination()"))
    built = retriever(script, answers="notebooks")
    assert built.explore(QUESTION).notebooks == ()
    assert built.answer(QUESTION).retrieval.notes[-1].startswith("the notebooks gave no answer")
    assert not script.prompts("answer")


def test_threads_do_not_see_each_others_notebooks():
    def answer(prompt):
        question = re.search("Question: (.*)", prompt)[1]
        return f"Answer: {question}"

    built = retriever(Script(answer=answer), config=THREE, answers="notebooks")
    questions = [f"Where was Clara number {i}?" for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(built.answer, questions))
    assert [answer.text for answer in answers] == questions


# builds
