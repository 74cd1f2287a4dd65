"""Settings of the whole suite."""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings

# What several folders of tests share lies beside this file.
sys.path.insert(0, str(Path(__file__).parent))

from places import NewAddress, addresses, kinds_for, spread
from servers import NUMBERS, Server, programs

from turnstream.stores import EventStore, open_store

# The public suite for stores asserts as a test does, and is to fail as legibly.
for suite in ("conformance", "copying", "snapshotting", "keeping", "read_model_cases"):
    pytest.register_assert_rewrite(f"turnstream.stores.{suite}")

# Hypothesis times single examples. On a busy machine that fails tests at random; pytest's
# time-out bounds the test as a whole.
settings.register_profile("turnstream", settings(), deadline=None)
settings.load_profile("turnstream")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "on_stores(*kinds, quick): see places.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", kinds_for(metafunc.definition))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = spread(items)


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    # One that did would keep the interpreter from ending, long after the last test.
    before = set(threading.enumerate())
    yield
    started = [each for each in threading.enumerate() if each not in before and not each.daemon]
    for thread in started:
        thread.join(timeout=5)
    assert not [thread.name for thread in started if thread.is_alive()]


@pytest.fixture(autouse=True, scope="module")
def _what_a_file_leaves_is_collected_with_it() -> Iterator[None]:
    # What a finalizer complains of fails the test that runs at the time. Left to chance, that is
    # one of the few that allocate enough for a full collection, in another file.
    yield
    gc.collect()
    gc.freeze()  # or it would look through all that is imported once more after each file


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for the whole run. Never left out where CI is set."""
    found = programs()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs PostgreSQL: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed")
    server = Server(found)
    yield server
    server.close()


@pytest.fixture
def postgres_url(new_schema: NewAddress) -> str:
    """The address of a schema of its own, in a database that tests share."""
    return new_schema()


@pytest.fixture
def new_schema(request: pytest.FixtureRequest) -> NewAddress:
    """Gives the address of another empty schema, each time it is called."""

    def new() -> str:
        server: Server = request.getfixturevalue("postgres_server")
        return server.url(options=f"?schema=test_{next(NUMBERS)}")

    return new


@pytest.fixture
def address(new_address: NewAddress) -> str:
    """The address of an empty store."""
    return new_address()


@pytest.fixture
def new_address(store_kind: str, tmp_path: Path, new_schema: NewAddress) -> NewAddress:
    """Gives the address of another empty store, each time it is called."""
    return addresses(store_kind, tmp_path, new_schema)


@pytest.fixture
def opened(address: str) -> Iterator[EventStore]:
    """The store itself, for tests that compare what is stored. Name it before what uses it."""
    with closing(open_store(address)) as store:
        yield store
