"""How well are questions about a person's own documents answered? By kind of question.

    python benchmarks/own_documents.py -o build/own_documents            # default options
    python benchmarks/own_documents.py -o build/own_reader --reader FOLDER --against build/own_documents
    python benchmarks/own_documents.py -o build/more --documents examples/more_documents

A hundred questions over the twenty files of `examples/own_documents`, all in one index: letters,
manuals, tables, a contract, a log, other languages than English, and ten questions that the files do
not answer; or over those of another folder of `examples`: `more_documents`, `table_documents`, `interview_documents`,
`faq_documents`. The rows of a folder
are kept: a new run continues an old one. `--markdown` asks the questions about tables over the Markdown and CSV
files alone, passed as texts, as other loaders give them: rows do not name their columns then.
`--questions refusals.jsonl` asks others of the folder, of which half are not answered there.

F1 is that of the best of the right answers; `holds` is the share of answers that contain one of them;
`touched` is the share of questions of which one node that was shown has every word of the evidence, `first`
of which the first one has;
`found` is the share that is not refused, `confidence` the mean probability that the answer is right.
F1 and `holds` are of the reader's reply, whether it was found or not; `given` is the share of questions
that get a right answer (an F1 of at least 0.5, or it holds one).
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from hwdag import HWDAGIndex, SearchConfig
from hwdag.text.words import words
from hwdag.types import Document, Node
from hwdag_files.read import read_documents
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.text_metrics import f1

OWN = Path(__file__).parents[1] / "examples" / "own_documents"
RIGHT = 0.5  # F1
MEASURES = ("f1", "holds", "given", "touched", "first", "found", "confidence", "seconds")
UNANSWERABLE, NEAR_MISS, FOLLOW_UP = "unanswerable", "near miss", "follow-up"
MARKDOWN = (".md", ".csv")
REFUSAL = re.compile(
    r"\b(not|no|none|cannot|unknown|nicht|kein\w*|ningun\w*|nada)\b|n't\b", re.IGNORECASE
)
"""Words of a reply that says that there is no answer; only looked for if there is none."""


def main() -> None:
    """Ask the questions without an answer yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--documents", type=Path, default=OWN, help="folder of files and questions")
    parser.add_argument("--questions", default="questions.jsonl", help="file of the folder")
    parser.add_argument("--reader", help="a model's folder or name")
    parser.add_argument("--method", default="auto", help="of the index")
    parser.add_argument("--budget", type=int, help="tokens of evidence")
    parser.add_argument("--limit", type=int, help="the first so many questions alone")
    parser.add_argument(
        "--markdown", action="store_true", help="tables as Markdown texts have them"
    )
    parser.add_argument("--against", type=Path, help="folder of other rows, to compare the F1 with")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rows.jsonl"
    done = {row["id"] for row in rows_of(path)}
    questions = rows_of(options.documents / options.questions)
    left = [row for row in questions if row["id"] not in done]
    config = SearchConfig(token_budget=options.budget)
    read = documents(options.documents)
    if options.markdown:
        read = markdown_documents(options.documents)
        left = [row for row in left if row["file"].endswith(MARKDOWN) and row["kind"] == "table"]
    built = HWDAGIndex.from_documents(read, method=options.method, reader=options.reader)
    with built as index:
        for question in left[: options.limit]:
            row = asked(index, question, config)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(rows_of(path)))
    print(separated(rows_of(path)))
    if options.against:
        print(difference(rows_of(path), rows_of(options.against / "rows.jsonl")))


def documents(folder: Path) -> Iterator[Document]:
    """Yield the files of a folder. Raises `RuntimeError` for one that cannot be read."""
    for document in read_documents([folder / "files"]):
        if not isinstance(document, Document):
            raise RuntimeError(f"{document.path}: {document.reason}")
        yield document


def markdown_documents(folder: Path) -> Iterator[Document]:
    """Yield the Markdown files of a folder as they are, and the CSV files as tables of Markdown."""
    for path in sorted((folder / "files").iterdir()):
        text = path.read_text("utf-8-sig") if path.suffix in MARKDOWN else ""
        if path.suffix == ".csv":
            comma = csv.Sniffer().sniff(text, ";,").delimiter
            rows = [row for row in csv.reader(text.splitlines(), delimiter=comma) if len(row) > 1]
            cells = [" | ".join(cell.replace("|", "/") for cell in row) for row in rows]
            cells.insert(1, " | ".join("---" for _ in rows[0]))
            text = "\n".join([f"# {path.stem}", "", *(f"| {row} |" for row in cells)])
        if text:
            yield Document(path.as_posix(), text, title=path.stem)


def asked(index: HWDAGIndex, question: dict, config: SearchConfig) -> dict:
    """Return the answer to a question, and how good it is."""
    history = [(asked, said) for asked, said in question.get("history", ())]
    answer = index.answer(question["question"], config=config, history=history)
    shown = [step.node for step in answer.retrieval.steps]
    answers, places = question["answers"], places_of(question)
    row = {"id": question["id"], "kind": question["kind"], "text": answer.reply}
    row |= {"found": answer.found, "confidence": answer.confidence}
    row |= {"answerability": answer.retrieval.answerability, "seconds": answer.usage.seconds}
    if answers:
        row["f1"], row["holds"] = rated(answer.reply, answers)
        row["given"] = answer.found is not False and (row["f1"] >= RIGHT or row["holds"])
        has = [[holds(node, *place) for place in places] for node in shown]
        row["touched"] = all(map(any, zip(*has, strict=True)))
        row["first"] = any(any(one) for one in has[:1])
    return row


def rated(reply: str, answers: Sequence[str]) -> tuple[float, bool]:
    """Return the F1 of a reply, and whether it holds one of the right answers."""
    said = " ".join(words(reply))
    return f1(reply, answers), any(" ".join(words(one)) in said for one in answers)


def places_of(question: dict) -> list[tuple[str, str]]:
    """Return each evidence of a question with the name of its file; a list has several."""
    some, files = question["evidence"], question["file"]
    some = some if isinstance(some, list) else [some]
    return list(zip(files if isinstance(files, list) else [files] * len(some), some, strict=True))


def holds(node: Node, file: str, evidence: str) -> bool:
    """Return whether a node is of this file and has all words of the evidence."""
    return Path(node.document_id).name == file and set(words(evidence)) <= set(words(node.text))


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict]) -> str:
    """Return a line for each kind of question, and one for all that have an answer."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows if "f1" in row))
    lines = ["| kind | n | " + " | ".join(MEASURES) + " |", "|---" * (2 + len(MEASURES)) + "|"]
    for kind in (*kinds, "all answerable", NEAR_MISS, UNANSWERABLE):
        own = [r for r in rows if r["kind"] in (kinds if kind == "all answerable" else [kind])]
        means = [
            f"{np.mean(values):.2f}"
            if (values := [r[m] for r in own if r.get(m) is not None])
            else ""
            for m in MEASURES
        ]
        lines.append(f"| {kind} | {len(own)} | " + " | ".join(means) + " |")
    return "\n".join(lines)


def separated(rows: list[dict]) -> str:
    """Rate how well answerable questions, and right replies, rank above the others: AUC with an interval."""
    rated = [row for row in rows if row["answerability"] is not None]
    known = np.array(["f1" in row for row in rated])
    right = np.array([row.get("f1", 0.0) >= RIGHT or row.get("holds", False) for row in rated])
    return "\n".join(
        f"AUC of {name} for {what}: {auc(labels, np.array([row[name] for row in rated]))}"
        for name, what, labels in (
            ("answerability", "questions that the files answer", known),
            ("confidence", "replies that are right", right),
        )
    )


def auc(labels: np.ndarray, said: np.ndarray) -> str:
    """Return the area under the ROC curve with its 95 % interval, from resampled questions."""
    if labels.all() or not labels.any():
        return "not defined, all questions are of one kind"
    chance = np.random.default_rng(0)
    draws = [np.arange(len(labels)), *chance.integers(0, len(labels), (1000, len(labels)))]
    first, *others = [
        float((above[:, None] > below).mean() + (above[:, None] == below).mean() / 2)
        for draw in draws
        if 0 < len(above := said[draw][labels[draw]]) < len(draw)
        and len(below := said[draw][~labels[draw]])
    ]
    low, high = np.quantile(others, [0.025, 0.975])
    return f"{first:.2f} [{low:.2f}, {high:.2f}], {len(labels)} questions"


def difference(rows: list[dict], others: list[dict]) -> str:
    """Return the F1 of rows minus that of others, over the questions of both that have an answer."""
    before = {row["id"]: row["f1"] for row in others if "f1" in row}
    paired = [row["f1"] - before[row["id"]] for row in rows if row["id"] in before]
    return f"F1 minus the other: {bootstrap(paired)}, {len(paired)} questions"


if __name__ == "__main__":
    main()
