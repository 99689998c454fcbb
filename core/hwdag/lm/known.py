"""Facts about one model in a file: the model, and the format. Head lists and cards share it.

Files are keyed by architecture, sizes and base-model name, so they stay valid after merging an adapter
or quantising.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self

from hwdag.checks import json_bytes, json_object
from hwdag.errors import InputError

KINDS = {
    **dict.fromkeys(("model", "architecture"), "a text"),
    **dict.fromkeys(("layers", "heads_per_layer", "hidden"), "a positive number"),
    "also": "a list of texts",
}
"""The fields that name the model, and their kinds (`hwdag.checks.json_object`)."""

REQUIRED = KINDS.keys() - {"also"}


@dataclass(frozen=True, slots=True)
class OfModel:
    """Belongs to a model of a name and sizes; see `HeadFile` for the fields.

    A subclass names its kind of file for messages, the command that makes it, the types of its fields,
    the required ones, and the field of the heads.
    """

    what: ClassVar[str]
    made_by: ClassVar[str]
    kinds: ClassVar[Mapping[str, str]]
    required: ClassVar[Collection[str]]
    pairs_field: ClassVar[str]

    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    hidden: int

    @property
    def also(self) -> tuple[str, ...]:
        """Names of models for which it holds as well."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without empty fields that are not required."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["heads"] = [list(pair) for pair in values.pop(self.pairs_field)]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if name in self.required or value not in ("", (), None, {})
        }

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Make it from its JSON. Raises `InputError` for anything else."""
        values = json_object(data, cls.kinds, cls.required)
        values[cls.pairs_field] = tuple(map(tuple, values.pop("heads", ())))
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads, a field per line. Raises `InputError` where that cannot be."""
        try:
            Path(path).write_text(pretty(self.to_json()), "utf-8")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror or error}); name a file in a folder "
                "that exists"
            ) from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file from `save` or a command. Raises `InputError` for anything else."""
        try:
            return cls.parse(json.loads(json_bytes(Path(path))))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}); give the file of a {cls.what}, "
                f"as `{cls.made_by}` writes it"
            ) from error
        except (ValueError, RecursionError) as error:  # InputError and broken JSON are ValueErrors
            raise InputError(f"{path}: no {cls.what}: {error}") from error

    @property
    def key(self) -> str:
        """The model that the list belongs to, in words."""
        return (
            f"{self.model} ({self.architecture or 'no architecture'}, {self.layers} layers of "
            f"{self.heads_per_layer} heads, hidden size {self.hidden})"
        )

    def fits(self, name: str, config: Any) -> bool:
        """Return whether the list fits a model of this name and config."""
        return self.is_of(name) and self.has_sizes_of(config)

    def is_of(self, name: str) -> bool:
        """Return whether the list was made for a model of this name: "somewhere/Model+adapter" is "Model"."""
        return _bare(name) in map(_bare, (self.model, *self.also))

    def has_sizes_of(self, config: Any) -> bool:
        """Return whether a model of this config has the sizes of the list, and its architecture if known."""
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


def pretty(data: Mapping[str, Any]) -> str:
    """Return JSON with a field per line."""
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
