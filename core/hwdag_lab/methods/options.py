"""Checks of options that several methods have in their configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwdag.errors import InputError


def check_counts(config: object, least: Mapping[str, int], may_be_none: Sequence[str] = ()) -> None:
    """Raise `InputError` unless these options are whole numbers of at least that much."""
    for name, minimum in least.items():
        value = getattr(config, name)
        is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        if not is_whole and not (value is None and name in may_be_none):
            raise InputError(
                f"{name} must be a whole number of at least {minimum}"
                f"{' or None' if name in may_be_none else ''}, got {value!r}"
            )


def check_shares(config: object, names: Sequence[str]) -> None:
    """Raise `InputError` unless these options are between 0 and 1."""
    for name in names:
        if not 0.0 < getattr(config, name) < 1.0:
            raise InputError(f"{name} must be between 0 and 1, got {getattr(config, name)!r}")
