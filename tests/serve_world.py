"""A server over a small index without models, in a process of its own: `python serve_world.py FILE PORT`.

Its reader takes a tenth of a second for each node if the question asks for it slowly, and logs each node.
"""

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

LINES = [f"Keeper number {i} of the harbour of Elm painted the tower {i} times." for i in range(60)]
DOCUMENTS = [
    Document(
        "harbour.md", "The harbour was built in 1871 by Clara Holm.\n\nIt has a tower.", "Harbour"
    ),
    Document("keepers.txt", "\n\n".join(LINES)),
]
QUESTION = "Who built the harbour?"
CONFIG = SearchConfig(token_budget=2000, confidence=NEVER)


def index(**options):
    """Return the index of these documents."""
    return HWDAGIndex.from_documents(
        DOCUMENTS, method="hwdag", reader=ScriptedLM(), embedder=HashingEmbedder(), **options
    )


@contextmanager
def running(made, server=None):
    """Serve an index in a thread until the end of the block; yields the address. Closes the index."""
    import uvicorn

    from hwdag_app.serve.application import application

    with made:
        app = application(made, CONFIG, server=server)
        config = uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def main(file: Path, port: int) -> None:
    """Serve until killed; each node read is a line of the file."""
    import uvicorn

    from hwdag_app.serve.application import ServerConfig, application

    served = index()
    search = served.stream

    def slowly(question, *, on_step, **options):
        def told(step):
            time.sleep(0.1 * ("slowly" in question))
            with file.open("a") as steps:
                steps.write(f"{step.node.id}\n")
            on_step(step)

        return search(question, on_step=told, **options)

    served.stream = slowly
    app = application(served, CONFIG, server=ServerConfig("a-token-for-tests"))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
