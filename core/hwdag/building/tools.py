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
    def method_note(self) -> str:
        """Which method builds, and why, in one sentence."""
        if not self.config.rules.has_points:
            why = "leaves alone, and no language model"
            if self.reader.prefers_extraction:
                why += f"; {self.reader.name} is too small to write Information Points"
        elif self.writer is None:
            why = f"points are picked sentences, since {self.reader.name} does not write"
        else:
            why = f"{self.writer.name} writes the Information Points, {self.reader.name} makes the edges"
        return f'method "{self.config.method}": {why}'

    @property
    def plan(self) -> WindowPlan:
        """How the tokens of a window are divided; raises `ContextTooSmall` where it cannot be."""
        return WindowPlan.of(
            self.config, self.prompts.summary, self.reader, extractive=self.writer is None
        )
