"""Forks of the process with a store in files open: neither side takes anything from the other."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

from turnstream.events.errors import StoreClosed
from turnstream.stores import JSONLStore
from turnstream.stores.specimens import PATIENCE, append_of, texts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is multi-threaded:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks"),
]


def in_a_child(work: Callable[[], object]) -> str:
    """What the work came to in a forked process: ``done``, or the name of the error it raised."""
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            work()
            told_as = "done"
        except BaseException as error:
            told_as = type(error).__name__
        os.write(tell, told_as.encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as answer:
        outcome = answer.read().decode()
    os.waitpid(pid, 0)
    return outcome


def test_a_store_opened_before_a_fork_works_in_the_child_and_in_the_parent(tmp_path: Path) -> None:
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, "parent"))

        def work() -> None:
            store.append(append_of("s", 1, "child"))
            store.close()

        assert in_a_child(work) == "done"
        assert texts(store.read("s")) == ["parent", "child"]
        assert store.append(append_of("s", 2, "parent")).version == 3


def test_a_subscription_and_a_closed_store_stay_with_the_parent(tmp_path: Path) -> None:
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, "a"))
        log = iter(store.subscribe(after=1))
        assert in_a_child(lambda: next(log)) == "StoreClosed"
    assert in_a_child(lambda: store.read("s")) == "StoreClosed"
    with pytest.raises(StoreClosed):
        store.read("s")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_forks_while_threads_write_hang_and_lose_nothing(tmp_path: Path) -> None:
    with closing(JSONLStore(tmp_path / "streams", sync=False, timeout=30)) as store:
        over, written = Event(), [0, 0, 0]

        def write(number: int) -> None:
            while not over.is_set():
                store.append(append_of(f"w{number}", written[number], "x"))
                written[number] += 1

        threads = [Thread(target=write, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        outcomes = [
            in_a_child(lambda n=n: store.append(append_of(f"c{n}", 0, "child"))) for n in range(20)
        ]
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert outcomes == ["done"] * 20
        assert [len(store.read(f"w{n}")) for n in range(3)] == written
        assert [texts(store.read(f"c{n}")) for n in range(20)] == [["child"]] * 20
        assert list(store.check()) == []
