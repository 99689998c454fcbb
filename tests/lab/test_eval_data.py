import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.errors import InputError, UnknownOption
from hwdag.types import Node, Span
from hwdag_lab.eval.data import (
    by_dataset,
    pool_records,
    read_records,
    records_of,
    sample,
    write_records,
)
from hwdag_lab.eval.fields import DataError
from hwdag_lab.eval.schema import (
    Paragraph,
    Question,
    Record,
    paragraph_spans,
    parse_record,
    sentence_spans,
)

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
DEV = sorted((DATA / "dev").glob("*.jsonl"))
needs_data = pytest.mark.skipif(not DEV, reason="HWDAG_DATA does not point at the data folder")

TEXT = "Passage 1:\nAnna\nAnna met Ben. They  left.\n\nPassage 2:\nBen\nBen was born in Rome."
ROW = {
    "id": "d:1",
    "dataset": "d",
    "title": "T",
    "text": TEXT,
    "paragraphs": [
        {"id": "p0", "title": "Anna", "text": "Anna met Ben. They  left."},
        {"id": "p1", "title": "Ben", "text": "Ben was born in Rome."},
    ],
    "questions": [
        {
            "id": "1",
            "question": "Where was the man born whom Anna met?",
            "answers": ["Rome", "in Rome"],
            "evidence": ["p1", "p0", "p1"],
            "type": "bridge",
            "evidence_text": ["They left.", "Ben was born in Rome.", "No such sentence."],
            "evidence_sets": [["p1"], []],
        }
    ],
}
CHOICE = {
    "id": "d:2",
    "dataset": "d",
    "text": "One. Two. Three.",
    "questions": [
        {
            "id": "2",
            "question": "Which?",
            "answers": ["b"],
            "evidence": ["Three.", "One."],
            "options": ["a", "b"],
            "label": 1,
        }
    ],
}


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def changed(row, *place, to):
    """Return a deep copy of the row with another value at the place."""
    copy = json.loads(json.dumps(row))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if to is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = to
    return copy


def slices(record, spans):
    return [record.text[s.start : s.end] for s in spans]


def test_a_line_is_a_record(tmp_path):
    [record] = read_records(write_rows(tmp_path / "d.jsonl", ROW))
    [question] = record.questions
    assert (record.id, record.dataset, record.title, record.text) == ("d:1", "d", "T", TEXT)
    assert [(p.id, p.title) for p in record.paragraphs] == [("p0", "Anna"), ("p1", "Ben")]
    both = ["Anna met Ben. They  left.", "Ben was born in Rome."]
    assert slices(record, [p.span for p in record.paragraphs]) == both
    assert slices(record, question.evidence) == both
    assert question.evidence_sets == ((record.paragraphs[1].span,), ())
    assert slices(record, question.sentences) == ["They  left.", "Ben was born in Rome."]
    assert question.answers == ("Rome", "in Rome")
    assert (question.type, question.options, question.label) == ("bridge", (), None)


def test_evidence_without_paragraphs_is_quoted(tmp_path):
    [record] = read_records(write_rows(tmp_path / "d.jsonl", CHOICE))
    [question] = record.questions
    assert record.paragraphs == ()
    assert (record.title, question.type) == ("", "")
    assert slices(record, question.evidence) == ["One.", "Three."]
    assert (question.options, question.label) == (("a", "b"), 1)


def test_reading_is_streaming(tmp_path):
    path = write_rows(tmp_path / "d.jsonl", ROW, changed(CHOICE, "text", to=" "))
    reader = read_records(path)
    assert next(reader).id == "d:1"
    with pytest.raises(DataError, match="blank"):
        next(reader)


def test_blank_lines_byte_order_mark_and_odd_line_breaks(tmp_path):
    path = tmp_path / "d.jsonl"
    row = changed(CHOICE, "text", to="One. Two.\u2028\x85Three.\r\n")
    data = f"\n{json.dumps(ROW)}\r\n  \n{json.dumps(row, ensure_ascii=False)}"
    path.write_bytes(b"\xef\xbb\xbf" + data.encode())
    assert [r.text for r in read_records(path)] == [TEXT, row["text"]]
    path.write_bytes(b"\xef\xbb\xbf" + data.lstrip().encode())
    assert [r.text for r in read_records(path)] == [TEXT, row["text"]]


BROKEN = [
    (b"{", "JSON"),
    (b"[" * 100_000, "JSON"),
    (b'{"id": "\xff"}', "UTF-8"),
    (b"[]", "dictionary"),
    (changed(ROW, "id", to=None), "id: "),
    (changed(ROW, "id", to=7), "id: "),
    (changed(ROW, "dataset", to=""), "dataset: "),
    (changed(ROW, "title", to=[]), "title: "),
    (changed(ROW, "text", to=" \n"), "text: "),
    (changed(ROW, "text", to="half \ud800"), "surrogate"),
    (changed(ROW, "paragraphs", to={}), "paragraphs: "),
    (changed(ROW, "paragraphs", 0, to="x"), "paragraphs.0: "),
    (changed(ROW, "paragraphs", 0, "text", to="Carl"), "text"),
    (changed(ROW, "paragraphs", 0, "text", to=""), "blank"),
    (changed(ROW, "paragraphs", 1, "id", to="p0"), "'p0'"),
    (changed(ROW, "questions", to=None), "questions: "),
    (changed(ROW, "questions", 0, "question", to=" "), "questions.0.question: "),
    (changed(ROW, "questions", 0, "answers", to=None), "questions.0.answers: "),
    (
        changed(ROW, "questions", 0, "answers", to=[]),
        "questions.0.answers: ",
    ),
    (changed(ROW, "questions", 0, "answers", to="Rome"), "answers: "),
    (
        changed(ROW, "questions", 0, "answers", to=[1.5]),
        "answers.0: ",
    ),
    (changed(ROW, "questions", 0, "evidence", to=["p7"]), "'p7'"),
    (
        changed(ROW, "questions", 0, "evidence_sets", to=["p1"]),
        "evidence_sets.0: ",
    ),
    (changed(ROW, "questions", 0, "evidence_sets", to=[["x"]]), "'x'"),
    (changed(ROW, "questions", to=ROW["questions"] * 2), "'1'"),
    (changed(CHOICE, "questions", 0, "evidence", to=["Four."]), "text"),
    (changed(CHOICE, "questions", 0, "label", to=2), "is 2"),
    (changed(CHOICE, "questions", 0, "label", to=-1), "is -1"),
    (changed(CHOICE, "questions", 0, "label", to=True), "label: "),
    (changed(CHOICE, "questions", 0, "label", to=None), '"label"'),
    (changed(CHOICE, "questions", 0, "options", to=None), "options"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN)
def test_malformed_records_are_named_by_file_and_line(tmp_path, broken, message):
    line = broken if isinstance(broken, bytes) else json.dumps(broken).encode()
    path = tmp_path / "d.jsonl"
    good = [changed(ROW, "questions", to=[]), changed(CHOICE, "id", to="d:3")]
    lines = [json.dumps(good[0]).encode(), line, json.dumps(good[1]).encode()]
    if isinstance(broken, dict) and broken.get("id") == "d:1":
        lines[0] = json.dumps(changed(good[0], "id", to="d:0")).encode()
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError) as raised:
        list(read_records(path))
    said = str(raised.value)
    assert said.startswith(f"{path}:2: ")
    assert message in said
    messages = []
    kept = list(read_records(path, malformed="skip", on_skip=messages.append))
    assert [record.id for record in kept] == [json.loads(lines[0])["id"], "d:3"]
    assert len(messages) == 1
    assert said.startswith(messages[0])
    assert len(list(read_records(path, malformed="skip"))) == 2


def test_ids_are_unique_in_a_data_set_over_all_files(tmp_path):
    write_rows(tmp_path / "a.jsonl", ROW)
    write_rows(tmp_path / "b.jsonl", changed(ROW, "id", to="d:9"))
    with pytest.raises(DataError, match=r"b\.jsonl:1: "):
        records_of([tmp_path])
    write_rows(tmp_path / "b.jsonl", changed(ROW, "questions", to=[]))
    with pytest.raises(DataError, match=r"b\.jsonl:1: "):
        records_of([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    write_rows(tmp_path / "b.jsonl", changed(ROW, "dataset", to="e"), CHOICE)
    records = records_of([tmp_path])
    groups = by_dataset(records)
    assert list(groups) == ["d", "e"]
    assert [r.id for r in groups["d"]] == ["d:1", "d:2"]
    assert groups["e"] == [records[1]]


def test_a_skipped_record_reserves_no_ids(tmp_path):
    broken = changed(ROW, "questions", to=[*ROW["questions"], {}])
    path = write_rows(tmp_path / "a.jsonl", broken, ROW)
    assert [r.id for r in read_records(path, malformed="skip")] == ["d:1"]


def test_files_that_are_not_there(tmp_path):
    for malformed in ("error", "skip"):
        with pytest.raises(DataError):
            list(read_records(tmp_path / "none.jsonl", malformed=malformed))
        with pytest.raises(DataError):
            list(read_records(tmp_path, malformed=malformed))
        with pytest.raises(DataError, match="jsonl"):
            records_of([tmp_path], malformed=malformed)


def test_malformed_is_checked_at_once(tmp_path):
    with pytest.raises(UnknownOption, match="malformed"):
        read_records(tmp_path, malformed="ignore")


def test_repeated_paragraphs_get_distinct_spans():
    text = "A: yes\nB: yes yes\nyes\nB: yes\nyes"
    spans = paragraph_spans(text, ["yes", "yes", "B: yes", "yes yes", "yes"])
    assert spans[:2] == [Span(18, 21), Span(29, 32)]
    assert spans[2] == Span(22, 28)  # out of order: searched from the start, whole lines first
    assert spans[3] == Span(10, 17)
    assert len(set(spans)) == 5
    assert paragraph_spans("a b", ["a", "a", "c"]) == [Span(0, 1), Span(0, 1), None]


def test_a_short_paragraph_is_not_found_in_a_heading():
    assert paragraph_spans("Passage 1:\nT\nage", ["age"]) == [Span(13, 16)]


def test_sentences_are_searched_within_the_gold_paragraphs_only():
    text = "x y. x\ny. x y."
    assert sentence_spans(text, ["x y."], [Span(5, 9)]) == [Span(5, 9)]
    assert sentence_spans(text, ["x y."], [Span(5, 14)]) == [Span(10, 14)]  # verbatim first
    assert sentence_spans(text, ["x y."] * 3, [Span(0, 4), Span(5, 14)]) == [
        Span(0, 4),
        Span(5, 9),
        Span(10, 14),
    ]
    assert sentence_spans(text, ["z"], [Span(0, 14)]) == []
    assert sentence_spans(text, ["x y."], []) == []


def test_a_pool_holds_every_paragraph_once_and_asks_about_all():
    """Two records share the paragraph on Ben; a third one only adds a passage."""
    first = parse_record(ROW)
    text = "Ben was born in Rome.\nCarl sang."
    rows = [
        {"id": "b", "title": "Ben", "text": text[:21]},
        {"id": "c", "title": "", "text": text[22:]},
    ]
    asked = {"id": "2", "question": "Who sang?", "answers": ["Carl"], "evidence": ["c", "b"]}
    unasked = {"id": "3", "question": "Who?", "answers": ["Carl"]}
    second = parse_record(
        {"id": "s", "dataset": "e", "text": text, "paragraphs": rows, "questions": [asked, unasked]}
    )
    third = parse_record(
        {
            **changed(ROW, "questions", to=[]),
            "dataset": "f",
            "paragraphs": [{"id": "x", "title": "Dora", "text": "Anna"}],
        }
    )
    pools = pool_records([first, second], [third])
    assert [(p.dataset, [q.id for q in p.questions]) for p in pools] == [
        ("d_pool", ["1"]),
        ("e_pool", ["2"]),
    ]
    one, other = pools
    assert one.paragraphs == other.paragraphs
    assert [(p.title, one.text[p.span.start : p.span.end]) for p in one.paragraphs] == [
        ("Anna", "Anna met Ben. They  left."),
        ("Ben", "Ben was born in Rome."),
        ("", "Carl sang."),
        ("Dora", "Anna"),
    ]
    assert slices(one, one.questions[0].evidence) == slices(first, first.questions[0].evidence)
    assert slices(one, one.questions[0].sentences) == slices(first, first.questions[0].sentences)
    assert slices(other, other.questions[0].evidence) == ["Ben was born in Rome.", "Carl sang."]
    assert parse_record(json.loads(json.dumps(one.to_json()))) == one
    titles = [(document.title, document.text) for document in one.documents]
    assert titles[1:3] == [("Ben", "Ben was born in Rome."), ("", "Carl sang.")]


def test_nodes_of_a_pool_are_slices_of_its_text():
    (pool,) = pool_records([parse_record(ROW)])
    document = pool.documents[1]
    node = Node("n", document.id, 1, "", "chunk", 1, (Span(0, 3), Span(4, 7)))
    assert slices(pool, pool.spans(node)) == ["Ben", "was"]
    whole = Node("w", "pool", 1, "", "chunk", 1, (Span(3, 9),))
    assert pool.spans(whole) == [Span(3, 9)]


words = st.text("ab \n", min_size=1, max_size=6).filter(str.strip)


@st.composite
def rows(draw):
    paragraphs = draw(st.lists(words, max_size=5))
    text = draw(words) + "\n".join(paragraphs)
    ids = [f"p{i}" for i in range(len(paragraphs))]
    quotes = st.sampled_from(ids or [text.split()[0], text])
    evidence = draw(st.lists(quotes, max_size=4))
    gold = [paragraphs[ids.index(e)] for e in evidence if e in ids]
    parts = st.sampled_from([part for each in gold for part in each.split()] or ["a"])
    options = draw(st.lists(words, max_size=3))
    return {
        "id": draw(words),
        "dataset": draw(words),
        "title": draw(st.text(max_size=3)).encode("ascii", "ignore").decode(),
        "text": text,
        **({"paragraphs": _numbered(paragraphs)} if paragraphs else {}),
        "questions": [
            {
                "id": "1",
                "question": draw(words),
                "answers": draw(st.lists(words, min_size=1, max_size=2)),
                "evidence": evidence,
                "type": draw(st.sampled_from(["", "é"])),
                "evidence_text": draw(st.lists(parts, max_size=1)),
                "evidence_sets": draw(st.lists(st.lists(quotes, max_size=2), max_size=2)),
                **({"options": options, "label": len(options) - 1} if options else {}),
            }
        ],
    }


def _numbered(paragraphs):
    return [{"id": f"p{i}", "title": "t", "text": text} for i, text in enumerate(paragraphs)]


@given(rows())
def test_every_span_selects_its_text(row):
    record = parse_record(row)
    assert slices(record, [p.span for p in record.paragraphs]) == [
        p["text"] for p in row.get("paragraphs", [])
    ]
    [question], [asked] = record.questions, row["questions"]
    names = {p.id: p.span for p in record.paragraphs}
    expected = [
        record.text[names[e].start : names[e].end] if names else e for e in asked["evidence"]
    ]
    assert set(slices(record, question.evidence)) == set(expected)
    for spans in (question.evidence, question.sentences, *question.evidence_sets):
        assert list(spans) == sorted(set(spans))


@given(rows())
def test_to_json_is_the_inverse_of_parse_record(row):
    record = parse_record(row)
    again = parse_record(json.loads(json.dumps(record.to_json())))
    assert again == record
    assert again.to_json() == record.to_json()


def test_written_records_are_read_back(tmp_path):
    records = [parse_record(ROW), parse_record(changed(CHOICE, "title", to="é\u2028"))]
    path = tmp_path / "out.jsonl"
    write_records(path, records)
    assert list(read_records(path)) == records
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_older_file(tmp_path):
    path = tmp_path / "out.jsonl"
    write_records(path, [parse_record(ROW)])
    before = path.read_bytes()
    question = Question("q", "?", ("a",), evidence=(Span(0, 1),))
    paragraph = Paragraph("p0", "", Span(0, 2))
    bad = Record("r", "d", "", "text", (paragraph,), (question,))
    with pytest.raises(InputError, match="evidence"):
        write_records(path, [parse_record(ROW), bad])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def world(documents=12, questions=25, dataset="w"):
    return [
        Record(
            f"{dataset}{d}",
            dataset,
            "",
            "text",
            (),
            tuple(Question(f"{d}-{q}", "?", ("a",)) for q in range(questions)),
        )
        for d in range(documents)
    ]


def ids(records):
    return [(r.dataset, q.id) for r in records for q in r.questions]


def test_sample_fills_document_by_document():
    chosen = sample(world(), limit=34, seed=0)
    assert [len(r.questions) for r in chosen] == [10, 10, 10, 4]
    chosen = sample(world(), limit=34, seed=0, per_document=7)
    assert [len(r.questions) for r in chosen] == [7, 7, 7, 7, 6]
    # when all had their turn, they have a second one
    chosen = sample(world(), limit=125, seed=0)
    assert [len(r.questions) for r in chosen] == [15] + [10] * 11


@given(st.integers(1, 320), st.integers(1, 320), st.integers(0, 5), st.integers(1, 12))
def test_a_larger_limit_holds_the_questions_of_a_smaller_one(a, b, seed, per_document):
    few, many = (
        sample(world(), limit=limit, seed=seed, per_document=per_document)
        for limit in sorted((a, b))
    )
    assert set(ids(few)) <= set(ids(many))
    assert len(set(ids(few))) == min(min(a, b), 300)
    assert [r.id for r in few] == [r.id for r in many][: len(few)]


def test_sample_depends_on_the_seed_and_not_on_the_order():
    records = [*world(dataset="b"), *world(dataset="a")]
    chosen = sample(records, limit=20, seed=3)
    shuffled = random.Random(0).sample(records, len(records))
    assert sample(shuffled, limit=20, seed=3) == chosen
    assert [r.dataset for r in chosen] == ["a", "a", "b", "b"]
    assert ids(sample(records, limit=20, seed=4)) != ids(chosen)


def test_sample_without_limit_keeps_every_question():
    records = [*world(), Record("empty", "w", "", "text", (), ())]
    chosen = sample(records, limit=None, seed=0)
    assert sorted(ids(chosen)) == sorted(ids(records))
    assert "empty" not in [r.id for r in chosen]


@pytest.mark.parametrize("bad", [{"limit": 0}, {"limit": 5, "per_document": 0}])
def test_sample_refuses_less_than_one(bad):
    with pytest.raises(InputError, match=r"\b1\b"):
        sample(world(), seed=0, **bad)


COUNTS = {
    "2wikimultihopqa_long": (20, 200, 200),
    "bamboo_meetingqa": (15, 46, 35),
    "hotpotqa": (100, 100, 100),
    "qasper": (50, 176, 156),
    "qmsum": (17, 128, 128),
    "quality": (34, 604, 0),
}


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("path", DEV, ids=lambda path: path.stem)
def test_real_data(path):
    records = list(read_records(path))
    raw = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    questions = [q for r in records for q in r.questions]
    counts = (len(records), len(questions), sum(bool(q.evidence) for q in questions))
    assert counts == COUNTS.get(path.stem, counts)
    for record, row in zip(records, raw, strict=True):
        spans = [p.span for p in record.paragraphs]
        assert slices(record, spans) == [p["text"] for p in row.get("paragraphs", [])]
        assert spans == sorted(set(spans))
        assert parse_record(record.to_json()) == record
        for question, asked in zip(record.questions, row["questions"], strict=True):
            assert len(question.sentences) == len(set(asked.get("evidence_text", [])))


@pytest.mark.slow
@needs_data
def test_real_data_together():
    records = records_of([DATA / "dev"])
    assert len(records) == sum(1 for path in DEV for _ in read_records(path))
    chosen = by_dataset(sample(records, limit=20, seed=0))
    assert {len(ids(group)) for name, group in chosen.items() if "longbench" not in name} == {20}
    assert len(chosen["narrativeqa"]) == 2
