"""A replay says what reading one by one says, whatever was planted in the store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from turnstream.events import CODEC, AnyEvent, CorruptEvent, EncodedEvent
from turnstream.stores import Append, EventStore, RowChange, open_store
from turnstream.stores.specimens import NOON

AT = b'"at":"2026-01-01T00:00:00Z"'
WITHDRAWN = b'{"input_id":"evil",' + AT + b"}"
TAGGED = b'"$tagged":true,"turn_id":"t","call_id":"c","content":{"$float":"inf"},' + AT + b"}"


def queued(input_id: bytes) -> bytes:
    return b'{"input_id":"%b","content":"c",%b}' % (input_id, AT)


TWO_IN_ONE = [
    ("input_queued", queued(b"1") + b',{"type":"input_withdrawn","input_id":"evil",' + AT + b"}"),
    ("input_queued", b'{"input_id":"3","content":"c",' + AT + b',"zz":[1'),
    ("input_queued", b'{"a":1}]}'),
]


@pytest.mark.parametrize("address", ["memory://", "sqlite:///{}/s.db", "sqlite://"])
@pytest.mark.parametrize(
    "planted",
    [
        pytest.param([("input_queued", queued(b"1")), ("input_queued", queued(b"2"))], id="plain"),
        pytest.param(TWO_IN_ONE, id="two in one, one in two"),
        pytest.param([('input_withdrawn","x":"', WITHDRAWN)], id="a topic that goes on"),
        pytest.param([('no","type":"input_withdrawn', WITHDRAWN)], id="a topic with a type"),
        pytest.param([("input_queued", b"x" + queued(b"1")[1:])], id="no object"),
        pytest.param([("input_queued", b" " + queued(b"1"))], id="a space before"),
        pytest.param([("nobody_knows", b'{"a":1}'), ("input_queued", queued(b"1"))], id="unknown"),
        pytest.param([("input_queued@2", queued(b"1"))], id="of a newer version"),
        pytest.param([("tool_result_recorded", b"{" + TAGGED)], id="tagged"),
        pytest.param([("tool_result_recorded", b"{ " + TAGGED)], id="tagged, with a space"),
        pytest.param([("input_queued", b"")], id="empty"),
        pytest.param([("input_queued", b""), ("input_queued", b"")], id="all empty"),
        pytest.param([("input_queued", queued(b"1") + b"\n" + queued(b"2"))], id="two lines"),
        pytest.param([("input_queued", b"\n" + queued(b"1"))], id="a line break before"),
        pytest.param([("nobody\nknows", b"{}"), ("no", b"1\n2")], id="line breaks all over"),
        pytest.param([("input_queued", b"\xff\0")], id="no text"),
    ],
)
def test_a_replay_folds_what_reading_one_by_one_gives(
    tmp_path: Path, address: str, planted: list[tuple[str, bytes]]
) -> None:
    events = tuple(EncodedEvent(*each) for each in planted)
    with closing(open_store(address.format(tmp_path))) as store:
        store.append(Append("s", 0, events, RowChange("idle", "agent", NOON)))
        assert in_bulk(store) == one_by_one(store)


def in_bulk(store: EventStore) -> list[AnyEvent] | int:
    try:
        return [event for page in store.replay("s") for event in CODEC.replayed(page)]
    except CorruptEvent as error:
        return error.version


def one_by_one(store: EventStore) -> list[AnyEvent] | int:
    try:
        return [CODEC.recorded(each).event for each in store.read("s")]
    except CorruptEvent as error:
        return error.version
