"""The settings of a folder of results, fixed so that its numbers compare.

Models, data, seed, length of answers and the definition of every system are fixed by the first run.
Later runs may add systems and budgets, and raise the limit.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hwdag.errors import InputError
from hwdag.version import __version__
from hwdag_lab.eval.data import by_dataset
from hwdag_lab.eval.models import RunModels
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import write_json
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.systems import systems

SETTINGS = "settings.json"


def check_settings(
    folder: Path, plan: Plan, models: RunModels, records: Iterable[Record], command: str
) -> None:
    """Write `settings.json`, or extend an existing one.

    Raises:
        InputError: the folder holds a run with other settings; the message names them.
    """
    new = _settings(plan, models, records, command)
    path = folder / SETTINGS
    if path.exists():
        old = read_settings(folder)
        if differences := list(_differences(old, new)):
            raise InputError(
                f"{folder} holds a run with other settings: {'; '.join(differences)}. Use another "
                "folder, or the same settings (systems and budgets may be added, the limit raised)"
            )
        new = _merged(old, new)
    write_json(path, new)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a run.

    Raises:
        InputError: the folder has none, or they cannot be read.
    """
    path = folder / SETTINGS
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); name a folder that `hwdag eval -o` has written"
        ) from error


def machine() -> dict[str, str]:
    """Return the machine: processor, cores, accelerator, versions."""
    import torch

    found = {
        "processor": _processor(),
        "cores": str(_cores()),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    if torch.cuda.is_available():
        found["accelerator"] = torch.cuda.get_device_name()
    return found


def _settings(
    plan: Plan, models: RunModels, records: Iterable[Record], command: str
) -> dict[str, Any]:
    """Return the value after JSON, to compare with a file."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    found = {
        "hwdag": __version__,
        "models": models.names,
        "data": {name: _digest(group) for name, group in sorted(by_dataset(records).items())},
        "seed": plan.seed,
        "max_new_tokens": plan.max_new_tokens,
        "systems": {system.name: system.definition for system in systems(plan.systems)},
        "budgets": sorted(set(plan.budgets)),
        "limit": plan.limit,
        "match": plan.match,
        "runs": [{"command": command, "began": began, "machine": machine()}],
    }
    normal: dict[str, Any] = json.loads(json.dumps(found))
    return normal


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in ("hwdag", "seed", "max_new_tokens", "models", "data"):
        yield from _changes(name, old.get(name), new[name])
    before, now = old.get("systems", {}), new["systems"]
    for name in sorted(before.keys() & now.keys()):
        yield from _changes(f"system {name}", before[name], now[name])


def _changes(where: str, before: Any, now: Any) -> Iterator[str]:
    """Yield the differences of two settings."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _changes(f"{where}.{key}", before.get(key), now.get(key))
    elif before != now:
        yield f"{where} was {before!r} and is now {now!r}"


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    limits = (old["limit"], new["limit"])
    last, this = old["runs"][-1], new["runs"][0]
    same = (last["command"], last["machine"]) == (this["command"], this["machine"])
    return {
        **new,
        "systems": {**old["systems"], **new["systems"]},
        "budgets": sorted({*old["budgets"], *new["budgets"]}),
        "match": new["match"] or old.get("match", ""),
        "limit": None if None in limits else max(limits),
        "runs": old["runs"] if same else [*old["runs"], this],
    }


def _digest(records: Iterable[Record]) -> str:
    """Return a hash of all records of a data set, in any order."""
    hashes = sorted(hashlib.sha256(repr(record).encode()).digest() for record in records)
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:16]


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    with suppress(AttributeError):  # Linux: cores that this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
