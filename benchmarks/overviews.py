"""Is a question about the whole of the documents? Coefficients, and a report.

    python benchmarks/overviews.py fit        # writes core/hwdag/search/overview_questions.json
    python benchmarks/overviews.py report     # recall, and what is taken for such a question by mistake

`overviews/train.jsonl` and `overviews/test.jsonl` have questions about the whole ("overview") and questions
about one thing in similar words ("specific"), all in English, the language of the default embedder; the
author of the first 160 test questions had not seen the others. Questions of the data sets are about one thing, too:
those of the training sets to fit, those of the development sets to report.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from hwdag.arrays import Vectors
from hwdag.embedding.default import default_embedder
from hwdag.embedding.hashing import unit_rows
from hwdag.search.overview_questions import COEFFICIENTS, fitted_weights, logit_of
from hwdag_lab.eval.statistics import bootstrap

HERE = Path(__file__).with_suffix("")
DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
EACH = 350  # questions of a data set
WRITTEN_FOR_THIS = 3.0  # weight of a question of `overviews`; a data set's has 1
STRENGTH = 1.0  # inverse of the penalty


def main() -> None:
    """Fit, or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("fit", "report"))
    if parser.parse_args().what == "fit":
        fit()
    else:
        report()


def fit() -> None:
    """Fit the logistic regression and write it."""
    rows = read("train")
    wholes = [text for text, kind in rows if kind == "overview"]
    others = [text for text, kind in rows if kind != "overview"]
    known = of_data_sets("train")
    model = LogisticRegression(C=STRENGTH, max_iter=5000).fit(
        embedded([*wholes, *others, *known]),
        np.repeat([1, 0], [len(wholes), len(others) + len(known)]),
        np.repeat([WRITTEN_FOR_THIS, 1.0], [len(rows), len(known)]),
    )
    found = {
        "embedder": default_embedder().fingerprint,
        "intercept": round(float(model.intercept_[0]), 4),
        "weights": [round(float(weight), 3) for weight in model.coef_[0]],
    }
    COEFFICIENTS.write_text(json.dumps(found) + "\n", "utf-8")


def report() -> None:
    """Print shares with intervals, and the mistakes."""
    rows, known = read("test"), of_data_sets("dev")
    odds = told([text for text, _ in rows])
    for kind in ("overview", "specific"):
        said = [float(one > 0) for one, (_, of) in zip(odds, rows, strict=True) if of == kind]
        print(f"{kind}: taken to be about the whole {bootstrap(said)} of {len(said)}")
    wrong = [
        (kind, text)
        for one, (text, kind) in zip(odds, rows, strict=True)
        if (one > 0) != (kind == "overview")
    ]
    said = [text for one, text in zip(told(known), known, strict=True) if one > 0]
    print(f"development sets: {len(said)} of {len(known)} questions")
    for kind, text in [*wrong, *(("development", text) for text in said)]:
        print(f"    {kind}: {text}")


def told(questions: list[str]) -> list[float]:
    """Log-odds of questions."""
    return [logit_of(vector, fitted_weights()) for vector in embedded(questions)]


def embedded(questions: Iterable[str]) -> Vectors:
    """Embeddings of length 1, (questions, dimension)."""
    return unit_rows(np.stack(list(map(default_embedder().embed_query, questions))))


def read(name: str) -> list[tuple[str, str]]:
    """Questions of `overviews`, each with its kind."""
    lines = (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [(found["question"], found["kind"]) for found in map(json.loads, lines)]


def of_data_sets(split: str) -> list[str]:
    """Return some questions of every data set, the same each time."""
    draw, found = random.Random(0), list[str]()
    for file in sorted((DATA / split).glob("*.jsonl")):
        lines = file.read_text("utf-8").splitlines()
        asked = sorted(
            {q["question"] for line in lines for q in json.loads(line).get("questions", ())}
        )
        found += draw.sample(asked, min(EACH, len(asked)))
    return found


if __name__ == "__main__":
    main()
