"""`hwdag eval`, `hwdag compare` and `hwdag convert` from the command line."""

import json
import os
from pathlib import Path

import evaluation_world as world
import pytest

from hwdag_app.main import main
from hwdag_lab.eval.data import read_records, write_records
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import read_results
from hwdag_lab.eval.run import run

DATA = Path(os.environ.get("HWDAG_DATA") or Path(__file__).parents[2] / "../shared/data")
SMOKE = DATA / "smoke.jsonl"


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "towns.jsonl"
    write_records(path, world.records(2, questions=1))
    return path


@pytest.mark.model
@pytest.mark.skipif(not SMOKE.is_file(), reason=f"no data at {SMOKE}; set HWDAG_DATA to its folder")
def test_eval_runs_on_real_data_with_the_embedded_models(tmp_path, capsys):
    shortest = sorted(read_records(SMOKE), key=lambda record: len(record.text))[:2]
    data, folder = tmp_path / "data.jsonl", tmp_path / "run"
    write_records(data, shortest)
    command = ["eval", str(data), "-o", str(folder), "--systems", "hwdag,bm25@sentence"]
    command += ["--budgets", "64", "--limit", "2", "--max-new-tokens", "4", "--quiet"]
    assert main(command) == 0
    assert "4 results" in capsys.readouterr().out
    for result in read_results(folder).values():
        assert 0 < result.context_tokens <= 64
        assert result.prediction is not None
        assert result.answer.tflops > 0
        assert (result.search.tflops > 0) == (result.system == "hwdag")
        assert {"f1", "paragraph_half", "evidence_precision"} <= result.metrics.keys()
    text = (folder / "report.md").read_text()
    assert f"hwdag eval {data} -o {folder}" in text
    assert f"## {shortest[0].dataset}\n\n2 questions about 2 documents." in text

    assert main(command) == 0
    assert "0 results" in capsys.readouterr().out
    assert main([*command, "--seed", "1"]) == 2
    assert "seed" in capsys.readouterr().err
    assert main(["compare", str(folder), "--system", "hwdag", "--system", "bm25@sentence"]) == 0
    assert "hwdag - bm25@sentence" in capsys.readouterr().out


def test_invalid_evaluations_are_reported_before_models_are_loaded(towns, tmp_path, capsys):
    command = ["eval", str(towns), "-o", str(tmp_path / "run")]
    assert main([*command, "--systems", "hwdag,colbert"]) == 2
    assert main([*command, "--budgets", "0"]) == 2
    assert main(["eval", str(tmp_path / "nothing.jsonl"), "-o", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["hwdag"] * 3
    assert "'colbert'" in said[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", [["--budgets", "many"], ["--limit", "few"]])
def test_numbers_are_numbers(towns, tmp_path, option, capsys):
    with pytest.raises(SystemExit):
        main(["eval", str(towns), "-o", str(tmp_path), *option])
    assert f"argument {option[0]}: invalid" in capsys.readouterr().err


@pytest.mark.slow
def test_compare_prints_a_verdict_per_budget(tmp_path, capsys):
    plan = Plan(systems=("bm25@sentence", "truncate-middle"), budgets=(20, 40), limit=None)
    for name in ("a", "b"):
        run(world.records(4), world.models(), plan, tmp_path / name)
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["compare", *both, "--metric", "f1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("data set  budget  metric  systems")
    assert len(lines) == 4
    assert all(line.endswith("no difference shown") for line in lines)
    two = ["--system", "bm25@sentence", "--system", "truncate-middle"]
    assert main(["compare", both[0], *two, "--metric", "sentence_recall"]) == 0
    shown = capsys.readouterr().out
    assert "bm25@sentence - truncate-middle" in shown
    assert main(["compare", both[0], str(tmp_path)]) == 2
    assert "folder" in capsys.readouterr().err


def test_convert_writes_what_eval_reads(tmp_path, capsys):
    question = {
        "_id": "one",
        "question": "Where was Ada born?",
        "answer": "London",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Ada", 0]],
        "context": [["Ada", ["Ada was born in London.", " She wrote."]], ["Bob", ["Bob sang."]]],
    }
    source, output = tmp_path / "hotpot.json", tmp_path / "out.jsonl"
    source.write_text(json.dumps([question, {"_id": "two"}]))
    command = ["convert", "hotpotqa", str(source), "-o", str(output)]
    assert main(command) == 2
    assert "hotpot.json" in capsys.readouterr().err
    assert main([*command, "--malformed", "skip"]) == 0
    said = capsys.readouterr()
    assert "1 documents, 1 questions, 1 records" in said.out
    assert said.err.startswith("hwdag: skipped: ")
    (record,) = read_records(output)
    assert [q.answers for q in record.questions] == [("London",)]
