"""Where an index is kept: in the core's one file, or as the bytes of such a file in its struct."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llama_index.core import Settings

from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexCorrupt, IndexFileError, IndexMismatch
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.store.sqlite import Store, holds_something
from llama_index_hwdag.adapters import FOREIGN, as_embedder
from llama_index_hwdag.index_struct import HWDAGIndexStruct

MOST_IMAGE_BYTES = 1 << 30
"""Limit of an unpacked image; SQLite allows no larger database in memory."""


def checked(struct: HWDAGIndexStruct) -> HWDAGIndexStruct:
    """Return a struct from an index store. Raises `IndexCorrupt` if it is not ours."""
    kinds = {"path": str, "image": str, "config": dict}
    for name, kind in kinds.items():
        if not isinstance(value := getattr(struct, name), kind):
            raise _damaged(f"its {name} is a {type(value).__name__}, not a {kind.__name__}")
    if not any(getattr(struct, name) for name in kinds):
        raise _damaged(f"it lacks all of {', '.join(kinds)}")
    return struct


def opened(
    struct: HWDAGIndexStruct,
    path: str | Path | None,
    models: dict[str, Any],
    config: BuildConfig | None,
) -> CoreIndex:
    """Open the index that a struct describes, or create one.

    Args:
        struct: empty for a new index.
        path: the file, if the struct names none, or if it was moved.
        models: reader, writer, embedder and prompts for the core.
        config: None for the config of the index.

    Raises:
        IndexFileError: the file is missing.
        NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
        IndexMismatch: the index was built with another embedder or config.
    """
    place = _place(struct, path)
    if place is None or (isinstance(place, Path) and not holds_something(place)):
        if place is not None and struct.path and not struct.config:
            raise IndexFileError(
                f"the index file {place} is missing; if it was moved, load the index with path= and "
                "its new place, else build it again"
            )
        if config is None and struct.config:
            config = BuildConfig.from_dict(struct.config)
        embedder = _embedder(models["embedder"], None)
        core = CoreIndex(**models | {"embedder": embedder}, config=config, path=place)
    else:
        with Store.open(place, readonly=True) as store:
            recorded = store.header.embedder
        embedder = _embedder(models["embedder"], recorded)
        core = CoreIndex.load(place, **models | {"embedder": embedder}, config=config)
    struct.path = str(place) if isinstance(place, Path) else ""
    return core


def note(struct: HWDAGIndexStruct, core: CoreIndex) -> None:
    """Write into a struct the values that `opened` needs to open this index."""
    struct.config = {} if core.built_by else json.loads(json.dumps(asdict(core.config)))
    if core.built_by and core.path is None:
        # why compressed: zeros that guard the rows fill most pages of a small document
        struct.image = b64encode(zlib.compress(core.to_bytes(), level=1)).decode("ascii")


def _place(struct: HWDAGIndexStruct, path: str | Path | None) -> Path | bytes | None:
    if struct.image and (path or struct.path):
        raise IndexMismatch(
            f"the index is in its index store, not in a file; leave path={str(path)!r} out, or write "
            "a file with index.core.save(path)"
        )
    if struct.image:
        return _unpacked(struct.image)
    place = path or struct.path
    return Path(place).expanduser().resolve() if place else None


def _unpacked(image: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(b64decode(image, validate=True), MOST_IMAGE_BYTES)
    except (ValueError, zlib.error) as error:
        raise _damaged(f"its image cannot be unpacked ({error})") from error
    if not unpacking.eof or not found:
        raise _damaged("its image is truncated, empty or too long")
    return found


def _damaged(reason: str) -> IndexCorrupt:
    return IndexCorrupt(
        f"the index store holds no hwdag index: {reason}; load a folder that holds a persisted one"
    )


def _embedder(passed: Embedder | str | None, recorded: str | None) -> Embedder | str | None:
    """Return the passed embedder, else that of `Settings`; None loads the recorded one by name.

    Raises:
        IndexMismatch: it is not the recorded one, or it is missing and cannot be loaded by name.
    """
    if passed is None:
        # why not `Settings.embed_model`: reading it creates OpenAI's if none is set
        known = as_embedder(Settings._embed_model)
        if known is not None and recorded in (None, getattr(known, "name", None)):
            return known
    if recorded is None or (passed is None and not recorded.startswith(FOREIGN)):
        return passed
    name = passed if passed is None or isinstance(passed, str) else passed.name
    if name != recorded:
        raise IndexMismatch(
            f"the nodes were embedded with {recorded!r}, got {name!r}; pass that model as embedder, or "
            "build the index again"
        )
    return passed
