"""Official formats of public data sets: one file each, one function per format."""

NAMES = (
    "2wikimultihopqa",
    "hotpotqa",
    "longbench",
    "musique",
    "narrativeqa",
    "narrativeqa_summaries",
    "qasper",
    "quality",
)
"""Of `hwdag_lab.eval.convert.FORMATS`, for the command line, which imports none of them."""
