"""Builds with workers of Ray: the graphs of one process, also where a worker is killed."""

import os
import sys
from functools import partial

import pytest
from ray_world import CONFIG, assert_same, built, calls, corpus, models

from hwdag import HWDAGIndex, RayExecutor
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, InputError, ModelError
from hwdag_lab.scripted import ScriptedLM

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'hwdag[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def nothing():
    raise OSError("no such model")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 would have them wait for other tests
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}  # workers make the models of `ray_world`
    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=4, runtime_env={"env_vars": paths}, **quiet)
    yield
    ray.shutdown()


def test_workers_give_the_graphs_of_one_process(tmp_path):
    folder = tmp_path / "workers"
    folder.mkdir()
    executor = RayExecutor(3, models=partial(models, folder))
    found = built(tmp_path / "here", corpus(), executor=executor)
    expected = built(tmp_path / "alone", corpus())
    assert_same(found, expected)
    assert calls(folder) == calls(tmp_path / "alone")
    assert not (tmp_path / "here" / "calls").read_text()
    assert found.report.usage.tokens == expected.report.usage.tokens


def test_a_killed_worker_repeats_the_call_that_it_was_making(tmp_path):
    folder = tmp_path / "workers"
    folder.mkdir()
    executor = RayExecutor(2, models=partial(models, folder, 4))
    found = built(tmp_path / "here", corpus(), path=tmp_path / "found.hwdag", executor=executor)
    assert_same(found, built(tmp_path / "alone", corpus()))
    assert found.verify().sound
    started, ended = calls(folder)
    assert (folder / "grave").exists()
    assert ended == calls(tmp_path / "alone")[1]
    again = started - ended
    assert set(again.values()) == {1}
    assert len({name.split("-")[0] for name in again}) == 1  # a batch of prompts is one call


def test_a_worker_that_dies_every_time_is_an_error(tmp_path):
    class Dying(ScriptedLM):
        def replay(self, requests, *, heads):
            os._exit(1)

    executor = RayExecutor(1, models=lambda: (Dying(writes=True), HashingEmbedder()), retries=1)
    with pytest.raises(ModelError):
        HWDAGIndex.from_documents(
            corpus(1),
            reader=ScriptedLM(writes=True),
            embedder=HashingEmbedder(),
            config=CONFIG,
            executor=executor,
        )


def test_a_worker_with_other_models_or_none_is_refused(tmp_path):
    executor = RayExecutor(1, models=lambda: (ScriptedLM(), HashingEmbedder(8)))
    with pytest.raises(IndexMismatch, match="hashing-8"):
        built(tmp_path, corpus(1), executor=executor)
    with pytest.raises(ModelError, match="no such model"):
        built(tmp_path, corpus(1), executor=RayExecutor(1, models=nothing))
    with pytest.raises(InputError, match="workers"):
        RayExecutor(0)
