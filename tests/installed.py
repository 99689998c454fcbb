"""The duties of an installed hwdag, checked by the Python of its environment and not of the checkout.

    python tests/installed.py core llama_index

Every part that is named is used; a package that is not named must be refused by the name of its extra,
and no part of its framework may be there.
"""

import importlib
import importlib.metadata
import sys
from functools import cache
from pathlib import Path

import gguf

import hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

FRAMEWORKS = {"llama_index": "llama-index", "langchain": "langchain", "haystack": "haystack"}
"""Extras by the beginning of a package's name."""

TEXTS = ("The harbour was built in 1871 by Clara Holm.", "Bananas are yellow.")
QUESTION = "Who built the harbour?"
FOUND = [(TEXTS[0], [[0, len(TEXTS[0])]])]
"""Text and source spans of the best node."""


def core():
    """Use both default models, from their wheels, and a file."""
    # why: transformers 5.0 reads the model file four times, two seconds each
    gguf.GGUFReader = cache(gguf.GGUFReader)
    file = Path("installed.hwdag")
    file.unlink(missing_ok=True)
    index = hwdag.HWDAGIndex.from_documents(TEXTS, path=file)
    # why confidence: then p_yes is probed after a node, and the probe is cropped from the cache
    config = hwdag.SearchConfig(token_budget=60, confidence=0.99)
    answer = index.answer(QUESTION, config=config)
    first, *_ = answer.retrieval.steps
    assert "Clara Holm" in first.node.text, answer
    assert first.p_yes is not None, answer
    assert index.reader.known_heads
    first, other = hwdag.rank_passages(None, QUESTION, TEXTS)  # passes a cache to the model
    assert first > other
    from hwdag_app.cli.demo import documentation

    assert (documentation() / "guide.md").is_file()


def llama_index():
    from llama_index.core import Document

    from llama_index_hwdag import HWDAGIndex

    index = HWDAGIndex.from_documents(
        [Document(text=text) for text in TEXTS], reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    best = index.as_retriever(k=1).retrieve(QUESTION)
    assert [(node.text, node.metadata["hwdag"]["spans"]) for node in best] == FOUND, best


def thin_llama_index():
    """Check that the namespace of LlamaIndex has the same classes."""
    import llama_index.retrievers.hwdag as thin

    import llama_index_hwdag

    assert all(getattr(thin, name) is getattr(llama_index_hwdag, name) for name in thin.__all__)


def langchain():
    from langchain_core.documents import Document

    from langchain_hwdag import HWDAGIndex

    index = HWDAGIndex.from_documents(
        [Document(text) for text in TEXTS], reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    best = index.as_retriever(k=1).invoke(QUESTION)
    found = [(document.page_content, document.metadata["hwdag"]["spans"]) for document in best]
    assert found == FOUND, best


def haystack():
    from haystack_hwdag import HWDAGRetriever

    index = hwdag.HWDAGIndex.from_documents(TEXTS, reader=ScriptedLM(), embedder=HashingEmbedder())
    best = HWDAGRetriever(index, top_k=1).run(QUESTION)["documents"]
    found = [(document.content, document.meta["hwdag"]["spans"]) for document in best]
    assert found == FOUND, best


def evaluation():
    """Compute metrics by the libraries of the extra `lab`."""
    from hwdag_lab.eval.text_metrics import bleu4, rouge_l

    assert rouge_l(TEXTS[0], TEXTS[:1]) == 1
    assert round(bleu4(TEXTS[0], TEXTS[:1]), 3) in (1, 100)


def clusters():
    """Find the clusters of RAPTOR; their libraries take long to compile."""
    import numpy as np

    from hwdag_lab.methods.raptor import RaptorConfig, soft_clusters

    vectors = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32)
    members = soft_clusters(vectors, RaptorConfig())
    assert set(np.concatenate(members)) == set(range(40))


def refused(framework, extra):
    """Check that the framework is not installed, and that the package names the extra that brings it."""
    found = importlib.metadata.packages_distributions().items()
    names = {name.lower() for name, distributions in found if set(distributions) != {"hwdag"}}
    assert not {name for name in names if name.startswith(framework)}
    try:
        importlib.import_module(f"{framework}_hwdag")
    except ImportError as error:
        assert f'pip install "hwdag[{extra}]"' in str(error), error
    else:
        raise AssertionError(f"{framework}_hwdag works without {framework}")


def main(parts):
    assert "site-packages" in hwdag.__file__, hwdag.__file__
    assert (Path(hwdag.__file__).parent / "py.typed").is_file()
    for part in parts:
        globals()[part]()
    for framework, extra in FRAMEWORKS.items():
        if framework not in parts:
            refused(framework, extra)


if __name__ == "__main__":
    main(sys.argv[1:])
