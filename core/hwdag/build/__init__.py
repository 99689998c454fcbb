"""Documents to graphs."""
