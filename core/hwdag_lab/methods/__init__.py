"""What HWDAG is compared with, one paper per file, behind one protocol."""
