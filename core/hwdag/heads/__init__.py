"""Retrieval heads and controllers: found, fitted and judged on data with known evidence."""

from __future__ import annotations

from hwdag.heads.data import Example, read_examples
from hwdag.heads.detection import Criterion, Detection, detect_heads
from hwdag.heads.ranking import rank_passages
from hwdag.heads.scoring import AttentionScoring
from hwdag.lm.heads import HeadFile
from hwdag.lm.ranking import RankingCapture, capture_ranking

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
