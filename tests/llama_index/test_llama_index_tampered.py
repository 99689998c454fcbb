"""A persist folder that somebody has tampered with: an error of ours, or an index that answers."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import StorageContext, load_index_from_storage
from llama_world import ALL, QUESTION, built, models

from hwdag.errors import HWDAGError

HOSTILE = [None, True, -1, 0, 10**30, 0.5, float("nan"), "", "ferry", "../..", [], {}]
HOSTILE += [[[]], {"": []}, [None], ["ferry"], [10**9, -5], [[5, 2]], {"a": [1]}, "x" * 70_000]


@cache
def persisted():
    """The JSON files of a sound folder, by name."""
    with TemporaryDirectory() as folder:
        built().storage_context.persist(folder)
        return {path.name: path.read_text("utf-8") for path in Path(folder).iterdir()}


def our_values(files):
    """(container, key) of every value that is ours: of the struct, and of each node's relations."""
    (entry,) = files["index_store.json"]["index_store/data"].values()
    struct = json.loads(entry["__data__"])
    nodes = files["docstore.json"]["docstore/data"]
    relations = [node["__data__"]["relationships"] for node in nodes.values()]

    def within(container):
        keys = container if isinstance(container, dict) else range(len(container))
        for key in sorted(keys) if isinstance(container, dict) else keys:
            yield container, key
            if isinstance(container[key], dict | list):
                yield from within(container[key])

    ours = [(struct, key) for key in sorted(struct) if key not in ("index_id", "summary")]
    for _, key in [*ours]:
        if isinstance(struct[key], dict):
            ours += within(struct[key])
    return entry, struct, [*ours, *(place for one in relations for place in within(one))]


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=100)
@given(place=st.integers(0, 9999), value=st.integers(0, len(HOSTILE) - 1))
def test_a_tampered_value_is_refused_or_does_no_harm(tmp_path_factory, place, value):
    files = {name: json.loads(text) for name, text in persisted().items()}
    entry, struct, places = our_values(files)
    container, key = places[place % len(places)]
    container[key] = HOSTILE[value]
    entry["__data__"] = json.dumps(struct)
    folder = tmp_path_factory.mktemp("tampered")
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    try:
        context = StorageContext.from_defaults(persist_dir=str(folder))
        context.index_store.index_structs()
    except (TypeError, ValueError, AttributeError, KeyError):
        return  # LlamaIndex itself reads structs and nodes, and refuses these
    try:
        index = load_index_from_storage(context, **models())
        index.as_retriever(config=ALL).retrieve(QUESTION)
    except HWDAGError:
        pass
