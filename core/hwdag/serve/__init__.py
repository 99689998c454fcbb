"""`hwdag serve`: an index behind HTTP, with a page for people and an API like OpenAI's for programs.

`application(systems)` is a Starlette application; `Limits` and `Access` say what it lets in. It needs
the extra `serve`.
"""

from hwdag.serve.application import application
from hwdag.serve.guard import Access, Limits
from hwdag.serve.systems import System, Systems

__all__ = ["Access", "Limits", "System", "Systems", "application"]
