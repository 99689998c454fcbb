"""Metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hwdag.types import Answer

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
NODES = (1, 2, 5, 10, 20, 50, 100, 200)


class Metrics:
    """Counts of one server since it started."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self.questions = Counter(
            "hwdag_questions", "Questions by how they ended", ["system", "outcome"], registry=own
        )
        self.asking = Gauge("hwdag_questions_running", "Questions being answered", registry=own)
        self.seconds = Histogram(
            "hwdag_question_seconds",
            "Seconds of answered questions",
            ["system"],
            buckets=SECONDS,
            registry=own,
        )
        self.nodes = Histogram(
            "hwdag_nodes_read", "Nodes read for an answer", ["system"], buckets=NODES, registry=own
        )
        self.tokens = Counter("hwdag_tokens", "Tokens through the model", ["system"], registry=own)
        self.tflops = Counter("hwdag_tflops", "TFLOPs of the model", ["system"], registry=own)
        self.uploads = Counter(
            "hwdag_uploads", "Uploads by how they ended", ["outcome"], registry=own
        )
        self.documents = Gauge("hwdag_documents", "Documents in the index", registry=own)

    def count(self, system: str, answer: Answer, seconds: float) -> None:
        """Count an answered question."""
        self.seconds.labels(system).observe(seconds)
        self.nodes.labels(system).observe(len(answer.retrieval.steps))
        self.tokens.labels(system).inc(answer.usage.tokens)
        self.tflops.labels(system).inc(answer.usage.tflops)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
