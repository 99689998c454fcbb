"""Report how much each extra adds to plain hwdag: distributions and megabytes, of this environment.

    python tools/sizes.py

Counted are the files that the distributions list, Python that pip has compiled among them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
EXTRAS = PROJECT["optional-dependencies"]
NOT_FOR_USERS = ("dev", "fuzz")


def wanted(requirements: Iterable[str], found: set[str] | None = None) -> set[str]:
    """Return names of all distributions that the requirements bring, extras of theirs included."""
    found = set() if found is None else found
    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name == "hwdag":
            for extra in requirement.extras:
                wanted(EXTRAS[extra], found)
        elif name not in found or requirement.extras:
            found.add(name)
            extras = requirement.extras or {""}
            theirs = map(Requirement, distribution(name).requires or ())
            wanted((str(one) for one in theirs if _applies(one, extras)), found)
    return found


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker, requirement.marker = requirement.marker, None
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def megabytes(names: Iterable[str]) -> float:
    """Return the size of the files of distributions."""
    files = (file.locate() for name in names for file in distribution(name).files or ())
    sizes = (Path(str(f)).stat().st_size for f in files if Path(str(f)).is_file())
    return sum(sizes) / 1e6


def main() -> None:
    """Print a line for plain hwdag and one for every extra."""
    core = wanted(PROJECT["dependencies"])
    print(
        f"hwdag: {len(core)} distributions, {megabytes(core):.0f} MB, torch {megabytes(['torch']):.0f}"
    )
    for extra in EXTRAS:
        if extra not in NOT_FOR_USERS:
            more = wanted(EXTRAS[extra]) - core
            print(f"{extra}: {len(more)} more, {megabytes(more):.0f} MB")


if __name__ == "__main__":
    main()
