"""Files and folders that appear under their name when they are finished, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hwdag.errors import IndexFileError, InputError


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new name in the folder of `path`; what stands there at the end is removed.

    Raises:
        InputError: the folder of `path` does not exist.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; make {path.parent} first")
    other = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield other
    finally:
        if other.is_dir():
            shutil.rmtree(other)
        for ending in ("", "-journal"):
            other.with_name(other.name + ending).unlink(missing_ok=True)


def settle(unfinished: Path, path: Path) -> None:
    """Give a finished file its name, which must be free; raises `InputError` if it is not."""
    try:
        os.link(unfinished, path)  # unlike a renaming it never replaces a file
        unfinished.unlink()
    except FileExistsError:
        raise InputError(f"{path} exists; name a file that does not exist yet") from None
    except OSError:  # a file system without links
        unfinished.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows syncs no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained() -> Iterator[None]:
    """An `OSError` inside as an `IndexFileError`."""
    try:
        yield
    except OSError as error:
        raise IndexFileError(
            f"{error}; check permissions, and the free space of the disk"
        ) from error
