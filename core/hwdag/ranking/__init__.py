"""Passages that somebody else retrieved, ranked by the attention of a local model."""
