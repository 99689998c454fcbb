"""What happened: bars, provenance, rendering."""
