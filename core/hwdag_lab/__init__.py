"""Measurements and comparisons: other papers' methods, baselines, evaluation, studies of heads."""
