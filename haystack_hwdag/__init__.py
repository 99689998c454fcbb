"""hwdag for Haystack: a retriever over an index of the core, and a ranker.

pipeline.add_component("retriever", HWDAGRetriever("notes.hwdag", top_k=5))
"""

try:
    from haystack import component  # noqa: F401
except ImportError as error:
    if error.name != "haystack":
        raise
    raise ImportError('haystack_hwdag needs haystack-ai: pip install "hwdag[haystack]"') from error

from haystack_integrations.components.rankers.hwdag import HWDAGRanker
from haystack_integrations.components.retrievers.hwdag import HWDAGRetriever

__all__ = ["HWDAGRanker", "HWDAGRetriever"]
