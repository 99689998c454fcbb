"""The ranker, where Haystack looks for integrations and loads them without `allowed_modules`."""

from haystack_integrations.components.rankers.hwdag.ranker import HWDAGRanker

__all__ = ["HWDAGRanker"]
