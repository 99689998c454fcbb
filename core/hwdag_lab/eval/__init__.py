"""Evaluation: data sets, metrics, the resumable run over all systems, reports and comparisons."""
