"""The retriever, where Haystack looks for integrations and loads them without `allowed_modules`."""

from haystack_integrations.components.retrievers.hwdag.retriever import HWDAGRetriever

__all__ = ["HWDAGRetriever"]
