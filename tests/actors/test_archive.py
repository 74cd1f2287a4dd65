"""Exported streams come back byte for byte, or not at all."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnstream.actors import (
    ActorSystem,
    ImportedSession,
    export_events,
    import_events,
    import_transcript,
    tool,
)
from turnstream.actors.testing import call, said
from turnstream.events import (
    CODEC,
    CorruptEvent,
    DamagedFile,
    EncodedEvent,
    ForkOrigin,
    InvalidSessionId,
    ModelTurn,
    SessionDeleted,
    SessionNotFound,
    SessionReadOnly,
    SessionStarted,
    StoredRecord,
    UnknownEvent,
    Usage,
    WrongExpectedVersion,
    digest,
    verify,
)
from turnstream.projections import fold
from turnstream.stores import EventStore, open_store
from turnstream.stores.port import Append, RowChange

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = 20
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Zürich: a\ud83d b\x00 ?"},
    {"role": "assistant", "content": "Yes."},
]


@pytest.fixture
def empty() -> EventStore:
    return open_store("memory://")


def stored(store: EventStore, session_id: str) -> list[tuple[int, str, bytes]]:
    return [(each.version, each.topic, each.payload) for each in store.read(session_id)]


def chained(payloads: Sequence[tuple[str, dict[str, Any], int | None]]) -> list[EncodedEvent]:
    """Events of these topics and fields, each with the digest of the one before; the last number
    is an indentation."""
    events: list[EncodedEvent] = []
    prev = ""
    for version, (topic, own, indent) in enumerate(payloads, 1):
        linked = own | ({"prev": prev} if prev else {})
        payload = json.dumps(linked, indent=indent, ensure_ascii=bool(indent)).encode()
        events.append(EncodedEvent(topic, payload))
        prev = digest(topic, version, payload)
    return events


def write(store: EventStore, session_id: str, events: Sequence[EncodedEvent]) -> None:
    last = events[-1]
    head = digest(last.topic, len(events), last.payload)
    row = RowChange("idle", "agent", NOON, head=head)
    store.append(Append(session_id, 0, tuple(events), row))


TALK = chained(
    [
        ("session_started", {"at": "2026-01-01T12:00:00Z", "agent": "agent"}, None),
        ("from_the_future", {"at": "2026-01-01T12:00:01Z", "said": "ü\u2028\U0001f600"}, None),
        ("state_changed@7", {"value": [1, {"deep": None}]}, 2),
        ("state_changed", {"at": "2026-01-01T12:00:02Z", "value": {"a": 1.5}}, None),
    ]
)


def exported(events: Sequence[EncodedEvent] = TALK, session_id: str = "talk") -> bytes:
    with closing(open_store("memory://")) as store:
        write(store, session_id, events)
        return b"".join(export_events(store, session_id))


def lines(file: bytes) -> list[bytes]:
    return list(BytesIO(file))


def test_a_session_comes_back_byte_for_byte_with_its_row(
    opened: EventStore, empty: EventStore, run: Callable[..., ActorSystem]
) -> None:
    @tool(needs_approval=True)
    def pay(sum: float) -> float:
        """Pay."""
        return sum

    script = [
        ModelTurn("", (call("add", a=1, b=2), call("pay", sum=float("nan"))), Usage(3, 4), "x"),
        "Done.",
        RuntimeError("down"),
    ]
    system = run(script, on=opened, tools=[pay], on_failure="keep")
    session = system.session("s/ü", tenant="acme")
    session.send("add \ud83d and pay", key="k").result(WAIT)
    for status in ("awaiting-approval", "idle"):
        assert session.status == status
        file = list(export_events(opened, "s/ü"))
        with closing(open_store("memory://")) as copy:
            assert import_events(file, copy) == [ImportedSession("s/ü", session.version, False)]
            assert stored(copy, "s/ü") == stored(opened, "s/ü")
            mine, theirs = copy.session("s/ü"), opened.session("s/ü")
            assert mine is not None and theirs is not None
            assert verify(copy.read("s/ü"), mine.head) is None
            for field in ("version", "status", "agent", "tenant", "updated", "head", "size"):
                assert getattr(mine, field) == getattr(theirs, field), field
            assert repr(mine.approvals) == repr(theirs.approvals)  # they hold a NaN
            assert list(export_events(copy, "s/ü")) == file
        if status == "awaiting-approval":
            (approval,) = system.approvals()
            system.approve(approval.id).result(WAIT)


def test_every_line_is_strict_json_with_the_payload_as_it_is_stored() -> None:
    found = [json.loads(line) for line in lines(exported())]
    assert [each.get("version") for each in found] == [None, 1, 2, 3, 4, None]
    assert found[0]["session_id"] == "talk"
    assert found[2]["payload"]["said"] == "ü\u2028\U0001f600"
    assert found[3]["payload_base64"] == b64encode(TALK[2].payload).decode()
    for number, event in enumerate(TALK, 1):
        assert found[number]["digest"] == digest(event.topic, number, event.payload)
        if "payload" in found[number]:
            assert event.payload in lines(exported())[number]
    assert found[-1]["head"] == found[-2]["digest"] == found[0]["head"]


def test_events_this_version_does_not_know_are_carried_along(
    empty: EventStore, run: Callable[..., ActorSystem]
) -> None:
    import_events(lines(exported()), empty)
    assert stored(empty, "talk") == [(n, *event) for n, event in enumerate(TALK, 1)]
    events = [CODEC.decode(each.topic, each.payload) for each in empty.read("talk")]
    assert [type(each) for each in events[1:3]] == [UnknownEvent] * 2
    row = empty.session("talk")
    assert row is not None and row.updated == datetime(2026, 1, 1, 12, 0, 2, tzinfo=UTC)
    with pytest.raises(SessionReadOnly):
        run([], on=empty).session("talk").send("go on").result(WAIT)


def test_every_flipped_byte_is_refused_and_its_line_is_named(empty: EventStore) -> None:
    file = exported()
    where = [n for n, line in enumerate(lines(file), 1) for _ in line]
    for place in range(len(file)):
        for flip in (1, 32, 128):
            damaged = bytearray(file)
            damaged[place] ^= flip
            with pytest.raises(DamagedFile) as refused:
                import_events(lines(bytes(damaged)), empty)
            assert refused.value.line == where[place], (place, flip)
    assert not empty.sessions()


keys = st.text(st.characters(blacklist_categories=["Cs"]), max_size=4)
fields = st.dictionaries(
    keys.filter(lambda key: key != "prev"),
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | keys | st.lists(keys, max_size=2),
    max_size=3,
)
streams = st.lists(
    st.tuples(
        st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=6).map(
            lambda name: f"x_{name}"
        ),
        fields,
        st.sampled_from([None, 1]),
    ),
    min_size=1,
    max_size=5,
).map(chained)


@given(streams, st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=9))
@example(TALK, "a/..\\b\u200d"[:5])
def test_any_stream_comes_back(events: list[EncodedEvent], session_id: str) -> None:
    with closing(open_store("memory://")) as store:
        (restored,) = import_events(lines(exported(events, session_id)), store)
        assert (restored.session_id, restored.version) == (session_id, len(events))
        assert stored(store, session_id) == [(n, *event) for n, event in enumerate(events, 1)]


@given(streams, st.data())
def test_any_change_of_any_byte_is_refused(events: list[EncodedEvent], data: st.DataObject) -> None:
    file = bytearray(exported(events))
    place = data.draw(st.integers(0, len(file) - 1))
    file[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != file[place]))
    with closing(open_store("memory://")) as store:
        with pytest.raises(DamagedFile):
            import_events(lines(bytes(file)), store)
        assert not store.sessions()


def reordered(file: list[bytes]) -> list[bytes]:
    return [*file[:2], file[3], file[2], *file[4:]]


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda file: file[:-1], 6),
        (lambda file: file[:3], 4),
        (lambda file: file[:1], 2),
        (lambda file: [], 1),
        (lambda file: [*file[:-1], file[-1][:-9]], 6),
        (reordered, 3),
        (lambda file: [*file[:3], *file[2:]], 4),
        (lambda file: [*file[:2], *file[3:]], 3),
        (lambda file: file[1:], 1),
        (lambda file: [*file, *file], 7),
        (lambda file: [*file, b"\n"], 7),
        (lambda file: [b"\n", *file], 1),
        (lambda file: [line.replace(b"\n", b"\r\n") for line in file], 1),
        (lambda file: [file[0], *lines(exported(session_id="other"))[1:-1], b"{}"], 6),
        (lambda file: [b"[" * 100_000], 1),
    ],
)
def test_a_file_that_lost_gained_or_moved_lines_is_refused_naming_the_first(
    damage: Callable[[list[bytes]], list[bytes]], line: int, empty: EventStore
) -> None:
    with pytest.raises(DamagedFile) as refused:
        import_events(damage(lines(exported())), empty)
    assert refused.value.line == line and f"line {line}: " in str(refused.value)
    assert not empty.sessions()


def test_the_last_line_may_lack_its_break(empty: EventStore) -> None:
    import_events(lines(exported().rstrip(b"\n")), empty)
    assert [row.session_id for row in empty.sessions()] == ["talk"]


def test_events_of_another_stream_are_refused_though_each_is_whole(empty: EventStore) -> None:
    other = chained([("x_a", {"n": n}, None) for n in range(4)])
    mixed = [*lines(exported())[:3], *lines(exported(other))[3:5], lines(exported())[-1]]
    with pytest.raises(DamagedFile) as refused:
        import_events(mixed, empty)
    assert refused.value.line == 4


def test_what_is_there_already_is_recognised_also_when_it_went_on(
    opened: EventStore, run: Callable[..., ActorSystem]
) -> None:
    session = run(["one", "two"], on=opened).session("s")
    session.send("1").result(WAIT)
    file = list(export_events(opened, "s"))
    before = stored(opened, "s")
    assert import_events(file, opened) == [ImportedSession("s", len(before), True)]
    session.send("2").result(WAIT)
    assert import_events(file, opened) == [ImportedSession("s", len(before), True)]
    assert stored(opened, "s")[: len(before)] == before


def test_a_session_with_other_events_or_a_deleted_one_is_left_alone(opened: EventStore) -> None:
    import_transcript(CHAT[:2], opened, "talk", at=NOON)
    before = stored(opened, "talk")
    with pytest.raises(WrongExpectedVersion):
        import_events(lines(exported()), opened)
    assert stored(opened, "talk") == before
    opened.delete("talk")
    with pytest.raises(SessionDeleted):
        import_events(lines(exported()), opened)


def test_under_another_id_it_is_a_fork_that_says_where_it_comes_from(
    opened: EventStore,
) -> None:
    import_transcript(CHAT, opened, "talk", agent="planner", at=NOON)
    file = list(export_events(opened, "talk"))
    before = stored(opened, "talk")
    assert import_events(file, opened, session_id="copy") == [
        ImportedSession("copy", len(before) + 1, False)
    ]
    assert stored(opened, "copy")[:-1] == before == stored(opened, "talk")
    marker = CODEC.decode(*stored(opened, "copy")[-1][1:])
    assert isinstance(marker, SessionStarted)
    assert (marker.agent, marker.forked_from) == ("planner", ForkOrigin("talk", len(before)))
    row = opened.session("copy")
    assert row is not None and verify(opened.read("copy"), row.head) is None
    again = import_events(file, opened, session_id="copy")
    assert again == [ImportedSession("copy", len(before) + 1, True)]
    with pytest.raises(InvalidSessionId):
        import_events(file, opened, session_id="")


def test_several_sessions_are_one_file_and_none_can_be_lost(
    opened: EventStore, empty: EventStore
) -> None:
    for name in "abc":
        import_transcript(CHAT, opened, name, at=NOON)
    file = list(export_events(opened, *"abc"))
    assert [each.session_id for each in import_events(file, empty)] == ["a", "b", "c"]
    named = import_events(file, empty, session_id="new")
    assert [each.session_id for each in named] == ["new-1", "new-2", "new-3"]
    a, b, c = (slice(n * len(file) // 3, (n + 1) * len(file) // 3) for n in range(3))
    third = len(file) // 3
    for damaged, line in (
        (file[a] + file[b], 2 * third + 1),
        (file[a] + file[c] + file[b], third + 1),
        (file[b] + file[c], 1),
        (file + file[c], 3 * third + 1),
    ):
        with closing(open_store("memory://")) as store:
            with pytest.raises(DamagedFile) as refused:
                import_events(damaged, store)
            assert refused.value.line == line


def test_a_stream_whose_chain_does_not_hold_is_not_exported(opened: EventStore) -> None:
    events = list(TALK)
    events[2] = events[1]
    write(opened, "broken", events)
    with pytest.raises(CorruptEvent) as refused:
        list(export_events(opened, "broken"))
    assert refused.value.version == 3
    with pytest.raises(SessionNotFound):
        list(export_events(opened, "nobody"))


def test_an_event_that_can_not_be_read_is_not_imported(empty: EventStore) -> None:
    events = chained([("session_started", {"agent": 7}, None)])
    with pytest.raises(CorruptEvent):
        import_events(lines(exported(events)), empty)
    assert not empty.sessions()


def test_an_imported_session_goes_on(
    opened: EventStore, empty: EventStore, run: Callable[..., ActorSystem]
) -> None:
    run(["one"], on=opened).session("s").send("1").result(WAIT)
    import_events(export_events(opened, "s"), empty)
    result = run(["two"], on=empty).session("s").send("2").result(WAIT)
    assert said(result.messages) == ["1", "one", "2", "two"]
    assert verify(empty.read("s")) is None


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded conversations beside this checkout")
def test_every_real_conversation_comes_back(opened: EventStore, empty: EventStore) -> None:
    with gzip.open(RECORDED, "rt") as file:
        chats = [json.loads(line)["messages"] for line in file]
    names = [f"talk-{place}" for place in range(len(chats))]
    for name, chat in zip(names, chats, strict=True):
        import_transcript(chat, opened, name)
    assert len(import_events(export_events(opened, *names), empty)) == len(chats)
    for name in names:
        assert stored(empty, name) == stored(opened, name)
        mine, theirs = empty.session(name), opened.session(name)
        assert mine is not None and theirs is not None and mine.head == theirs.head


def test_a_copy_folds_to_the_state_of_the_original(opened: EventStore, empty: EventStore) -> None:
    import_transcript(CHAT, opened, "talk")
    import_events(export_events(opened, "talk"), empty)

    def state(records: Sequence[StoredRecord]) -> object:
        return fold(CODEC.decode(each.topic, each.payload) for each in records)

    assert state(opened.read("talk")) == state(empty.read("talk"))
