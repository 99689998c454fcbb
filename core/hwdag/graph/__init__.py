"""The Hierarchical Weighted DAG as arrays."""
