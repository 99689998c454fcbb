"""Methods to compare HWDAG with: one paper per file, one protocol for all."""
