"""JSON Lines, as data, examples, logs and results are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def lines_of(path: Path) -> Iterator[Json]:
    """Yield the records of a file, one after the other."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
