"""Filters decide as a plain reading of their definition does, and say the same in JSON."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.errors import InputError, UnknownOption
from hwdag.filters import MAX_DEPTH, And, Equals, Exists, Filter, In, Not, Or, Range, as_filter

PAGE = Path(__file__).parents[2] / "docs" / "filters.md"

KEYS = st.sampled_from(["a", "b", "a.b", "b.a", "a.b.c"])
NUMBERS = st.integers(-2, 2) | st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])
TEXTS = st.sampled_from(["", "a", "b", "ab", "1", "2024-05-31"])
SCALARS = NUMBERS | TEXTS | st.booleans() | st.none()
VALUES = SCALARS | st.lists(SCALARS, max_size=2)
FOUND = st.recursive(
    SCALARS | st.just(float("nan")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner)
    ),
    max_leaves=6,
)
METADATA = st.dictionaries(KEYS, FOUND, max_size=4)


def some(values):
    names = st.sampled_from(["gt", "gte", "lt", "lte"])
    return st.dictionaries(names, values, min_size=1, max_size=3)


LEAVES = (
    st.builds(Equals, KEYS, VALUES)
    | st.builds(In, KEYS, st.lists(SCALARS, max_size=3))
    | st.builds(lambda key, bounds: Range(key, **bounds), KEYS, some(NUMBERS) | some(TEXTS))
    | st.builds(Exists, KEYS)
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(*parts))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(*parts))
        | st.builds(Not, inner)
    ),
    max_leaves=6,
)


def same(a, b):
    """Equality of JSON values: like Python's, but truth values are no numbers."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def values_at(metadata, key):
    """No value or one: the plain key wins over the path."""
    if not isinstance(metadata, Mapping):
        return []
    if key in metadata:
        return [metadata[key]]
    head, _, rest = key.partition(".")
    return values_at(metadata[head], rest) if rest and head in metadata else []


def equal(found, wanted):
    return same(found, wanted) or (
        isinstance(found, list) and any(same(element, wanted) for element in found)
    )


def within(found, bounds):
    given = {n: b for n in ("gt", "gte", "lt", "lte") if (b := getattr(bounds, n)) is not None}
    for name, bound in given.items():
        comparable = isinstance(found, str) == isinstance(bound, str)
        if isinstance(found, bool) or not isinstance(found, str | int | float) or not comparable:
            return False
        compared = {"gt": "__gt__", "gte": "__ge__", "lt": "__lt__", "lte": "__le__"}[name]
        number = isinstance(found, int | float)
        left, right = (float(found), float(bound)) if number else (found, bound)
        if not getattr(left, compared)(right):
            return False
    return True


def brute_force(what, metadata):
    match what:
        case And():
            return [brute_force(part, metadata) for part in what.filters].count(False) == 0
        case Or():
            return [brute_force(part, metadata) for part in what.filters].count(True) > 0
        case Not():
            return not brute_force(what.filter, metadata)
        case Exists():
            return len(values_at(metadata, what.key)) == 1
        case Equals():
            return any(equal(found, what.value) for found in values_at(metadata, what.key))
        case In():
            found_values = values_at(metadata, what.key)
            return any(equal(found, value) for found in found_values for value in what.values)
        case Range():
            return any(within(found, what) for found in values_at(metadata, what.key))


@given(FILTERS, METADATA)
def test_a_filter_decides_as_its_definition_does(what, metadata):
    assert what.matches(metadata) is brute_force(what, metadata)


@given(FILTERS)
def test_the_json_form_says_the_same(what):
    form = json.loads(json.dumps(what.to_dict()))
    assert as_filter(form) == what
    assert hash(as_filter(form)) == hash(what)


@given(FILTERS, FILTERS, METADATA)
def test_the_laws_of_de_morgan(one, other, metadata):
    assert Not(And(one, other)).matches(metadata) == Or(Not(one), Not(other)).matches(metadata)
    assert Not(Or(one, other)).matches(metadata) == And(Not(one), Not(other)).matches(metadata)


@given(KEYS, st.lists(SCALARS, min_size=1, max_size=3), METADATA)
def test_in_is_equality_with_one_of_the_values(key, values, metadata):
    any_of = Or(*(Equals(key, value) for value in values))
    assert In(key, values).matches(metadata) == any_of.matches(metadata)


@given(FILTERS, FILTERS, METADATA)
def test_equal_filters_decide_alike(one, other, metadata):
    if one == other:
        assert one.matches(metadata) == other.matches(metadata)


def test_one_and_true_make_different_filters():
    assert Equals("a", 1) != Equals("a", True)
    assert Equals("a", 1) == Equals("a", 1.0)
    assert In("a", [1]) != In("a", [True])


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"year": 2020}, Equals("year", 2020)),
        ({"year": {"eq": 2020}}, Equals("year", 2020)),
        ({"year": {"ne": 2020}}, Not(Equals("year", 2020))),
        ({"year": {"gte": 2019, "lt": 2021}}, Range("year", gte=2019, lt=2021)),
        (
            {"year": {"gt": 2019, "ne": 2020}},
            And(Range("year", gt=2019), Not(Equals("year", 2020))),
        ),
        ({"lang": {"in": ["de", "en"]}}, In("lang", ["de", "en"])),
        ({"title": {"exists": True}}, Exists("title")),
        ({"title": {"exists": False}}, Not(Exists("title"))),
        ({"a": 1, "b": None}, And(Equals("a", 1), Equals("b", None))),
        ({"and": [{"a": 1}]}, And(Equals("a", 1))),
        ({"or": [{"a": 1}, {"b": 2}]}, Or(Equals("a", 1), Equals("b", 2))),
        ({"or": [{"a": 1}, Exists("b")]}, Or(Equals("a", 1), Exists("b"))),
        ({"not": {"a": 1, "b": 2}}, Not(And(Equals("a", 1), Equals("b", 2)))),
        (
            {"lang": "de", "or": [{"a": 1}, {"b": 2}]},
            And(Equals("lang", "de"), Or(Equals("a", 1), Equals("b", 2))),
        ),
        (Exists("a"), Exists("a")),
        (None, None),
    ],
)
def test_the_json_form_is_read(form, expected):
    assert as_filter(form) == expected


@pytest.mark.parametrize(
    ("what", "metadata", "expected"),
    [
        (Equals("a", 1), {"a": 1.0}, True),
        (Equals("a", 1), {"a": True}, False),
        (Equals("a", 0), {"a": False}, False),
        (Equals("a", 1), {"a": "1"}, False),
        (Equals("a", 2**53 + 1), {"a": float(2**53)}, False),
        (Equals("a", None), {"a": None}, True),
        (Equals("a", None), {}, False),
        (Not(Equals("a", None)), {}, True),
        (Equals("a", "x"), {"a": ["x", "y"]}, True),
        (Equals("a", 1), {"a": [True, "1"]}, False),
        (Equals("a", ["x", "y"]), {"a": ["x", "y"]}, True),
        (Equals("a", ["x", "y"]), {"a": ["y", "x"]}, False),
        (Equals("a", ["x"]), {"a": "x"}, False),
        (Equals("a", ["x"]), {"a": [["x"], "y"]}, True),
        (In("a", []), {"a": 1}, False),
        (In("a", {"x"}), {"a": ["x"]}, True),
        (Range("a", gte="2024-01-01"), {"a": "2024-05-31"}, True),
        (Range("a", gte=0), {"a": "5"}, False),
        (Range("a", gte="0"), {"a": 5}, False),
        (Range("a", gte=0), {"a": True}, False),
        (Range("a", gte=0), {"a": [5]}, False),
        (Range("a", gte=0), {"a": float("nan")}, False),
        (Range("a", gt=1, lt=0), {"a": 0.5}, False),
        (Exists("a"), {"a": None}, True),
        (Equals("a.b", 1), {"a": {"b": 1}}, True),
        (Equals("a.b", 1), {"a.b": 2, "a": {"b": 1}}, False),
        (Equals("a.b.c", 1), {"a": {"b.c": 1}}, True),
        (Equals("a.b", 1), {"a": [{"b": 1}]}, False),
        (Exists("a."), {"a": {"": 1}}, True),
    ],
)
def test_what_is_equal_and_what_lies_within(what, metadata, expected):
    assert what.matches(metadata) is expected


@pytest.mark.parametrize(
    "form",
    [
        {},
        [],
        "lang",
        {"and": []},
        {"or": []},
        {"or": {"a": 1}},
        {"and": [{}]},
        {"and": [None]},
        {"not": {}},
        {"not": []},
        {"not": None},
        {"a": {}},
        {"a": ["x", "y"]},
        {"a": {"in": "xy"}},
        {"a": {"in": {"x": 1}}},
        {"a": {"in": 5}},
        {"a": {"in": [["x"]]}},
        {"a": {"eq": {"b": 1}}},
        {"a": {"eq": [["x"]]}},
        {"a": {"exists": 1}},
        {"a": {"exists": None}},
        {"a": {"gt": None}},
        {"a": {"gt": 1, "lt": None}},
        {"a": {"gt": 1, "lt": "2"}},
        {"a": {"gt": True}},
        {"a": {"gt": [1]}},
        {"a": float("nan")},
        {"a": {"lt": float("nan")}},
        {"a": {"lt": float("inf")}},
        {"a": {"in": [float("nan")]}},
        {"a": b"x"},
        {"": 1},
        {1: 1},
        {("a",): 1},
    ],
    ids=repr,
)
def test_a_form_that_says_nothing_is_refused(form):
    with pytest.raises(InputError):
        as_filter(form)


def test_an_unknown_operator_is_named_with_the_known_ones():
    with pytest.raises(UnknownOption, match=r"'\$gt'"):
        as_filter({"year": {"$gt": 2019}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: And(),
        lambda: Or(),
        lambda: And({"a": 1}),
        lambda: Not(None),
        lambda: Range("a"),
        lambda: Equals("and", 1),
        lambda: Exists("not"),
        lambda: In("or", [1]),
        lambda: Equals("a", object()),
        lambda: Equals("a", ["x", ["y"]]),
    ],
)
def test_a_filter_that_says_nothing_cannot_be_made(make):
    with pytest.raises(InputError):
        make()


def nested(depth):
    form: dict[str, Any] = {"a": 1}
    for level in range(depth):
        form = {"not": form} if level % 2 else {"and": [form]}
    return form


def test_nesting_is_bounded():
    deepest = as_filter(nested(MAX_DEPTH))
    assert as_filter(deepest.to_dict()) == deepest
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(InputError, match=r"\b32\b"):
            as_filter(nested(depth))
    with pytest.raises(InputError, match=r"\b32\b"):
        Not(deepest)


def test_what_is_refused_is_shown_briefly():
    values: list[Any] = ["x"]
    for _ in range(100_000):
        values = [values]
    for form in ({"a": {"eq": values}}, {"and": [values]}, {"a": {"x" * 10**6: 1}}):
        with pytest.raises(InputError) as caught:
            as_filter(form)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S))
def test_the_examples_of_the_page_run(code):
    exec(compile(code, "filters.md", "exec"), {"__name__": "filters"})
