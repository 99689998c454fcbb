"""Files of arrays, of which nothing is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.store.exchange.layout import TENSORS, Array, refuse

_DTYPES = {"I64": np.int64, "I32": np.int32, "F64": np.float64, "F32": np.float32}


@dataclass(slots=True)
class Tensors:
    """One file of arrays, read from its beginning to its end."""

    path: Path
    slices: dict[str, Any]
    taken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TENSORS, 0))

    @classmethod
    def of(cls, file: Any, path: Path, dimension: int) -> Tensors:
        """Those of a file that safetensors has opened; raises `IndexCorrupt`."""
        if set(file.keys()) != set(TENSORS):
            refuse(path, f"it holds {sorted(file.keys())}, an export {sorted(TENSORS)}")
        slices = {name: file.get_slice(name) for name in TENSORS}
        for name, found in slices.items():
            columns = [dimension] if name == "vectors" else []
            shape, dtype = found.get_shape(), _DTYPES.get(found.get_dtype())
            if len(shape) != 1 + len(columns) or shape[1:] != columns or dtype != TENSORS[name]:
                refuse(path, f"{name} is {found.get_dtype()} of shape {shape}")
        return cls(path, slices)

    def documents(self) -> Iterator[tuple[int, tuple[Array, ...]]]:
        """Number of nodes of every document, and its degrees, indices, attention and vectors."""
        for count in self._take("nodes", self._rows("nodes")).tolist():
            degrees = self._take("degrees", count)
            if (degrees < 0).any():
                refuse(self.path, "a node has a negative number of edges")
            edges = int(degrees.sum(dtype=np.int64))
            children = (self._take("indices", edges), self._take("attention", edges))
            yield count, (degrees, *children, self._take("vectors", count))
        for name, taken in self.taken.items():
            if taken != self._rows(name):
                refuse(self.path, f"{name} has {self._rows(name)} rows, of which {taken} belong")

    def _rows(self, name: str) -> int:
        rows: int = self.slices[name].get_shape()[0]
        return rows

    def _take(self, name: str, rows: int) -> Array:
        start = self.taken[name]
        if not start <= start + rows <= self._rows(name):
            refuse(self.path, f"{name} has only {self._rows(name)} rows")
        self.taken[name] = start + rows
        if not rows:  # safetensors has no empty slices
            return np.empty((0, *self.slices[name].get_shape()[1:]), TENSORS[name])
        return np.asarray(self.slices[name][start : start + rows])
