"""An answer from evidence: decoded, quoted or generated, with citations, or an abstention."""
