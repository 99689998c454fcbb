"""What a file says of one model: whose it is, and how it is written. Head lists and cards share it.

Files are keyed by architecture, sizes and base-model name, so they stay valid after merging an adapter
or quantising.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from hwdag.checks import json_bytes
from hwdag.errors import InputError

T = TypeVar("T")

KINDS = {
    **dict.fromkeys(("model", "architecture"), "a text"),
    **dict.fromkeys(("layers", "heads_per_layer", "hidden"), "a positive number"),
    "also": "a list of texts",
}
"""The fields that name the model, and their kinds (`hwdag.checks.json_object`)."""

REQUIRED = KINDS.keys() - {"also"}


class OfModel:
    """Belongs to a model of a name and sizes; see `HeadFile` for the fields."""

    __slots__ = ()

    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    hidden: int
    also: tuple[str, ...]

    @property
    def key(self) -> str:
        """The model that the list belongs to, in words."""
        return (
            f"{self.model} ({self.architecture or 'no architecture'}, {self.layers} layers of "
            f"{self.heads_per_layer} heads, hidden size {self.hidden})"
        )

    def fits(self, name: str, config: Any) -> bool:
        """Whether the list fits a model of this name and config."""
        return self.is_of(name) and self.has_sizes_of(config)

    def is_of(self, name: str) -> bool:
        """Whether the list was made for a model of this name: "somewhere/Model+adapter" is "Model"."""
        return _bare(name) in map(_bare, (self.model, *self.also))

    def has_sizes_of(self, config: Any) -> bool:
        """Whether a model of this config has the sizes of the list, and its architecture if known."""
        text = config.get_text_config(decoder=True)
        named = config.architectures or ()
        return (
            (not named or self.architecture in ("", *named))
            and text.num_hidden_layers == self.layers
            and text.num_attention_heads == self.heads_per_layer
            and text.hidden_size == self.hidden
        )


def facts_of(name: str, config: Any) -> dict[str, Any]:
    """Return the fields that name a model, from its name and transformers config.

    It is the base model, since an adapter moves no heads.
    """
    text = config.get_text_config(decoder=True)
    return {
        "model": base_name(name),
        "architecture": next(iter(config.architectures or ()), ""),
        "layers": text.num_hidden_layers,
        "heads_per_layer": text.num_attention_heads,
        "hidden": text.hidden_size,
    }


def base_name(name: str) -> str:
    """Drop "+adapter" from the last part of a name."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition("+")[0]


def _bare(name: str) -> str:
    return base_name(name.rstrip("/")).rpartition("/")[2].lower()


def shipped_json(folder: str) -> list[Any]:
    """Read the files of a folder of the package, by name."""
    found = [f for f in (files("hwdag.lm") / folder).iterdir() if f.name.endswith(".json")]
    return [json.loads(f.read_text("utf-8")) for f in sorted(found, key=lambda f: f.name)]


def write_json(path: str | Path, data: Mapping[str, Any]) -> None:
    """Write a file, a field per line. Raises `InputError` where that cannot be."""
    try:
        Path(path).write_text(pretty(data), "utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); name a file in a folder "
            "that exists"
        ) from error


def without_empty(values: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    """Return fields as JSON, without empty ones that are not required."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name in required or value not in ("", (), None, {})
    }


def pretty(data: Mapping[str, Any]) -> str:
    """Return JSON with a field per line."""
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_json(path: str | Path, parse: Callable[[Any], T], what: str, made_by: str) -> T:
    """Parse a file of a model. Raises `InputError` that names the file, `what` it is and who makes it."""
    try:
        return parse(json.loads(json_bytes(Path(path))))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); give the file of a {what}, as "
            f"`{made_by}` writes it"
        ) from error
    except (ValueError, RecursionError) as error:  # InputError and broken JSON are ValueErrors
        raise InputError(f"{path}: no {what}: {error}") from error
