"""Read the files that travel beside a model: adapters, head lists. They may be a stranger's."""

from __future__ import annotations

from pathlib import Path

MOST_JSON_BYTES = 1 << 24


def regular(path: Path) -> Path:
    """The path of a regular file: a pipe or a device, also behind a link, may never end.

    Raises:
        OSError: it is something else, or cannot be looked at.
    """
    path.stat()
    if not path.is_file():
        raise OSError(None, "not a regular file", str(path))
    return path


def json_bytes(path: Path) -> bytes:
    """The bytes of a JSON file of at most 16 MB.

    Raises:
        OSError: it cannot be read, is larger, or no regular file.
    """
    with regular(path).open("rb") as file:
        found = file.read(MOST_JSON_BYTES + 1)
    if len(found) > MOST_JSON_BYTES:
        raise OSError(None, f"larger than {MOST_JSON_BYTES >> 20} MB", str(path))
    return found
