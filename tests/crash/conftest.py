"""Processes to be killed, for the tests in this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# What the tests here share lies beside them; the processes they start find it in the same way.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("story", "verdict")

from places import NewAddress  # noqa: E402
from plan import Plan  # noqa: E402
from story import Nursery, Story  # noqa: E402

Tell = Callable[..., Story]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def tell(nursery: Nursery, tmp_path: Path, new_address: NewAddress) -> Tell:
    """Begin a story, in a folder and on a store of its own."""
    told: list[Story] = []

    def begin(*script: object, **plan: object) -> Story:
        folder = tmp_path / f"story {len(told)}"
        folder.mkdir()
        begun = Plan(str(folder), new_address(), 0, script, **plan)  # type: ignore[arg-type]
        told.append(Story(nursery, begun))
        return told[-1]

    return begin
