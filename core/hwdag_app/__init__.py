"""The application on `hwdag`: command line, page, API and MCP server."""
