"""What happened: progress, provenance, rendering."""
