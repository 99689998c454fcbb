"""Detection: a planted head is found, criteria equal plain loops, the command writes the file."""

import json
import math

import numpy as np
import pytest
from planted import PLANTED, planted, planted_model
from tiny import model, saved, tokenizer

from hwdag.config import BuildConfig
from hwdag.errors import ContextTooSmall, InputError, ReaderRequired, UnknownOption
from hwdag.index import HWDAGIndex
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.model_file import ModelFile
from hwdag_app.main import main
from hwdag_lab.eval.fields import DataError
from hwdag_lab.eval.models import load_models
from hwdag_lab.heads import AttentionScoring, Example, capture_ranking, detect_heads, read_examples
from hwdag_lab.heads.detection import contrast, detection_scoring, head_values, ndcg
from hwdag_lab.scripted import ScriptedLM

EXAMPLES = [
    Example("zzzz", ("bbbb kkkk bbbb", "zzzz qqqq zzzz", "mmmm rrrr mmmm"), (1,)),
    Example("mmmm", ("mmmm rrrr mmmm", "bbbb kkkk bbbb", "vvvv mmmm vvvv", "zzzz qq"), (0, 2)),
    Example("vvvv", ("zzzz qqqq zzzz", "kkkk", "bbbb kkkk bbbb", "vvvv cccc vvvv"), (3,)),
]
CRITERIA = ("qrhead", "ndcg", "core")


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_planted_head_is_found(criterion, order):
    lm = planted()
    found = detect_heads(lm, EXAMPLES, criterion=criterion, order=order)
    (best, score), (_, second) = found.ranked()[:2]
    assert best == PLANTED
    assert score > second
    assert found.values.shape == (3, 32)
    file = found.model_file(lm, top=4)
    assert file.heads[0] == PLANTED
    assert len(file.heads) == len(file.scores) == 4
    assert file.fits("elsewhere/planted", lm.model.config)
    assert file.criterion == criterion
    assert lm.with_heads(file).known_heads == file.heads


@pytest.mark.parametrize("subtract", [True, False])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_values_are_those_of_every_head_alone(criterion, subtract):
    lm = HuggingFaceLM(model(), tokenizer())
    found = detect_heads(lm, EXAMPLES[:2], criterion=criterion, subtract_null=subtract)
    scoring = found.scoring
    assert scoring.needs_null is subtract
    for row, example in zip(found.values, EXAMPLES, strict=False):
        captured = capture_ranking(lm, example.question, example.passages)
        for i, pair in enumerate(found.pairs):
            one = AttentionScoring(
                parts=scoring.parts,
                heads=(pair,),
                null_question=scoring.null_question,
                tokens=scoring.tokens,
            )
            alone = one.scores(captured)[None]
            np.testing.assert_allclose(row[i], head_values(alone, example, criterion)[0], rtol=1e-5)
    again = detect_heads(lm, EXAMPLES[:2], criterion=criterion, subtract_null=subtract)
    assert again.ranked() == found.ranked()


def test_the_papers_subtract_the_null_question_as_they_do():
    assert [detection_scoring(c).null_question for c in CRITERIA] == [
        "subtract",
        "subtract",
        "none",
    ]
    assert detection_scoring("core", subtract_null=True).null_question == "subtract"
    walk = detection_scoring("qrhead", "first")
    assert (walk.order, walk.parts, walk.aggregate) == ("first", "question", "mean")


def test_equal_heads_are_ranked_by_layer_and_head():
    found = detect_heads(planted(), EXAMPLES, criterion="ndcg", order="last", subtract_null=False)
    tied = [pair for pair, score in found.ranked() if score == found.ranked()[-1][1]]
    assert tied == sorted(tied)


def test_ndcg_equals_a_plain_loop():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(5, 14)), [2, 7, 13]
    for row, value in zip(scores, ndcg(scores, gold), strict=True):
        order = sorted(range(14), key=lambda i: -row[i])[:10]
        gain = sum(1 / math.log2(rank + 2) for rank, i in enumerate(order) if i in gold)
        ideal = sum(1 / math.log2(rank + 2) for rank in range(3))
        assert value == pytest.approx(gain / ideal)
    assert ndcg(np.array([[3.0, 2.0, 1.0]]), [0, 1]).tolist() == [1.0]
    assert ndcg(np.array([[1.0, 1.0, 1.0]]), [0]).tolist() == [1.0]  # ties: the earlier first


def test_contrast_equals_a_plain_loop_and_does_not_overflow():
    scores = np.array([[0.3, 0.1, 0.2, 0.05], [0.1, 0.1, 0.1, 0.1]])
    for row, value in zip(scores, contrast(scores, [0, 2], [1, 3], 0.1), strict=True):
        powers = [math.exp(score / 0.1) for score in row]
        shares = [powers[g] / (powers[g] + powers[1] + powers[3]) for g in (0, 2)]
        assert value == pytest.approx(sum(shares) / 2)
    assert contrast(scores * 1e6, [0], [1, 2, 3], 0.001).tolist() == [1.0, 0.25]


def test_what_cannot_be_detected_on_is_refused():
    lm = planted()
    with pytest.raises(InputError, match="example"):
        detect_heads(lm, [])
    with pytest.raises(InputError, match="temperature"):
        detect_heads(lm, EXAMPLES, criterion="core", temperature=0)
    with pytest.raises(UnknownOption, match="qrhead"):
        detect_heads(lm, EXAMPLES, criterion="best")
    with pytest.raises(ReaderRequired, match="ScriptedLM"):
        detect_heads(ScriptedLM(), EXAMPLES)
    with pytest.raises(ContextTooSmall):
        small = HuggingFaceLM(model(max_position_embeddings=64), tokenizer())
        detect_heads(small, EXAMPLES)
    with pytest.raises(InputError, match="top"):
        detect_heads(lm, EXAMPLES[:1]).model_file(lm, top=0)


GIVEN = {"question": "Who?", "passages": ["Ann.", "Bob.", "Cy."], "gold": [2, 0]}
RECORD = {
    "id": "d1",
    "dataset": "set",
    "text": "Ann jumps.\n\nBob sleeps.\n\nCy sings.",
    "paragraphs": [
        {"id": "0", "title": "One", "text": "Ann jumps."},
        {"id": "1", "title": "", "text": "Bob sleeps."},
        {"id": "2", "title": "", "text": "Cy sings."},
    ],
    "questions": [
        {"id": "q1", "question": "Who jumps?", "answers": ["Ann"], "evidence": ["0"]},
        {"id": "q2", "question": "Nobody?", "answers": ["no"], "evidence": []},
        {"id": "q3", "question": "All?", "answers": ["yes"], "evidence": ["0", "1", "2"]},
        {"id": "q4", "question": "Who sings?", "answers": ["Cy"], "evidence": ["2"]},
    ],
}


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_both_formats_are_read(tmp_path):
    path = lines(tmp_path / "mine.jsonl", GIVEN, RECORD)
    given, *others = read_examples([path])
    assert given == Example("Who?", ("Ann.", "Bob.", "Cy."), (0, 2), "mine")
    assert given.negatives == (1,)
    assert {example.question for example in others} == {"Who jumps?", "Who sings?"}
    jumps = next(example for example in others if example.question == "Who jumps?")
    assert jumps.passages == ("One\nAnn jumps.", "Bob sleeps.", "Cy sings.")
    assert (jumps.gold, jumps.dataset, jumps.group) == ((0,), "set", "set/d1")


def test_the_limit_is_per_data_set(tmp_path):
    path = lines(tmp_path / "mine.jsonl", GIVEN, GIVEN, GIVEN, RECORD)
    assert len(read_examples([path], limit=1)) == 2
    assert len(read_examples([path], limit=2)) == 4
    with pytest.raises(InputError, match="limit"):
        read_examples([path], limit=0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**GIVEN, "gold": [3]}, r"\[3\]"),
        ({**GIVEN, "gold": []}, "0 of 3"),
        ({**GIVEN, "gold": [0, 1, 2]}, "3 of 3"),
        ({**GIVEN, "gold": ["0"]}, r"gold\.0"),
        ({"question": "Who?", "passages": ["a", "b"]}, "gold"),
        ({**GIVEN, "passages": ["a", " "]}, r"passages\.1"),
        ({"question": "Who?"}, "id"),
    ],
)
def test_a_bad_line_is_named(row, message, tmp_path):
    path = lines(tmp_path / "mine.jsonl", GIVEN, row)
    with pytest.raises(DataError, match=rf"mine\.jsonl:2: .*{message}"):
        read_examples([path])
    said = []
    assert len(read_examples([path], malformed="skip", on_skip=said.append)) == 1
    assert len(said) == 1


def test_data_without_a_usable_question_is_reported(tmp_path):
    path = lines(tmp_path / "mine.jsonl", {**RECORD, "questions": RECORD["questions"][1:3]})
    with pytest.raises(InputError, match="gold"):
        read_examples([path])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(saved(tmp_path_factory.mktemp("models") / "planted", planted_model()))


@pytest.fixture
def data(tmp_path):
    rows = ({"question": e.question, "passages": e.passages, "gold": e.gold} for e in EXAMPLES)
    return str(lines(tmp_path / "mine.jsonl", *rows))


@pytest.mark.parametrize("query", ["first", "last"])
def test_the_command_writes_a_list_that_others_take(checkpoint, data, query, tmp_path, capsys):
    out = tmp_path / "heads.json"
    arguments = ["heads", "detect", "--model", checkpoint, "--data", data, "-o", str(out), "-q"]
    assert main([*arguments, "--top", "3", "--query", query]) == 0
    shown = capsys.readouterr().out
    assert f"  {PLANTED[0]}-{PLANTED[1]}  " in shown
    assert "of mine.jsonl" in shown
    file = ModelFile.load(out)
    assert file.heads[0] == PLANTED
    assert len(file.heads) == 3
    assert HuggingFaceLM.from_pretrained(checkpoint, heads=out).known_heads == file.heads
    assert main(["heads", "show", str(out)]) == 0
    assert f"  {PLANTED[0]}-{PLANTED[1]}  " in capsys.readouterr().out


def test_the_library_finds_what_the_command_finds(checkpoint, data, tmp_path, capsys):
    out = tmp_path / "heads.json"
    command = ["heads", "detect", "--model", checkpoint, "--data", data, "-q", "-o", str(out)]
    assert main([*command, "--criterion", "core", "--no-subtract-null", "--limit", "2"]) == 0
    lm = HuggingFaceLM.from_pretrained(checkpoint)
    found = detect_heads(lm, EXAMPLES[:2], criterion="core", subtract_null=False)
    assert ModelFile.load(out).heads == found.model_file(lm).heads


def test_long_questions_are_left_out_and_reported(checkpoint, data, capsys):
    command = ["heads", "detect", "--model", checkpoint, "--data", data, "-q", "--max-tokens"]
    assert main([*command, "150"]) == 0
    told = capsys.readouterr()
    assert "150" in told.err
    for tokens in ("20", "0"):
        assert main([*command, tokens]) == 2
        assert f"{tokens}" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_done(tmp_path, capsys):
    for output in (tmp_path, tmp_path / "none" / "heads.json"):
        command = ["heads", "detect", "--model", "nobody/nothing", "--data", "nowhere.jsonl"]
        assert main([*command, "-o", str(output)]) == 2
        assert str(output) in capsys.readouterr().err


def test_shipped_lists_are_shown(capsys):
    assert main(["heads", "show"]) == 0
    shown = capsys.readouterr().out
    assert (
        "Llama-3.1-8B-Instruct (LlamaForCausalLM, 32 layers of 32 heads, hidden size 4096)" in shown
    )
    assert main(["heads", "show", "qwen2.5-7b"]) == 0
    shown = capsys.readouterr().out
    assert "QRHead release" in shown
    assert "  16-19\n" in shown
    assert main(["heads", "show", "nobody/nothing"]) == 2
    assert "hwdag heads detect --model nobody/nothing" in capsys.readouterr().err


def test_an_index_keeps_the_heads_of_its_edges(checkpoint, tmp_path, capsys):
    lm = HuggingFaceLM.from_pretrained(checkpoint)
    ModelFile.of("x", lm.model.config, source="by hand", heads=(PLANTED,)).save(tmp_path / "a")
    texts = ["The fox jumps over the dog. " * 20, "Who jumps? The lazy dog. " * 20]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.txt").write_text(text)
    index, models = str(tmp_path / "a.hwdag"), ["-q", "--reader", checkpoint]
    build = ["build", str(tmp_path / "0.txt"), "-o", index, "--points", "extractive", *models]
    assert main([*build, "--head-list", "all"]) == 2
    assert "all" in capsys.readouterr().err
    assert main([*build, "--head-list", str(tmp_path / "a")]) == 0
    assert main(["insert", index, str(tmp_path / "1.txt"), *models]) == 0
    config = BuildConfig(points="extractive", edge_heads=(PLANTED,))
    with HWDAGIndex.load(index, reader=lm) as found:
        assert found.config.edge_heads == (PLANTED,)
        expected = HWDAGIndex.from_documents(texts, reader=lm, config=config)
        for one, other in zip(found.graphs.values(), expected.graphs.values(), strict=True):
            np.testing.assert_allclose(one.raw.data, other.raw.data, rtol=1e-5)


def test_the_list_of_a_run_is_recorded(checkpoint, tmp_path):
    lm = HuggingFaceLM.from_pretrained(checkpoint)
    files = [
        ModelFile.of("x", lm.model.config, source="by hand", heads=(pair,))
        for pair in ((0, 1), PLANTED)
    ]
    names = []
    for i, file in enumerate(files):
        file.save(tmp_path / str(i))
        models = load_models(reader=checkpoint, embedder="hashing-64", heads=str(tmp_path / str(i)))
        assert models.reader.known_heads == file.heads
        names.append(models.names["heads"])
    assert names == [file.digest for file in files]
    assert len(set(names)) == 2
    assert "heads" not in load_models(reader=checkpoint, embedder="hashing-64").names


def test_commands_that_load_a_reader_take_a_list(checkpoint, tmp_path, capsys):
    out = tmp_path / "heads.json"
    lm = HuggingFaceLM.from_pretrained(checkpoint)
    ModelFile.of("x", lm.model.config, source="by hand", heads=(PLANTED,)).save(out)
    text = tmp_path / "doc.txt"
    text.write_text("The fox jumps. " * 20)
    index = str(tmp_path / "a.hwdag")
    models = ["--reader", checkpoint, "--head-list", str(out)]
    command = ["build", str(text), "-o", index, *models, "-q", "--points", "extractive"]
    assert main(command) == 0
    assert main(["ask", index, "zzzz?", "--budget", "64", "--max-new-tokens", "2", *models]) == 0
    capsys.readouterr()
    ModelFile.of("x", model(num_hidden_layers=5).config, source="by hand", heads=(PLANTED,)).save(
        out
    )
    assert main(["ask", index, "zzzz?", *models]) == 2
    assert "model" in capsys.readouterr().err
    assert main(command) == 2
