"""The measurements of a probe, and the card that follows."""

import pytest
from tiny import model, saved, tokenizer

from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.model_file import ModelFile
from hwdag_app.main import main
from hwdag_lab import probe
from hwdag_lab.probe import Probe, area, border, lives


def test_each_sentence_has_its_paraphrase_and_its_question():
    found = lives(0, 5)
    assert len({life.sentences for life in found}) == 5
    assert lives(0, 5) == found
    for life in found:
        for sentence, paraphrase in zip(life.sentences, life.paraphrases, strict=True):
            shared = {w for w in paraphrase.strip(".").split() if w in sentence}
            assert len(shared) >= 3  # a name, and what is said of it


def test_the_area_counts_pairs_in_the_right_order():
    yes, no = [(0.9, True), (0.4, True)], [(0.1, False), (0.5, False)]
    assert area([*yes, *no]) == 0.75
    assert area([(0.5, True), (0.5, False)]) == 0.5
    assert border([*yes, (0.1, False), (0.2, False)]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("change", "able"),
    [
        ({}, (True, True, True)),
        ({"points": (5, 10)}, (False, True, True)),
        ({"condensed": 1.5}, (False, True, True)),
        ({"auc": 0.6}, (True, False, True)),
        ({"met": 0.3}, (True, True, False)),
    ],
)
def test_a_card_records_its_measurements(change, able):
    lm = HuggingFaceLM(model(), tokenizer())
    measured = {"points": (9, 10), "condensed": 4.0, "auc": 0.9, "confidence": 0.6, "met": 0.8}
    card = Probe(**(measured | change), heads=((1, 0),), seconds=1.0).model_file(lm)
    assert (card.writes, card.judges, card.attends) == able
    assert card.has_sizes_of(lm.engine.weights.config)
    assert card.heads == ((1, 0),)


@pytest.mark.slow
def test_the_command_writes_a_card(tmp_path, capsys, monkeypatch):
    for name, few in (("LIVES_PER_TEXT", 3), ("TEXTS", 1), ("QUESTIONS", 4)):
        monkeypatch.setattr(probe, name, few)
    folder = saved(tmp_path / "model")
    assert main(["probe", "--model", str(folder), "-o", str(tmp_path / "card.json"), "-q"]) == 0
    card = ModelFile.load(tmp_path / "card.json")
    assert not card.writes  # random weights
    assert "does not write" in capsys.readouterr().out
