"""Retrieval heads: finding them on data with known evidence."""

from __future__ import annotations

from hwdag.lm.model_file import ModelFile
from hwdag_lab.heads.capture import RankingCapture, capture_ranking
from hwdag_lab.heads.data import Example, read_examples
from hwdag_lab.heads.detection import Criterion, Detection, detect_heads
from hwdag_lab.heads.scoring import AttentionScoring

__all__ = [
    "AttentionScoring",
    "Criterion",
    "Detection",
    "Example",
    "ModelFile",
    "RankingCapture",
    "capture_ranking",
    "detect_heads",
    "read_examples",
]
