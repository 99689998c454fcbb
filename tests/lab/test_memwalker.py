"""MeMWalker: the memory tree, and every way that a walk over it can go."""

import numpy as np
import pytest
from worlds import random_text

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.graph.dag import union_of_spans
from hwdag.scope import Scope
from hwdag.types import Document
from hwdag_lab.methods.memwalker import MemWalkerConfig, MemWalkerRetriever, action_of
from hwdag_lab.methods.summaries import JOINT, fill_template
from hwdag_lab.scripted import ScriptedLM

SMALL = MemWalkerConfig(segment_tokens=8, summary_tokens=8, max_children=2, ratio=0.9)

# eight segments of eight tokens, each a sentence
TEXT = " ".join(
    f"The {place} holds one {thing} from {year}."
    for place, thing, year in [
        ("castle", "dragon", 1100),
        ("forest", "wolf", 1200),
        ("harbor", "ship", 1300),
        ("market", "kettle", 1400),
        ("temple", "bell", 1500),
        ("valley", "river", 1600),
        ("quarry", "stone", 1700),
        ("garden", "rose", 1800),
    ]
)
PLENTY = SearchConfig(token_budget=500)


class Navigator:
    """Replies from a list, the last one for ever; summaries are the first line of the text shown."""

    name = "navigator"

    def __init__(self, *replies):
        self.replies = list(replies)
        self.prompts = []

    def write(self, prompts, *, max_new_tokens):
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt):
        if "Summarize the text above" in prompt:
            return prompt.splitlines()[0]
        self.prompts.append(prompt)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def walker(*replies, text=TEXT, config=SMALL, **options):
    navigator = Navigator(*replies)
    defaults = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64), "writer": navigator}
    retriever = MemWalkerRetriever(**defaults | options, config=config)
    documents = {"doc": text} if isinstance(text, str) else text
    retriever.insert([Document(name, content) for name, content in documents.items()])
    return retriever, navigator


def leaves(retrieval):
    return [step.node.text.split()[1] for step in retrieval.steps if step.node.level == 1]


# the tree


def test_the_memory_tree_groups_neighbours_up_to_one_root():
    retriever, _ = walker("Action: 1")
    tree, text = retriever.built("doc"), TEXT
    levels = np.bincount([node.level for node in tree.nodes])[1:]
    assert levels.tolist() == [8, 8, 4, 2, 1]
    for node, below in zip(tree.nodes, tree.children, strict=True):
        assert len(below) == (0 if node.level == 1 else 1 if node.level == 2 else 2)
        assert list(below) == sorted(below)
    chunks = [node for node in tree.nodes if node.level == 1]
    assert [node.text for node in chunks] == [
        text[s.start : s.end] for n in chunks for s in n.sources
    ]
    [root] = tree.top
    assert tree.nodes[root].origin == "generated"
    sources = tree.nodes[root].sources
    assert sources == union_of_spans([span for node in chunks for span in node.sources])


@pytest.mark.parametrize("sentences", [1, 2, 3, 5, 7, 17])
def test_any_number_of_segments_ends_in_one_root(sentences):
    text = " ".join(random_text(np.random.default_rng(i), 6) for i in range(sentences))
    config = MemWalkerConfig(segment_tokens=8, summary_tokens=8, max_children=3)
    retriever, _ = walker("Action: 1", "Action: 0", text=text, config=config, writer=None)
    tree = retriever.built("doc")
    assert len(tree.top) == 1
    assert max(len(below) for below in tree.children) <= 3
    for node in tree.nodes:
        assert node.text == JOINT.join(text[span.start : span.end] for span in node.sources)


def test_the_context_caps_segments_and_groups():
    def write(prompt):
        prompts.append(prompt)
        return "Action: 1"

    prompts = []
    config = MemWalkerConfig(segment_tokens=4000, summary_tokens=40, reply_tokens=8)
    reader = ScriptedLM(context_tokens=420, reply=write)
    retriever = MemWalkerRetriever(reader=reader, embedder=HashingEmbedder(64), config=config)
    retriever.insert([Document("doc", TEXT * 20)])
    tree = retriever.built("doc")
    assert max(node.tokens for node in tree.nodes) < 420 - 8
    retriever.search("What is in the castle?")
    assert prompts
    assert max(reader.count_tokens(prompts)) + 8 <= 420
    small = ScriptedLM(context_tokens=150, reply=write)
    cramped = MemWalkerRetriever(reader=small, embedder=HashingEmbedder(64), config=config)
    with pytest.raises(ContextTooSmall, match="segment_tokens"):
        cramped.insert([Document("doc", TEXT)])


def test_a_sentence_longer_than_a_summary_is_cut():
    text = "castle " * 60 + "river."
    retriever, _ = walker(
        "Action: 0", text=text, writer=None, config=MemWalkerConfig(summary_tokens=8)
    )
    summary = retriever.built("doc").nodes[1]
    assert summary.tokens == 8
    assert summary.text == text[summary.sources[0].start : summary.sources[0].end]


# the walk


def test_it_goes_down_and_commits():
    retriever, navigator = walker("Action: 2", "Action: 1", "Action: 2", "Action: 0")
    retrieval = retriever.search("What does the valley hold?", config=PLENTY)
    assert leaves(retrieval) == ["valley"]
    assert [step.node.level for step in retrieval.steps] == [1, 5, 4]  # level 3 says what 4 does
    assert len(navigator.prompts) == 4
    assert retrieval.notes == ()
    assert "go back with Action: -1" not in navigator.prompts[0]
    assert "go back with Action: -1" in navigator.prompts[1]
    assert "Part 1: The castle holds one dragon from 1100." in navigator.prompts[0]
    assert "The valley holds one river from 1600." in navigator.prompts[3]
    assert all("Question: What does the valley hold?" in p for p in navigator.prompts)


def test_working_memory_holds_what_was_visited():
    retriever, navigator = walker("Action: 2", "Action: 2", "Action: 1", "Action: 0")
    retriever.search("rose", config=PLENTY)
    tree = retriever.built("doc")
    root = tree.nodes[tree.top[0]].text
    memory = [prompt.partition("in summary:\n")[2] for prompt in navigator.prompts]
    assert memory[0].startswith(f"{root}\n")
    assert memory[1].startswith(f"{root}\nThe temple holds")
    assert memory[2].startswith(f"{root}\nThe temple holds")


def test_it_goes_back_from_a_leaf_and_does_not_return_to_it():
    replies = ["Action: 1", "Action: 1", "Action: 1", "Action: -1", "Action: 0"]
    retriever, navigator = walker(*replies)
    retrieval = retriever.search("wolf", config=PLENTY)
    # one sibling is open after the first leaf, so it is entered without a question
    assert leaves(retrieval) == ["forest", "castle"]
    assert len(navigator.prompts) == 5


def test_it_goes_back_from_an_inner_node():
    replies = ["Action: 1", "Action: -1", "Action: 1", "Action: 2", "Action: 0"]
    retriever, _ = walker(*replies)
    assert leaves(retriever.search("bell", config=PLENTY)) == ["valley"]


def test_everything_is_left_and_every_leaf_was_seen():
    def reply(prompt):
        return "Action: -1" if "0 or -1" in prompt else "Action: 1"

    config = MemWalkerConfig(segment_tokens=8, summary_tokens=8, max_children=2, max_steps=99)
    retriever, _ = walker("", writer=None, reader=ScriptedLM(reply=reply), config=config)
    retrieval = retriever.search("rose", config=PLENTY)
    assert leaves(retrieval) == [line.split()[0] for line in TEXT.split("The ")[1:]]
    assert retrieval.notes == ()


def test_steps_are_limited():
    config = MemWalkerConfig(segment_tokens=8, summary_tokens=8, max_children=2, max_steps=2)
    retriever, navigator = walker("Action: 2", "Action: 2", config=config)
    retrieval = retriever.search("What rose is in the garden?", config=PLENTY)
    assert len(navigator.prompts) == 2
    assert leaves(retrieval) == ["garden"]  # the most similar way from where the steps ended
    assert "navigation was stopped by max_steps=2" in retrieval.notes
    assert "no leaf was visited: the most similar one was taken" in retrieval.notes


def test_a_model_that_refuses_everything_still_finds_the_most_similar_leaf():
    replies = ["Action: 1", "Action: -1", "Action: -1"]
    retriever, _ = walker(*replies)
    retrieval = retriever.search("What ship is in the harbor?", config=PLENTY)
    assert len(leaves(retrieval)) == 1
    assert "no leaf was visited: the most similar one was taken" in retrieval.notes


def test_malformed_replies_are_asked_for_anew():
    replies = ["I like castles.", "Action: 7", "Action: 2", "Action: 1", "Action: 2", "Action: 0"]
    retriever, navigator = walker(*replies)
    retrieval = retriever.search("valley", config=PLENTY)
    assert leaves(retrieval) == ["valley"]
    assert retrieval.notes == ("2 replies without a legal action were asked for again",)
    assert not navigator.prompts[0].endswith("legal") and "1, 2." not in navigator.prompts[0]
    assert navigator.prompts[1] == navigator.prompts[2]
    assert navigator.prompts[1].endswith("Action: and one of these numbers: 1, 2.")


def test_after_all_tries_the_most_similar_way_is_taken():
    retriever, navigator = walker("No idea.")
    retrieval = retriever.search("Which ship does the harbor hold?", config=PLENTY)
    assert len(leaves(retrieval)) == 1
    assert len(navigator.prompts) == 4 * 3
    assert retrieval.notes == (
        "8 replies without a legal action were asked for again",
        "4 of 4 steps took the default after 3 unusable replies: the most similar part, or to stay",
    )
    exact, _ = walker("No idea.", writer=None, reader=ScriptedLM(reply=lambda prompt: "No idea."))
    tree = exact.built("doc")
    cosine = tree.similarity(exact.embedder.embed_query("Which ship does the harbor hold?"))
    node = tree.top[0]
    while tree.nodes[node].level > 1:
        node = max(tree.children[node], key=lambda i: cosine[i])
    found = exact.search("Which ship does the harbor hold?", config=PLENTY)
    assert found.steps[0].node == tree.nodes[node]


def test_going_back_is_not_legal_at_the_root():
    retriever, navigator = walker("Action: -1", "Action: 2", "Action: 1", "Action: 2", "Action: 0")
    assert leaves(retriever.search("valley", config=PLENTY)) == ["valley"]
    assert len(navigator.prompts) == 5


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Action: 2", 2),
        ("Reasoning: Action: 1 would be wrong.\n**Action:** 3", 3),
        ("action = -1", -1),
        ("ACTION: [4]", 4),
        ("Action: Part 5", 5),
        ("Action - 1", 1),
        ("Reaction: 3", None),
        ("Action: the number of the part", None),
        ("2", None),
        ("", None),
    ],
)
def test_actions_are_read_from_replies(reply, action):
    assert action_of(reply) == action


def test_braces_in_texts_are_not_fields():
    assert fill_template("{a} and {b}", a="{b}", b="{c}") == "{b} and {c}"
    retriever, navigator = walker(
        "Action: 0", text="A {question} in {memory}.", config=MemWalkerConfig()
    )
    retriever.search("{segment}?")
    assert "Question: {segment}?" in navigator.prompts[0]
    assert "A {question} in {memory}." in navigator.prompts[0]


# budget


def test_a_leaf_beyond_the_budget_is_cut_to_its_best_sentences():
    config = MemWalkerConfig(segment_tokens=100)
    retriever, _ = walker("Action: 0", config=config)
    [whole] = leaves(retriever.search("castle", config=PLENTY))
    assert whole == "castle"
    question = "Is a river in the valley, or a dragon in the castle?"
    retrieval = retriever.search(question, config=SearchConfig(token_budget=20))
    node = retrieval.steps[0].node
    assert node.text == (
        "The castle holds one dragon from 1100. The valley holds one river from 1600."
    )
    assert node.text == JOINT.join(TEXT[span.start : span.end] for span in node.sources)
    assert (node.level, node.origin, node.tokens) == (1, "extractive", 16)
    assert "doc#1.0: cut from 64 to 16 tokens, the most similar sentences" in retrieval.notes
    nothing = retriever.search(question, config=SearchConfig(token_budget=5))
    assert nothing.steps == ()
    assert "doc#1.0: left out, the budget has no room for a sentence of it" in nothing.notes


def test_usage_is_what_navigation_cost():
    reader = ScriptedLM(reply=lambda prompt: "Action: 0" if "0 or -1" in prompt else "Action: 1")
    retriever, _ = walker("", writer=None, reader=reader)
    before = reader.usage
    retrieval = retriever.search("dragon", config=PLENTY)
    assert retrieval.usage == reader.usage - before
    assert retrieval.usage.tokens > 0
    elsewhere, _ = walker("Action: 1", "Action: 1", "Action: 1", "Action: 0")
    assert elsewhere.search("dragon", config=PLENTY).usage.tokens == 0


# many documents


def test_documents_are_walked_by_the_similarity_of_their_roots():
    texts = {"a": "The castle is old.", "b": "The river is long.", "c": "The market is loud."}
    retriever, _ = walker("Action: -1", "Action: 0", text=texts)
    retrieval = retriever.search("How long is the river?", config=PLENTY)
    ids = [step.node.document_id for step in retrieval.steps if step.node.level == 1]
    assert len(ids) == 2
    assert ids[1] == "b"  # was left; the one that was committed to comes first
    only = retriever.search("river", config=PLENTY, scope=Scope(["c"]))
    assert {step.node.document_id for step in only.steps} == {"c"}


def test_steps_are_shared_by_all_documents():
    texts = {name: f"The {name} is old." for name in ("castle", "river", "market")}
    config = MemWalkerConfig(max_steps=2)
    retriever, navigator = walker("Action: -1", text=texts, config=config)
    retrieval = retriever.search("river", config=PLENTY)
    assert len(navigator.prompts) == 2
    assert len(leaves(retrieval)) == 2
    assert "navigation was stopped by max_steps=2" in retrieval.notes


# seams


def test_memory_and_questions_fit_into_the_context():
    def write(prompt):
        prompts.append(prompt)
        return "Action: -1" if "0 or -1" in prompt else "Action: 1"

    prompts = []
    config = MemWalkerConfig(
        segment_tokens=20, summary_tokens=8, reply_tokens=8, max_children=2, max_steps=40
    )
    reader = ScriptedLM(context_tokens=380, reply=write)
    retriever = MemWalkerRetriever(reader=reader, embedder=HashingEmbedder(64), config=config)
    retriever.insert([Document("doc", TEXT * 4)])
    search = SearchConfig(token_budget=40)
    retriever.search("castle", config=search)
    assert max(reader.count_tokens(prompts)) + 8 <= 380
    assert any("in summary" in prompt for prompt in prompts)
    with pytest.raises(QuestionTooLong):
        retriever.search("castle " * 250, config=search)
