"""Overlaps of neighbouring chunks equal those of a slow search over all lengths."""

from hypothesis import given
from hypothesis import strategies as st

from hwdag.text.overlaps import MIN_OVERLAP, overlap, overlap_warning

WORDS = st.text("ab", max_size=60)


def slow_overlap(one, other):
    if len(other) >= MIN_OVERLAP and other in one:
        return other
    lengths = range(min(len(one), len(other)), MIN_OVERLAP - 1, -1)
    return next((other[:n] for n in lengths if one.endswith(other[:n])), "")


@given(WORDS, WORDS, WORDS)
def test_it_is_the_longest_end_that_begins_the_next(before, shared, after):
    for one, other in [(before + shared, shared + after), (shared * 3, shared * 2 + after)]:
        assert overlap(one, other) == slow_overlap(one, other)
    if len(shared) >= MIN_OVERLAP:
        assert overlap(f" {before}{shared}\n", f"\n{shared}{after} ").startswith(
            shared[:MIN_OVERLAP]
        )


def test_rules_and_numbers_are_no_overlap():
    assert not overlap("Sums" + "-" * 30, "-" * 30 + "Costs")
    assert not overlap("Sums " + "0.0 | " * 9, "0.0 | " * 9 + "Costs")


def test_only_chunks_of_one_source_are_compared():
    shared = "The miller keeps grain behind the river."
    one, other = f"It is dawn. {shared}", f"{shared} He counts."
    assert not overlap_warning([[one], [other], [other, one]])
    assert "2 of 3" in overlap_warning([[one, other], [one, other], ["a", "b"]])
    assert "2 of 3" in overlap_warning([[one, shared, shared, one]])
