"""The application on `hwdag`: an index over HTTP and as a server of the Model Context Protocol.

`hwdag_app.serve.application` has `application(systems)`, a Starlette application with a page for people and
an API like OpenAI's for programs; it needs the extra `serve`. `hwdag_app.mcp` needs the extra `mcp`.
"""
