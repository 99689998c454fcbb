"""Numbers of all documents that a search sees: embeddings, words, edges."""
