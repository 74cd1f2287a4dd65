"""The stores that tests run on: chosen here, for all of them.

A test that takes ``address``, or a fixture made of it, runs on each kind of store. What a quick
run leaves out is marked slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import pytest

KINDS = ("memory", "sqlite", "jsonl", "postgresql")
DURABLE = KINDS[1:]
QUICK = ("memory", "sqlite")
FEW = 3

NewAddress: TypeAlias = Callable[[], str]
"""Gives the address of another empty store, each time it is called."""


def on_stores(*kinds: str, quick: Sequence[str] = QUICK) -> pytest.MarkDecorator:
    """A mark for tests that are not for every kind of store, or quick on others than the usual."""
    return pytest.mark.on_stores(*kinds, quick=quick)


on_durable_stores = on_stores(*DURABLE)
"""A mark for tests of what outlives a process, or is shared by several."""


on_files_too = on_stores(quick=("memory", "sqlite", "jsonl"))
"""A mark for the tests that are nearest to what a store is for."""


def kinds_for(test: pytest.Item) -> list[object]:
    """The kinds of store that a test runs on, as its parameters."""
    kinds, quick = _chosen(test)
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in kinds]


def _chosen(test: pytest.Item) -> tuple[Sequence[str], Sequence[str]]:
    asked = test.get_closest_marker("on_stores")
    return (asked.args or KINDS, asked.kwargs["quick"]) if asked else (KINDS, QUICK)


def spread(tests: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of a test with many arguments, those that run on a kind of store that a quick run leaves
    out: every test on every kind, and each set of arguments on one of these kinds, in turn. The
    usual kinds are all run on; in a quick run each test, with a few of its sets, takes turns with
    them."""
    sets: dict[str, list[object]] = {}
    for test in tests:
        known = sets.setdefault(_name(test), [])
        if _arguments(test) not in known:
            known.append(_arguments(test))
    spread = []
    for test in tests:
        kinds, quick = _chosen(test)
        usual, left = [k for k in kinds if k in quick], [k for k in kinds if k not in quick]
        if len(sets[_name(test)]) > 1 and not _is_its_turn(test, left, sets[_name(test)]):
            continue
        if not _is_quick(test, usual, sets[_name(test)]):
            test.add_marker(pytest.mark.slow)
        spread.append(test)
    return spread


def _is_its_turn(test: pytest.Item, kinds: Sequence[str], sets: Sequence[object]) -> bool:
    """Whether it is the turn of a test's kind of store with its arguments, among these kinds. The
    first is another one for each test."""
    kind = _parameters(test).get("store_kind")
    if kind not in kinds:
        return True
    return kinds[(crc32(_name(test).encode()) + sets.index(_arguments(test))) % len(kinds)] == kind


def _is_quick(test: pytest.Item, kinds: Sequence[str], sets: Sequence[object]) -> bool:
    """Whether its arguments are among the few, from all over them, of a quick run, and it is the
    turn of its kind of store. Without one a test is quick enough."""
    if _parameters(test).get("store_kind") not in kinds:
        return True
    few = sets[:: -(-len(sets) // FEW)]
    return _arguments(test) in few and _is_its_turn(test, kinds, few)


def _name(test: pytest.Item) -> str:
    return test.nodeid.partition("[")[0]


def _arguments(test: pytest.Item) -> object:
    return sorted(each for each in _parameters(test).items() if each[0] != "store_kind")


def _parameters(test: pytest.Item) -> Mapping[str, object]:
    found = getattr(test, "callspec", None)
    # By their places in the lists of arguments: not everything can be compared.
    return {} if found is None else {**found.indices, **_kind(found.params)}


def _kind(parameters: Mapping[str, object]) -> Mapping[str, object]:
    return {name: each for name, each in parameters.items() if name == "store_kind"}


UNSYNCED = {
    "sqlite": "?synchronous=normal",
    "jsonl": "?sync=none",
    "postgresql": "&options=-csynchronous_commit%3Doff",
}
"""What is written outlives a kill of the process and need not outlive a power cut, which no test
of these can see: to wait for the disk is half of the time they take."""


def addresses(kind: str, directory: Path, schema: NewAddress) -> NewAddress:
    """Addresses of empty stores of a kind, in a directory; ``schema`` gives one on a server."""
    numbers = count()

    def new() -> str:
        match kind:
            case "memory":
                return "memory://"
            case "postgresql":
                return schema() + UNSYNCED[kind]
            case _:
                return f"{kind}:///{directory}/{next(numbers)}{UNSYNCED[kind]}"

    return new
