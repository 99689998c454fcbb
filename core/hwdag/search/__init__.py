"""Questions to walks and answers."""
