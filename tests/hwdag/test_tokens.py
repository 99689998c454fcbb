"""Plain text never becomes control tokens; parts keep their token ranges; templates are cut once."""

import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_properties import TEXTS
from tiny import model, saved, tokenizer
from transformers import PreTrainedTokenizerBase

from hwdag.errors import ModelError
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import SearchLayout, Turns
from hwdag.lm.tokens import Codec
from hwdag.text.characters import without_surrogates
from hwdag.text.prompts import SearchPrompts


@pytest.fixture(params=["chat", "base"])
def codec(request):
    return Codec(tokenizer(request.param == "chat"))


def test_only_the_template_makes_control_tokens(codec):
    assert codec.control("<|im_end|>") == [codec.tokenizer.eos_token_id]


def test_added_tokens_that_are_not_special_are_taken_apart_too():
    added = tokenizer.__wrapped__()  # an own copy
    added.add_tokens(["<tool_call>"])
    codec = Codec(added)
    number = added.convert_tokens_to_ids("<tool_call>")
    assert number in added("a <tool_call> b")["input_ids"]
    ids, offsets = codec.encode_with_offsets("a <tool_call> b")
    assert number not in ids
    assert added.decode(ids) == "a <tool_call> b"
    assert [offsets[0][0], offsets[-1][1]] == [0, 15]


def test_added_tokens_that_are_text_stay_text():
    added = tokenizer.__wrapped__()
    added.add_tokens(["\n\n", "   "])
    codec = Codec(added)
    text = "a\n\nb   c <|im_end|>"
    ids = codec.encode(text)
    assert added.convert_tokens_to_ids("\n\n") in ids
    assert added.decode(ids) == text


@pytest.mark.slow
def test_a_tokenizer_that_is_used_elsewhere_cuts_no_text():
    shared, other, stop = tokenizer.__wrapped__(), "word " * 500, threading.Event()
    codec, text = Codec(shared), "The harbour was built in 1871. " * 30
    ids = codec.encode(text)

    def elsewhere():
        while not stop.is_set():
            shared(other, truncation=True, max_length=8, padding="max_length")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        assert all(codec.encode(text) == ids for _ in range(1000))
    finally:
        stop.set()
        thread.join()
    assert Codec(shared).encode(text) == ids  # whatever the last call has set
    assert not shared.split_special_tokens


def test_a_tokenizer_without_the_interface_of_transformers_is_an_error():
    class Tekken(PreTrainedTokenizerBase): ...  # as the one of mistral-common

    with pytest.raises(ModelError, match=r"Tekken does not have.*mistral_format=False"):
        HuggingFaceLM(model(), Tekken())


@pytest.mark.skipif(not find_spec("mistral_common"), reason="needs mistral-common")
def test_a_folder_with_both_formats_of_mistral_is_read_without_mistral_common(tmp_path):
    import mistral_common

    data = Path(mistral_common.__file__).parent / "data"
    (tmp_path / "tekken.json").write_bytes(min(data.glob("tekken*.json")).read_bytes())
    reader = HuggingFaceLM.from_pretrained(str(saved(tmp_path, model("mistral"))))
    assert reader.codec.encode("the quick fox") == Codec(tokenizer()).encode("the quick fox")


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_parts_share_out_all_tokens_in_order(parts):
    codec = Codec(tokenizer())
    ids, ranges = codec.encode_parts(*parts)
    assert ids == codec.encode("".join(parts))
    borders = [0, *(end for _, end in ranges)]
    assert [start for start, _ in ranges] == borders[:-1]
    assert borders[-1] == len(ids)


def test_a_part_holds_its_own_tokens(codec):
    ids, ranges = codec.encode_parts("* ", "the quick fox", "\n")
    start, end = ranges[1]
    assert codec.tokenizer.decode(ids[start:end]).strip() == "the quick fox"


def test_the_chat_template_is_cut_around_what_we_put_in():
    codec = Codec(tokenizer())
    turns = Turns.of(codec)
    ids = [*turns.head, *codec.encode("Q"), *turns.reply, *codec.encode("Yes"), *turns.between]
    ids += [*codec.encode("A"), *turns.second_reply]
    messages = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "Yes"},
        {"role": "user", "content": "A"},
    ]
    rendered = codec.tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    assert codec.tokenizer.decode(ids) == rendered


def test_a_template_that_repeats_a_message_is_an_error():
    broken = tokenizer.__wrapped__()
    broken.chat_template = "{{ messages[0]['content'] }}{{ messages[0]['content'] }}"
    with pytest.raises(ModelError, match="2 times"):
        Turns.of(Codec(broken))


def test_the_answer_slot_of_a_base_model_leaves_the_space_to_the_answer():
    codec = Codec(tokenizer(chat=False))
    turns, slot = Turns.of(codec), "\nAnswer (Yes or No):"
    assert codec.decode(turns.reply) == slot
    assert [*turns.reply, *codec.encode(" Yes")] == codec.encode(slot + " Yes")
    layout = SearchLayout(codec, turns, "Who?", SearchPrompts())
    answered = codec.decode(layout.until_answer(enough=True))
    assert answered.startswith(f"{slot} Yes\n\n{SearchPrompts().answer}")


@pytest.mark.parametrize(
    ("text", "begins"), [(" the", True), (" fox", True), ("The", False), ("9", False), (".", False)]
)
def test_a_token_begins_a_word_in_lower_case(text, begins):
    codec = Codec(tokenizer())
    [token] = codec.encode(text)
    assert codec.begins_word(token) == begins


@pytest.mark.parametrize(
    ("text", "joins"),
    [(" the", False), ("The", True), (".", False), ("_votes", True), ("-v", True)],
)
def test_a_token_joins_letters_to_the_word_before(text, joins):
    whole = tokenizer.__wrapped__()
    whole.add_tokens(["_votes", "-v"])  # as large vocabularies have them
    codec = Codec(whole)
    [token] = codec.encode(text)
    assert codec.goes_on_with_word(token) == joins


@given(TEXTS.map(lambda text: without_surrogates(text)[0]))
def test_encoded_text_is_decoded_to_itself_and_has_no_control_token(text):
    codec = Codec(tokenizer())
    ids = codec.encode(text)
    assert set(codec.tokenizer.all_special_ids).isdisjoint(ids)
    assert codec.tokenizer.decode(ids) == text
    assert codec.count([text]) == [len(ids)]


@given(st.lists(TEXTS.map(lambda text: without_surrogates(text)[0]), min_size=1, max_size=4))
def test_counts_do_not_depend_on_the_company(texts):
    codec = Codec(tokenizer())
    assert codec.count(texts) == [codec.count([text])[0] for text in texts]
