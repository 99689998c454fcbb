"""Head lists: files that are checked, models that use the right one, forwards that end early."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_huggingface import REQUESTS
from tiny import model, tokenizer

from hwdag.errors import InputError
from hwdag.lm.attention import capture
from hwdag.lm.base import heads_of
from hwdag.lm.heads import given_heads, resolve, warn_unknown
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import ReplayLayout
from hwdag.lm.model_file import ModelFile, card_and_heads, shipped
from hwdag.text.prompts import SearchPrompts
from hwdag_lab.scripted import ScriptedLM

LOW = ((1, 5), (0, 3))
FILE = ModelFile(
    "somewhere/Tiny",
    "LlamaForCausalLM",
    layers=4,
    heads_per_layer=8,
    hidden=64,
    heads=LOW,
    source="by hand",
    also=("elsewhere/Tiny-Base",),
    scores=(0.5, 0.25),
    criterion="core",
)


def reader(heads=None, **options):
    return HuggingFaceLM(model(), tokenizer(), heads=heads, **options)


def test_a_file_is_read_back_as_it_was(tmp_path):
    path = tmp_path / "tiny.json"
    for file in (FILE, replace(FILE, scores=(), also=()), *shipped()):
        file.save(path)
        assert ModelFile.load(path) == file
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.json"]


WRONG = [
    ("heads", [[4, 0]], r"\[\(4, 0\)\]"),
    ("heads", [], "neither heads"),
    ("heads", [[1, 5], [1, 5]], "without repetition"),
    ("heads", [[1, 5, 3]], "list"),
    ("heads", [[1, True]], "list"),
    ("layers", 0, "'layers'"),
    ("scores", [1.0], "scores"),
    ("scores", [float("nan"), 1.0], "finite"),
    ("scores", [10**400, 1.0], "finite"),
    ("source", ["x" * 10_000], r"'source'.*\['x{1,20}\.\.\.x{1,20}'\]$"),
    ("model", 3, "'model'"),
    ("colour", "red", "'colour'"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG)
def test_a_wrong_field_is_named(field, value, message, tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(FILE.to_json() | {field: value}))
    with pytest.raises(InputError, match=message) as error:
        ModelFile.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [("[]", "list"), ("{", "head"), ("{}", "'architecture'")],
)
def test_an_invalid_head_list_is_reported(content, message, tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        ModelFile.load(path)


def test_a_file_that_is_not_there_or_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(InputError):
        ModelFile.load(tmp_path / "none.json")
    with pytest.raises(InputError):
        FILE.save(tmp_path / "none" / "tiny.json")


@pytest.mark.parametrize(
    "name", ["somewhere/Tiny", "/models/tiny/", "x/tiny+adapter", "TINY-base+0123+more"]
)
def test_a_list_fits_names_without_folder_case_and_suffix(name):
    assert FILE.fits(name, model().config)
    assert not FILE.fits(name, model(num_hidden_layers=5).config)
    assert not FILE.fits("tiny2", model().config)


def test_a_list_made_in_memory_fits_the_model_once_it_was_saved(tmp_path):
    lm = model()
    file = ModelFile.of("tiny", lm.config, source="by hand", heads=LOW)
    assert file.architecture == ""
    lm.save_pretrained(tmp_path)
    saved = type(lm.config).from_pretrained(tmp_path)
    assert saved.architectures == ["LlamaForCausalLM"]
    assert file.fits("tiny", saved)
    assert not replace(file, architecture="MistralForCausalLM").fits("tiny", saved)


@pytest.mark.parametrize(
    ("name", "config", "first"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", ("llama", 32, 32, 4096), (14, 22)),
        ("meta-llama/Meta-Llama-3.1-8B", ("llama", 32, 32, 4096), (14, 22)),
        ("meta-llama/Llama-3.2-3B-Instruct", ("llama", 28, 24, 3072), (13, 16)),
        ("Qwen/Qwen2.5-7B-Instruct", ("qwen2", 28, 28, 3584), (16, 19)),
        ("Qwen/Qwen3-4B-Instruct-2507", ("qwen3", 36, 32, 2560), (20, 15)),
        ("mistralai/Mistral-7B-Instruct-v0.2", ("mistral", 32, 32, 4096), (15, 21)),
        ("ibm-granite/granite-3.2-8b-instruct", ("granite", 40, 32, 4096), (19, 1)),
        ("microsoft/phi-4", ("phi3", 40, 40, 5120), (17, 1)),
        ("HuggingFaceTB/SmolLM2-135M-Instruct+hwdag", ("llama", 30, 9, 576), None),
    ],
)
def test_lists_of_large_models_are_shipped(name, config, first):
    from transformers import AutoConfig

    family, layers, heads, hidden = config
    made = AutoConfig.for_model(
        family, num_hidden_layers=layers, num_attention_heads=heads, hidden_size=hidden
    )
    made.architectures = [f"{family.capitalize()}ForCausalLM"]
    _, found = card_and_heads(None, name, made)
    assert found is not None
    assert first is None or found[0] == first
    assert len(found) in (8, 16)
    made.num_hidden_layers += 1
    assert card_and_heads(None, name, made)[1] is None


def test_every_shipped_list_names_its_source():
    assert len([file for file in shipped() if file.heads]) == 9
    assert all(file.source for file in shipped())


@pytest.mark.parametrize("as_path", [False, True])
def test_a_given_list_replaces_auto(as_path, tmp_path):
    FILE.save(tmp_path / "tiny.json")
    lm = reader(tmp_path / "tiny.json" if as_path else FILE)
    assert lm.known_heads == LOW
    plain = reader()
    assert plain.known_heads is None
    for listed in (lm, plain.with_heads(FILE), reader(list(LOW))):
        auto = listed.replay(REQUESTS[:1], heads="auto")[0].attention
        np.testing.assert_array_equal(auto, plain.replay(REQUESTS[:1], heads=LOW)[0].attention)


def test_another_list_leaves_the_reader_as_it_was():
    lm = reader()
    lm.replay(REQUESTS[:1], heads="all")
    other = lm.with_heads(FILE)
    assert other.model is lm.model
    assert (lm.known_heads, other.known_heads) == (None, LOW)
    assert other.usage.tokens == 0 < lm.usage.tokens


def test_a_list_of_another_model_is_refused_with_both_keys():
    other = replace(FILE, hidden=128)
    with pytest.raises(InputError, match="somewhere/Tiny"):
        reader(other)
    with pytest.raises(InputError, match=r"\[\(4, 0\)\]"):
        reader([(4, 0)])
    with pytest.raises(InputError):
        reader("nowhere.json")
    for wrong in (3, [(1,)], [1, 2], {"heads": []}):
        with pytest.raises(InputError, match="heads"):
            reader(wrong)


def test_a_fine_tuned_model_of_another_name_may_be_given_the_list_of_its_base():
    assert given_heads(FILE, "mine", model().config) == LOW
    assert card_and_heads(None, "mine", model().config)[1] is None


def test_the_way_to_find_heads_of_an_unknown_model_is_logged_once(caplog):
    warn_unknown.cache_clear()
    lm = reader(name="nobody/knows-me")
    with caplog.at_level(logging.WARNING, "hwdag"):
        for _ in range(3):
            lm.replay(REQUESTS[:1], heads="auto")
        lm.replay(REQUESTS[:1], heads="all")
    assert [record.name for record in caplog.records] == ["hwdag"]
    assert "hwdag heads detect --model nobody/knows-me" in caplog.text


def test_resolve():
    assert resolve("auto", LOW) == LOW
    assert resolve("all", LOW) is None
    assert resolve(((1, 2),), LOW) == ((1, 2),)


@pytest.mark.parametrize("heads", ["all", LOW])
@pytest.mark.parametrize("batched", [False, True])
def test_a_replay_that_ends_early_equals_the_whole_forward(heads, batched):
    """Layers above the last head do not run, and do not count."""
    lm = HuggingFaceLM(model(), tokenizer())
    lm.batched = batched
    ran: list[int] = []
    for i, layer in enumerate(lm.model.model.layers):
        layer.mlp.register_forward_hook(lambda *_, i=i: ran.append(i))
    found = lm.replay(REQUESTS, heads=heads)
    last = 3 if heads == "all" else 1
    assert set(ran) == set(range(last))  # the last layer ends within its attention
    for request, replay in zip(REQUESTS, found, strict=True):
        layout = ReplayLayout(lm.codec, lm.turns, request)
        pairs = resolve(heads, None)
        with torch.no_grad(), capture(lm.model, [layout.request(0)], pairs) as captured:
            lm.model(torch.tensor([layout.ids]))
        np.testing.assert_allclose(replay.attention, captured.mean(0), atol=1e-6)


def test_attention_of_one_list_is_not_taken_for_that_of_another():
    known = HuggingFaceLM(model(), tokenizer(), heads=LOW)
    assert heads_of(known, "auto") == LOW
    assert heads_of(known, "all") == "all"
    assert heads_of(HuggingFaceLM(model(), tokenizer()), "auto") == "auto"
    assert heads_of(ScriptedLM(), "auto") == "auto"


def test_a_session_reads_the_given_list():
    prompts = SearchPrompts()
    readings = [
        lm.session("Who?", prompts=prompts, heads=heads, max_new_tokens=4).read(["The fox."])
        for lm, heads in ((reader(FILE), "auto"), (reader(), LOW))
    ]
    np.testing.assert_array_equal(readings[0].attention, readings[1].attention)
