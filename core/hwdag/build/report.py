"""What a build did: counted, so that nothing degrades silently."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwdag.build.builder import Built
from hwdag.types import Usage


@dataclass(slots=True)
class BuildReport:
    """What an insertion did.

    Attributes:
        built: ids of documents whose graph was built.
        unchanged: ids of documents that were there already, with the same content.
        skipped: (document id, reason) of input that holds nothing to index.
        nodes: nodes made.
        retries: windows whose first reply held no bullet.
        fallbacks: windows whose second reply held none either; their points are extractive.
        notes: guards that came into effect, in words.
        usage: tokens, TFLOPs and seconds of the local model.
    """

    built: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    nodes: int = 0
    retries: int = 0
    fallbacks: int = 0
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    def add(self, document_id: str, built: Built) -> None:
        """Count one finished document."""
        self.built.append(document_id)
        self.nodes += len(built.graph)
        self.retries += built.retries
        self.fallbacks += built.fallbacks
        self.notes += built.notes

    def __str__(self) -> str:
        lines = [
            f"{len(self.built)} documents built, {len(self.unchanged)} unchanged, "
            f"{len(self.skipped)} skipped; {self.nodes} nodes",
            f"{self.usage.tokens:,} tokens, {self.usage.tflops:.2f} TFLOPs, "
            f"{self.usage.seconds:.1f} s in the model",
        ]
        if self.retries or self.fallbacks:
            lines.append(
                f"{self.retries} retries, {self.fallbacks} windows fell back to extraction"
            )
        lines += [f"skipped {name}: {reason}" for name, reason in self.skipped]
        return "\n".join([*lines, *self.notes])
