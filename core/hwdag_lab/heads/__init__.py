"""Retrieval heads: found on data with known evidence."""

from __future__ import annotations

from hwdag.lm.heads import HeadFile
from hwdag.ranking.capture import RankingCapture, capture_ranking
from hwdag.ranking.passages import rank_passages
from hwdag.ranking.scoring import AttentionScoring
from hwdag_lab.heads.data import Example, read_examples
from hwdag_lab.heads.detection import Criterion, Detection, detect_heads

__all__ = [
    "AttentionScoring",
    "Criterion",
    "Detection",
    "Example",
    "HeadFile",
    "RankingCapture",
    "capture_ranking",
    "detect_heads",
    "rank_passages",
    "read_examples",
]
