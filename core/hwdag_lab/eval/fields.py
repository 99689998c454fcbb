"""JSON from strangers: objects with their place in the file, and one way to report errors.

A pydantic model, a `JsonObject`, declares the fields of an object.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hwdag.checks import one_of
from hwdag.errors import InputError
from hwdag.text.characters import without_surrogates

Malformed = Literal["error", "skip"]
"""The reaction to a malformed record: raise, or leave it out and report it."""

OnSkip = Callable[[str], None]
"""Called with the message of a record that was left out."""

Raw = TypeVar("Raw")
Parsed = TypeVar("Parsed")
R = TypeVar("R", bound="JsonObject")


class DataError(InputError):
    """A data file cannot be read: `<file>:<line>: <reason>`, or `<file>: item <n>: ...`."""


class MalformedRecord(Exception):
    """The error of a record, without its place; `checked` turns it into a `DataError`."""


class JsonObject(BaseModel):
    """A JSON object with fields of exactly these types; others are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


def _readable(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    if not text.isascii() and without_surrogates(text)[1]:
        raise ValueError("holds half of a surrogate pair, which is not Unicode text")
    return text


Text: TypeAlias = Annotated[str, AfterValidator(_readable)]
"""Text that is not blank."""

Blankable: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""Text that may be blank, or null."""

First = TypeVar("First")
Second = TypeVar("Second")
Pair: TypeAlias = Annotated[tuple[First, Second], Field(strict=False)]
"""A JSON list of two."""


def row_of(model: type[R], value: Any) -> R:
    """Parse `value` as an object of a model. Raises `MalformedRecord` with the first error."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = first["msg"].removeprefix("Value error, ").partition(" or instance of")[0]
        field = ".".join(map(str, first["loc"]))
        raise MalformedRecord(": ".join(filter(None, [field, said]))) from error


def checked(
    items: Iterable[tuple[str, Raw]],
    parse: Callable[[Raw], Parsed],
    malformed: Malformed,
    on_skip: OnSkip | None,
) -> Iterator[Parsed]:
    """Parse every item; `items` are pairs of a place ("file:line") and the raw item.

    Raises:
        UnknownOption: `malformed` is neither "error" nor "skip" (at once, not at the first item).
        DataError: `parse` raised `MalformedRecord` and `malformed` is "error".
    """
    one_of("malformed", malformed, get_args(Malformed))

    def parsed() -> Iterator[Parsed]:
        for place, item in items:
            try:
                yield parse(item)
            except MalformedRecord as problem:
                message = f"{place}: {problem}"
                if malformed == "error":
                    raise DataError(
                        f'{message}; correct it, or leave it out with malformed="skip" '
                        "(--malformed skip)"
                    ) from problem
                if on_skip:
                    on_skip(message)

    return parsed()


def lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield non-blank lines with their places, without loading the whole file.

    Raises:
        DataError: the file cannot be opened.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.removeprefix(codecs.BOM_UTF8).strip():
                    yield f"{path}:{number}", line
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the `DataError` of a file that cannot be read."""
    return DataError(f"{path}: cannot be read ({error.strerror or error}); give an existing file")


def json_file(path: Path) -> Any:
    """Return the JSON value in a file, read as a whole.

    Raises:
        DataError: the file cannot be opened, or is not UTF-8, or not JSON.
    """
    try:
        return decoded(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except MalformedRecord as problem:
        raise DataError(f"{path}: {problem}") from problem


def decoded(data: bytes) -> Any:
    """Return the JSON value in UTF-8 bytes. Raises `MalformedRecord`."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"not JSON ({error})") from error
