"""Text without a model: sentences, chunks, prompts, parsers of model output, files."""
