"""Front matter: settings at the very beginning of a Markdown file, which are metadata and no text."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

import yaml

from hwdag.text.characters import without_surrogates
from hwdag_files.content import Content

MAX_CHARACTERS = 1 << 16
"""Characters of front matter; a longer block is text."""

_BLOCK = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.M | re.S)
_KEY = re.compile(r"^(?=[^\W\d][\w.-]*[ \t]*:(?:\s|\Z))", re.M)
_BELOW_KEY = re.compile(r"\s|-\s|#|\Z")


def with_front_matter(content: Content) -> Content:
    """Move the front matter of a text, in YAML, TOML or JSON, to the title and the metadata.

    A block that is not a mapping, such as prose between two rules, stays text.
    """
    text, notes = content.text, content.notes
    if text.startswith("{"):
        found, end = _leading_object(text[:MAX_CHARACTERS])
    else:
        block = _BLOCK.match(text[:MAX_CHARACTERS])
        if block is None:
            return content
        found, end = _settings(block[1], block[2]), block.end()
    if found is None:
        return content
    if "" in found:
        notes = (*notes, f"front matter that is not valid {found.pop('')} read key by key")
    # why: an escape may spell half of a surrogate pair, TOML has dates and numbers beyond JSON's
    written, _ = without_surrogates(json.dumps(found, ensure_ascii=False, default=str))
    metadata = json.loads(written, parse_constant=str)
    title = metadata.get("title")
    named = " ".join(str(title).split()) if isinstance(title, str | int) else ""
    return replace(
        content, text=text[end:], title=named or content.title, notes=notes, metadata=metadata
    )


def _leading_object(text: str) -> tuple[dict[str, Any] | None, int]:
    """Return a JSON object whose braces begin a line each, and its end."""
    try:
        found, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    rest = text[end:].partition("\n")
    is_apart = text[:end].endswith("\n}") and not rest[0].strip() and rest[1]
    return (found, end + len(rest[0]) + 1) if is_apart else (None, 0)


def _settings(fence: str, block: str) -> dict[str, Any] | None:
    """Return the mapping of a block; under "" the name of the format that it breaks."""
    try:
        found = tomllib.loads(block) if fence == "+++" else _yaml(block)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError):
        found = None if fence == "+++" else _by_keys(block)
        return found and {"": "YAML", **found}
    return found if isinstance(found, dict) and found else None


class _Loader(yaml.BaseLoader):  # type: ignore[misc] # yaml has no types
    """Composes nodes without aliases: a few of them may stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def _yaml(block: str) -> Any:
    return _value(_Loader(block).get_single_node())


def _value(node: Any) -> Any:
    """Return the value of a node, as JSON has it; tags are ignored."""
    if isinstance(node, yaml.MappingNode):
        return {str(_value(key)): _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(one) for one in node.value]
    if not isinstance(node, yaml.ScalarNode):
        return None
    return node.value if node.style else _plain(node.value)


def _plain(text: str) -> Any:
    """Return the number, truth value or null that JSON writes in the same way: "1.10" is a text."""
    try:
        value = json.loads(text, parse_constant=float)
        return value if json.dumps(value, allow_nan=False) == text else text
    except (ValueError, RecursionError):
        return text or None


def _by_keys(block: str) -> dict[str, Any] | None:
    """Return the value of each key at the left edge, as a text if it is not valid; None for prose."""
    head, *parts = _KEY.split(block)
    below = [*head.splitlines(), *(line for part in parts for line in part.splitlines()[1:])]
    if not all(map(_BELOW_KEY.match, below)):
        return None
    found = dict[str, Any]()
    for part in parts:
        try:
            found |= _yaml(part)
        except (yaml.YAMLError, ValueError, RecursionError):
            key, _, value = part.partition(":")
            found[key.strip()] = " ".join(value.split())
    return found
