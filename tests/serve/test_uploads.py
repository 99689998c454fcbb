"""Uploads: the files left after a kill, and messages about those that hold nothing."""

import socket
import subprocess
import time
from contextlib import contextmanager
from functools import partial

import pytest
from processes import program
from serve_world import index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("httpx")

import httpx

SECRET = "The quarry of Elm belonged to the Sorensen family."
SERVER = """
    import sys, threading, time
    import uvicorn
    from hwdag import BuildConfig, HWDAGIndex
    from hwdag.embedding.hashing import HashingEmbedder
    from hwdag_app.serve.application import application
    from hwdag_lab.scripted import ScriptedLM

    class Slow(HashingEmbedder):
        def embed(self, texts):
            if any("quarry" in text for text in texts):
                print("embedding", flush=True)
                time.sleep(600)
            return super().embed(texts)

    models = {"reader": ScriptedLM(), "embedder": Slow(), "config": BuildConfig(method="evidence")}
    index = HWDAGIndex.from_documents([], path=sys.argv[1], **models)
    server = uvicorn.Server(uvicorn.Config(application(index), port=0, log_level="critical"))

    def tell():
        while not server.started:
            time.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)

    threading.Thread(target=tell).start()
    server.run()
"""


@contextmanager
def served(folder):
    """Run a server in a process of its own, with all of its files in a folder; killed at the end."""
    (folder / "temporary").mkdir(exist_ok=True)
    call = program(SERVER, folder / "town.hwdag")
    call["env"] = {**call["env"], "TMPDIR": str(folder / "temporary")}
    process = subprocess.Popen(**call, stdout=subprocess.PIPE, text=True)
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def holding(folder, text):
    """Return the files below a folder that hold a text."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if text.encode() in path.read_bytes()]


def begun(port, length):
    """Return a connection that has sent the beginning of an upload of that length."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"PUT /api/documents/quarry.md HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(f"{head}{SECRET}".encode())
    return connection


def test_a_killed_server_leaves_nothing_of_an_upload(tmp_path):
    """It is killed while the body arrives, and while the document is built."""
    for is_whole in (False, True):
        length = len(SECRET) + 1_000_000 * (not is_whole)
        with served(tmp_path) as (process, port), begun(port, length):
            if is_whole:
                assert process.stdout.readline() == "embedding\n"
            else:
                time.sleep(0.5)
            assert not list((tmp_path / "temporary").iterdir())
            process.kill()
            process.wait(60)
        assert not holding(tmp_path, SECRET)
    with served(tmp_path) as (_, port):
        address = f"http://127.0.0.1:{port}/api/documents/mill.md"
        assert "event: done" in httpx.put(address, content=b"The mill is new.", timeout=60).text
        assert httpx.delete(address, timeout=60).status_code == 200
        assert not list((tmp_path / "temporary").iterdir())
    assert not holding(tmp_path, SECRET)


def test_a_file_without_text_is_refused_and_replaces_nothing():
    made = index()
    with running(made) as address:
        for refused, (name, content) in enumerate(
            [("a.md", b""), ("a.txt", b" \n\t"), ("a.html", b"<p></p>"), ("a.md", b"\xef\xbb\xbf")],
            start=1,
        ):
            put = partial(httpx.put, f"{address}/api/documents/{name}")
            assert "event: done" in put(content=f"The mill {refused} is new.".encode()).text
            before = made.documents[name]
            told = put(content=content).text
            assert "event: error" in told and f"{name}: it holds no text" in told
            assert f'outcome="refused"}} {refused}.0' in httpx.get(f"{address}/metrics").text
            assert made.documents[name] == before
