"""Embedding models with one protocol."""
