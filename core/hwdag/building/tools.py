"""What a build works with."""

from __future__ import annotations

from dataclasses import dataclass

from hwdag.building.windows import WindowPlan
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Writer
from hwdag.text.prompts import Prompts


@dataclass(frozen=True, slots=True)
class Tools:
    """The models and their settings; `writer` is None where points are extracted."""

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: BuildConfig
    prompts: Prompts

    @property
    def plan(self) -> WindowPlan:
        """How the tokens of a window are divided; raises `ContextTooSmall` where it cannot be."""
        return WindowPlan.of(
            self.config, self.prompts.summary, self.reader, extractive=self.writer is None
        )
