"""Passages by attention: the capture equals the full matrices, the scores equal hand-made ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import PLANTED, planted
from tiny import FAMILIES, HYBRIDS, model, tokenizer
from tokenizers import Tokenizer
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedTokenizerFast

from hwdag.errors import ContextTooSmall, InputError, ModelError, UnknownOption
from hwdag.lm.attention import attention_layers
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.rerank import INSTRUCTION, NULL_QUESTION, typical
from hwdag.text.prompts import SearchPrompts
from hwdag_lab.heads import AttentionScoring, RankingCapture, capture_ranking
from hwdag_lab.heads.capture import ranking_tokens

QUESTION = "who jumps over the dog?"
PASSAGES = ("The quick brown fox jumps.", "A dog\nsleeps all day.", "Nobody asked.")
PRESETS = ("garlic", "pecan", "icr", "qrhead", "core")
SOME = ((3, 7), (1, 3), (3, 0))


def reader(family="llama", **options):
    return HuggingFaceLM(model(family, **options), tokenizer())


def prompt(lm, question, order):
    """Ids of the prompt, and the positions of its three parts and of every passage's tokens."""
    codec, ids, places = lm.codec, list(lm.turns.head), {}

    def add(name, text):
        new = codec.encode(text) if isinstance(text, str) else text
        places[name] = range(len(ids), len(ids) + len(new))
        ids.extend(new)

    def asked(*parts):
        new, ranges = codec.encode_parts(*parts)
        for name, (a, b) in zip(("before", "question", "after"), ranges, strict=True):
            places[name] = range(len(ids) + a, len(ids) + b)
        ids.extend(new)

    def node(i, before, text, after):
        _, ranges = codec.encode_parts(before, text, after)
        add(i, before + text + after)
        start = places[i].start
        places[i] = range(start + ranges[1][0], start + ranges[1][1])

    before, between, _ = SearchPrompts().cut()
    if order == "first":
        asked(before, question, between)
        for i, text in enumerate(PASSAGES):
            node(i, "* ", text.replace("\n", " "), "\n")
    else:
        for i, text in enumerate(PASSAGES):
            label = f"[{i + 1}] "
            node(i, label if i else f"Here are some paragraphs:\n\n{label}", text, "\n\n")
        asked(INSTRUCTION, question, "")
        add("after", lm.turns.reply)
    return ids, places


def dense(lm, question, order):
    """(parts, heads, tokens) straight from the full matrices of eager attention."""
    ids, places = prompt(lm, question, order)
    lm.model.set_attn_implementation("eager")
    with torch.no_grad():
        matrices = lm.model(torch.tensor([ids]), output_attentions=True).attentions
    # hybrids have no matrix for linear-attention layers
    found = torch.stack([matrix for matrix in matrices if matrix is not None])
    heads = found[:, 0].flatten(0, 1).numpy()  # (heads, rows, keys)
    tokens = [t for i in range(len(PASSAGES)) for t in places[i]]
    rows = []
    for name in ("before", "question", "after"):
        part = list(places[name])
        if not part:
            rows.append(np.zeros((len(heads), len(tokens))))
        elif order == "last":
            rows.append(heads[:, part][:, :, tokens].mean(axis=1))
        else:
            rows.append(heads[:, tokens][:, :, part].mean(axis=2))
    return np.stack(rows), [len(places[name]) for name in ("before", "question", "after")]


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("family", [*FAMILIES, *HYBRIDS])
def test_the_capture_equals_the_full_matrices(family, order):
    lm = reader(family)
    found = capture_ranking(lm, QUESTION, PASSAGES, order=order)
    expected, lengths = dense(lm, QUESTION, order)
    np.testing.assert_allclose(found.attention, expected, atol=1e-6)
    assert found.lengths.tolist() == lengths
    expected, lengths = dense(lm, NULL_QUESTION, order)
    np.testing.assert_allclose(found.null, expected, atol=5e-6)
    assert found.null_lengths.tolist() == lengths
    layers = attention_layers(lm.model.config)
    assert found.pairs == tuple((layer, head) for layer in layers for head in range(8))


@pytest.mark.parametrize("order", ["first", "last"])
def test_the_ranges_are_those_of_the_passages(order):
    lm = reader()
    found = capture_ranking(lm, QUESTION, PASSAGES, order=order, null=False)
    _, places = prompt(lm, QUESTION, order)
    assert np.diff(found.ranges, axis=1)[:, 0].tolist() == [len(places[i]) for i in range(3)]
    assert found.ranges[0, 0] == 0
    assert found.ranges[1:, 0].tolist() == found.ranges[:-1, 1].tolist()
    assert found.ranges[-1, 1] == found.attention.shape[-1]
    assert found.null is None


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_capture_of_some_heads_ends_early_and_has_the_same_numbers(order):
    ran = []
    lm = reader()
    whole = capture_ranking(lm, QUESTION, PASSAGES, order=order)
    cost = lm.usage.tflops
    for i, layer in enumerate(lm.model.model.layers):
        layer.register_forward_hook(lambda *_, i=i: ran.append(i))
    pairs = ((1, 3), (0, 2))
    some = capture_ranking(lm, QUESTION, PASSAGES, order=order, heads=pairs)
    assert set(ran) == {0}  # layer 1 ends within its attention
    rows = [layer * 8 + head for layer, head in pairs]
    np.testing.assert_allclose(some.attention, whole.attention[:, rows], atol=1e-7)
    np.testing.assert_allclose(some.null, whole.null[:, rows], atol=1e-7)
    assert some.pairs == pairs
    assert lm.usage.tflops - cost < cost / 2


def test_the_null_question_costs_its_own_tokens_if_the_question_is_last():
    lm = reader()
    capture_ranking(lm, QUESTION, PASSAGES, order="last", null=False)
    alone = lm.usage.tokens
    capture_ranking(lm, QUESTION, PASSAGES, order="last")
    tail = len(lm.codec.encode(INSTRUCTION + NULL_QUESTION)) + len(lm.turns.reply)
    assert lm.usage.tokens - alone == alone + tail


def test_the_tokens_of_a_prompt_can_be_counted_before():
    for order in ("first", "last"):
        lm = reader()
        capture_ranking(lm, QUESTION, PASSAGES, order=order, null=False)
        assert lm.usage.tokens == ranking_tokens(lm, QUESTION, PASSAGES, order=order)


@pytest.mark.parametrize("heads", ["all", SOME, ((1, 3),)])
@pytest.mark.parametrize("order", ["first", "last"])
def test_a_capture_counts_what_runs(order, heads):
    lm = reader()
    lm.model.set_attn_implementation("eager")
    shape, last = lm.engine.shape, 1 if heads == ((1, 3),) else 3
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as found:
        capture_ranking(lm, QUESTION, PASSAGES, order=order, heads=heads, null=False)
    # the plain kernel computes what is above the diagonal too
    above = last * 4 * shape.heads * shape.head_dim * lm.usage.tokens * (lm.usage.tokens - 1) / 2
    counted = lm.usage.tflops * 1e12 + above
    assert counted == pytest.approx(found.get_total_flops(), rel=0.02)


@pytest.mark.parametrize(
    ("question", "passages", "message"),
    [
        (" ", PASSAGES, "question"),
        ("Who?", (), "passage"),
        ("Who?", ("a", "\n"), "1"),
    ],
)
def test_blank_texts_are_refused(question, passages, message):
    with pytest.raises(InputError, match=message):
        capture_ranking(reader(), question, passages)


def test_unknown_choices_are_refused():
    lm = reader()
    with pytest.raises(UnknownOption, match="'middle'"):
        capture_ranking(lm, QUESTION, PASSAGES, order="middle")
    with pytest.raises(InputError, match="heads"):
        capture_ranking(lm, QUESTION, PASSAGES, heads=[(-1, 0)])


def merging(*tokens):
    """Return a reader whose tokenizer has one token for a border and the text before it."""
    inner = Tokenizer.from_str(tokenizer().backend_tokenizer.to_str())
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    made.chat_template = tokenizer().chat_template
    made.add_tokens(list(tokens))
    return HuggingFaceLM(model(vocab_size=len(made)), made)


def test_a_passage_within_the_token_of_a_border_has_that_token():
    """Llama 3 and Qwen read " .\n\n" as one token, that of the text after the passage."""
    lm, passages = merging(".\n\n"), ("A fox.", ".", "B")
    captured = capture_ranking(lm, QUESTION, passages)
    assert np.diff(captured.ranges, axis=1)[:, 0].tolist()[1:] == [1, 1]
    assert np.isfinite(AttentionScoring().scores(captured)).all()


def test_nothing_attends_to_a_question_within_the_token_of_a_border():
    before, between, _ = SearchPrompts().cut()
    lm = merging(before[-1] + "?" + between[:2])
    captured = capture_ranking(lm, "?", ("A fox.", "B"), order="first", null=False)
    assert AttentionScoring.preset("garlic").scores(captured).tolist() == [0.0, 0.0]


def test_a_text_beyond_the_context_is_reported():
    with pytest.raises(ContextTooSmall, match="rank_passages"):
        capture_ranking(reader(max_position_embeddings=64), QUESTION, PASSAGES)


def test_attention_that_is_not_a_number_is_reported():
    lm = reader()
    with torch.no_grad():
        lm.model.model.embed_tokens.weight.fill_(float("nan"))
    with pytest.raises(ModelError):
        capture_ranking(lm, QUESTION, PASSAGES)


def made(order="last", null=True):
    """Two heads, three parts of 1, 2 and 3 tokens, five tokens of two passages."""
    attention = np.arange(30, dtype=np.float32).reshape(3, 2, 5) / 10
    return RankingCapture(
        order=order,
        pairs=((0, 0), (2, 1)),
        known=((2, 1),),
        attention=attention,
        lengths=np.array([1, 2, 3]),
        ranges=np.array([[0, 2], [2, 5]]),
        null=attention[::-1].copy() / 2 if null else None,
        null_lengths=np.array([1, 1, 3]),
    )


def hand_made(capture, parts, heads):
    """Token scores of question and null question, from plain loops."""
    tables = []
    for attention, lengths in (
        (capture.attention, capture.lengths),
        (capture.null, capture.null_lengths),
    ):
        tokens = []
        for token in range(5):
            total = sum(float(attention[p, h, token]) * lengths[p] for p in parts for h in heads)
            tokens.append(total / (len(heads) * sum(lengths[p] for p in parts)))
        tables.append(np.array(tokens))
    return tables


def test_garlic_is_the_mean_over_heads_question_and_tokens():
    capture = made("first")
    asked, _ = hand_made(capture, [1], [0, 1])
    expected = [asked[:2].mean(), asked[2:].mean()]
    scores = AttentionScoring.preset("garlic").scores(capture)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    pecan = AttentionScoring.preset("pecan").scores(capture)
    np.testing.assert_allclose(pecan, scores * [2, 3])


@pytest.mark.parametrize(
    ("name", "parts", "heads"),
    [("icr", [0, 1, 2], [0, 1]), ("qrhead", [0, 1, 2], [1]), ("core", [0, 1], [1])],
)
def test_presets_that_subtract_are_sums_of_differences(name, parts, heads):
    capture = made()
    asked, null = hand_made(capture, parts, heads)
    found = AttentionScoring.preset(name).scores(capture)
    difference = asked - null
    # two and three tokens never are two deviations below their mean
    np.testing.assert_allclose(found, [difference[:2].sum(), difference[2:].sum()], rtol=1e-5)


def test_all_presets_come_from_one_capture_of_each_order():
    lm = reader()
    captures = {o: capture_ranking(lm, QUESTION, PASSAGES, order=o) for o in ("first", "last")}
    for name in PRESETS:
        scoring = AttentionScoring.preset(name)
        scores = scoring.scores(captures[scoring.order])
        assert scores.shape == (3,)
        assert np.isfinite(scores).all()


def test_scores_of_single_heads_average_to_the_whole_if_the_scoring_is_linear():
    scoring = AttentionScoring.preset("icr", tokens="all")
    capture = made()
    np.testing.assert_allclose(scoring.per_head(capture).mean(axis=0), scoring.scores(capture))


def test_atypical_tokens_are_those_far_below_the_mean():
    values = np.array([1.0] * 9 + [-50.0])
    assert typical(values).tolist() == [True] * 9 + [False]
    assert typical(-values).all()  # far above is no reason
    capture = made(null=False)
    one = replace(
        capture, attention=np.tile(values.astype(np.float32), (3, 2, 1)), ranges=np.array([[0, 10]])
    )
    plain = {"null_question": "none", "heads": "all"}
    assert AttentionScoring(**plain).scores(one).tolist() == [9.0]
    assert AttentionScoring(**plain, aggregate="mean").scores(one).tolist() == [1.0]
    assert AttentionScoring(**plain, tokens="all").scores(one).tolist() == [-41.0]


def test_a_request_that_captures_cannot_serve_is_refused():
    with pytest.raises(InputError, match="question"):
        AttentionScoring.preset("garlic").scores(made())
    with pytest.raises(InputError, match="null"):
        AttentionScoring().scores(made(null=False))
    with pytest.raises(InputError, match=r"\[\(1, 1\)\]"):
        AttentionScoring(heads=((1, 1),)).scores(made())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "middle"}, "order"),
        ({"parts": "all"}, "parts"),
        ({"null_question": "add"}, "null_question"),
        ({"heads": "some"}, "heads"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        AttentionScoring(**options)


def test_the_error_for_an_unknown_preset_lists_the_presets():
    with pytest.raises(UnknownOption, match="best"):
        AttentionScoring.preset("best")


LETTERS = ("bbbb kkkk bbbb", "zzzz qqqq zzzz", "mmmm rrrr mmmm", "vvvv cccc vvvv")


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "garlic"])
def test_a_retrieval_head_ranks_the_passage_with_the_words_of_the_question_first(name):
    lm = planted().with_heads([PLANTED])
    scoring = AttentionScoring.preset(name, heads="auto")
    for letter, expected in (("z", 1), ("m", 2), ("v", 3)):
        captured = capture_ranking(lm, letter * 4, LETTERS, order=scoring.order)
        assert scoring.scores(captured).argmax() == expected
