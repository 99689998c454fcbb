"""OpenTelemetry spans of an index's operations, if `opentelemetry-api` is installed (extra `otel`).

They are recorded only if the application sets up an SDK. Attributes follow OpenInference, whose
viewers show a walk as a retrieval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from hwdag.types import OnStep, Retrieval, Step
from hwdag.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TRACER = "hwdag"


@cache
def _tracer() -> Any:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    return get_tracer(TRACER, __version__)


@contextmanager
def span(name: str, kind: str, **attributes: Any) -> Iterator[Span | None]:
    """Open a span of an OpenInference kind ("RETRIEVER", "CHAIN"); None if it is not recorded."""
    tracer = _tracer()
    if tracer is None:
        yield None
        return
    attributes["openinference.span.kind"] = kind
    with tracer.start_as_current_span(name, attributes=attributes) as opened:
        yield opened if opened.is_recording() else None


def telling(opened: Span | None, on_step: OnStep | None) -> OnStep | None:
    """Return an `on_step` that also adds each visited node to the span."""
    if opened is None:
        return on_step

    def report(step: Step) -> None:
        numbers = {"position": step.position, "level": step.node.level, "score": float(step.score)}
        opened.add_event("hwdag.step", {"node": step.node.id, **numbers})
        if on_step is not None:
            on_step(step)

    return report


def add_retrieval(opened: Span | None, retrieval: Retrieval) -> None:
    """Record which nodes were read, why the walk stopped and its cost."""
    if opened is None:
        return
    opened.set_attributes(
        {
            "hwdag.stop": retrieval.stop,
            "hwdag.context_tokens": retrieval.context_tokens,
            "hwdag.tokens": retrieval.usage.tokens,
            "hwdag.tflops": retrieval.usage.tflops,
        }
    )
    for i, step in enumerate(retrieval.steps):
        about = f"retrieval.documents.{i}.document."
        opened.set_attributes(
            {
                about + "id": step.node.id,
                about + "content": step.node.text,
                about + "score": float(step.score),
            }
        )
