"""JSON by its values: a record is a line that names its keys."""

import json
import re

import pytest

from hwdag.text.chunking import leaves
from hwdag.text.headings import headings
from hwdag_files.read import Skipped, read_documents
from hwdag_files.records import records_content

ORDERS = [
    {"id": 1000 + i, "customer": {"name": f"Customer {i}"}, "order": {"count": 3 * i + 1}}
    for i in range(40)
]


def tokens(texts):
    return [max(1, len(text) // 4) for text in texts]


def text_of(value):
    return records_content(json.dumps(value).encode()).text


def lines_of(value):
    return [line for line in text_of(value).split("\n") if line]


def numbered(numbers):
    return [f"| n: {n}" for n in numbers]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (json.dumps(ORDERS), "a.json"),
        (json.dumps(ORDERS, indent=1), "a.json"),
        (json.dumps({"data": {"orders": ORDERS}}), "a.json"),
        ("\n".join(map(json.dumps, ORDERS)), "a.jsonl"),
        ("\r\n".join(map(json.dumps, ORDERS)), "a.ndjson"),
        ("\n\n".join(json.dumps(one, indent=2) for one in ORDERS), "a.json"),
        ("".join(f"\x1e{json.dumps(one)}\n" for one in ORDERS), "a.jsonl"),
    ],
)
def test_a_record_is_one_leaf_that_names_its_keys(tmp_path, written, name):
    (tmp_path / name).write_bytes(written.encode())
    [document] = read_documents([tmp_path / name])
    assert document.metadata["notes"] == []
    found = leaves(document.text, count_tokens=tokens, limit=300)
    pieces = (document.text[span.start : span.end] for span in found)
    rows = [piece.removeprefix("# data.orders\n\n") for piece in pieces]
    expected = [
        f"| id: {1000 + i}, customer.name: Customer {i}, order.count: {3 * i + 1}"
        for i in range(40)
    ]
    assert rows == expected


def test_escapes_are_the_letters_that_they_are_for(tmp_path):
    messages = ["Собрание в четверг", "Schlüssel bei Jörg", "会议改到星期五", "مرحبا 😀"]
    written = json.dumps([{"user": "A", "text": text} for text in messages])
    assert written.isascii()
    (tmp_path / "chat.json").write_text(written)
    [document] = read_documents([tmp_path / "chat.json"])
    assert document.text.split("\n") == [f"| user: A, text: {text}" for text in messages]


def test_numbers_stay_as_they_are_written():
    text = '{"a": 1.10, "b": 1e3, "c": 123456789012345678901234567890, "d": NaN, "e": -0}'
    assert records_content(text.encode()).text == (
        "| a: 1.10, b: 1e3, c: 123456789012345678901234567890, d: NaN, e: -0"
    )


def test_empty_values_have_no_place_and_repeated_keys_keep_all():
    text = '{"a": null, "b": "", "c": [], "d": {}, "e": false, "f": 1, "f": "two, three"}'
    assert records_content(text.encode()).text == "| e: false; f: 1; two, three"


def test_lists_within_a_record_are_numbered():
    record = {"n": "Ann", "tags": ["x", "y"], "cars": [{"id": 1}, {"id": 2}], "cat": [{"n": "Tom"}]}
    assert lines_of([record]) == ["| n: Ann, tags: x; y, cars.1.id: 1, cars.2.id: 2, cat.n: Tom"]


def test_objects_by_their_key_and_tables_in_all_forms():
    assert lines_of({"A1": {"n": 1}, "B2": {"n": 2}}) == ["| A1, n: 1", "| B2, n: 2"]
    rows = ["| Town: Hamar, cars: 18", "| Town: Lund, cars: 20"]
    named = ["| Town, cars", "| Hamar, cars: 18", "| Lund, cars: 20"]
    records = [{"Town": "Hamar", "cars": 18}, {"Town": "Lund", "cars": 20}]
    by_column = {"Town": {"0": "Hamar", "1": "Lund"}, "cars": {"0": 18, "1": 20}}
    cells = [["Hamar", 18], ["Lund", 20]]
    assert lines_of(records) == lines_of(by_column) == rows
    assert lines_of({"columns": ["Town", "cars"], "index": [0, 1], "data": cells}) == named
    assert lines_of([["Town", "cars"], *cells]) == named


def test_lists_of_records_have_their_path_as_heading():
    assert lines_of(
        {"v": 2, "old": [{"n": 1}, {"n": 2}], "data": {"new": [{"n": 3}, {"n": 4}]}}
    ) == [
        "| v: 2",
        "# old",
        *numbered([1, 2]),
        "# data.new",
        *numbered([3, 4]),
    ]


def test_a_long_text_is_paragraphs_below_the_name_of_its_record():
    text = "# Opening\r\n\r\n" + "The mill grinds rye on Fridays. " * 20
    articles = [
        {"id": 1, "title": "Well", "body": "Short."},
        {"id": 2, "title": "Mill", "body": text},
        {"id": 3, "title": "Quay", "body": "Short, too."},
    ]
    found = text_of(articles)
    spans = leaves(found, count_tokens=tokens, limit=100)
    above = headings(found, spans)
    by_text = {found[span.start : span.end]: one for span, one in zip(spans, above, strict=True)}
    assert by_text["| id: 1, title: Well, body: Short."] == ""
    assert by_text["The mill grinds rye on Fridays."] == "Mill > Opening"
    assert by_text["## Quay\n\n| id: 3; title: Quay; body: Short, too."] == "Quay"


def test_a_long_record_has_a_line_for_each_object():
    items = [{"sku": f"s{i}", "count": i} for i in range(100)]
    lines = lines_of([{"id": 7, "items": items}, {"id": 8}])
    assert lines[:3] == ["## 7", "| id: 7", "| items.1.sku: s0, items.1.count: 0"]
    assert lines[-3:] == ["| items.100.sku: s99, items.100.count: 99", "## 8", "| id: 8"]
    many = lines_of({f"key {i}": "v" * 20 for i in range(200)})
    assert all(900 < len(line) <= 1000 for line in many[:-1]) and len(many) == 7


def test_numbers_and_data_that_are_no_text_are_left_out_with_a_note():
    record = {
        "name": "Line",
        "at": [[i, i] for i in range(20)],
        "vector": [0.5] * 33,
        "png": "A" * 256,
    }
    content = records_content(json.dumps([record, {"name": "Dot", "at": [10.7, 59.9]}]).encode())
    assert content.text == "| name: Line\n| name: Dot, at: 10.7; 59.9"
    assert content.notes == (
        "2 lists of more than 32 numbers left out",
        "1 value of encoded data left out",
    )


def test_broken_lines_stay_and_are_counted():
    content = records_content(b'{"n": 1}\n{"n": 2\n{"n": 3}\n')
    assert content.text == '| n: 1\n| {"n": 2\n| n: 3'
    assert content.notes == ("1 line of JSON that cannot be read kept as text",)


@pytest.mark.parametrize("written", ['{// why\n"a": 1}', "no JSON at all", '{"a": 1', ""])
def test_other_text_is_read_as_it_is_with_a_note(written):
    content = records_content(written.encode())
    assert content.text == written
    assert re.match("not valid JSON .* read as text", content.notes[0])


def test_deep_nesting_is_read_or_refused(tmp_path):
    for depth in (50, 100_000):
        (tmp_path / "a.json").write_text('{"a":' * depth + "1" + "}" * depth)
        [found] = read_documents([tmp_path / "a.json"])
        assert isinstance(found, Skipped) == (depth > 50)


def test_half_a_surrogate_pair_is_replaced_with_a_note(tmp_path):
    (tmp_path / "a.json").write_text('{"title": "T\\ud800"}')
    [document] = read_documents([tmp_path / "a.json"])
    assert (document.title, document.text) == ("T\ufffd", "| title: T\ufffd")
    assert document.metadata["notes"] == ["1 characters that are not Unicode replaced"]
