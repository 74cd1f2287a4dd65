"""Real conversations in OpenAI chat format, and a few that show what there is in all of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Chat: TypeAlias = list[dict[str, Any]]
RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"

needs_recordings = pytest.mark.skipif(
    not RECORDED.exists(), reason=f"{RECORDED.name} is not beside this checkout"
)


@cache
def read_chats() -> Sequence[Chat]:
    """All of them."""
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line)["messages"] for line in file]


def various(chats: Sequence[Chat]) -> list[Chat]:
    """As few of them as have every trait that any of them has: the one with most of those that
    are still missing is taken next, and of several the shortest."""
    left = {place: frozenset(traits(chat)) for place, chat in enumerate(chats)}
    missing, chosen = frozenset[object]().union(*left.values()), list[Chat]()
    while missing:
        place = max(left, key=lambda each: (len(left[each] & missing), -len(chats[each])))
        chosen.append(chats[place])
        missing -= left.pop(place)
    return chosen


def traits(chat: Chat) -> Iterator[object]:
    """What a conversation may have that others have not: tools, several calls at once, ids given
    out twice, empty texts, other alphabets; and its size and those of its parts, to a power of
    two."""
    calls = [each for message in chat for each in message.get("tool_calls") or ()]
    ids = [each["id"] for each in calls]
    yield "ends with", chat[-1]["role"]
    yield "messages", len(chat).bit_length()
    yield "calls", len(calls).bit_length(), len({*ids}) == len(ids)
    for each in calls:
        yield "tool", each["function"]["name"]
        yield "arguments", len(each["function"]["arguments"]).bit_length()
    for message in chat:
        role, text = message["role"], message["content"] or ""
        yield role, bool(text), min(len(message.get("tool_calls") or ()), 3)
        yield role, len(text).bit_length(), text.isascii()
