"""Builds with workers of Ray: the graphs of one process, even if a worker is killed."""

import os
import sys
import threading
import time
from functools import partial

import pytest
from ray_world import CONFIG, assert_same, built, calls, corpus, models

from hwdag import HWDAGIndex, RayExecutor
from hwdag.building import ray as remote
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, InputError, ModelError
from hwdag_lab.scripted import ScriptedLM

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'hwdag[ray]'")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def nothing():
    raise OSError("no such model")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 would have them wait for other tests
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}  # workers make the models of `ray_world`
    head = {"num_cpus": 4, "include_dashboard": False}
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    ray.init(nodes.address, runtime_env={"env_vars": paths}, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_workers_give_the_graphs_of_one_process(tmp_path):
    folder = tmp_path / "workers"
    folder.mkdir()
    executor = RayExecutor(2, models=partial(models, folder))
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


def test_a_node_that_dies_ends_the_build_and_the_same_call_continues(
    tmp_path, cluster, monkeypatch
):
    """Ray would wait for ever for another place for the worker."""
    monkeypatch.setattr(remote, "CHECK_SECONDS", 0.2)
    here, stalled, errors = tmp_path / "here", tmp_path / "stalled", []

    class Stalling(ScriptedLM):
        def replay(self, requests, *, heads):
            stalled.touch()
            time.sleep(600)

    def build():
        far = RayExecutor(
            1, models=lambda: (Stalling(writes=True), HashingEmbedder()), resources={"far": 1}
        )
        try:
            built(here, corpus(2), path=tmp_path / "x.hwdag", executor=far)
        except ModelError as error:
            errors.append(str(error))

    node = cluster.add_node(num_cpus=1, resources={"far": 1})
    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    while not stalled.exists() and thread.is_alive():
        time.sleep(0.1)
    cluster.remove_node(node, allow_graceful=True)
    thread.join(60)
    assert "node" in errors[0] and "start the build again" in errors[0]
    workers = tmp_path / "workers"
    workers.mkdir()
    executor = RayExecutor(1, models=partial(models, workers))
    found = built(here, corpus(2), path=tmp_path / "x.hwdag", executor=executor)
    assert_same(found, built(tmp_path / "alone", corpus(2)))
    assert (
        calls(workers)[0] < calls(tmp_path / "alone")[0]
    )  # those that had ended are not made again


def test_a_build_continues_with_the_workers_that_have_a_place(tmp_path, monkeypatch, caplog):
    """The writer is not the reader, so the process that builds asks it."""
    monkeypatch.setattr(remote, "START_SECONDS", (6, 0))
    folder, writer = tmp_path / "workers", ScriptedLM(writes=True)
    folder.mkdir()
    executor = RayExecutor(2, models=partial(models, folder), num_cpus=3)
    found = built(tmp_path / "here", corpus(1), executor=executor, writer=writer)
    assert_same(found, built(tmp_path / "alone", corpus(1), writer=writer))
    assert "1 of 2 workers have no place" in caplog.text
    assert {name.split("-")[0] for name in calls(folder)[0]} == {"replay", "embed"}
    monkeypatch.setattr(remote, "START_SECONDS", (0.5, 0))
    with pytest.raises(ModelError, match="no worker got a place"):
        built(tmp_path / "here", corpus(1), executor=RayExecutor(1, num_cpus=5))


def test_a_worker_with_other_models_or_without_models_is_refused(tmp_path):
    executor = RayExecutor(1, models=lambda: (ScriptedLM(), HashingEmbedder(8)))
    with pytest.raises(IndexMismatch, match="hashing-8"):
        built(tmp_path, corpus(1), executor=executor)
    with pytest.raises(ModelError, match="no such model"):
        built(tmp_path, corpus(1), executor=RayExecutor(1, models=nothing))
    with pytest.raises(InputError, match="workers"):
        RayExecutor(0)
