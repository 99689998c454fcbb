"""Filters decide as a plain reading of their definition does."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.errors import InputError, UnknownOption
from hwdag.filters import MAX_DEPTH, matches, predicate

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


OPERATORS = (
    st.builds(lambda value: {"eq": value}, VALUES)
    | st.builds(lambda value: {"ne": value}, VALUES)
    | st.builds(lambda values: {"in": values}, st.lists(SCALARS, max_size=3))
    | st.builds(lambda wanted: {"exists": wanted}, st.booleans())
    | some(NUMBERS)
    | some(TEXTS)
)
ENTRIES = SCALARS | st.builds(lambda one, two: one | two, OPERATORS, OPERATORS).filter(
    lambda operators: len({type(operators[b]) is str for b in BOUNDS if b in operators}) < 2
)
BOUNDS = {"gt": "__gt__", "gte": "__ge__", "lt": "__lt__", "lte": "__le__"}
FORMS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(KEYS, ENTRIES, min_size=1, max_size=2),
    lambda inner: (
        st.builds(lambda parts: {"and": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda parts: {"or": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda part: {"not": part}, inner)
        | st.builds(lambda one, part: {"a": one, "not": part}, SCALARS, inner)
    ),
    max_leaves=6,
)


def same(a, b):
    """Equality of JSON values: like Python's, but truth values are no numbers."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def values_at(metadata, key):
    """Return no value or one: the plain key wins over the path."""
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


def within(found, name, bound):
    comparable = isinstance(found, str) == isinstance(bound, str)
    if isinstance(found, bool) or not isinstance(found, str | int | float) or not comparable:
        return False
    number = isinstance(found, int | float)
    left, right = (float(found), float(bound)) if number else (found, bound)
    return getattr(left, BOUNDS[name])(right)


def holds(name, wanted, found):
    """Return whether an operator holds for the values that are found, none or one."""
    if name == "exists":
        return bool(found) == wanted
    if name == "ne":
        return not holds("eq", wanted, found)
    if name == "eq":
        return any(equal(value, wanted) for value in found)
    if name == "in":
        return any(holds("eq", one, found) for one in wanted)
    return any(within(value, name, wanted) for value in found)


def brute_force(form, metadata):
    decided = []
    for key, value in form.items():
        if key == "not":
            decided.append(not brute_force(value, metadata))
        elif key in ("and", "or"):
            parts = [brute_force(part, metadata) for part in value]
            decided.append(parts.count(False) == 0 if key == "and" else parts.count(True) > 0)
        else:
            operators = value if isinstance(value, dict) else {"eq": value}
            found = values_at(metadata, key)
            decided.extend(holds(name, wanted, found) for name, wanted in operators.items())
    return all(decided)


@given(FORMS, METADATA)
def test_a_filter_decides_as_its_definition_does(form, metadata):
    assert matches(form, metadata) is brute_force(form, metadata)


OF_FORMS = ["and", "or", "not", "eq", "ne", "in", "gt", "lte", "exists", "a", "a.b", ""]
ANYTHING = st.recursive(
    SCALARS | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(OF_FORMS), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANYTHING, METADATA, st.sampled_from([0, 40]))
def test_any_form_decides_or_is_refused(form, metadata, negations):
    for _ in range(negations):
        form = {"not": form}
    try:
        decide = predicate(form)
    except InputError as error:
        assert str(error)
        return
    assert isinstance(decide(metadata), bool)


@given(FORMS, FORMS, METADATA)
def test_the_laws_of_de_morgan(one, other, metadata):
    def decides(form):
        return matches(form, metadata)

    neither = {"and": [{"not": one}, {"not": other}]}
    not_both = {"or": [{"not": one}, {"not": other}]}
    assert decides({"not": {"or": [one, other]}}) == decides(neither)
    assert decides({"not": {"and": [one, other]}}) == decides(not_both)


@pytest.mark.parametrize(
    ("form", "metadata", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 2**53 + 1}, {"a": float(2**53)}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": {"ne": None}}, {}, True),
        ({"a": "x"}, {"a": ["x", "y"]}, True),
        ({"a": 1}, {"a": [True, "1"]}, False),
        ({"a": {"eq": ["x", "y"]}}, {"a": ["x", "y"]}, True),
        ({"a": {"eq": ["x", "y"]}}, {"a": ["y", "x"]}, False),
        ({"a": {"eq": ["x"]}}, {"a": "x"}, False),
        ({"a": {"eq": ["x"]}}, {"a": [["x"], "y"]}, True),
        ({"a": {"in": []}}, {"a": 1}, False),
        ({"a": {"gte": "2024-01-01"}}, {"a": "2024-05-31"}, True),
        ({"a": {"gte": 0}}, {"a": "5"}, False),
        ({"a": {"gte": "0"}}, {"a": 5}, False),
        ({"a": {"gte": 0}}, {"a": True}, False),
        ({"a": {"gte": 0}}, {"a": [5]}, False),
        ({"a": {"gte": 0}}, {"a": float("nan")}, False),
        ({"a": {"gt": 1, "lt": 0}}, {"a": 0.5}, False),
        ({"a": {"exists": True}}, {"a": None}, True),
        ({"a": {"exists": False}}, {"b": 1}, True),
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a.b": 2, "a": {"b": 1}}, False),
        ({"a.b.c": 1}, {"a": {"b.c": 1}}, True),
        ({"a.b": 1}, {"a": [{"b": 1}]}, False),
        ({"a.": {"exists": True}}, {"a": {"": 1}}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
    ],
)
def test_what_is_equal_and_what_lies_within(form, metadata, expected):
    assert matches(form, metadata) is expected


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
        {"a": 1j},
        {"a": {"eq": ["x", ["y"]]}},
        None,
    ],
    ids=repr,
)
def test_a_meaningless_filter_is_refused(form):
    with pytest.raises(InputError):
        predicate(form)


def test_an_unknown_operator_is_named_with_the_known_ones():
    with pytest.raises(UnknownOption, match=r"\$gt.*year.*gte"):
        predicate({"year": {"$gt": 2019}})


def nested(depth):
    form: dict[str, Any] = {"a": 1}
    for level in range(depth):
        form = {"not": form} if level % 2 else {"and": [form]}
    return form


def test_nesting_is_bounded():
    assert matches(nested(MAX_DEPTH), {"a": 1}) is True
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(InputError, match="nested"):
            predicate(nested(depth))


def test_what_is_refused_is_shown_briefly():
    values: list[Any] = ["x"]
    for _ in range(100_000):
        values = [values]
    for form in ({"a": {"eq": values}}, {"and": [values]}, {"a": {"x" * 10**6: 1}}):
        with pytest.raises(InputError) as caught:
            predicate(form)
        assert len(str(caught.value)) < 400
