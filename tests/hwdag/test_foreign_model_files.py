"""Adapters and head lists from strangers: refused, or harmless."""

import copy
import json
import os
import random

import pytest
import torch
from safetensors.torch import load, save
from tiny import model

from hwdag.errors import InputError, ModelNotFound
from hwdag.lm.adapter import CONFIG, WEIGHTS, Adapter
from hwdag.lm.model_file import ModelFile, shipped

PLAIN = model()
LAYERS = ("model.layers.1.self_attn.q_proj", "model.layers.3.mlp.up_proj")
SETTINGS = {"peft_type": "LORA", "r": 2, "lora_alpha": 4.0, "bias": "none"}
SETTINGS |= {"base_model_name_or_path": "somebody/Tiny", "init_lora_weights": True}
HOSTILE = [None, True, -1, 0, 10**400, 1e308, -1e308, float("nan"), float("inf"), "", "x" * 5_000]
HOSTILE += ["../../etc/passwd", "a/" + "b" * 5_000, "a\0b", [], {}, [[]], {"a": {}}, [10**30] * 9]


def weights():
    """Return the bytes of a small adapter's weights."""
    torch.manual_seed(0)
    tensors = {}
    for layer in LAYERS:
        outputs, inputs = PLAIN.get_submodule(layer).weight.shape
        tensors[f"base_model.model.{layer}.lora_A.weight"] = torch.randn(2, inputs)
        tensors[f"base_model.model.{layer}.lora_B.weight"] = torch.randn(outputs, 2)
    return save(tensors)


WEIGHT_BYTES = weights()
HEADER = 8 + int.from_bytes(WEIGHT_BYTES[:8], "little")


def outcome(folder):
    """Return how using an adapter ended: "refused" with the model as it was, or "merged" and finite."""
    target = copy.deepcopy(PLAIN)
    try:
        adapter = Adapter.load(folder)
        adapter.reader_name("somebody/Tiny")
        adapter.merge(target)
    except (InputError, ModelNotFound) as error:
        assert str(error)
        same = zip(PLAIN.parameters(), target.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in same)
        return "refused"
    assert all(p.isfinite().all() for p in target.parameters())
    return "merged"


def written(folder, settings=None, content=WEIGHT_BYTES):
    (folder / CONFIG).write_text(json.dumps(SETTINGS if settings is None else settings))
    (folder / WEIGHTS).write_bytes(content)
    return folder


def test_the_adapter_itself_is_merged(tmp_path):
    assert outcome(written(tmp_path)) == "merged"


@pytest.mark.parametrize("field", SETTINGS)
def test_hostile_settings_are_refused_or_harmless(field, tmp_path):
    for value in HOSTILE:
        outcome(written(tmp_path, SETTINGS | {field: value}))


def test_broken_weights_are_refused_or_harmless(tmp_path):
    dice, found = random.Random(0), []
    for number in range(300):
        content = bytearray(WEIGHT_BYTES)
        until = HEADER if number % 2 else len(content)
        for _ in range(dice.randint(1, 6)):
            content[dice.randrange(until)] = dice.randrange(256)
        if number % 5 == 0:
            del content[dice.randrange(len(content)) :]
        found.append(outcome(written(tmp_path, content=bytes(content))))
    assert set(found) == {"refused", "merged"}


def test_a_change_that_no_weight_can_hold_is_refused(tmp_path):
    tensors = {name: torch.full_like(t, 1e30) for name, t in load(WEIGHT_BYTES).items()}
    content = save(tensors)
    assert outcome(written(tmp_path, content=content)) == "refused"
    with pytest.raises(InputError):
        Adapter.load(tmp_path).merge(copy.deepcopy(PLAIN))


def test_what_never_ends_is_not_read(tmp_path):
    (tmp_path / CONFIG).symlink_to("/dev/zero")
    os.mkfifo(tmp_path / WEIGHTS)
    assert outcome(tmp_path) == "refused"
    (tmp_path / CONFIG).unlink()
    (tmp_path / CONFIG).write_text(json.dumps(SETTINGS))
    assert outcome(tmp_path) == "refused"
    os.mkfifo(tmp_path / "heads.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "large.json").write_bytes(b" " * ((1 << 24) + 1))
    for name in ("heads.json", "zero.json", "large.json"):
        with pytest.raises(InputError, match=name):
            ModelFile.load(tmp_path / name)


def test_hostile_model_files_are_refused_or_harmless(tmp_path):
    path, good = tmp_path / "heads.json", shipped()[0].to_json()
    dice = random.Random(0)
    contents = [json.dumps(good | {k: v}).encode() for k in good for v in HOSTILE]
    contents += [b"[" * 100_000, b'{"heads": ' + b"[" * 100_000]
    whole = json.dumps(good).encode()
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        contents.append(bytes(content))
    for content in contents:
        path.write_bytes(content)
        try:
            file = ModelFile.load(path)
        except InputError as error:
            assert len(str(error)) < 10_000
            continue
        assert all(0 <= a < file.layers and 0 <= b < file.heads_per_layer for a, b in file.heads)
