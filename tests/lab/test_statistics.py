"""Intervals cover the truth as often as they say, follow the groups, and repeat with the seed."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwdag.errors import InputError
from hwdag_lab.eval import statistics
from hwdag_lab.eval.statistics import Difference, Interval, bootstrap, paired_bootstrap

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=20)


def width(interval: Interval | Difference) -> float:
    return interval.high - interval.low


def test_intervals_of_normal_data_hold_the_truth_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(400):
        interval = bootstrap(rng.normal(0.5, 0.2, size=60).tolist(), seed=seed, samples=600)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.92 <= hits / 400 <= 0.97


def test_intervals_over_groups_cover_the_truth_when_those_over_questions_do_not() -> None:
    """Forty documents of eight questions that share most of their luck."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(40), 8).tolist()
    hits = {"grouped": 0, "alone": 0}
    for seed in range(200):
        shared = np.repeat(rng.normal(0.5, 0.2, size=40), 8)
        values = (shared + rng.normal(0, 0.05, size=320)).tolist()
        for name, labels in (("grouped", groups), ("alone", None)):
            interval = bootstrap(values, groups=labels, seed=seed, samples=400)
            hits[name] += interval.low <= 0.5 <= interval.high
    assert hits["grouped"] / 200 >= 0.90
    assert hits["alone"] / 200 < 0.70


def test_the_interval_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(3).random(2000)
    interval = bootstrap(values.tolist(), samples=5000)
    error = 1.96 * values.std() / math.sqrt(2000)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - error, abs=error / 15)
    assert interval.high == pytest.approx(values.mean() + error, abs=error / 15)
    assert interval.n == 2000


@given(SCORES, st.integers(0, 3))
@settings(max_examples=40)
def test_the_same_seed_gives_the_same_interval(values: list[float], seed: int) -> None:
    first = bootstrap(values, seed=seed, samples=50)
    assert first == bootstrap(tuple(values), seed=seed, samples=50)
    assert first == bootstrap(
        values, groups=[f"d{i}" for i in range(len(values))], seed=seed, samples=50
    )
    assert min(values) - 1e-9 <= first.low <= first.high <= max(values) + 1e-9


def test_seeds_and_sample_counts_matter() -> None:
    values = np.random.default_rng(4).random(50).tolist()
    assert bootstrap(values, seed=0) != bootstrap(values, seed=1)
    assert bootstrap(values, samples=2000) != bootstrap(values, samples=100)


def test_groups_that_repeat_their_values_widen_the_interval_to_that_of_the_groups() -> None:
    values = np.random.default_rng(5).random(30)
    repeated, groups = np.repeat(values, 10).tolist(), np.repeat(np.arange(30), 10).tolist()
    once = bootstrap(values.tolist(), seed=6)
    grouped = bootstrap(repeated, groups=groups, seed=6)
    assert width(grouped) > 2.5 * width(bootstrap(repeated, seed=6))
    assert (grouped.low, grouped.high) == pytest.approx((once.low, once.high))
    assert (grouped.n, once.n) == (300, 30)


def test_the_mean_is_over_values_even_if_groups_differ_in_size() -> None:
    interval = bootstrap([1.0, 0.0, 0.0, 0.0], groups=["a", "b", "b", "b"], seed=0, samples=500)
    assert interval == Interval(0.25, 0.0, 1.0, 4)


@pytest.mark.parametrize("cells", [1, 7, 1000])
def test_the_bound_of_memory_changes_nothing(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(6).random(23).tolist()
    expected = bootstrap(values, samples=101)
    monkeypatch.setattr(statistics, "CELLS", cells)
    assert bootstrap(values, samples=101) == expected


def test_memory_is_bounded() -> None:
    """All indices at once would take 80 MB."""
    values = np.random.default_rng(6).random(10_000).tolist()
    tracemalloc.start()
    bootstrap(values, samples=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


def test_one_value_or_one_group_has_no_interval() -> None:
    for interval in (bootstrap([0.3]), bootstrap([0.1, 0.5], groups=["d", "d"])):
        assert interval.mean == pytest.approx(0.3)
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert str(interval) == "0.30 [n/a]"
    difference = paired_bootstrap([1.0, 1.0], [0.0, 0.0], groups=["d", "d"])
    assert (difference.mean, difference.p_value, difference.n) == (1.0, 1.0, 2)
    assert str(difference) == "+1.00 [n/a], p = 1.000"


def test_equal_values_have_an_interval_of_width_zero() -> None:
    assert bootstrap([1.0] * 9) == Interval(1.0, 1.0, 1.0, 9)


@given(SCORES)
@settings(max_examples=40)
def test_a_system_does_not_differ_from_itself(values: list[float]) -> None:
    assert paired_bootstrap(values, values, samples=50) == Difference(0, 0, 0, 1, len(values))


def test_a_plain_difference_is_found_in_both_directions() -> None:
    rng = np.random.default_rng(7)
    worse = rng.random(80)
    better = (worse + rng.normal(0.1, 0.1, size=80)).tolist()
    up, down = paired_bootstrap(better, worse.tolist()), paired_bootstrap(worse.tolist(), better)
    assert up.p_value == 2 / 10_001
    assert 0 < up.low < up.mean < up.high
    assert (down.mean, down.low, down.high) == pytest.approx((-up.mean, -up.high, -up.low))
    assert down.p_value == up.p_value


def test_p_is_below_five_percent_if_the_interval_excludes_zero() -> None:
    rng = np.random.default_rng(8)
    for seed in range(60):
        a, b = rng.random(40), rng.random(40) + rng.normal(0, 0.15)
        result = paired_bootstrap(a.tolist(), b.tolist(), seed=seed, samples=2000)
        if not 0.047 < result.p_value < 0.053:
            assert (result.p_value < 0.05) == (not result.low <= 0 <= result.high)


def test_the_paired_test_is_wrong_one_time_in_twenty() -> None:
    rng = np.random.default_rng(9)
    alarms = 0
    for seed in range(300):
        shared = rng.random(60)
        a, b = (shared + rng.normal(0, 0.2, size=(2, 60))).tolist()
        alarms += paired_bootstrap(a, b, seed=seed, samples=400).p_value < 0.05
    assert 0.02 <= alarms / 300 <= 0.09


def test_pairs_and_groups_narrow_and_widen() -> None:
    rng = np.random.default_rng(10)
    gains = np.repeat(rng.normal(0.02, 0.1, size=20), 10)
    base = rng.random(200)
    a, b, groups = (base + gains).tolist(), base.tolist(), np.repeat(np.arange(20), 10).tolist()
    alone, grouped = paired_bootstrap(a, b), paired_bootstrap(a, b, groups=groups)
    assert grouped.mean == alone.mean
    assert width(grouped) > 2 * width(alone)
    assert grouped.p_value > alone.p_value


def test_ties_by_rounding_count_on_both_sides() -> None:
    """Gains of 0.1 + 0.2 and -0.3 cancel but for the last bit of a float."""
    assert (0.1 + 0.2) - 0.3 != 0
    result = paired_bootstrap([0.1 + 0.2, 0.0], [0.0, 0.3], samples=2000)
    assert result.p_value == 1.0


def test_results_read_like_a_table() -> None:
    assert str(Interval(0.523, 0.4712, 0.5651, 90)) == "0.52 [0.47, 0.57]"
    assert str(Difference(0.031, -0.012, 0.07, 0.1234, 9)) == "+0.03 [-0.01, +0.07], p = 0.123"
    assert str(Difference(-0.2, -0.3, -0.1, 0.0002, 9)) == "-0.20 [-0.30, -0.10], p < 0.001"


@pytest.mark.parametrize("values", [[], [math.nan, 1.0], [math.inf], [[1.0, 2.0]]])
def test_what_has_no_mean_is_named(values: list[float]) -> None:
    with pytest.raises(InputError):
        bootstrap(values)


def test_lengths_and_counts_are_checked() -> None:
    with pytest.raises(InputError, match=r"\b2\b"):
        paired_bootstrap([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="labels"):
        bootstrap([1.0, 2.0], groups=["d"])
    with pytest.raises(InputError, match="samples"):
        bootstrap([1.0, 2.0], samples=0)
