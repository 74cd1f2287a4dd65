"""Events of an older shape: read, folded, gone on with, copied, exported, on every store."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from places import on_files_too

from turnstream.actors import (
    ActorSystem,
    Agent,
    audit_store,
    export_chat,
    export_events,
    import_events,
    restore_rows,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import CODEC, Codec, EncodedEvent, SessionReadOnly, UserMessage, verify
from turnstream.events.chain import digest
from turnstream.stores import Append, EventStore, MemoryStore, RowChange

pytestmark = on_files_too

WAIT = 20


def renamed(stored: dict[str, Any]) -> dict[str, Any]:
    """The step from the first shape of ``input_queued``, whose content was a text."""
    rest = {name: value for name, value in stored.items() if name != "text"}
    return {**rest, "content": stored["text"]}


LATER = Codec({("input_queued", 1): renamed})


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(*script: Any) -> Agent:
    return Agent("planner", model=ScriptedModel(list(script)), tools=[add])


def older_session() -> Append:
    """A session of two turns, as a program wrote it that knew the first shape only."""
    store, teller = MemoryStore(), agent([call("add", a=1, b=2)], "three", "yes")
    with ActorSystem(teller, store=store) as system:
        system.session("s").send("one and two?").result(WAIT)
        system.session("s").send("sure?").result(WAIT)
        records, row = store.read("s"), store.session("s")
    store.close()
    assert row is not None
    events: list[EncodedEvent] = []
    prev = ""
    for version, record in enumerate(records, 1):
        fields = json.loads(record.payload)
        if record.topic == "input_queued":
            fields["text"] = fields.pop("content")
        if prev:
            fields["prev"] = prev
        payload = json.dumps(fields, separators=(",", ":")).encode()
        events.append(EncodedEvent(record.topic, payload))
        prev = digest(record.topic, version, payload)
    assert [each.topic for each in events].count("input_queued") == 2
    change = RowChange("idle", "planner", row.updated, head=prev, created=row.created)
    return Append("s", 0, tuple(events), change)


@pytest.fixture
def store(opened: EventStore) -> EventStore:
    opened.append(older_session())
    return opened


@pytest.fixture
def later(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a later program, which has the upcaster, once the store was written."""
    become(LATER, monkeypatch)


def become(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vars(codec).items():
        monkeypatch.setattr(CODEC, name, value)


@pytest.mark.usefixtures("later")
def test_an_older_stream_is_folded_and_gone_on_with(store: EventStore) -> None:
    before = store.read("s")
    for _ in range(2):
        with ActorSystem(agent("still so"), store=store) as system:
            session = system.session("s")
            assert session.messages[0] == UserMessage("one and two?")
            assert session.send("still?").result(WAIT).text == "still so"
            said = [each.content for each in session.messages if isinstance(each, UserMessage)]
            assert said[:3] == ["one and two?", "sure?", "still?"]
    records = store.read("s")
    assert list(records[: len(before)]) == list(before)
    topics = [each.topic for each in records]
    assert (topics.count("input_queued"), topics.count("input_queued@2")) == (2, 2)
    assert verify(records) is None
    audited = [finding for each in audit_store(store) for finding in each.findings]
    assert audited == []


@pytest.mark.usefixtures("later")
def test_a_fork_copies_older_events_as_they_are_stored(store: EventStore) -> None:
    with ActorSystem(agent("in the fork"), store=store) as system:
        fork = system.session("s").fork(step=2, session_id="f")
        assert fork.messages[0] == UserMessage("one and two?")
        assert fork.send("and here?").result(WAIT).text == "in the fork"
    copied = [(each.topic, each.payload) for each in store.read("f")]
    shared = store.sessions(forked_from="s")[0].forked_from
    assert shared is not None
    assert copied[: shared.version] == [
        (each.topic, each.payload) for each in store.read("s", upto=shared.version)
    ]
    assert verify(store.read("f")) is None


@pytest.mark.usefixtures("later")
def test_older_events_are_exported_as_they_are_and_read_where_they_arrive(
    store: EventStore,
) -> None:
    chat = export_chat(store, "s")
    assert chat["messages"][0]["content"] == "one and two?"
    with closing(MemoryStore()) as other:
        import_events([*export_events(store, "s")], other)
        assert [each[2:] for each in other.read("s")] == [each[2:] for each in store.read("s")]
        with ActorSystem(agent("here too"), store=other) as system:
            assert system.session("s").send("and?").result(WAIT).text == "here too"


@pytest.mark.usefixtures("later")
def test_rows_made_anew_of_older_events_are_the_same(store: EventStore) -> None:
    with ActorSystem(agent("yes"), store=store) as system:
        system.session("s").send("and?").result(WAIT)
    before = list(store.sessions())
    restored = restore_rows(store)
    assert (restored.sessions, restored.unreadable) == (1, 0)
    assert list(store.sessions()) == before


def test_a_program_without_the_upcaster_reads_what_a_later_one_wrote_and_adds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(MemoryStore()) as store:
        with ActorSystem(agent("yes"), store=store) as system:
            system.session("s").send("sure?").result(WAIT)
        with monkeypatch.context() as later:
            become(Codec({("input_queued", 1): dict}), later)
            with ActorSystem(agent("yes"), store=store) as system:
                system.session("s").send("and?").result(WAIT)
        before = store.read("s")
        with ActorSystem(agent("no"), store=store) as system:
            assert system.session("s").messages[0] == UserMessage("sure?")
            with pytest.raises(SessionReadOnly):
                system.session("s").send("more?").result(WAIT)
        assert list(store.read("s")) == list(before)
