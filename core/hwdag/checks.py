"""Checks of options: what is not accepted is an error that names option, value and what is legal."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hwdag.errors import InputError, UnknownOption


def whole(name: str, value: object, minimum: int) -> int:
    """Return a whole number. Raises `InputError` for anything else, or below the minimum."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return value


def positive(name: str, value: object) -> float:
    """Return a finite number above 0. Raises `InputError` for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):  # type: ignore[operator]
        raise InputError(f"{name} must be a finite number above 0, got {value!r}")
    return value  # type: ignore[return-value]


def one_of(name: str, value: str, legal: Collection[str]) -> str:
    """Return one of some words. Raises `UnknownOption` for any other."""
    if value not in legal:
        raise UnknownOption(f"{name} must be one of {', '.join(legal)}, got {value!r}")
    return value


def refuse(unknown: Mapping[str, object], where: str, known: str) -> None:
    """Raise `UnknownOption` for whatever `**kwargs` left over."""
    if unknown:
        names = ", ".join(map(repr, sorted(unknown)))
        raise UnknownOption(f"{where} has no option {names}; it has {known}")
