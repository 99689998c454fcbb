"""LoRA adapters in PEFT's format: merged exactly, at no cost, and refused if they do not fit."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import model, saved
from transformers import PreTrainedModel

from hwdag import HWDAGIndex, SearchConfig
from hwdag.config import NEVER, BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, InputError, ModelNotFound
from hwdag.lm.adapter import Adapter
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM

LAYERS = (
    "model.layers.1.self_attn.q_proj",
    "model.layers.1.mlp.down_proj",
    "model.layers.3.mlp.up_proj",
)
PREFIX = "base_model.model."
RANK, ALPHA = 4, 6.0
SCALE = ALPHA / RANK


def factors(seed=0, dtype=torch.float32):
    """Return A and B of every layer, as a file of PEFT names them."""
    plain, tensors = model(), {}
    torch.manual_seed(seed)
    for layer in LAYERS:
        outputs, inputs = plain.get_submodule(layer).weight.shape
        tensors[f"{PREFIX}{layer}.lora_A.weight"] = torch.randn(RANK, inputs).to(dtype)
        tensors[f"{PREFIX}{layer}.lora_B.weight"] = torch.randn(outputs, RANK).to(dtype)
    return tensors


def written(folder, tensors=None, **settings):
    """Return the folder of an adapter."""
    folder.mkdir(exist_ok=True)
    save_file(factors() if tensors is None else tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none"} | settings
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def by_hand(plain, tensors):
    """Weights of a model with an adapter in it, by name."""
    weights = {name: p.detach().clone() for name, p in plain.named_parameters()}
    for layer in LAYERS:
        a, b = (tensors[f"{PREFIX}{layer}.lora_{which}.weight"].float() for which in "AB")
        weight = weights[f"{layer}.weight"]
        weights[f"{layer}.weight"] = (weight.float() + SCALE * (b @ a)).to(weight.dtype)
    return weights


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny model as a folder."""
    return saved(tmp_path_factory.mktemp("models") / "tiny")


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_merging_adds_the_product_to_the_weights_and_nothing_else(tmp_path, dtype, stored):
    folder = written(tmp_path / "adapter", factors(dtype=stored))
    plain, merged = (torch.nn.Module.to(model(), dtype) for _ in range(2))
    Adapter.load(folder).merge(merged)
    wanted = by_hand(plain, load_file(folder / "adapter_model.safetensors"))
    found = dict(merged.named_parameters())
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert {name for name, p in plain.named_parameters() if not torch.equal(p, found[name])} == {
        f"{layer}.weight" for layer in LAYERS
    }


@pytest.mark.parametrize("dtype", ["float32", "auto", "bfloat16"])
def test_a_reader_with_an_adapter_is_the_same_network_and_its_checkpoint_stays(
    checkpoint, tmp_path, dtype
):
    before, folder = digests(checkpoint), written(tmp_path / "adapter")
    plain = HuggingFaceLM.from_pretrained(str(checkpoint), dtype=dtype, device="cpu")
    adapted = HuggingFaceLM.from_pretrained(
        str(checkpoint), dtype=dtype, device="cpu", adapter=folder
    )
    kinds = [[(n, type(m)) for n, m in lm.model.named_modules()] for lm in (plain, adapted)]
    assert kinds[0] == kinds[1]
    assert adapted.tflops(10, 0) == plain.tflops(10, 0)
    rows = [plain.codec.encode("The quick brown fox jumps.")]
    assert not torch.equal(adapted.engine.logits(rows, last=1), plain.engine.logits(rows, last=1))
    assert digests(checkpoint) == before
    again = HuggingFaceLM.from_pretrained(str(checkpoint), dtype=dtype, device="cpu")
    assert torch.equal(again.engine.logits(rows, last=1), plain.engine.logits(rows, last=1))


def test_the_name_tells_adapters_apart(checkpoint, tmp_path):
    first = Adapter.load(written(tmp_path / "a"))
    same = Adapter.load(written(tmp_path / "b", target_modules=["q_proj"]))
    others = (
        Adapter.load(written(tmp_path / "c", factors(1))),
        Adapter.load(written(tmp_path / "d", lora_alpha=7)),
    )
    assert first.fingerprint == same.fingerprint
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 3
    source = str(checkpoint)
    lm = HuggingFaceLM.from_pretrained(source, device="cpu", adapter=first)
    assert lm.name == f"{source}+{first.fingerprint[:12]}"
    named = HuggingFaceLM.from_pretrained(source, device="cpu", adapter=first, name="mine")
    assert named.name == "mine"
    assert load_reader(source, device="cpu", adapter=tmp_path / "a").name == lm.name
    with pytest.raises(ModelNotFound, match="adapter"):
        load_reader(lm.name)


REFUSED = {
    "another kind": ({"peft_type": "IA3"}, "peft_type"),
    "dora": ({"use_dora": True}, "use_dora"),
    "rank-stabilised": ({"use_rslora": True}, "use_rslora"),
    "ranks by layer": ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
    "other modules": ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    "biases": ({"bias": "all"}, "bias"),
    "another base": ({"init_lora_weights": "pissa"}, "init_lora_weights"),
    "three turns": ({"search_turns": 3}, "search_turns"),
    "turns of another kind": ({"search_turns": []}, "search_turns"),
    "no rank": ({"r": None}, "r="),
    "a switch for a rank": ({"r": True}, "r="),
    "no number": ({"lora_alpha": float("nan")}, "lora_alpha"),
    "an infinite number": ({"lora_alpha": float("inf")}, "lora_alpha"),
    "a number beyond all floats": ({"lora_alpha": 10**400}, "large"),
    "a rank beyond all floats": ({"r": 10**400}, "large"),
    "another rank": ({"r": 8}, "r=8"),
}


@pytest.mark.parametrize("settings, message", REFUSED.values(), ids=REFUSED)
def test_what_is_not_plain_lora_is_refused(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        Adapter.load(written(tmp_path / "adapter", **settings))


def test_peft_s_own_defaults_are_plain_lora(tmp_path):
    settings = {"alpha_pattern": {}, "fan_in_fan_out": False, "init_lora_weights": True}
    settings |= {"modules_to_save": None, "use_dora": False, "loftq_config": {}, "revision": None}
    assert set(Adapter.load(written(tmp_path / "adapter", **settings)).factors) == set(LAYERS)


def test_tensors_that_are_no_pairs_are_refused(tmp_path):
    tensors = factors()
    lonely = {key: value for key, value in tensors.items() if "q_proj.lora_B" not in key}
    with pytest.raises(InputError, match=r"model\.layers\.1\.self_attn\.q_proj\.lora_B"):
        Adapter.load(written(tmp_path / "lonely", lonely))
    with pytest.raises(InputError, match=r"\bhead"):
        Adapter.load(written(tmp_path / "more", tensors | {"head": torch.zeros(2)}))
    with pytest.raises(InputError, match="tensors"):
        Adapter.load(written(tmp_path / "none", {}))


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    tensors = factors()
    tensors[f"{PREFIX}{LAYERS[1]}.lora_B.weight"][0, 0] = value
    with pytest.raises(InputError, match=LAYERS[1]):
        Adapter.load(written(tmp_path / "adapter", tensors))


def test_a_plus_alone_does_not_make_an_adapter_of_a_name(tmp_path):
    with pytest.raises(ModelNotFound, match=r"c\+\+/absent"):
        load_reader(str(tmp_path / "c++" / "absent"))


def test_missing_and_broken_files_are_reported(tmp_path):
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        folder = written(tmp_path / "adapter")
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError):
            Adapter.load(folder)
        (folder / name).unlink()
        with pytest.raises(ModelNotFound, match=name):
            Adapter.load(folder)
    with pytest.raises(ModelNotFound, match="adapter"):
        HuggingFaceLM.from_pretrained("nobody/nothing", adapter=tmp_path / "nowhere")


UNFIT = {
    "no such layer": ({"num_hidden_layers": 3}, "model.layers.3.mlp.up_proj"),
    "other sizes": ({"intermediate_size": 80}, r"\(64, 80\)"),
}


@pytest.mark.parametrize("overrides, message", UNFIT.values(), ids=UNFIT)
def test_an_adapter_of_another_model_changes_nothing(tmp_path, overrides, message):
    other = model(**overrides)
    before = {name: p.detach().clone() for name, p in other.named_parameters()}
    with pytest.raises(InputError, match=message):
        Adapter.load(written(tmp_path / "adapter")).merge(other)
    assert all(torch.equal(p, before[name]) for name, p in other.named_parameters())


def test_a_tied_head_changes_alone(tmp_path):
    """As in training, where the change is added to what the head computes."""
    tied = model(tie_word_embeddings=True)
    outputs, inputs = tied.lm_head.weight.shape
    a, b = torch.randn(RANK, inputs), torch.randn(outputs, RANK)
    tensors = {f"{PREFIX}lm_head.lora_A.weight": a, f"{PREFIX}lm_head.lora_B.weight": b}
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        before = tied(ids, output_hidden_states=True)
        wanted = before.logits + SCALE * (before.hidden_states[-1] @ a.T @ b.T)
        Adapter.load(written(tmp_path / "adapter", tensors)).merge(tied)
        torch.testing.assert_close(tied(ids).logits, wanted, atol=1e-4, rtol=1e-4)
    tied.save_pretrained(tmp_path / "merged")
    again = type(tied).from_pretrained(tmp_path / "merged")
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, wanted, atol=1e-4, rtol=1e-4)


def test_layers_that_share_a_weight_change_alone(tmp_path):
    shared = model()
    layer, other = (shared.get_submodule(LAYERS[2].replace("3", i)) for i in "32")
    other.weight = layer.weight
    before = layer.weight.detach().clone()
    Adapter.load(written(tmp_path / "adapter")).merge(shared)
    assert torch.equal(other.weight, before)
    assert not torch.equal(layer.weight, before)


class Quantised(torch.Tensor):
    """Looks like a float32 tensor, as torchao's do, and cannot be written into."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(function))


@pytest.mark.parametrize(
    "quantise",
    [Quantised, lambda w: w.to(torch.int8), lambda w: w.to(torch.float8_e4m3fn)],
    ids=["subclass", "int8", "float8"],
)
def test_quantised_weights_are_refused(tmp_path, quantise):
    quantised = model()
    layer = quantised.get_submodule(LAYERS[2])
    before = {name: p.detach().clone() for name, p in quantised.named_parameters()}
    layer.weight = torch.nn.Parameter(quantise(layer.weight.detach()), requires_grad=False)
    with pytest.raises(InputError, match="not quantised"):
        Adapter.load(written(tmp_path / "other")).merge(quantised)
    others = {n: p for n, p in quantised.named_parameters() if n != f"{LAYERS[2]}.weight"}
    assert all(torch.equal(p, before[name]) for name, p in others.items())


def test_a_folder_with_weights_and_an_adapter_is_refused(tmp_path, monkeypatch):
    """With PEFT transformers would add the adapter; without PEFT it would not."""
    folder = saved(tmp_path / "both")
    written(folder)
    for adapter in (None, folder):
        with pytest.raises(InputError, match=r"adapter_config\.json.*folder of its own"):
            HuggingFaceLM.from_pretrained(str(folder), adapter=adapter, lazy=True)
    (folder / "adapter_config.json").unlink()
    HuggingFaceLM.from_pretrained(str(folder))
    monkeypatch.setattr(PreTrainedModel, "_hf_peft_config_loaded", True)  # as from a hub
    with pytest.raises(InputError, match="folder of its own"):
        HuggingFaceLM.from_pretrained(str(folder))


def test_the_model_on_a_hub_has_to_be_the_one_that_it_was_trained_on(tmp_path):
    adapter = Adapter.load(written(tmp_path / "a", base_model_name_or_path="some/Model"))
    assert adapter.reader_name("other/model").startswith("other/model+")  # a mirror
    assert adapter.reader_name(str(tmp_path)).startswith(str(tmp_path))  # nothing is known
    with pytest.raises(InputError, match="some/Model"):
        HuggingFaceLM.from_pretrained("some/else", adapter=adapter)


def test_an_index_knows_which_of_the_two_built_it(checkpoint, tmp_path):
    folder, source = written(tmp_path / "adapter"), str(checkpoint)
    plain = HuggingFaceLM.from_pretrained(source, dtype="float32", device="cpu")
    adapted = load_reader(source, dtype="float32", device="cpu", adapter=folder)
    config = BuildConfig(points="extractive")
    models = {"embedder": HashingEmbedder(), "config": config}
    text = "The fox jumps over the dog. The dog sleeps. Nobody asked who jumps. The fox is quick."
    search = SearchConfig(token_budget=60, confidence=NEVER)
    for builder, other in ((plain, adapted), (adapted, plain)):
        path = tmp_path / f"{builder is plain}.hwdag"
        with HWDAGIndex.from_documents([text], reader=builder, path=path, **models) as index:
            wanted = index.search("Who jumps?", config=search).steps
        with HWDAGIndex.load(path, reader=other, embedder=HashingEmbedder()) as index:
            assert index.built_by == builder.name
            assert index.search("Who jumps?", config=search).steps
            with pytest.raises(IndexMismatch):
                index.insert(["Bananas are yellow."])
        with HWDAGIndex.load(path, reader=builder, embedder=HashingEmbedder()) as index:
            assert index.search("Who jumps?", config=search).steps == wanted
            index.insert(["Bananas are yellow."])
