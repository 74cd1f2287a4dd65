"""The stores that tests run on: chosen here, for all of them.

A test that takes ``address``, or a fixture made of it, runs once for each kind of store. What a
quick run leaves out is marked slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

KINDS = ("memory", "sqlite", "jsonl", "postgresql")
DURABLE = KINDS[1:]
QUICK = ("memory", "sqlite")

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
    asked = test.get_closest_marker("on_stores")
    kinds, quick = (asked.args or KINDS, asked.kwargs["quick"]) if asked else (KINDS, QUICK)
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in kinds]


UNSYNCED = {
    "memory": "",
    "sqlite": "?synchronous=normal",
    "jsonl": "?sync=none",
    "postgresql": "&options=-csynchronous_commit%3Doff",
}
"""For tests that fill many stores: what is written need not outlive a power cut."""


def addresses(kind: str, directory: Path, schema: NewAddress, *, synced: bool = True) -> NewAddress:
    """Addresses of empty stores of a kind, in a directory; ``schema`` gives one on a server."""
    numbers, options = count(), "" if synced else UNSYNCED[kind]

    def new() -> str:
        match kind:
            case "memory":
                return "memory://"
            case "postgresql":
                return schema() + options
            case _:
                return f"{kind}:///{directory}/{next(numbers)}{options}"

    return new
