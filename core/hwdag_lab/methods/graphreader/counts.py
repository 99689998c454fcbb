"""What GraphReader did and built, counted as in the paper's Tables 8 and 9."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hwdag_lab.methods.graphreader.exploration import Exploration
from hwdag_lab.methods.graphreader.fact_graph import FactGraph
from hwdag_lab.methods.graphreader.path import Stage


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """Function calls of several questions (Table 8).

    Attributes:
        paths: that were counted.
        calls_per_path: mean number of calls; the paper's "Avg. Function Call".
        stages: share of every stage in all calls.
        functions: share of every function in the calls of its stage, by stage and function.
        defaults: share of the calls that were taken by default, after two unusable replies.
    """

    paths: int
    calls_per_path: float
    stages: Mapping[Stage, float]
    functions: Mapping[tuple[Stage, str], float]
    defaults: float


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """Graphs of several documents (Table 9); means over documents.

    Attributes:
        documents: that were counted.
        nodes: elements per graph.
        most_nodes: of any graph.
        facts: per graph.
        most_facts: of any graph.
        neighbors: mean per element, and then over graphs.
        most_neighbors: the largest number in a graph.
        facts_per_node: mean per element, and then over graphs.
        most_facts_per_node: the largest number in a graph.
    """

    documents: int
    nodes: float
    most_nodes: int
    facts: float
    most_facts: int
    neighbors: float
    most_neighbors: float
    facts_per_node: float
    most_facts_per_node: float


def call_statistics(explorations: Iterable[Exploration]) -> CallStatistics:
    """Count the calls of all paths."""
    paths = [path for explored in explorations for path in explored.paths]
    calls = [call for path in paths for call in path.calls]
    stages = Counter(call.stage for call in calls)
    functions = Counter((call.stage, call.function) for call in calls)
    return CallStatistics(
        len(paths),
        _share(len(calls), len(paths)),
        {stage: _share(count, len(calls)) for stage, count in stages.items()},
        {key: _share(count, stages[key[0]]) for key, count in functions.items()},
        _share(sum(call.is_default for call in calls), len(calls)),
    )


def graph_statistics(graphs: Sequence[FactGraph]) -> GraphStatistics:
    """Count nodes, facts and neighbors; at least one graph."""
    neighbors = [graph.neighbor_counts for graph in graphs]
    facts = [graph.fact_counts for graph in graphs]
    return GraphStatistics(
        len(graphs),
        fmean(len(graph.elements) for graph in graphs),
        max(len(graph.elements) for graph in graphs),
        fmean(len(graph.facts) for graph in graphs),
        max(len(graph.facts) for graph in graphs),
        fmean(map(fmean, neighbors)),
        fmean(map(max, neighbors)),
        fmean(map(fmean, facts)),
        fmean(map(max, facts)),
    )


def _share(count: int, total: int) -> float:
    return count / total if total else 0.0
