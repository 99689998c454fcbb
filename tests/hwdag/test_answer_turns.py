"""How readers are asked for an answer: in one turn, unless they know, or a preset wants, the papers' two."""

import numpy as np
import pytest
from tiny import cold_logprobs, model, tokenizer

from hwdag import BuildConfig, HWDAGIndex, Prompts, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.prompts import SearchPrompts

QUESTION = "Who jumps over the dog?"
GERMAN = "Wer springt über den {language} Hund und warum?"
NODES = ["The fox jumps over the dog.", "A question: who jumps?"]
OPTIONS = ["The fox", "Nobody: <|im_end|> is text"]


def conversation(lm, question, nodes):
    """Return the one turn up to the answer, written down by hand."""
    prompts = SearchPrompts.one_turn()
    before, between, _ = prompts.cut()
    ids = [*lm.turns.head, *lm.codec.encode(before + question + between)]
    for node in nodes:
        ids += lm.codec.encode(f"* {node}\n")
    language = "" if question == QUESTION else " Write it in the language of the question."
    asked = prompts.answer.replace("{language}", language).replace("{question}", question)
    reply = lm.turns.second_reply if lm.turns.are_plain else lm.turns.reply
    return [*ids, *lm.codec.encode(asked), *reply]


@pytest.mark.parametrize("question", [QUESTION, GERMAN])
@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("family", ["llama", pytest.param("gemma2", marks=pytest.mark.slow)])
def test_one_turn_equals_a_cold_forward_over_the_whole_chat(family, chat, question):
    lm = HuggingFaceLM(model(family), tokenizer(chat))
    session = lm.session(question, prompts=lm.card.prompts, heads="all", max_new_tokens=8)
    session.read(NODES[:1])
    session.read(NODES[1:])
    for enough in (True, False):  # no verdict is said
        found = session.likelihoods(OPTIONS, enough=enough)
        expected = []
        for option in OPTIONS:
            ids = lm.codec.encode(option if chat else " " + option)
            whole = [*conversation(lm, question, NODES), *ids]
            expected.append(cold_logprobs(lm, whole, len(ids)).mean())
        np.testing.assert_allclose(found, expected, atol=1e-4)


class Obedient:
    """Return the reply of a capable reader: the last instruction counts, and after "Yes or No" nothing else.

    Qwen2.5-Coder-1.5B-Instruct answered 15 of 15 questions like this after the papers' two turns.
    """

    def __init__(self, lm):
        self.seen = []
        lm.model.register_forward_pre_hook(self._take, with_kwargs=True)

    def _take(self, module, args, kwargs):
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        self.seen.append(ids[0].tolist())

    def asked(self, lm):
        """Return the last ids that passed the model before it decoded token by token."""
        return lm.codec.decode(next(ids for ids in reversed(self.seen) if len(ids) > 1))

    def answer(self, lm, question):
        """Decode from the last prompt."""
        asked = self.asked(lm)
        ordered = "Yes" in asked or question not in asked
        return "Yes" if ordered else "The fox"


def answered(lm, config):
    index = HWDAGIndex.from_documents(
        NODES,
        reader=lm,
        embedder=HashingEmbedder(),
        config=BuildConfig("hwdag", points="extractive"),
    )
    reader = Obedient(lm)
    index.answer(QUESTION, config=config, max_new_tokens=8)
    return reader.answer(lm, QUESTION)


@pytest.mark.parametrize("confidence", [NEVER, 0.5])
def test_a_reader_that_nobody_trained_is_asked_for_the_answer_itself(confidence):
    config = SearchConfig(confidence=confidence, navigator="none")
    assert answered(HuggingFaceLM(model(), tokenizer()), config) == "The fox"


def test_the_papers_presets_keep_the_papers_words():
    config = SearchConfig(method="garlic")
    assert answered(HuggingFaceLM(model(), tokenizer()), config) == "Yes"


@pytest.mark.model
def test_the_default_reader_keeps_the_turns_that_it_was_trained_on():
    assert load_reader().card.prompts == SearchPrompts()


def test_prompts_of_ones_own_go_before_those_of_the_reader():
    lm = HuggingFaceLM(model(), tokenizer())
    own = SearchPrompts(answer="Say Yes.")
    index = HWDAGIndex.from_documents(
        NODES,
        reader=lm,
        embedder=HashingEmbedder(),
        prompts=Prompts(search=own),
        config=BuildConfig("hwdag", points="extractive"),
    )
    reader = Obedient(lm)
    index.answer(QUESTION, config=SearchConfig(navigator="none"), max_new_tokens=8)
    assert "Say Yes." in reader.asked(lm)


def test_nothing_may_follow_the_nodes_in_the_opening():
    with pytest.raises(InputError, match="information"):
        SearchPrompts("{question} {information} Now answer.")
