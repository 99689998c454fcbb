"""The page of an answer, a walk or an index as a Jupyter widget that reports the selection.

Needs the extra `notebook`; it works in every notebook that anywidget supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwdag.page import built_file

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError(f'{error}; install it with: pip install "hwdag[notebook]"') from error


class PageWidget(anywidget.AnyWidget):
    """A page in a frame that can reach neither the notebook nor the network.

    Made by `Answer.widget`, `Retrieval.widget` and `HWDAGIndex.widget`. `nodes` are selected by id,
    `citations` by their order on the page.

    Attributes:
        selected: the selected `Citation` or `Node`, or None. A traitlet:
            `widget.observe(function, "selected")` calls a function whenever it changes.
        height: height of the frame in pixels.
    """

    _esm = built_file("widget.js")
    html = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    selection = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    selected = traitlets.Any(default_value=None, read_only=True)

    def __init__(
        self, html: str, nodes: Mapping[str, object], citations: Sequence[object] = ()
    ) -> None:
        super().__init__(html=html)
        self._nodes, self._citations = nodes, citations

    @traitlets.observe("selection")
    def _look_up(self, _: Any) -> None:
        chosen = self.selection or {}
        number, key = chosen.get("citation"), chosen.get("node")
        found = self._nodes.get(key) if isinstance(key, str) else None
        if isinstance(number, int) and 0 <= number < len(self._citations):
            found = self._citations[number]
        self.set_trait("selected", found)
