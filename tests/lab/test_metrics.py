"""Text metrics equal their public definitions, restated here in another form, on random strings."""

from __future__ import annotations

import logging
import string
import sys
from collections.abc import Callable, Sequence
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processes import python

from hwdag.errors import InputError
from hwdag_lab.eval.text_metrics import bleu4, corpus_bleu, exact_match, f1, normalised, rouge_l

METRICS = [exact_match, f1, rouge_l, bleu4]
ALPHABET = "aAnNtThHeExX19 \t\n\xa0\u3000.,!?'-_$‘’—…éÉİßπ\u0301्日本語😀"
WORDS = st.sampled_from(
    ["The", "a", "an", "yes", "No", "no-answer", "cat", "cats.", "U.S.", "über"]
)
TEXTS = st.text() | st.text(ALPHABET, max_size=30) | st.lists(WORDS, max_size=9).map(" ".join)
ANSWERS = st.lists(TEXTS, min_size=1, max_size=3)


def pieces(text: str) -> list[str]:
    """Runs of letters and digits, and runs of everything else."""
    return ["".join(run) for _, run in groupby(text, str.isalnum)]


def plain_tokens(text: str) -> list[str]:
    """Return the rules of SQuAD v1.1 one character, then one run at a time, without an expression."""
    kept = "".join(c for c in text.lower() if c not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return "".join(" " if run in ("a", "an", "the") else run for run in pieces(kept)).split()


def plain_f1(prediction: list[str], answer: list[str]) -> float:
    """Precision and recall over lists from which every match is crossed out once."""
    left, shared = list(answer), 0
    for token in prediction:
        if token in left:
            left.remove(token)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(prediction), shared / len(answer)
    return 2 * precision * recall / (precision + recall)


def sorted_f1(prediction: list[str], answer: list[str]) -> float:
    """Return the overlap as a merge of two sorted lists; F1 as the inverse mean of inverses."""
    ours, theirs, shared = sorted(prediction), sorted(answer), 0
    while ours and theirs:
        if ours[-1] == theirs[-1]:
            shared += 1
            ours.pop()
            theirs.pop()
        else:
            max(ours, theirs, key=lambda tokens: tokens[-1]).pop()
    return 2 / (len(prediction) / shared + len(answer) / shared) if shared else 0.0


def test_the_punctuation_of_the_restatement_is_that_of_ascii() -> None:
    marks = {c for c in map(chr, range(128)) if c.isprintable() and not c.isalnum() and c != " "}
    assert marks == set(string.punctuation)


@given(TEXTS)
@example("the—a ‘an’ An_the a\u0301 a-n THE.")
def test_normalisation(text: str) -> None:
    assert normalised(text) == " ".join(plain_tokens(text))


@given(TEXTS, ANSWERS)
def test_squad_exact_match_and_f1(prediction: str, answers: list[str]) -> None:
    ours, golds = plain_tokens(prediction), [plain_tokens(answer) for answer in answers]
    assert exact_match(prediction, answers) == (ours in golds)
    assert f1(prediction, answers) == pytest.approx(max(plain_f1(ours, g) for g in golds))


@given(TEXTS, ANSWERS)
def test_longbench_f1(prediction: str, answers: list[str]) -> None:
    ours = plain_tokens(prediction)
    expected = max([0.0, *(sorted_f1(ours, plain_tokens(answer)) for answer in answers)])
    assert f1(prediction, answers) == pytest.approx(expected)


@given(TEXTS, ANSWERS)
def test_rouge_l_is_that_of_rouge_score(prediction: str, answers: list[str]) -> None:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    scorer = RougeScorer(["rougeL"], tokenizer=DefaultTokenizer())
    expected = scorer.score_multi(answers, prediction)["rougeL"].fmeasure
    assert rouge_l(prediction, answers) == expected


@given(TEXTS, ANSWERS)
def test_bleu_4_is_that_of_sacrebleu(prediction: str, answers: list[str]) -> None:
    from sacrebleu.metrics import BLEU

    expected = BLEU(effective_order=True).sentence_score(prediction, answers).score / 100
    assert bleu4(prediction, answers) == pytest.approx(expected)


@given(TEXTS, ANSWERS)
def test_scores_are_shares_and_do_not_depend_on_the_order_of_answers(
    prediction: str, answers: list[str]
) -> None:
    for metric in METRICS:
        score = metric(prediction, answers)
        assert 0 <= score <= 1
        assert metric(prediction, tuple(reversed(answers))) == pytest.approx(score)


@pytest.mark.parametrize(
    ("metric", "prediction", "answers", "expected"),
    [
        (exact_match, "The Denver Broncos!", ["Carolina", "denver broncos"], 1.0),
        (exact_match, "Denver", ["Denver Broncos"], 0.0),
        (f1, "Denver", ["Denver Broncos"], 2 / 3),
        (f1, "the big cat sat", ["a cat sat down"], 2 / 3),
        (f1, "no no no", ["no one"], 2 / 5),
        (f1, "no one", ["no"], 2 / 3),
        (f1, "北京市", ["北京"], 0.0),
        # The examples of rouge-score's and sacrebleu's own test files.
        (rouge_l, "testing one", ["testing one two"], 4 / 5),
        (rouge_l, "testing two", ["testing one two"], 4 / 5),
        (rouge_l, "text first", ["first text", "first something"], 1 / 2),
        (rouge_l, "two meetings", ["two meeting"], 1 / 2),
        (bleu4, "this is a cat", ["okay thanks"], 0.0),
        (
            bleu4,
            "Producția de zahăr primă va fi exprimată în ceea ce privește zahărul alb;",
            ["producţia de zahăr brut se exprimă în zahăr alb;"],
            0.08493,
        ),
        (bleu4, "the cat", ["the cat"], 1.0),
    ],
)
def test_known_values(
    metric: Callable[[str, Sequence[str]], float],
    prediction: str,
    answers: list[str],
    expected: float,
) -> None:
    assert metric(prediction, answers) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("empty", ["", " \n", "the", "?!", "A. The"])
def test_texts_that_normalise_to_nothing(empty: str) -> None:
    assert exact_match(empty, [""]) == 1
    assert f1(empty, [""]) == 0
    assert f1(empty, ["cat"]) == f1("cat", [empty]) == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("answers", [[], (), "Paris"])
def test_a_single_string_or_nothing_is_no_list_of_answers(
    metric: Callable[[str, Sequence[str]], float], answers: Sequence[str]
) -> None:
    with pytest.raises(InputError, match="answer"):
        metric("Paris", answers)


@pytest.mark.parametrize(
    ("metric", "module"), [(rouge_l, "rouge_score.rouge_scorer"), (bleu4, "sacrebleu")]
)
def test_a_missing_library_is_named_with_the_way_to_get_it(
    metric: Callable[[str, Sequence[str]], float],
    module: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=module):
        metric("a", ["a"])


@pytest.mark.slow
def test_the_libraries_are_loaded_by_the_metrics_that_need_them() -> None:
    python("""
        import sys, logging
        from hwdag_lab.eval import text_metrics as m
        m.f1("a b", ["b"]), m.exact_match("a", ["b"])
        assert not {"rouge_score", "sacrebleu", "nltk", "torch"} & set(sys.modules)
        m.rouge_l("a b", ["b"]), m.bleu4("a b", ["b"])
        assert not logging.getLogger().handlers
    """)


def test_rouge_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        rouge_l("a b", ["b"])
    assert caplog.records == []


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4))
def test_corpus_bleu_sums_counts_before_it_divides(rows: list[tuple[str, str, str]]) -> None:
    from sacrebleu.metrics import BLEU

    predictions = [prediction for prediction, *_ in rows]
    plain = BLEU().corpus_score(
        predictions, [[one for _, one, _ in rows], [two for *_, two in rows]]
    )
    found = corpus_bleu(predictions, [answers for _, *answers in rows])
    assert found == pytest.approx(min(1.0, plain.score / 100))


def test_corpus_bleu_takes_as_many_answers_as_each_question_has() -> None:
    predictions = ["the cat sat on the mat", "a dog barked at the moon"]
    more = corpus_bleu(
        predictions, [["the cat sat on the mat", "cats sit"], ["a dog barked loudly"]]
    )
    fewer = corpus_bleu(predictions, [["the cat sat on the mat"], ["a dog barked loudly"]])
    assert 0 < fewer <= more < 1
    mean = sum(map(bleu4, predictions, [["the cat sat on the mat"], ["a dog barked loudly"]])) / 2
    assert fewer != pytest.approx(mean)
    for bad in (([], []), (["a"], []), (["a"], [[]])):
        with pytest.raises(InputError):
            corpus_bleu(*bad)
