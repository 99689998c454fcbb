"""Captured span attention equals eager `output_attentions`, whatever the architecture."""

import re
from pathlib import Path

import pytest
import torch
from tiny import FAMILIES, model
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from hwdag.errors import CaptureUnsupported, InputError
from hwdag.lm import attention
from hwdag.lm.attention import SpanRequest, capture
from hwdag.lm.caches import cache_option

ROWS = [(50, 57), (57, 70)]
KEYS = [(10, 20), (20, 49)]
FEW_KEYS = [(10, 12), (15, 31)]  # so few that the kernel's normalizers are used
SOME_HEADS = ((1, 3), (3, 0), (3, 7))


def eager_means(lm, ids, index, heads, keys=KEYS, **inputs):
    """Span means straight from the full attention matrices, (rows, keys)."""
    before = lm.config._attn_implementation
    lm.set_attn_implementation("eager")
    with torch.no_grad():
        stacked = torch.stack(lm(ids, output_attentions=True, **inputs).attentions)[:, index]
    lm.set_attn_implementation(before)
    if heads is None:
        mean = stacked.flatten(0, 1).mean(0)
    else:
        mean = torch.stack([stacked[layer, head] for layer, head in heads]).mean(0)
    return torch.stack(
        [torch.stack([mean[r0:r1, k0:k1].mean() for k0, k1 in keys]) for r0, r1 in ROWS]
    )


@pytest.fixture(params=FAMILIES)
def lm(request):
    return model(request.param)


@pytest.fixture
def padded(lm):
    """Two sequences, the second with nine tokens of left padding."""
    torch.manual_seed(1)
    ids = torch.randint(5, lm.config.vocab_size, (2, 70))
    mask = torch.ones_like(ids)
    mask[1, :9] = 0
    return ids, {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}


@pytest.mark.parametrize(("heads", "keys"), [(None, KEYS), (SOME_HEADS, FEW_KEYS)])
def test_capture_equals_eager_in_a_left_padded_batch(lm, padded, heads, keys):
    ids, inputs = padded
    with torch.no_grad():
        plain = lm(ids, **inputs).logits
        with capture(lm, [SpanRequest(ROWS, keys)] * 2, heads) as captured:
            logits = lm(ids, **inputs).logits
    for index in range(2):
        expected = eager_means(lm, ids, index, heads, keys, **inputs)
        torch.testing.assert_close(captured.mean(index), expected, atol=1e-6, rtol=0)
    # rows that are padding see nothing and mean nothing
    torch.testing.assert_close(logits[0], plain[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(logits[1, 9:], plain[1, 9:], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("heads", "keys"), [(None, FEW_KEYS), (SOME_HEADS, KEYS)])
def test_capture_equals_eager_on_top_of_a_cache(lm, padded, heads, keys):
    ids = padded[0][:1]
    cache = DynamicCache()
    with torch.no_grad():
        whole = lm(ids).logits
        lm(ids[:, :50], **cache_option(lm, cache))
        request = SpanRequest([(a - 50, b - 50) for a, b in ROWS], keys)
        with capture(lm, [request], heads) as captured:
            logits = lm(ids[:, 50:], **cache_option(lm, cache)).logits
    expected = eager_means(lm, ids, 0, heads, keys)
    torch.testing.assert_close(captured.mean(0), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(logits, whole[:, 50:], atol=1e-5, rtol=0)


def test_small_blocks_give_the_same_averages(lm, padded, monkeypatch):
    ids = padded[0][:1]

    def run():
        with torch.no_grad(), capture(lm, [SpanRequest(ROWS, KEYS)]) as captured:
            output = lm(ids).logits
        return captured.mean(0), output

    expected = run()
    monkeypatch.setattr("hwdag.lm.attention.BLOCK_ELEMENTS", 1000)
    for seen, wanted in zip(run(), expected, strict=True):
        torch.testing.assert_close(seen, wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("keys", [KEYS, FEW_KEYS])
def test_layers_share_what_averages_a_request(lm, padded, keys, monkeypatch):
    """A GPU waits for every index that is sent to it."""
    made, of = [], attention._Average.of
    monkeypatch.setattr(attention._Average, "of", lambda *given: made.append(1) or of(*given))
    ids, inputs = padded
    with torch.no_grad(), capture(lm, [SpanRequest(ROWS, keys)] * 2) as captured:
        lm(ids, **inputs)
    assert len(captured.per_head) > 1
    assert len(made) == 2  # one for each sequence


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalizers_of_the_kernel_change_no_output(dtype, monkeypatch):
    """The same attention as from all scores, and the very logits of a forward without a capture."""
    lm = model().to(dtype)
    ids = torch.randint(
        5, lm.config.vocab_size, (1, 70), generator=torch.Generator().manual_seed(3)
    )
    with torch.no_grad():
        plain = lm(ids).logits
        with capture(lm, [SpanRequest(ROWS, FEW_KEYS)]) as captured:
            logits = lm(ids).logits
        monkeypatch.setattr("hwdag.lm.attention._is_narrow", lambda request, seen: False)
        with capture(lm, [SpanRequest(ROWS, FEW_KEYS)]) as expected:
            lm(ids)
    assert captured.is_narrow and not expected.is_narrow  # which decides what is counted as cost
    assert torch.equal(logits, plain)
    close = 1e-6 if dtype == torch.float32 else 1e-4
    torch.testing.assert_close(captured.mean(0), expected.mean(0), atol=close, rtol=0)


def test_one_result_per_layer_and_head_is_available():
    lm = model()
    with torch.no_grad(), capture(lm, [SpanRequest([(1, 3)], [(0, 1)])], SOME_HEADS) as captured:
        lm(torch.arange(5, 12).view(1, -1))
    assert {layer: tensors[0].shape for layer, tensors in captured.per_head.items()} == {
        1: (1, 1, 1),
        3: (2, 1, 1),
    }


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_model_gets_its_implementation_back_even_after_an_error(implementation):
    lm = model()
    lm.set_attn_implementation(implementation)
    with pytest.raises(ZeroDivisionError), capture(lm, [SpanRequest([(0, 1)], [(0, 1)])]):
        _ = 1 / 0
    assert lm.config._attn_implementation == implementation
    with torch.no_grad():
        lm(torch.arange(5, 12).view(1, -1))


UNSUPPORTED = [
    (BloomForCausalLM, BloomConfig(n_layer=1, hidden_size=32, n_head=2), "bloom"),
    (MambaForCausalLM, MambaConfig(num_hidden_layers=1, hidden_size=32), "mamba"),
    (T5ForConditionalGeneration, T5Config(num_layers=1, d_model=16, num_heads=2), "t5"),
]


@pytest.mark.parametrize(("cls", "config", "name"), UNSUPPORTED)
def test_an_architecture_that_cannot_be_captured_is_named(cls, config, name):
    request = SpanRequest([(0, 1)], [(0, 1)])
    with pytest.raises(CaptureUnsupported, match=name), capture(cls(config), [request]):
        pass


def test_layers_that_stay_silent_are_an_error():
    lm = model()
    with (
        pytest.raises(CaptureUnsupported, match=r"\[0, 1, 2, 3\]"),
        capture(lm, [SpanRequest([(0, 1)], [(0, 1)])]),
    ):
        pass  # no forward at all, as with a model that bypasses the interface


def test_heads_outside_the_model_are_refused():
    with (
        pytest.raises(InputError, match=r"\(4, 0\)"),
        capture(model(), [SpanRequest([(0, 1)], [(0, 1)])], ((4, 0),)),
    ):
        pass


def peak(*, again=False):
    """Return the most memory that this process has had, in MB, since the beginning or since `again`."""
    if again:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(("family", "limit"), [("llama", 100), ("gemma2", 300)])
def test_no_attention_matrix_per_head_exists(family, limit):
    """8 heads x 2048 x 2048 in float32 take 134 MB, above 45 with the kernel of torch, or 270 from blocks."""
    length = 2048
    lm = model(family, num_hidden_layers=1, max_position_embeddings=length, layer_types=None)
    ids = torch.randint(5, 300, (1, length))
    with torch.no_grad():
        with capture(lm, [SpanRequest([(9, 64)], [(0, 9)])]):
            lm(ids[:, :64])
        before = peak(again=True)
        with capture(lm, [SpanRequest([(1750, 2048)], [(0, 750), (750, 1750)])]) as captured:
            lm(ids, logits_to_keep=1)
    assert captured.mean(0).shape == (1, 2)
    assert peak() - before < limit
