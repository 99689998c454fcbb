"""Documents from people's files: office formats, PDF, HTML, Markdown, tables and plain text."""
