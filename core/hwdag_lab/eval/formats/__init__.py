"""Official formats of public data sets: one file each, one function per format."""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, tuple[str, str]] = {
    "2wikimultihopqa": ("hotpotqa", "twowiki"),
    "hotpotqa": ("hotpotqa", "hotpotqa"),
    "longbench": ("longbench", "longbench"),
    "musique": ("musique", "musique"),
    "narrativeqa": ("narrativeqa", "narrativeqa"),
    "narrativeqa_summaries": ("narrativeqa", "narrativeqa_summaries"),
    "qasper": ("qasper", "qasper"),
    "quality": ("quality", "quality"),
}
"""Module in this package, and name in it, by format; imported when needed."""
