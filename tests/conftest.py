"""Settings for all tests, and a database server for those that want one."""

import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

# why: examples are the same on every machine, and a busy machine is no failure
settings.register_profile("hwdag", deadline=None, derandomize=True)
settings.load_profile("hwdag")

# why: what a shell starts in the background ignores Ctrl-C, and so would everything under test
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = ("test_smoke.py", "test_package.py", "test_compat.py", "test_recipes.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes comes first, so that no worker is left alone with it in the end."""
    items.sort(key=lambda item: item.path.name not in SLOW)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of this test run: `user@host/database` for SQLAlchemy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
        import pgserver

    # why: not in pytest's folder, which the user that the server runs as may not enter
    folder = tempfile.mkdtemp(prefix="pg")
    server = pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri().removeprefix("postgresql://")
    server.cleanup()
    shutil.rmtree(folder)
