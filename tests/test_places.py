"""Each test runs on each kind of store, and each set of its arguments on most of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from places import FEW, KINDS, QUICK, spread


class Made(SimpleNamespace):
    """A test as pytest collects it, as far as it is looked at."""

    slow = False

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        assert mark.name == "slow"
        self.slow = True


def made(kinds: Sequence[str], sets: int) -> list[Any]:
    mark = SimpleNamespace(args=tuple(kinds), kwargs={"quick": QUICK})
    return [
        Made(
            nodeid=f"test_a[{kind}-{number}]",
            callspec=SimpleNamespace(
                indices={"store_kind": kinds.index(kind), "argument": number},
                params={"store_kind": kind, "argument": object()},
            ),
            get_closest_marker=lambda _: mark,
        )
        for kind, number in product(kinds, range(sets))
    ]


@pytest.mark.parametrize("sets", [1, 2, 3, 10])
@pytest.mark.parametrize("kinds", [KINDS, KINDS[1:], KINDS[2:], ("sqlite",)])
def test_every_test_runs_on_every_kind_and_every_argument_is_used(
    kinds: Sequence[str], sets: int
) -> None:
    tests = made(kinds, sets)
    ran = {tuple(test.callspec.indices.values()) for test in spread(tests)}
    assert {kind for kind, _ in ran} == {*range(len(kinds))}
    assert {argument for _, argument in ran} == {*range(sets)}
    quick = [test for test in tests if test.callspec.params["store_kind"] in QUICK]
    assert all(tuple(test.callspec.indices.values()) in ran for test in quick)
    at_once = [test for test in quick if not test.slow]
    assert len(at_once) == (min(sets, FEW) if quick else 0)
    left = len({*kinds} - {*QUICK})
    assert len(ran) - len(quick) == (left if sets == 1 else min(left, 1) * sets)


def test_what_has_no_store_runs() -> None:
    plain: Any = Made(nodeid="test_a", get_closest_marker=lambda _: None)
    assert spread([plain]) == [plain]
