import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwdag.errors import UnknownOption
from hwdag_lab.eval.convert import ConvertCounts, convert, reader_of
from hwdag_lab.eval.data import read_records
from hwdag_lab.eval.fields import DataError
from hwdag_lab.eval.formats import FORMATS

HOTPOT = {
    "_id": "5a8b",
    "type": "bridge",
    "level": "hard",
    "question": "Where was the friend of Anna born?",
    "answer": "Rome",
    "supporting_facts": [["Ben", 1], ["Anna", 0], ["Anna", 9]],
    "context": [
        ["Anna", ["Anna met Ben.", " They left."]],
        ["Empty", [""]],
        ["Ben", ["Ben is a man.", " Ben was born in Rome."]],
        ["Ben", ["Another Ben."]],
    ],
}
TWOWIKI = {
    "_id": "88c0",
    "type": "inference",
    "question": "Who is the mother of Ben?",
    "answer": "Anna",
    "supporting_facts": [["Ben", 0]],
    "evidences": [["Ben", "mother", "Anna"]],
    "context": [["Ben", ["Ben is the son of Anna.", "He lives."]], ["Anna", ["Anna sings."]]],
}
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "paragraphs": [
        {"idx": 0, "title": "A", "paragraph_text": "A is old.", "is_supporting": False},
        {"idx": 1, "title": "B", "paragraph_text": "B is new.", "is_supporting": True},
    ],
    "question": "Which is new?",
    "question_decomposition": [{"id": 1, "question": "?", "answer": "B"}],
    "answer": "B",
    "answer_aliases": ["The B", "B"],
    "answerable": True,
}
QASPER = {
    "2002.1": {
        "title": "A Paper",
        "abstract": "We do it.",
        "full_text": [
            {"section_name": "Intro", "paragraphs": ["It is  hard.", "", "We try."]},
            {"section_name": None, "paragraphs": ["Loose end. It is found."]},
        ],
        "figures_and_tables": [],
        "qas": [
            {
                "question": "What is hard?",
                "question_id": "q1",
                "answers": [
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": ["It", "that"],
                            "yes_no": None,
                            "free_form_answer": "",
                            "evidence": ["It is hard.", "FLOAT SELECTED: Table 1", "lost"],
                            "highlighted_evidence": ["It is hard."],
                        }
                    },
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": [],
                            "yes_no": None,
                            "free_form_answer": "All of it",
                            "evidence": ["It is found.", "We do it."],
                        }
                    },
                    {
                        "answer": {
                            "unanswerable": True,
                            "extractive_spans": [],
                            "yes_no": None,
                            "free_form_answer": "",
                            "evidence": [],
                        }
                    },
                ],
            },
            {
                "question": "Do they?",
                "question_id": "q2",
                "answers": [
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": [],
                            "yes_no": False,
                            "free_form_answer": "",
                            "evidence": [],
                        }
                    }
                ],
            },
        ],
    }
}
QUALITY = {
    "article_id": "20013",
    "set_unique_id": "20013_A",
    "title": "A Story",
    "article": "<html><head><title>x</title></head><body><p>One <i>line</i>\nhere.</p><p>Two.</p></body></html>",
    "questions": [
        {
            "question": "Which line?",
            "question_unique_id": "20013_A_1",
            "options": ["first", "second"],
            "gold_label": 2,
            "writer_label": 1,
            "difficult": 0,
        }
    ],
}
NARRATIVE = {
    "document": {
        "id": "0123456789abcdef",
        "kind": "gutenberg",
        "start": "Produced by",
        "end": "THE END",
        "text": "head\nProduced  by Ann\n\nOnce, THE END was near.\n\nTHE  END\nnew eBooks",
        "summary": {"text": " Once upon a time. ", "title": "A Tale", "tokens": []},
    },
    "question": {"text": "When?", "tokens": []},
    "answers": [{"text": "once", "tokens": []}, {"text": "once"}, {"text": "Long ago"}],
}
LONGBENCH = {
    "input": "Who sings?",
    "context": "Passage 1:\nAnna\nAnna sings.\nShe does.\n\nPassage 2:\nBen\nPassage 7:\nno.\n",
    "answers": ["Anna"],
    "length": 9,
    "dataset": "hotpotqa",
    "language": "en",
    "all_classes": None,
    "_id": "abc",
}


def json_file(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(format, path, **options):
    return list(reader_of(format)(path, **options))


def slices(record, spans):
    return [record.text[s.start : s.end] for s in spans]


def paragraphs(record):
    return [(p.id, p.title, record.text[p.span.start : p.span.end]) for p in record.paragraphs]


def test_hotpotqa(tmp_path):
    [record] = read("hotpotqa", json_file(tmp_path / "dev.json", [HOTPOT]))
    [question] = record.questions
    assert (record.id, record.dataset, question.id) == ("hotpotqa:5a8b", "hotpotqa", "5a8b")
    assert record.text == (
        "Passage 1:\nAnna\nAnna met Ben. They left.\n\n"
        "Passage 2:\nBen\nBen is a man. Ben was born in Rome.\n\n"
        "Passage 3:\nBen\nAnother Ben."
    )
    assert paragraphs(record) == [
        ("p0", "Anna", "Anna met Ben. They left."),
        ("p2", "Ben", "Ben is a man. Ben was born in Rome."),
        ("p3", "Ben", "Another Ben."),
    ]
    assert question.evidence == tuple(p.span for p in record.paragraphs[:2])
    assert slices(record, question.sentences) == ["Anna met Ben.", "Ben was born in Rome."]
    assert (question.text, question.answers, question.type) == (
        HOTPOT["question"],
        ("Rome",),
        "bridge",
    )


def test_2wikimultihopqa(tmp_path):
    [record] = read("2wikimultihopqa", json_file(tmp_path / "dev.json", [TWOWIKI]))
    [question] = record.questions
    assert record.id == "2wikimultihopqa:88c0"
    assert paragraphs(record)[0] == ("p0", "Ben", "Ben is the son of Anna. He lives.")
    assert slices(record, question.evidence) == ["Ben is the son of Anna. He lives."]
    assert slices(record, question.sentences) == ["Ben is the son of Anna."]
    assert (question.answers, question.type) == (("Anna",), "inference")


def test_musique(tmp_path):
    unanswerable = {**MUSIQUE, "id": "2hop__4_5", "answerable": False}
    record, other = read("musique", jsonl(tmp_path / "m.jsonl", MUSIQUE, unanswerable))
    [question] = record.questions
    assert (record.id, record.dataset) == ("musique:3hop1__1_2_3", "musique")
    assert paragraphs(record) == [("p0", "A", "A is old."), ("p1", "B", "B is new.")]
    assert slices(record, question.evidence) == ["B is new."]
    assert (question.answers, question.type) == (("B", "The B"), "3hop1")
    [question] = other.questions
    assert (question.answers, question.type) == (("Unanswerable",), "unanswerable")
    assert question.evidence == ()


def test_qasper(tmp_path):
    [record] = read("qasper", json_file(tmp_path / "dev.json", QASPER))
    assert (record.id, record.title) == ("qasper:2002.1", "A Paper")
    assert record.text == (
        "Abstract\nWe do it.\n\nIntro\nIt is  hard.\n\nIntro\nWe try.\n\nLoose end. It is found."
    )
    assert paragraphs(record) == [
        ("p0", "Abstract", "We do it."),
        ("p1", "Intro", "It is  hard."),
        ("p2", "Intro", "We try."),
        ("p3", "", "Loose end. It is found."),
    ]
    first, second = record.questions
    abstract, hard, _, loose = (p.span for p in record.paragraphs)
    assert first.answers == ("It, that", "All of it", "Unanswerable")
    assert first.evidence_sets == ((hard,), (abstract, loose), ())
    assert first.evidence == (abstract, hard, loose)
    assert first.type == "extractive"
    assert (second.answers, second.type, second.evidence) == (("No",), "boolean", ())


def test_quality(tmp_path):
    other = {**QUALITY["questions"][0], "question_unique_id": "20013_B_1", "gold_label": 1}
    rows = [QUALITY, {**QUALITY, "article_id": "7", "article": "Plain\r\ntext.", "questions": []}]
    rows.append({**QUALITY, "questions": [other]})
    record, plain = read("quality", jsonl(tmp_path / "dev", *rows))
    assert (record.id, record.title) == ("quality:20013", "A Story")
    assert record.text == "One line here.\n\nTwo."
    assert [q.id for q in record.questions] == ["20013_A_1", "20013_B_1"]
    assert [(q.label, q.answers) for q in record.questions] == [(1, ("second",)), (0, ("first",))]
    assert record.questions[0].options == ("first", "second")
    assert record.questions[0].type == "multiple_choice"
    assert (plain.id, plain.text, plain.questions) == ("quality:7", "Plain\ntext.", ())


def test_longbench(tmp_path):
    plain = {**LONGBENCH, "_id": "d", "dataset": "qasper", "context": "A. Passage 1:\nb"}
    passages, document = read("longbench", jsonl(tmp_path / "l.jsonl", LONGBENCH, plain))
    assert (passages.id, passages.dataset) == ("longbench:abc", "longbench_hotpotqa")
    assert paragraphs(passages) == [
        ("p0", "Anna", "Anna sings.\nShe does."),
        ("p1", "Ben", "Passage 7:\nno."),
    ]
    [question] = passages.questions
    assert (question.id, question.text, question.answers) == ("abc", "Who sings?", ("Anna",))
    assert (question.type, question.evidence) == ("hotpotqa", ())
    assert document.paragraphs == ()
    assert document.dataset == "longbench_qasper"


def test_narrativeqa_rows(tmp_path):
    second = {**NARRATIVE, "question": {"text": "Why?"}}
    other = {**NARRATIVE, "document": {**NARRATIVE["document"], "id": "x", "start": "", "end": ""}}
    path = jsonl(tmp_path / "test.jsonl", NARRATIVE, other, second)
    record, uncut = read("narrativeqa", path)
    assert (record.id, record.title) == ("narrativeqa:0123456789abcdef", "A Tale")
    assert record.text == "Produced  by Ann\n\nOnce, THE END was near.\n\nTHE  END"
    assert [(q.id, q.text) for q in record.questions] == [
        ("0123456789ab-q00", "When?"),
        ("0123456789ab-q01", "Why?"),
    ]
    assert record.questions[0].answers == ("once", "Long ago")
    assert uncut.text == NARRATIVE["document"]["text"]
    assert [r.text for r in read("narrativeqa_summaries", path)] == ["Once upon a time."] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Licence\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\nNote.\r\n"
            "By Ann, once.\r\nGone.\r\n*** END OF THIS PROJECT GUTENBERG EBOOK X ***\r\nTHE END\r\n",
            "By Ann, once.\nGone.",
        ),
        (
            "<html><script>x</script><body><p>Menu</p><pre>BY ANN\n  Café.\nTHE END</pre>"
            "<p>Share</p></body></html>",
            "Menu\n\nBY ANN\n  Café.\nTHE END",
        ),
    ],
)
def test_a_story_is_the_text_between_its_marks(tmp_path, text, expected):
    document = {**NARRATIVE["document"], "text": text, "start": "By  Ann ,", "end": "THE END"}
    [record] = read("narrativeqa", jsonl(tmp_path / "x", {**NARRATIVE, "document": document}))
    assert record.text == expected


WITHHELD = {k: v for k, v in QUALITY["questions"][0].items() if k != "gold_label"}
MALFORMED = [
    ("hotpotqa", {**HOTPOT, "answer": None}, "answer"),
    ("hotpotqa", {**HOTPOT, "question": " "}, "question: "),
    ("hotpotqa", {**HOTPOT, "supporting_facts": [["Carl", 0]]}, "title"),
    (
        "hotpotqa",
        {**HOTPOT, "supporting_facts": [["Anna"]]},
        "supporting_facts.0.1: ",
    ),
    (
        "hotpotqa",
        {**HOTPOT, "context": [["Anna", "text"]]},
        "context.0.1: ",
    ),
    ("2wikimultihopqa", [], "dictionary"),
    (
        "musique",
        {**MUSIQUE, "paragraphs": [{"title": "A"}]},
        "paragraphs.0.paragraph_text: ",
    ),
    ("musique", {**MUSIQUE, "paragraphs": MUSIQUE["paragraphs"][:1] * 2}, "'p0'"),
    ("quality", {**QUALITY, "article": ""}, "article: "),
    ("quality", {**QUALITY, "questions": [WITHHELD]}, "test set"),
    (
        "quality",
        {**QUALITY, "questions": [{**QUALITY["questions"][0], "gold_label": 3}]},
        "is 3",
    ),
    ("narrativeqa", {**NARRATIVE, "answers": []}, "answer"),
    ("longbench", {**LONGBENCH, "input": ""}, "questions"),
    ("longbench", {**LONGBENCH, "answers": "Anna"}, "answers: "),
]
ORIGINALS = {
    "2wikimultihopqa": TWOWIKI,
    "hotpotqa": HOTPOT,
    "longbench": LONGBENCH,
    "musique": MUSIQUE,
    "narrativeqa": NARRATIVE,
    "narrativeqa_summaries": NARRATIVE,
    "quality": QUALITY,
}
LISTS = ("hotpotqa", "2wikimultihopqa")


@pytest.mark.parametrize(("format", "broken", "message"), MALFORMED)
def test_malformed_rows_are_named(tmp_path, format, broken, message):
    rows = [broken, ORIGINALS[format]]
    if format in LISTS:
        path, place = json_file(tmp_path / "x.json", rows), "item 0"
    else:
        path, place = jsonl(tmp_path / "x.jsonl", {}, *rows), "2"
        assert len(read(format, path, malformed="skip")) == 1
        path = jsonl(tmp_path / "y.jsonl", *rows)
        place = "1"
    with pytest.raises(DataError) as raised:
        read(format, path)
    assert str(raised.value).replace(" item", "item").startswith(f"{path}:{place}: ")
    assert message in str(raised.value)
    assert len(read(format, path, malformed="skip")) == 1


def test_malformed_papers_are_named(tmp_path):
    broken = json.loads(json.dumps(QASPER["2002.1"]))
    broken["qas"][1]["answers"][0]["answer"]["yes_no"] = None
    path = json_file(tmp_path / "x.json", {"bad": broken, **QASPER})
    with pytest.raises(DataError, match="'bad'"):
        read("qasper", path)
    assert [r.id for r in read("qasper", path, malformed="skip")] == ["qasper:2002.1"]


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_files_that_are_something_else(tmp_path, format):
    path = tmp_path / "x"
    for malformed in ("error", "skip"):
        with pytest.raises(DataError):
            read(format, path / "none", malformed=malformed)
    for data in (b"3", b"{", b"\xff"):
        path.write_bytes(data)
        with pytest.raises(DataError, match="/x:"):
            read(format, path)
    with pytest.raises(UnknownOption, match="malformed"):
        reader_of(format)(path, malformed="ignore")


JUNK = st.sampled_from([None, True, -1, 10**9, 0.5, "", " ", "x", "\ud800", [], [[]], {}, {"a": 1}])


def holes(value):
    """Yield every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (key,)
        if isinstance(each, dict | list):
            yield from ((key, *rest) for rest in holes(each))


@pytest.mark.slow
@pytest.mark.parametrize("format", sorted({*ORIGINALS, "qasper"}))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_junk_is_read_or_a_data_error(tmp_path, format, data):
    """Any value gives a DataError at most, and skipping continues."""
    original = QASPER if format == "qasper" else ORIGINALS[format]
    value = json.loads(json.dumps(original))
    *outer, last = data.draw(st.sampled_from(list(holes(original))))
    inner = value
    for key in outer:
        inner = inner[key]
    inner[last] = data.draw(JUNK)
    text = json.dumps([value] if format in LISTS else value)
    path = tmp_path / "junk"
    path.write_text(text, encoding="utf-8")
    messages = []
    kept = read(format, path, malformed="skip", on_skip=messages.append)
    try:
        assert read(format, path) == kept
        assert messages == []
    except DataError:
        assert len(messages) == 1


@pytest.mark.parametrize("format", sorted({*ORIGINALS, "qasper"}))
def test_convert_writes_the_schema(tmp_path, format):
    source = tmp_path / "source"
    if format == "qasper":
        json_file(source, QASPER)
    elif format in LISTS:
        json_file(source, [{}, ORIGINALS[format]])
    else:
        jsonl(source, {}, ORIGINALS[format])
    output = tmp_path / "out.jsonl"
    messages = []
    counts = convert(format, source, output, malformed="skip", on_skip=messages.append)
    is_qasper = format == "qasper"
    assert counts == ConvertCounts(documents=1, questions=1 + is_qasper, skipped=1 - is_qasper)
    assert len(messages) == counts.skipped
    assert list(read_records(output)) == read(format, source, malformed="skip")


def test_convert_leaves_no_half_file(tmp_path):
    source = jsonl(tmp_path / "source", MUSIQUE, {})
    output = tmp_path / "out.jsonl"
    with pytest.raises(DataError, match="source:2"):
        convert("musique", source, output)
    assert list(tmp_path.iterdir()) == [source]


def test_convert_names_the_formats(tmp_path):
    with pytest.raises(UnknownOption, match="'hotpot'"):
        convert("hotpot", tmp_path, tmp_path / "out.jsonl")
