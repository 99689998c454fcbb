"""A reply begins after a closed thought, at the place that its own template shows."""

import os
import re
from pathlib import Path

import pytest
from tiny import model, tokenizer

from hwdag.errors import ModelError
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import Turns
from hwdag.lm.templates import cut_conversation
from hwdag.lm.tokens import Codec

USER = "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}</user>"
ANY = USER + "{% else %}<bot>{{ m.content }}</bot>{% endif %}{% endfor %}"
FOLDER = Path(os.environ.get("HWDAG_TEMPLATES", Path(__file__).parents[2] / "build" / "templates"))
REAL = sorted(FOLDER.glob("*.jinja"))


def asking(text, shown="<bot>"):
    """Return a template whose prompt for a reply is `text`, and that shows replies after `shown`."""
    return ANY.replace("<bot>", shown) + f"{{% if add_generation_prompt %}}{text}{{% endif %}}"


def codec_of(template):
    made = tokenizer.__wrapped__()  # an own copy
    made.bos_token = made.pad_token  # some templates begin with it
    made.chat_template = template
    return Codec(made)


def begun(template):
    """Return the texts between a message and its reply, for the first and the second reply."""
    codec = codec_of(template)
    first = cut_conversation(codec, ["user"])[-1]
    second = cut_conversation(codec, ["user", "assistant", "user"])[-1]
    assert first == second
    return codec.decode(first).removeprefix("</user>")


@pytest.mark.parametrize(
    ("text", "shown", "begins"),
    [
        ("<bot>", "<bot>", "<bot>"),
        ("<bot>", "<bot> ", "<bot>"),  # the space belongs to the first word
        ("<bot>\n", "<bot>", "<bot>\n"),
        # open thoughts
        ("<bot><think>\n", "<bot>", "<bot><think>\n\n</think>\n\n"),
        ("<bot><think>\n", "<bot><think>\n", "<bot><think>\n\n</think>\n\n"),
        ("<bot><think>", "<bot>", "<bot><think></think>"),
        ("<bot><think>\n", "<bot><think>\n\n</think>\n", "<bot><think>\n\n</think>\n"),
        ("<bot><seed:think>\n", "<bot>", "<bot><seed:think>\n\n</seed:think>\n\n"),
        ("<bot><think:open>", "<bot>", "<bot><think:open></think:open>"),
        ("<bot>[THINK]", "<bot>", "<bot>[THINK][/THINK]"),
        ("<bot>◁think▷", "<bot>", "<bot>◁think▷◁/think▷"),
        ("<bot><think>\nOkay, ", "<bot>", "<bot><think>\nOkay, \n</think>\n\n"),
        (
            "<bot><|START_THINKING|>",
            "<bot><|START_TEXT|>",
            "<bot><|START_THINKING|><|END_THINKING|><|START_TEXT|>",
        ),
        (
            "<bot>\nHere are my reasoning steps:\n",
            "<bot>\n",
            "<bot>\nHere are my reasoning steps:\n\n[BEGIN FINAL RESPONSE]\n",
        ),
        # closed ones
        ("<bot><think></think>", "<bot></think>", "<bot><think></think>"),
        ("<bot><think></think>", "<bot><think></think>\n", "<bot><think></think>\n"),
        ("<bot></think>", "<bot></think>", "<bot></think>"),
        (
            "<bot><|START_THINKING|><|END_THINKING|>",
            "<bot><|START_RESPONSE|>",
            "<bot><|START_THINKING|><|END_THINKING|><|START_RESPONSE|>",
        ),
        # the model chooses the beginning of a reply
        ("<bot>", "<bot><|channel|>final<|message|>", "<bot><|channel|>final<|message|>"),
        ("<bot>", "<bot><think></think>", "<bot><think></think>"),
        ("<bot>", "<bot> to=user<|message|>", "<bot> to=user<|message|>"),
    ],
)
def test_a_reply_begins_at_its_place_in_the_template_and_not_in_a_thought(text, shown, begins):
    assert begun(asking(text, shown)) == begins


@pytest.mark.parametrize("switch", ["enable_thinking", "thinking", "reasoning"])
def test_thinking_is_switched_off_if_the_template_has_a_switch(switch):
    thinks = f"{{% if {switch} is undefined or {switch} %}}<think>{{% endif %}}"
    assert begun(asking("<bot>" + thinks)) == "<bot>"


def test_a_thought_without_a_known_end_is_an_error():
    with pytest.raises(ModelError, match=r"'<\|thinking\|>'.*chat_template") as error:
        HuggingFaceLM(model(), codec_of(asking("<bot><|thinking|>\n")).tokenizer)
    assert "close" in str(error.value)


def test_a_template_that_refuses_to_end_in_a_reply_is_used_without_one():
    refuses = "{% if messages[-1].role != 'user' %}{{ raise_exception('user last') }}{% endif %}"
    assert begun(refuses + asking("<bot><think>\n")) == "<bot><think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    "broken",
    [
        "{% for tool in tools %}{{ tool }}{% endfor %}",  # TypeError, as in templates for tools
        "{{ functions.keys() }}",
        "{{ raise_exception('no') }}",
        "{{ 1 // 0 }}",
        "{% for m in messages %}",
    ],
)
def test_a_template_that_fails_is_a_model_error(broken):
    with pytest.raises(ModelError, match=r"roles user: .*chat_template=None"):
        Turns.of(codec_of(broken + ANY))


@pytest.mark.skipif(not REAL, reason=f"no templates in {FOLDER}: `make templates` downloads them")
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_no_real_template_is_asked_within_a_thought(file):
    codec = codec_of(file.read_text("utf-8"))
    try:
        reply = begun(codec.tokenizer.chat_template)
    except ModelError as error:
        if re.search("'NoneType' object is not iterable|'functions' is undefined", str(error)):
            pytest.skip(f"needs tools: {error}")
        raise
    thought = r"<think>|<\|START_THINKING\|>|think<\|sep\|>|reasoning steps:|<\|channel>thought"
    ends = r"</think>|<\|END_THINKING\|>|<\|close\|>think|\[BEGIN FINAL RESPONSE\]|<channel\|>"
    *_, last = [0, *(found.end() for found in re.finditer(thought, reply))]
    assert not last or re.search(ends, reply[last:]), reply
    if "<|channel|>final" in codec.tokenizer.chat_template:
        assert reply.endswith("<|start|>assistant<|channel|>final<|message|>")
