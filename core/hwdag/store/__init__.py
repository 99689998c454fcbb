"""The single-file SQLite store."""
