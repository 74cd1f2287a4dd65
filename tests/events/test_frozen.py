"""Recorded data is handed out to be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from turnstream.events.frozen import frozen

GIVEN: dict[str, Any] = {"a": [1, {"b": 2}], "c": {}}

CHANGES: list[Callable[[Any], Any]] = [
    lambda d: d.__setitem__("x", 1),
    lambda d: d.__delitem__("a"),
    lambda d: d.update(x=1),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("x", 1),
    lambda d: d.clear(),
    lambda d: d.__ior__({"x": 1}),
    lambda d: d["a"].append(1),
    lambda d: d["a"].extend([1]),
    lambda d: d["a"].insert(0, 1),
    lambda d: d["a"].__iadd__([1]),
    lambda d: d["a"].__imul__(2),
    lambda d: d["a"].__setitem__(0, 5),
    lambda d: d["a"].__delitem__(0),
    lambda d: d["a"].pop(),
    lambda d: d["a"].remove(1),
    lambda d: d["a"].sort(),
    lambda d: d["a"].reverse(),
    lambda d: d["a"].clear(),
    lambda d: d["a"][1].update(b=3),
]


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_data_can_not_be_changed_at_any_depth(change: Callable[[Any], Any]) -> None:
    data = frozen(GIVEN)

    with pytest.raises(TypeError, match="copy"):
        change(data)
    assert data == GIVEN


def test_every_way_to_change_a_dict_or_a_list_is_refused() -> None:
    readers = set(dir(tuple)) | set(dir(dict.fromkeys("a").keys())) | {"copy", "get", "items"}
    readers |= {"keys", "values", "fromkeys", "__or__", "__ror__", "__class_getitem__"}
    for kind in (dict, list):
        data = frozen(kind())
        for name in set(dir(kind)) - readers - {"__reversed__", "__init__"}:
            assert getattr(type(data), name) is not getattr(kind, name), name


def test_frozen_data_is_equal_to_and_encodes_as_what_it_was_made_of() -> None:
    data = frozen(GIVEN)

    assert data == GIVEN
    assert json.loads(json.dumps(data)) == GIVEN
    assert msgspec.json.decode(msgspec.json.encode(data)) == GIVEN


def test_a_deep_copy_is_ordinary_data_again() -> None:
    copied = deepcopy(frozen(GIVEN))
    copied["a"][1]["b"] = 3

    assert type(copied) is dict
    assert type(copied["a"]) is list
    assert GIVEN["a"][1]["b"] == 2
