"""Documents of files whose path an index has under another spelling.

The id of a file is its path as it was named: "notes/mill.md", "./mill.md" from within the folder and
"/home/ada/notes/mill.md" are one file. An index does not know in which folder it was built, so ids are
looked for in the present one and in that of the index.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwdag.building.report import named
from hwdag.store.sqlite import Store, holds_something
from hwdag.types import Document


@dataclass(frozen=True, slots=True)
class Spellings:
    """The ids of an index, and the places of the files that they may name."""

    ids: Sequence[str] = ()
    folders: Sequence[Path] = ()
    by_place: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path) -> Spellings:
        """Read the ids of an index; there are none if the file does not exist."""
        if not holds_something(file):
            return cls()
        with Store.open(file) as store:
            ids = store.ids()
        folders = [Path.cwd(), file.resolve().parent]
        found = cls(ids, folders)
        for identity in ids:
            for place in found.places(identity):
                found.by_place.setdefault(place, identity)
        return found

    def places(self, identity: str) -> Iterator[str]:
        """Yield where the file of an id may be, as it is named and without symbolic links."""
        for folder in self.folders:
            yield os.path.normpath(folder / identity)
            yield os.path.realpath(folder / identity)

    def known(self, documents: Iterable[Document]) -> tuple[list[Document], list[str]]:
        """Give documents the ids that the index has for their files; with a note.

        A note also names ids that may be those of the same file, though their folder is unknown.
        """
        found, moved, doubtful = list[Document](), list[str](), list[str]()
        documents, ids = list(documents), set(self.ids)
        taken = {document.id for document in documents}
        ends = {_end(identity): identity for identity in self.ids}
        for document in documents:
            place = os.path.realpath(document.id)
            identity = self.by_place.get(
                place, self.by_place.get(os.path.normpath(Path.cwd() / document.id), "")
            )
            if document.id not in ids and identity and identity not in taken:
                moved.append(f"{document.id} as {identity}")
                is_own = document.metadata.get("path") == document.id  # --metadata may name another
                changed = {"path": identity} if is_own else {}
                document = replace(document, id=identity, metadata={**document.metadata, **changed})
            elif document.id not in ids and not identity:
                same = next((ends[end] for end in _ends(place) if end in ends), None)
                doubtful += [f"{document.id} as {same}"] if same else []
            found.append(document)
        notes = []
        if moved:
            notes.append(f"files that the index has under another path keep its id: {named(moved)}")
        if doubtful:
            notes.append(
                f"files that may be in the index under another path, and be twice now: {named(doubtful)}; "
                "name them as the index does, or delete one"
            )
        return found, notes

    def missing(self, paths: Iterable[Path], documents: Iterable[Document]) -> list[str]:
        """Return the ids of files below some paths that do not exist any more."""
        present = {document.id for document in documents}
        folders = [os.path.realpath(path) for path in paths]
        return [
            identity
            for identity in self.ids
            if identity not in present
            and any(is_below(place, folders) for place in self.places(identity))
            and not any(map(os.path.exists, self.places(identity)))
        ]


def is_below(place: str, folders: Iterable[str]) -> bool:
    """Return whether a place is one of some folders, or within it."""
    return any(
        place == folder or place.startswith(f"{folder.rstrip(os.sep)}{os.sep}")
        for folder in folders
    )


def _end(identity: str) -> str:
    """Return the end of a place that an id names, whatever the folder."""
    parts = [part for part in Path(identity).parts if part not in ("..", ".", os.sep)]
    return "/".join(parts)


def _ends(place: str) -> Iterator[str]:
    """Yield the ends of a place with at least one folder, the longest first."""
    parts = [part for part in Path(place).parts if part != os.sep]
    for start in range(len(parts) - 1):
        yield "/".join(parts[start:])
