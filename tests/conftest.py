"""Settings for all tests."""

import gc
import importlib
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# why: examples are the same on every machine, and a busy machine is no failure
settings.register_profile("hwdag", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("quick", settings.get_profile("hwdag"), max_examples=10)
settings.load_profile("hwdag")

# why: a process that a shell starts in the background ignores Ctrl-C, and so would everything under test
signal.signal(signal.SIGINT, signal.default_int_handler)

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

MINUTES = ("test_package.py", "test_compat.py", "test_golden_walks.py", "test_documentation.py")

SECONDS = {
    "test_compat.py",
    "test_package.py",
    "test_recipes.py",
    "test_smoke.py",
    "test_adapter.py",
    "test_answers.py",
    "test_full_disks.py",
    "test_hanging_answerers.py",
    "test_refusals.py",
    "test_uploads.py",
    "test_adapter_recipe.py",
    "test_architectures.py",
    "test_attention.py",
    "test_benchmarks.py",
    "test_decoding.py",
    "test_llm_faces.py",
    "test_crash.py",
    "test_default_model.py",
    "test_easy.py",
    "test_erasure.py",
    "test_eval_report.py",
    "test_flops.py",
    "test_foreign_model_files.py",
    "test_fuzz.py",
    "test_golden_walks.py",
    "test_haystack.py",
    "test_heads_detection.py",
    "test_hostile_text.py",
    "test_huggingface.py",
    "test_hybrids.py",
    "test_likelihood.py",
    "test_live_page.py",
    "test_llama_server.py",
    "test_living_index.py",
    "test_llama_index_storage.py",
    "test_llama_index_tampered.py",
    "test_longllmlingua.py",
    "test_malformed.py",
    "test_mcp.py",
    "test_methods.py",
    "test_migration.py",
    "test_notebooks.py",
    "test_openai_writer.py",
    "test_packing.py",
    "test_pages.py",
    "test_pdf.py",
    "test_ranking.py",
    "test_raptor.py",
    "test_ray.py",
    "test_rerank.py",
    "test_segment_files.py",
    "test_serve.py",
    "test_store_sharing.py",
    "test_text_likelihood.py",
    "test_typical_programs.py",
    "test_verify.py",
    "test_youra.py",
}
"""Files whose tests run models, start processes and browsers, or take many seconds together, their imports included."""


# why: imports make no garbage, and imported modules never become garbage: a tenth of
# the tests' time went into looking for it
gc.disable()

# why: workers that import the same modules at the same time all compile them, after an installation;
# these begin at the other end
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    for name in ("llama_index.core", "matplotlib.pyplot", "sklearn.mixture", "ray", "openai"):
        with suppress(ImportError):
            importlib.import_module(name)


def pytest_collection_finish() -> None:
    """Let the garbage collector look only at objects of tests."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of slow tests in `make quick`: their imports take as long as its tests."""
    is_quick = "not slow" in config.getoption("markexpr")
    return (is_quick and collection_path.name in SECONDS) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that no worker is left alone with them in the end."""
    for item in items:
        if item.path.name in SECONDS:
            item.add_marker("slow")
    items.sort(key=lambda item: item.path.name not in MINUTES)


# why not for the session: an open Playwright is a running event loop, and no other test could start one
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; without it, the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium or google-chrome (Debian: apt-get install chromium)")
    quiet = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader"]
    with sync_api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield found
        found.close()
