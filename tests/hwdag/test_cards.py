"""Reader cards: their files, the assumptions without one, and their effects."""

import json
from dataclasses import replace

import pytest
from tiny import model, tokenizer

from hwdag import HWDAGIndex
from hwdag.config import NEVER
from hwdag.errors import InputError
from hwdag.lm.cards import CAPABLE_WEIGHTS, Card, assumed
from hwdag.lm.default import BASE_MODEL, DEFAULT_MODEL
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.model_file import ModelFile, card_and_heads, shipped
from hwdag.text.prompts import SearchPrompts
from hwdag_app.main import main


def file_of(lm, **facts):
    known = {"writes": True, "judges": False, "attends": True, "source": "measured"}
    return ModelFile.of(lm.name, lm.engine.weights.config, **(known | facts))


def test_a_file_holds_a_card(tmp_path):
    lm = HuggingFaceLM(model(), tokenizer())
    card = file_of(lm, confidence=0.7, window_tokens=512, turns=2, heads=((1, 0), (0, 1)))
    card.save(tmp_path / "card.json")
    assert ModelFile.load(tmp_path / "card.json") == card
    reader = HuggingFaceLM(lm.model, lm.codec.tokenizer, card=tmp_path / "card.json")
    assert reader.card == card.card
    assert reader.known_heads == card.heads
    assert reader.window_tokens == 512
    assert reader.card.prompts == SearchPrompts()
    own = HuggingFaceLM(lm.model, lm.codec.tokenizer, card=card, heads=[(0, 0)])
    assert own.known_heads == ((0, 0),)


def test_a_card_without_heads_warns_that_all_are_used(caplog):
    lm = HuggingFaceLM(model(), tokenizer(), name="nobody/measured-me")
    measured = HuggingFaceLM(lm.model, lm.codec.tokenizer, name=lm.name, card=file_of(lm))
    with caplog.at_level("WARNING", "hwdag"):
        assert measured.pairs_of("auto") is None
        assert not caplog.records
        lm.pairs_of("auto")
    assert "heads" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        {"writes": 1},
        {"writes": None},
        {"turns": 3},
        {"confidence": 1.5},
        {"heads": [[1]]},
        {"layers": 0},
        {"more": 1},
        {"source": None},
    ],
)
def test_what_is_no_card_is_refused(change, tmp_path):
    lm = HuggingFaceLM(model(), tokenizer())
    file_of(lm).save(tmp_path / "card.json")
    values = json.loads((tmp_path / "card.json").read_text("utf-8"))
    (tmp_path / "card.json").write_text(json.dumps(values | change), "utf-8")
    with pytest.raises(InputError, match="card"):
        ModelFile.load(tmp_path / "card.json")


def test_the_card_of_another_model_is_refused():
    lm = HuggingFaceLM(model(), tokenizer())
    with pytest.raises(InputError, match="probe"):
        card_and_heads(replace(file_of(lm), layers=99), lm.name, lm.engine.weights.config)
    heads = file_of(lm, writes=None, judges=None, attends=None, heads=((1, 0),))
    with pytest.raises(InputError, match="names no abilities"):
        card_and_heads(heads, lm.name, lm.engine.weights.config)


def test_without_a_card_the_size_decides():
    lm = HuggingFaceLM(model(), tokenizer())
    assert not assumed(lm.name, lm.engine.weights.config).is_capable
    assert "probe" in lm.card.source
    large = lm.engine.weights.config
    large.num_hidden_layers = CAPABLE_WEIGHTS // lm.engine.shape.layer_parameters + 1
    card = assumed("large", large)
    assert card.is_capable
    assert card.threshold == NEVER  # a p_yes that nobody measured ends no walk


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        (DEFAULT_MODEL, False),
        (BASE_MODEL, False),
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct", False),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", True),
    ],
)
def test_a_measured_reader_has_a_card(name, writes):
    [card] = [one.card for one in shipped() if one.is_of(name)]
    assert (card.writes, card.judges, card.attends) == (writes, False, True)


def test_a_reader_that_does_not_judge_ends_no_walk():
    assert Card(True, False, True, confidence=0.5).threshold == NEVER
    assert Card(True, True, True, confidence=0.5).threshold == 0.5
    assert str(Card(True, False, True, source="so")) == "writes, does not judge, attends (so)"


def test_a_twin_has_another_card_and_the_same_weights(tmp_path):
    lm = HuggingFaceLM(model(), tokenizer())
    file_of(lm, window_tokens=99, heads=((1, 0),)).save(tmp_path / "card.json")
    twin = lm.with_card(tmp_path / "card.json")
    new = HuggingFaceLM(lm.model, lm.codec.tokenizer, card=tmp_path / "card.json")
    for name in ("card", "window_tokens", "known_heads"):
        assert getattr(twin, name) == getattr(new, name) != getattr(lm, name)
    assert twin.model is lm.model


READS = ("build", "insert", "refresh", "ask", "chat", "serve", "mcp", "try")
"""Commands that name a reader."""


@pytest.mark.parametrize("command", READS)
def test_every_command_that_names_a_reader_takes_a_card(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert {"--reader", "--card"} <= set(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_command_line_follows_a_card(tmp_path, capsys):
    lm = HuggingFaceLM(model(), tokenizer())
    checkpoint, card, text = (tmp_path / name for name in ("lm", "card.json", "fox.txt"))
    lm.model.save_pretrained(checkpoint)
    lm.codec.tokenizer.save_pretrained(checkpoint)
    text.write_text("The fox jumps. " * 40)
    models = ["--reader", str(checkpoint), "--embedder", "hashing-64", "--card", str(card)]
    for attends, method in ((False, "evidence"), (True, "hwdag")):
        file_of(lm, attends=attends).save(card)
        command = ["build", str(text), "-o", str(tmp_path / method), "-q", *models]
        assert main(command) == 0
        with HWDAGIndex.load(tmp_path / method, reader=lm, embedder="hashing-64") as index:
            assert index.config.method == method
    replace(file_of(lm), layers=7).save(card)
    assert main(["ask", str(tmp_path / method), "fox?", *models]) == 2
    assert "7" in capsys.readouterr().err
