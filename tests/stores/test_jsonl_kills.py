"""A process killed, and a power cut, at each single thing that is asked of the file system."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.events.errors import SessionDeleted
from turnstream.stores import EventStore, JSONLStore
from turnstream.stores.copying import fork_of
from turnstream.stores.jsonl import journal
from turnstream.stores.specimens import append_of, texts

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")

GONE = {1: EncodedEvent("noted", b"erased")}
STEPS: tuple[Callable[[EventStore], object], ...] = (
    lambda store: store.append(append_of("s", 0, "secret", "b")),
    lambda store: store.append(append_of("t", 0, "x" * 3000)),
    lambda store: store.append(fork_of("s", 1, "f", "own")),
    lambda store: store.erase(append_of("s", 2, "c"), GONE),
    lambda store: store.delete("t"),
    lambda store: store.append(append_of("s", 3, "d", status="failed")),
    lambda store: store.next_generation(),
    lambda store: store.compact(),
    lambda store: store.append(append_of("u", 0, *"ef")),
    lambda store: store.close(),
)
"""What the process does, until it is killed."""


class State(tuple[Any, ...]):
    """All that can be seen of a store."""

    __slots__ = ()


def state_of(store: EventStore) -> State:
    streams = {sid: texts(store.read(sid)) for sid in store.stream_ids()}
    rows = {row.session_id: (row.version, row.status, row.size) for row in store.sessions()}
    try:
        store.append(append_of("t", 5, "x"))
    except SessionDeleted:
        return State((streams, rows, "deleted"))
    except Exception:
        return State((streams, rows, ""))
    raise AssertionError


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[State]:
    """What can be seen after no step, after one, and so on."""
    place = tmp_path_factory.mktemp("undisturbed") / "streams"
    seen: list[State] = [State(({}, {}, ""))]
    for step in STEPS:
        with closing(JSONLStore(place)) as store:
            step(store)
        with closing(JSONLStore(place)) as store:
            seen.append(state_of(store))
    return [*seen, seen[-1]]


def live(place: Path, ready: Callable[[], object]) -> tuple[int, bool]:
    """Run the steps in a process that is ``ready`` to be killed; how many steps it told of, and
    whether it was."""
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            logging.disable(logging.CRITICAL)
            ready()
            store = JSONLStore(place)
            for step in STEPS:
                step(store)
                REAL["write"](tell, b".")
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as answer:
        steps = len(answer.read())
    return steps, os.waitpid(pid, 0)[1] == signal.SIGKILL


REAL: dict[str, Callable[..., Any]] = {
    name: getattr(os, name)
    for name in ("pwrite", "fsync", "ftruncate", "truncate", "replace", "unlink", "write")
}


class Medium:
    """What a disk would hold after a power cut: of each file what it held at its last fsync, of
    each directory the names at its last fsync, and nothing else."""

    def __init__(self) -> None:
        self._contents: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._held: dict[int, int] = {}

    def synced(self, descriptor: int) -> None:
        """A descriptor was brought to the disk."""
        path, status = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor)
        if S_ISDIR(status.st_mode):
            with os.scandir(path) as found:
                self._names[str(path)] = {each.name: each.inode() for each in found}
            return
        self._contents[status.st_ino] = path.read_bytes()
        # While it is open no other file gets its number.
        self._held.setdefault(status.st_ino, os.dup(descriptor))

    def left(self, place: Path, to: Path) -> None:
        """Put there what is left of a directory."""
        to.mkdir()
        for name, number in self._names.get(str(place), {}).items():
            if (place / name).is_dir():
                self.left(place / name, to / name)
            else:
                (to / name).write_bytes(self._contents.get(number, b""))


def mortal(last: int, *, torn: bool) -> None:
    """Be killed when asking for the ``last`` thing; ``torn``: half of the bytes are written."""

    def die(name: str, *arguments: Any) -> None:
        if torn and name == "pwrite":
            descriptor, content, offset = arguments
            REAL[name](descriptor, bytes(content)[: len(content) // 2], offset)
        os.kill(os.getpid(), signal.SIGKILL)

    _watched(last, die, lambda descriptor: None)


def powered(last: int, place: Path, to: Path) -> None:
    """Be killed there, and leave what a power cut would."""
    medium = Medium()

    def die(name: str, *arguments: Any) -> None:
        medium.left(place, to)
        os.kill(os.getpid(), signal.SIGKILL)

    _watched(last, die, medium.synced)


def _watched(last: int, die: Callable[..., None], synced: Callable[[int], None]) -> None:
    left = last
    journal.LARGEST = 5000

    def watched(name: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                die(name, *arguments)
            outcome = REAL[name](*arguments)
            if name == "fsync":
                synced(arguments[0])
            return outcome

        return ask

    for name in REAL.keys() - {"write"}:
        setattr(os, name, watched(name))


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def killed_at(place: Path, states: list[State], last: int, *, torn: bool) -> bool:
    """Whether the process was killed; what it left is judged, and gone on with."""
    steps, killed = live(place, partial(mortal, last, torn=torn))
    judge(place, states[steps : steps + 2])
    return killed


def cut_at(place: Path, states: list[State], last: int) -> bool:
    """The same for a power cut."""
    left = place.with_name(f"{place.name}-left")
    steps, killed = live(place, partial(powered, last, place, left))
    judge(left if killed else place, states[steps : steps + 2])
    return killed


def judge(place: Path, states: list[State]) -> None:
    for _ in range(2):
        with closing(JSONLStore(place)) as store:
            assert state_of(store) in states
            log = store.read_all()
            positions = [record.position for record in log]
            assert positions == sorted({*positions})
            streams = [record for sid in store.stream_ids() for record in store.read(sid)]
            assert sorted(streams) == list(log)
            assert [line for line in store.check() if ".torn" not in line] == []
    with closing(JSONLStore(place)) as store:
        end = store.read_models.end()
        assert store.append(append_of("afterwards", 0, "on")).position > end
        assert texts(store.read("afterwards")) == ["on"]


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_some_moments_it_loses_nothing_it_told_of(
    tmp_path: Path, states: list[State], torn: bool
) -> None:
    for last in range(1, 120, 6):
        killed_at(tmp_path / str(last), states, last, torn=torn)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_any_moment_it_loses_nothing_it_told_of(
    tmp_path: Path, states: list[State], torn: bool
) -> None:
    last = 1
    while killed_at(tmp_path / str(last), states, last, torn=torn):
        last += 1
    assert last > 100


ON_LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.mark.slow
@ON_LINUX
@pytest.mark.usefixtures("quiet")
def test_after_a_power_cut_at_some_moments_nothing_it_told_of_is_lost(
    tmp_path: Path, states: list[State]
) -> None:
    for last in range(1, 120, 6):
        cut_at(tmp_path / str(last), states, last)


@ON_LINUX
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quiet")
def test_after_a_power_cut_at_any_moment_nothing_it_told_of_is_lost(
    tmp_path: Path, states: list[State]
) -> None:
    last = 1
    while cut_at(tmp_path / str(last), states, last):
        last += 1
    assert last > 100
