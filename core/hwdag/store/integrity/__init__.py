"""Whether an index file is whole, what to keep of one that is not, and making it small again."""

from __future__ import annotations

from hwdag.store.integrity.compacting import Compacted, compact
from hwdag.store.integrity.repairing import Repaired, repair
from hwdag.store.integrity.verifying import Problem, Verdict, verify

__all__ = ["Compacted", "Problem", "Repaired", "Verdict", "compact", "repair", "verify"]
