"""A store looked over while it is at work, hard to read, or not of this version alone."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from composing import AT, conversation, put, turn
from msgspec.structs import replace
from places import on_files_too

from turnstream.actors import (
    ActorSystem,
    Agent,
    Finding,
    audit_session,
    audit_store,
    import_transcript,
    tool,
)
from turnstream.actors.recording import Known, append_after, read_on
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CorruptEvent,
    EncodedEvent,
    InvalidSessionId,
    StoreClosed,
    StoreUnavailable,
    link,
)
from turnstream.projections import fold
from turnstream.stores import Append, EventStore, MemoryStore, RowChange
from turnstream.stores.specimens import PATIENCE, event

pytestmark = on_files_too

WAIT = 20


def findings(store: EventStore, *ids: str) -> list[Finding]:
    return [each for looked in audit_store(store, ids) for each in looked.findings]


def test_what_systems_and_imports_write_has_no_faults(opened: EventStore) -> None:
    @tool(needs_approval=True)
    def remove(path: str) -> str:
        """Remove."""
        return path

    script: list[Any] = ["hi", [call("remove", path="a")], "done", RuntimeError("down")]
    agent = Agent("agent", model=ScriptedModel(script), tools=[remove])
    with ActorSystem(agent, store=opened, on_failure="keep") as system:
        session = system.session("s", tenant="acme")
        session.send("one").result(WAIT)
        session.send("two").result(WAIT)
        assert findings(opened) == []
        (approval,) = system.approvals()
        session.approve(approval.id, arguments={"path": "b"}).result(WAIT)
        with pytest.raises(Exception, match="down"):
            session.send("three").result(WAIT)
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        import_transcript(messages, opened, "imported", at=AT)
    assert findings(opened) == []
    assert {each.session_id for each in audit_store(opened)} == {"", "s", "imported"}


def test_an_empty_store_and_an_unknown_session_have_no_faults(opened: EventStore) -> None:
    assert findings(opened) == []
    assert findings(opened, "nobody") == []
    with pytest.raises(InvalidSessionId):
        findings(opened, "a\0b")


class Hard:
    """A store that fails where it reads what a test names."""

    def __init__(self, store: EventStore, error: Exception) -> None:
        self._store, self._error = store, error
        self.version, self.row, self.ids = 0, "", False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, session_id: str, *, after: int = 0, upto: int | None = None) -> Any:
        records = self._store.read(session_id, after=after, upto=upto)
        if any(each.version == self.version for each in records):
            raise self._error
        return records

    def session(self, session_id: str) -> Any:
        if session_id == self.row:
            raise self._error
        return self._store.session(session_id)

    def stream_ids(self, **kwargs: Any) -> Any:
        if self.ids:
            raise self._error
        return self._store.stream_ids(**kwargs)


@pytest.fixture
def hard(opened: EventStore) -> Any:
    put(opened, "a", conversation(100))
    put(opened, "b", conversation(2))
    return Hard(opened, StoreUnavailable("the medium is damaged"))


@pytest.mark.slow
def test_an_event_that_can_t_be_read_is_named_and_the_others_are_looked_at(hard: Any) -> None:
    hard.version = 678
    assert findings(hard) == [Finding("unreadable", "a", 678, "the medium is damaged")]
    hard.version = 3
    assert [(each.session_id, each.version) for each in findings(hard)] == [("a", 3), ("b", 3)]


def test_a_row_that_can_t_be_read_is_named(hard: Any) -> None:
    hard.row = "a"
    (found,) = findings(hard)
    assert (found.kind, found.session_id) == ("row", "a")
    assert "the medium is damaged" in found.reason


def test_streams_that_can_t_be_listed_are_told(hard: Any) -> None:
    hard.ids = True
    assert next(each.kind for each in findings(hard)) == "unreadable"


def test_errors_of_other_libraries_are_told_without_their_text(opened: EventStore) -> None:
    put(opened, "a", conversation(1))
    hard: Any = Hard(opened, ValueError("a secret"))
    hard.version = 2
    assert findings(hard) == [Finding("unreadable", "a", 2, "ValueError")]


def test_a_closed_store_is_no_finding() -> None:
    store = MemoryStore()
    store.close()
    with pytest.raises(StoreClosed):
        findings(store)


def test_bytes_that_are_no_event_are_named(opened: EventStore) -> None:
    put(opened, "a", conversation(1))
    last = opened.read("a")[-1]
    prev = link(last.topic, last.version, last.payload)
    bad = EncodedEvent("turn_started", b'{"prev":"%b"}' % prev.encode())
    row = opened.session("a")
    assert row is not None
    head = link(bad.topic, last.version + 1, bad.payload)
    change = RowChange("idle", "agent", row.updated, head=head)
    opened.append(Append("a", last.version, (bad,), change))
    (found,) = [each for each in findings(opened) if each.kind == "unreadable"]
    assert (found.session_id, found.version) == ("a", last.version + 1)
    with pytest.raises(CorruptEvent):
        read_on(opened, "a", Known())


def test_a_row_that_knows_no_digest_is_no_fault(opened: EventStore) -> None:
    """As rows have it that were written before digests were kept."""
    events = conversation(2)
    append, _ = append_after(Known(), "a", events, fold(events))
    opened.append(replace(append, row=replace(append.row, head="")))
    assert findings(opened) == []


def test_a_legal_event_that_breaks_the_rules_is_named(opened: EventStore) -> None:
    events = [*conversation(2), *turn(2)]
    put(opened, "a", events)
    (found,) = findings(opened)
    assert (found.kind, found.version) == ("pairing", 16)


@pytest.mark.slow
def test_sessions_at_work_are_no_faults(opened: EventStore) -> None:
    def work(name: str) -> None:
        known = Known()
        for number in range(1, 61):
            events = conversation(1) if number == 1 else turn(number)
            append, known = append_after(known, name, events, fold(events, known.state))
            opened.append(append)

    workers = [Thread(target=work, args=(f"s{n}",), daemon=True) for n in range(3)]
    for each in workers:
        each.start()
    found: list[Finding] = []
    while any(each.is_alive() for each in workers):
        found += findings(opened)
    for each in workers:
        each.join(PATIENCE)
    assert found == []
    assert findings(opened) == []


def test_one_session_is_looked_at_by_itself(opened: EventStore) -> None:
    put(opened, "a", conversation(3))
    opened.append(Append("b", 0, (event("no json"),), RowChange("idle", "agent", AT)))
    assert audit_session(opened, "a").events == 22
    assert findings(opened, "a") == []
    assert {(each.kind, each.session_id) for each in findings(opened)} == {
        ("chain", "b"),
        ("unknown", "b"),
    }


def test_a_store_is_looked_at_while_it_is_used(opened: EventStore) -> None:
    """Nothing is read before it is asked for."""
    put(opened, "a", conversation(1))
    looks = audit_store(opened)
    assert next(looks).session_id == ""
    opened.delete("a")
    assert [each.findings for each in looks] == [[]]
