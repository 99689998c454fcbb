"""The recipe of the adapter: its trees are the library's sessions, its runs can be killed."""

import json
import os
import random
import re
import signal
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from tiny import saved

from examples.train_adapter import compose, evaluate, lora, points, prepare, tables, train, trees
from examples.train_adapter.losses import Objective, Weights, shared_tokens, verdict_losses
from examples.train_adapter.trees import NOT_FOUND, Planter, Tree, window
from hwdag.lm.adapter import CONFIG, TURNS
from hwdag.lm.default import load_reader
from hwdag.lm.layout import verdict_tokens
from hwdag.text.prompts import SearchPrompts

NAMES = ("town-1", "town-2", "town-3", "town-5")
HELD_OUT = "town-2"
RANK, ALPHA, FIRST_LAYER = 4, 8.0, 1


def town(name, number):
    """Return a hand-made document with two questions of two hops each."""
    texts = [
        f"The harbour of Brightwater {number} was built in 1871 by the engineer Clara Holm. "
        "Ships from three countries unload timber there every summer.",
        f"Clara Holm was born in the village of Elmford {number} near the northern border. "
        "Her father Peter Holm repaired church clocks in the whole county.",
        "Bananas are rich in potassium and grow in warm countries. Farmers cut the bunches "
        "while the fruit is green. Trucks carry the boxes to cold stores.",
        "A violin has four strings and is played with a bow. Makers carve the front from "
        "spruce. The varnish protects the wood from sweat.",
        "The old library of the town burned in 1902. Volunteers saved nine hundred books. "
        "A new hall of brick was opened four years later.",
    ]
    paragraphs = [
        {"id": f"p{i}", "title": f"Part {i}", "text": text} for i, text in enumerate(texts)
    ]
    asked = [
        ("Where was the builder of the harbour born?", f"Elmford {number}"),
        ("Who was the father of the engineer who built the harbour?", "Peter Holm"),
    ]
    questions = [
        {
            "id": f"{name}-{i}",
            "question": question,
            "answers": [answer],
            "evidence": ["p0", "p1"],
            "type": "bridge",
        }
        for i, (question, answer) in enumerate(asked)
    ]
    return {
        "id": name,
        "dataset": "hotpotqa",
        "title": name,
        "text": "\n\n".join(texts),
        "paragraphs": paragraphs,
        "questions": questions,
    }


def summary(name, number):
    """Return a hand-made text with the notes of a person about it."""
    facts = ["an engineer built it", "ships unload timber", "the library burned down"]
    return {
        "id": name,
        "dataset": "notes",
        "text": f"{town(name, number)['text']}",
        "bullets": [f"In Brightwater {number}, {fact}." for fact in facts],
    }


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with documents, a tiny model, and the examples made of the documents."""
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "documents").mkdir()
    lines = [json.dumps(town(name, i)) + "\n" for i, name in enumerate(NAMES)]
    (folder / "documents" / "hotpotqa.jsonl").write_text("".join(lines))
    summaries = [json.dumps(summary(name, i)) + "\n" for i, name in enumerate(NAMES)]
    (folder / "documents" / "summaries.jsonl").write_text("".join(summaries))
    saved(folder / "tiny")
    prepare.main([*prepared_from(folder), "--out", str(folder / "data")])
    return folder


def prepared_from(folder):
    return ["--data", str(folder / "documents"), "--embedder", "hashing-64"]


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def trained(places, out, *options):
    """Return the folder of a short run."""
    shape = ("--rank", RANK, "--alpha", ALPHA, "--first-layer", FIRST_LAYER)
    size = ("--tokens", 4000, "--batch-tokens", 800, "--accumulate", 2, "--rate", 0.01)
    place = ("--model", places / "tiny", "--dtype", "float32", "--device", "cpu", "--out", out)
    data = ("--examples", places / "data" / "train.jsonl")
    train.main([str(x) for x in (*place, *data, *size, *shape, *options)])
    return out


def result(out):
    """Return the log and the weights, which must not depend on the place of an interruption."""
    log = [
        {k: v for k, v in r.items() if k != "tokens_per_second"} for r in read(out / "log.jsonl")
    ]
    return log, (out / "adapter" / "adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(places):
    return trained(places, places / "uninterrupted")


def tiny(places, **options):
    return load_reader(str(places / "tiny"), dtype="float32", device="cpu", **options)


def test_examples_have_their_evidence_and_documents_stay_on_one_side(places, tmp_path):
    parts = {part: read(places / "data" / f"{part}.jsonl") for part in ("train", "held_out")}
    held_out = f"Brightwater {NAMES.index(HELD_OUT)} "
    for part, examples in parts.items():
        walks = [e for e in examples if e["skill"] == "walk"]
        assert len(walks) == 2 * (1 if part == "held_out" else len(NAMES) - 1)
        for example in walks:
            gold = [example["nodes"][i] for i in example["gold"]] + example["missing"]
            assert len(gold) == 2
            assert any("1871" in text for text in gold)
            others = [t for i, t in enumerate(example["nodes"]) if i not in example["gold"]]
            assert not set(gold) & set(others)
            assert len(set(others)) >= 2
        assert any(e["skill"] == "points" for e in examples)
        assert (held_out in json.dumps(examples)) == (part == "held_out")
    prepare.main([*prepared_from(places), "--out", str(tmp_path)])
    for part in parts:
        again = (tmp_path / f"{part}.jsonl").read_bytes()
        assert again == (places / "data" / f"{part}.jsonl").read_bytes()
    prepare.main([*prepared_from(places), "--out", str(tmp_path), "--final"])
    assert len([e for e in read(tmp_path / "final.jsonl") if e["skill"] == "walk"]) == 2 * len(
        NAMES
    )


def test_questions_are_made_of_what_paragraphs_begin_with():
    texts = {
        "Ann Lee": "Ann Lee (born 3 May 1950) is a Danish painter. She lives in Oslo.",
        "Bo Hall (director)": "Bo Hall (2 June 1931 – 4 July 1999) was a Danish film director.",
        "Night Ferry": "Night Ferry is a 1972 Danish film directed by Bo Hall and shot in Elmford.",
        "Potassium": "Potassium is a metal. It was found in 1807.",
    }
    paragraphs = [{"id": t, "title": t, "text": text} for t, text in texts.items()]
    found = {}
    for seed in range(20):
        for question in compose.composed(paragraphs, random.Random(seed)):
            found[question["question"]] = question
    for question, answer, evidence in (
        ("Who was born first, Ann Lee or Bo Hall?", "Bo Hall", {"Ann Lee", "Bo Hall (director)"}),
        ("Who is younger, Bo Hall or Ann Lee?", "Ann Lee", {"Ann Lee", "Bo Hall (director)"}),
        (
            "Are Ann Lee and Bo Hall from the same country?",
            "Yes",
            {"Ann Lee", "Bo Hall (director)"},
        ),
        (
            "When did the director of film Night Ferry die?",
            "4 July 1999",
            {"Night Ferry", "Bo Hall (director)"},
        ),
    ):
        assert found[question]["answers"] == [answer]
        assert set(found[question]["evidence"]) == evidence
    assert not any("Potassium" in question for question in found)


def test_steps_of_a_question_have_earlier_answers_filled_in():
    steps = [
        {"question": "Night Ferry >> director", "answer": "Bo Hall", "evidence": "p1"},
        {"question": "When did #1 die?", "answer": "1999", "evidence": "p2"},
    ]
    found = list(compose.steps({"decomposition": steps}))
    assert [q["question"] for q in found] == ["Night Ferry: director?", "When did Bo Hall die?"]
    assert [q["answers"] for q in found] == [["Bo Hall"], ["1999"]]
    assert list(compose.steps({})) == []


def test_points_cover_a_window_join_what_belongs_together_and_do_not_repeat():
    paragraphs = [
        {
            "id": "p0",
            "title": "Clara Holm",
            "text": "Clara Holm was an engineer from the village of Elmford. She built the harbour of "
            "Brightwater in 1871. Before that she had little money and travelled far through the country, "
            "which nobody there ever spoke about in later years, as far as the people of the town remember.",
        },
        {
            "id": "p1",
            "title": "Brightwater",
            "text": "Brightwater is a town with a harbour and two libraries. The old library of the town "
            "burned in 1902 and volunteers saved nine hundred books from the fire. Nobody was hurt, and the "
            "newspapers of the whole country wrote about it for weeks and months.",
        },
    ]
    document = {"dataset": "any", "questions": [], "paragraphs": paragraphs}
    (found,) = [
        window
        for window in points.windows([document], random.Random(2))
        if len(window["points"]) >= 2
    ]
    joined = "Clara Holm was an engineer from the village of Elmford and built the harbour of Brightwater in 1871."
    assert found["points"][0] == joined
    assert any(point.startswith("Brightwater is a town") for point in found["points"])
    assert len(set(found["points"])) == len(found["points"])


def test_sets_can_be_chosen(places, tmp_path):
    prepare.main([*prepared_from(places), "--out", str(tmp_path), "--sets", "squad"])
    assert read(tmp_path / "train.jsonl") == []


def test_questions_about_cells_name_the_row_that_has_the_answer(tmp_path):
    for name in ("tables.jsonl", "again.jsonl"):
        tables.main(["-o", str(tmp_path / name), "--documents", "12", "--seed", "4"])
    assert (tmp_path / "tables.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()
    documents = read(tmp_path / "tables.jsonl")
    for document in documents:
        rows = {paragraph["id"]: paragraph["text"] for paragraph in document["paragraphs"]}
        assert all(row in document["text"] for row in rows.values())
        for question in document["questions"]:
            [row] = (rows[key] for key in question["evidence"])
            name = re.split(r"[,;:|]", row.lstrip("|- "))[0].strip()
            assert name in question["question"]
            assert question["answers"][0] in row
    data = ["--data", str(tmp_path), "--embedder", "hashing-64", "--sets", "tables"]
    prepare.main([*data, "--out", str(tmp_path / "data")])
    parts = ("train", "held_out")
    walks = [walk for part in parts for walk in read(tmp_path / "data" / f"{part}.jsonl")]
    assert len(walks) > len(documents)
    for walk in walks:
        gold = [*(walk["nodes"][i] for i in walk["gold"]), *walk["missing"]]
        assert all(walk["answers"][0] in text for text in gold)
        assert len(gold) == 1


def test_a_summary_gives_points_if_it_is_short_and_copies_nothing():
    good = summary("town-1", 1)
    sentence = good["text"].split(". ")[0] + "."
    others = [
        good | {"bullets": good["bullets"][:2]},
        good | {"bullets": [*good["bullets"], sentence]},
        good | {"bullets": good["bullets"] * 20},
        good | {"text": good["text"] * 20},
        good | {"query_focused": True},
    ]
    (found,) = points.summarised([good, *others])
    assert found["points"] == good["bullets"]
    assert found["running"]
    assert "* " not in window(found)
    assert window(found | {"running": False}).count("* ") == len(found["lines"])


def test_what_lost_its_evidence_is_answered_with_not_found(places, monkeypatch):
    monkeypatch.setattr(trees, "ANSWER_ALONE", 1.0)
    lm, lost = tiny(places), 0
    walks = [e for e in read(places / "data" / "train.jsonl") if e["skill"] == "walk"]
    for share in (0.0, 1.0):
        monkeypatch.setattr(trees, "WITHOUT_EVIDENCE", share)
        for i, example in enumerate(walks):
            tree = Planter(lm).plant(example, random.Random(i))
            texts = [lm.codec.decode(tree.ids[a:b]).strip() for a, b in tree.nodes]
            gold = {*(example["nodes"][i] for i in example["gold"]), *example["missing"]}
            answer = lm.codec.decode([token for _, token in tree.targets[:-1]])
            assert (answer == NOT_FOUND) == (not gold & {*texts})
            assert answer in (NOT_FOUND, example["answers"][0])
            lost += answer == NOT_FOUND
        assert bool(lost) == bool(share)


@pytest.mark.parametrize("prompts", [SearchPrompts(), SearchPrompts.one_turn()], ids=["two", "one"])
def test_a_tree_is_read_as_the_sessions_of_the_library_read_its_paths(places, prompts):
    lm = tiny(places)
    lm.card = replace(lm.card, prompts=prompts)
    planter, objective = Planter(lm), Objective(lm, Weights(), heads=((1, 2), (3, 0)))
    walks = [e for e in read(places / "data" / "train.jsonl") if e["skill"] == "walk"][:3]
    planted = [planter.plant(example, random.Random(i)) for i, example in enumerate(walks)]
    assert shared_tokens(planted) > 20
    with torch.no_grad():
        hidden, attention = objective.forward(planted)
    yes, no = verdict_tokens(lm.codec, prompts)
    compared = 0
    for i, (tree, example) in enumerate(zip(planted, walks, strict=True)):
        texts = [lm.codec.decode(tree.ids[a:b]).strip() for a, b in tree.nodes]
        gold = {*(example["nodes"][i] for i in example["gold"]), *example["missing"]}
        for row, enough in tree.probes:
            seen = tree.ancestors[tree.segments[row]]
            nodes = [n for n, (a, _) in enumerate(tree.nodes) if tree.segments[a] in seen]
            assert enough == (gold <= {texts[n] for n in nodes})
            if not nodes:  # a session has no probe before its first node
                continue
            with torch.no_grad():
                logits = lm.model.lm_head(hidden[i, row]).float()
            margin = logits[yes].logsumexp(-1) - logits[no].logsumexp(-1)
            session = lm.session(
                example["question"],
                prompts=prompts,
                heads=((1, 2), (3, 0)),
                max_new_tokens=8,
            )
            reading = session.read([texts[n] for n in nodes])
            assert torch.sigmoid(margin).item() == pytest.approx(reading.p_yes, abs=1e-5)
            found = attention[i][nodes].numpy()
            np.testing.assert_allclose(found, reading.attention, rtol=1e-4, atol=1e-8)
            compared += 1
    assert compared >= 6


def test_losses_of_verdicts_are_those_of_all_pairs():
    torch.manual_seed(1)
    labels = [[True, False, False], [False, True, True, False], [True, False]]
    trees = [Tree("walk", probes=[(0, label) for label in several]) for several in labels]
    margins = [torch.randn(len(several)) for several in labels]
    found = verdict_losses(trees, margins, 2.0)

    def lacking(chosen):
        pairs = [
            max(0.0, 2.0 - (a - b).item())
            for (a, complete), (b, other) in product(chosen, repeat=2)
            if complete and not other
        ]
        return np.mean(pairs)

    by_tree = [
        list(zip(m, several, strict=True)) for m, several in zip(margins, labels, strict=True)
    ]
    together = [one for several in by_tree for one in several]
    enough = [
        np.mean(
            [
                np.log1p(np.exp(-m.item() if label else m.item()))
                for m, label in together
                if label == k
            ]
        )
        for k in (True, False)
    ]
    assert found["pair"].item() == pytest.approx(
        np.mean([lacking(one) for one in by_tree]), abs=1e-6
    )
    assert found["across"].item() == pytest.approx(lacking(together), abs=1e-6)
    assert found["enough"].item() == pytest.approx(np.mean(enough), abs=1e-6)


def test_walks_that_are_all_incomplete_have_nothing_to_compare():
    trees = [Tree("walk", probes=[(0, False), (1, False)])]
    found = verdict_losses(trees, [torch.tensor([0.0, 2.0])], 2.0)
    assert found.keys() == {"enough"}
    assert found["enough"].item() == pytest.approx((np.log(2) + np.log1p(np.exp(2.0))) / 4)


def test_a_run_has_a_log_a_plot_and_an_adapter_that_the_library_merges(places, uninterrupted):
    log = read(uninterrupted / "log.jsonl")
    assert [record["step"] for record in log] == list(range(1, len(log) + 1))
    assert len(log) >= 3
    assert {"enough", "pair", "across", "rank", "answer"} <= set().union(*log)
    assert (uninterrupted / "loss.png").stat().st_size > 0
    lm = tiny(places)
    lora.add(lm.model, rank=RANK, alpha=ALPHA, first_layer=FIRST_LAYER, seed=5)
    lora.load(lm.model, uninterrupted / "adapter")
    merged = tiny(places, adapter=uninterrupted / "adapter")
    rows = [lm.codec.encode("Who built the harbour of Brightwater?")]
    layered, found = lm.engine.logits(rows, last=4), merged.engine.logits(rows, last=4)
    torch.testing.assert_close(found, layered, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, tiny(places).engine.logits(rows, last=4), atol=1e-3)


@pytest.mark.parametrize("turns", [1, 2])
def test_an_adapter_brings_the_turns_that_it_was_trained_on(places, tmp_path, turns):
    out = trained(places, tmp_path / "run", "--turns", turns, "--tokens", 1)
    asked = SearchPrompts.one_turn() if turns == 1 else SearchPrompts()
    assert tiny(places, adapter=out / "adapter").card.prompts == asked
    settings = json.loads((out / "adapter" / CONFIG).read_text())
    del settings[TURNS]  # an adapter for something else
    (out / "adapter" / CONFIG).write_text(json.dumps(settings))
    assert tiny(places, adapter=out / "adapter").card.prompts == tiny(places).card.prompts


def test_a_stopped_run_continues_as_if_uninterrupted(places, uninterrupted, tmp_path, monkeypatch):
    class Stopped(train.Training):
        def _update(self, group):
            record = super()._update(group)
            os.kill(os.getpid(), signal.SIGTERM)
            return record

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        patched.setattr(train, "Training", Stopped)
        out = trained(places, tmp_path / "run")
        assert len(read(out / "log.jsonl")) == 1
        trained(places, out)
        assert len(read(out / "log.jsonl")) == 2
    assert signal.getsignal(signal.SIGTERM) is before
    assert result(trained(places, out)) == result(uninterrupted)
    assert result(trained(places, out)) == result(uninterrupted)  # nothing is left to be done


def test_a_run_that_crashes_continues_from_its_last_checkpoint(
    places, uninterrupted, tmp_path, monkeypatch
):
    class Crashing(train.Training):
        def _save(self):
            if self.step < 2:
                super()._save()

        def _update(self, group):
            if self.step == 2:
                raise KeyboardInterrupt
            return super()._update(group)

    out = tmp_path / "run"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(train, "Training", Crashing)
        trained(places, out, "--save-minutes", 0)
    assert len(read(out / "log.jsonl")) == 2
    assert json.loads((out / "state.json").read_text())["step"] == 1
    assert result(trained(places, out)) == result(uninterrupted)


def test_a_checkpoint_of_another_shape_is_refused(places, uninterrupted, tmp_path):
    out = trained(places, tmp_path / "run", "--tokens", 1)
    with pytest.raises(SystemExit, match="options"):
        trained(places, out, "--rank", 2)


def test_evaluation_measures_all_skills_with_and_without_an_adapter(
    places, uninterrupted, tmp_path, capsys
):
    reader = places / "tiny"
    common = ["--examples", str(places / "data" / "held_out.jsonl"), "--model", str(reader)]
    common += ["--dtype", "float32", "--device", "cpu", "--windows", "1", "--points-tokens", "8"]
    adapter = ["--adapter", str(uninterrupted / "adapter")]
    for options, name in (([], str(reader)), (adapter, tiny(places, adapter=adapter[1]).name)):
        evaluate.main([*common, *options, "--out", str(tmp_path / "metrics.json")])
        found = json.loads((tmp_path / "metrics.json").read_text())
        assert found["reader"] == name
        walks = found["walks"]["hotpotqa"]
        assert walks["questions"] == 2
        assert 0 <= walks["auc_95"][0] <= walks["auc"] <= walks["auc_95"][1] <= 1
        assert 0 <= walks["paired"] <= 1 and 0 <= walks["f1"] <= 1 and 0 < walks["mrr"] <= 1
        assert found["points"]["windows"] == 1
        assert "| hotpotqa | 2 |" in capsys.readouterr().out
