"""A persist folder that somebody has tampered with: an error of ours, or an index that answers."""

import json
import zlib
from base64 import b64decode, b64encode
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import StorageContext, load_index_from_storage
from llama_world import ALL, QUESTION, built, models

from hwdag.errors import HWDAGError

HOSTILE = [None, True, -1, 0, 10**30, 0.5, float("nan"), "", "ferry", "../..", "AAAA", [], {}]
HOSTILE += [[[]], {"": []}, [None], {"chunk_tokens": -1}, {"leaves": []}, "x" * 70_000]


@cache
def persisted():
    """Return the JSON files of a sound folder, by name."""
    with TemporaryDirectory() as folder:
        built().storage_context.persist(folder)
        return {path.name: path.read_text("utf-8") for path in Path(folder).iterdir()}


def answers_or_refuses(folder, tamper):
    """Load the folder after its struct was tampered with, and ask."""
    files = {name: json.loads(text) for name, text in persisted().items()}
    (entry,) = files["index_store.json"]["index_store/data"].values()
    struct = json.loads(entry["__data__"])
    tamper(struct)
    entry["__data__"] = json.dumps(struct)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    try:
        context = StorageContext.from_defaults(persist_dir=str(folder))
        context.index_store.index_structs()
    except (TypeError, ValueError, AttributeError, KeyError):
        return  # LlamaIndex itself reads structs, and refuses these
    try:
        index = load_index_from_storage(context, **models())
        index.as_retriever(search=ALL).retrieve(QUESTION)
        assert index.ref_doc_info and index.nodes()
    except HWDAGError:
        pass


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["path", "image", "config"])
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_tampered_value_is_refused_or_does_no_harm(tmp_path, monkeypatch, name, value):
    monkeypatch.chdir(tmp_path)
    answers_or_refuses(tmp_path, lambda struct: struct.update({name: value}))


@settings(max_examples=40)
@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_tampered_image_is_refused_or_does_no_harm(tmp_path_factory, at, byte):
    def tamper(struct):
        image = bytearray(zlib.decompress(b64decode(struct["image"])))
        filled = [i for i, value in enumerate(image) if value]
        image[filled[int(at * len(filled))]] = byte
        struct["image"] = b64encode(zlib.compress(bytes(image))).decode()

    answers_or_refuses(tmp_path_factory.mktemp("tampered"), tamper)
