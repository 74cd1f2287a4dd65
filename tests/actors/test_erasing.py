"""Erased content is gone from the store and from what models are told; the chain holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from composing import AT
from msgspec.structs import replace
from places import on_files_too

from turnstream.actors import ActorSystem, Session, audit_session, tool
from turnstream.actors.recording import Known, append_after
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CODEC,
    ERASED,
    ContentErased,
    ErasureRefused,
    ForkOrigin,
    InputConflict,
    InputQueued,
    ModelTurnRecorded,
    SessionNotFound,
    StateChanged,
    ToolResultRecorded,
    WrongExpectedVersion,
    digest,
    link,
)
from turnstream.projections import fold
from turnstream.stores import Append, EventStore, open_store

pytestmark = on_files_too

WAIT = 20
SECRET = "my number is 12345"
Run = Callable[..., ActorSystem]


@tool
def look(place: str) -> str:
    """Look."""
    return f"{place}: {SECRET}"


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def reading(place: EventStore | str) -> EventStore:
    return open_store(place) if isinstance(place, str) else place


def versions(session: Session, *kinds: type[Any]) -> list[int]:
    return [each.version for each in session.events() if isinstance(each.event, kinds)]


def secrets(session: Session) -> list[int]:
    return [each.version for each in session.events() if SECRET in repr(each.event)]


def told(session: Session) -> Session:
    """A session in which the secret was said, looked up and repeated."""
    session.send(SECRET).result(WAIT)
    assert len(secrets(session)) == 4
    return session


SCRIPT: list[Any] = [[call("look", "c", place=SECRET)], f"yes: {SECRET}", "fine"]


def test_erased_content_is_gone_and_the_rest_stays(run: Run, place: Any) -> None:
    system, store = run(SCRIPT, tools=[look], on=place), reading(place)
    session = told(system.session("s"))
    before = session.events()

    assert session.erase(secrets(session), reason="asked to", by="ann").result(WAIT) == 4

    after = session.events()
    assert SECRET not in repr(after) and SECRET not in repr(session.messages)
    assert [each.topic for each in after] == [*(each.topic for each in before), "content_erased"]
    assert [each.position for each in after][:-1] == [each.position for each in before]
    said_so = after[-1].event
    assert isinstance(said_so, ContentErased)
    assert (said_so.reason, said_so.by) == ("asked to", "ann")
    assert said_so.versions == tuple(secrets_of(before))
    assert audit_session(store, "s").findings == []
    assert repr(session.messages).count(ERASED) == 3


def secrets_of(events: Any) -> list[int]:
    return [each.version for each in events if SECRET in repr(each.event)]


def test_a_live_session_tells_no_model_what_was_erased(run: Run) -> None:
    model = ScriptedModel(SCRIPT)
    session = told(run([], model=model, tools=[look]).session("s"))
    session.erase(secrets(session)).result(WAIT)
    assert session.send("and now?").result(WAIT).text == "fine"
    assert SECRET not in repr(model.requests[-1].messages)
    assert ERASED in repr(model.requests[-1].messages)


def test_a_session_that_is_live_elsewhere_tells_no_model_what_was_erased(
    run: Run, place: Any
) -> None:
    model = ScriptedModel(SCRIPT)
    here = told(run([], model=model, tools=[look], on=place).session("s"))
    there = run(["x"], on=place).session("s")
    there.erase(secrets(there)).result(WAIT)
    assert here.send("and now?").result(WAIT).text == "fine"
    assert SECRET not in repr(model.requests[-1].messages)
    assert audit_session(reading(place), "s").findings == []


def test_erased_content_is_compared_no_more(run: Run) -> None:
    session = run(["one", "two"]).session("s")
    before = session.send(SECRET, key="k").result(WAIT)
    assert session.send(SECRET, key="k").result(WAIT).text == before.text
    session.erase(secrets(session)).result(WAIT)
    with pytest.raises(InputConflict):
        session.send(SECRET, key="k").result(WAIT)
    with pytest.raises(InputConflict):
        session.execute(before.messages).result(WAIT)
    assert session.execute(session.messages).result(WAIT).text == "one"


def test_an_erasure_in_the_middle_of_a_turn_does_not_disturb_it(
    run: Run, led: Any, place: Any
) -> None:
    session = run([], model=led, on=place).session("s")
    first = session.send(SECRET)
    led.asked().answer("one")
    first.result(WAIT)
    second = session.send("more")
    asked = led.asked()
    erased = run(["x"], on=place).session("s").erase(secrets(session))
    assert erased.result(WAIT) == 1
    asked.answer([call("add", "c", a=1, b=2)])
    again = led.asked()
    assert SECRET not in repr(again.request.messages)
    again.answer("two")
    assert second.result(WAIT).text == "two"
    assert audit_session(reading(place), "s").findings == []


def test_what_has_no_content_or_lost_it_before_does_not_count(run: Run) -> None:
    session = told(run(SCRIPT, tools=[look]).session("s"))
    (queued,) = versions(session, InputQueued)
    assert session.erase([1, queued, queued]).result(WAIT) == 1
    version = session.version
    assert session.erase([1, queued]).result(WAIT) == 0
    assert session.erase([]).result(WAIT) == 0
    assert session.version == version


@pytest.mark.parametrize("version", [0, -1, 99])
def test_a_version_that_does_not_exist_is_refused(run: Run, version: int) -> None:
    session = told(run(SCRIPT, tools=[look]).session("s"))
    before = session.events()
    with pytest.raises(ErasureRefused, match=f"version {version} "):
        session.erase([2, version]).result(WAIT)
    assert session.events() == before
    with pytest.raises(SessionNotFound):
        run([]).session("nobody").erase([1]).result(WAIT)


def test_what_an_open_call_still_needs_is_refused_until_the_turn_is_over(
    run: Run, place: Any
) -> None:
    script = [[call("remove", "c", path=SECRET)], "done"]
    system, store = run(script, tools=[remove], on=place), reading(place)
    session = system.session("s")
    session.send(SECRET).result(WAIT)
    (asked,) = versions(session, ModelTurnRecorded)
    (queued,) = versions(session, InputQueued)
    with pytest.raises(ErasureRefused, match="discard"):
        session.erase([asked]).result(WAIT)
    assert session.erase([queued]).result(WAIT) == 1
    (approval,) = system.approvals()
    assert approval.arguments == {"path": SECRET}
    assert session.approve(approval.id).result(WAIT).text == "done"
    assert session.erase([asked, *versions(session, ToolResultRecorded)]).result(WAIT) == 2
    assert secrets(session) == []
    assert audit_session(store, "s").findings == []


def test_an_input_that_waits_is_not_erased(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    led.asked()
    waiting = session.send(SECRET)
    waiting.accepted().result(WAIT)
    with pytest.raises(ErasureRefused, match="waits"):
        session.erase(secrets(session)).result(WAIT)
    waiting.withdraw().result(WAIT)
    assert session.erase(secrets(session)).result(WAIT) == 1
    turn.abort().result(WAIT)


def test_an_erasure_that_others_get_in_the_way_of_is_tried_again(
    run: Run, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told(run(SCRIPT, tools=[look], on=place).session("s"))
    kind, conflicts = type(reading(place)), [99]
    erase = kind.erase

    def interrupted(self: Any, append: Append, payloads: Any) -> Any:
        if conflicts[0]:
            conflicts[0] -= 1
            raise WrongExpectedVersion("s", expected=append.expected_version, actual=99)
        return erase(self, append, payloads)

    monkeypatch.setattr(kind, "erase", interrupted)
    with pytest.raises(WrongExpectedVersion):
        session.erase(secrets(session)).result(WAIT)
    conflicts[0] = 3
    assert session.erase(secrets(session)).result(WAIT) == 4


def test_a_fork_may_share_what_was_erased(run: Run, place: Any) -> None:
    system, store = run(SCRIPT, tools=[look], on=place), reading(place)
    session = told(system.session("s"))
    (queued,) = versions(session, InputQueued)
    session.erase(secrets(session)).result(WAIT)
    row = store.session("s")
    assert row is not None
    fork(store, "f", queued + 1)
    assert kinds(store, "f") == []
    fork(store, "g", queued + 1, of="f")
    assert kinds(store, "g") == []
    store.delete("s")
    assert kinds(store, "f") == ["unknown"]


def kinds(store: EventStore, session_id: str) -> list[str]:
    found = audit_session(store, session_id).findings
    return [each.kind for each in found if each.kind not in ("row", "transition")]


def fork(store: EventStore, session_id: str, version: int, of: str = "s") -> None:
    records = store.read(of, upto=version)
    last = records[-1]
    known = Known(version=version, prev=link(last.topic, version, last.payload))
    event = StateChanged(at=AT, value=1)
    state = fold([*(CODEC.recorded(each).event for each in records), event])
    append, _ = append_after(known, session_id, [event], state)
    store.append(replace(append, copied=ForkOrigin(of, version)))


def test_an_alteration_can_t_be_passed_off_as_an_erasure(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    session = told(run(SCRIPT, tools=[look], on=url).session("s"))
    (queued,) = versions(session, InputQueued)
    with closing(open_store(url)) as store:
        record = store.read("s")[queued - 1]
        event: Any = CODEC.decode(record.topic, record.payload)
        was = digest(record.topic, queued, record.payload)
        forged = CODEC.encode(replace(event, content="another", erased=was), event.prev)

        def write(payload: bytes) -> None:
            with closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as connection:
                connection.execute(
                    "UPDATE stored_events SET state = ? WHERE originator_version = ?",
                    (payload, queued),
                )

        write(forged.payload)
        (found,) = audit_session(store, "s").findings
        assert (found.kind, found.version) == ("erasure", queued)
        write(record.payload)
        session.erase([queued]).result(WAIT)
        assert audit_session(store, "s").findings == []
        write(forged.payload)
        (found,) = audit_session(store, "s").findings
        assert (found.kind, found.version) == ("erasure", queued)
        write(record.payload)
        (found,) = audit_session(store, "s").findings
        assert (found.kind, found.version) == ("erasure", queued)


def test_no_file_holds_what_was_erased_once_the_store_is_compacted(
    run: Run, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/own.db"

    def somewhere() -> list[str]:
        files = sorted(tmp_path.glob("own.db*"))
        return [file.name for file in files if SECRET.encode() in file.read_bytes()]

    session = told(run(SCRIPT, tools=[look], on=url).session("s"))
    assert somewhere()
    session.erase(secrets(session)).result(WAIT)
    with closing(open_store(url)) as store:
        store.compact()
    assert somewhere() == []
    assert session.send("still here?").result(WAIT).text == "fine"


def test_no_snapshot_keeps_what_was_erased(run: Run, tmp_path: Path) -> None:
    session = told(run(SCRIPT, tools=[look], on=f"sqlite:///{tmp_path}/own.db").session("s"))
    with closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as connection:
        for each in ("s", "other"):
            connection.execute("INSERT INTO snapshots VALUES (?, 3, 1, x'00')", (each,))
        session.erase(secrets(session)).result(WAIT)
        assert connection.execute("SELECT id FROM snapshots").fetchall() == [("other",)]


def test_no_file_holds_what_was_deleted_once_the_store_is_compacted(
    run: Run, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    session = told(run(SCRIPT, tools=[look], on=url).session("s"))
    session.delete().result(WAIT)
    with closing(open_store(url)) as store:
        store.compact()
    files = tmp_path.glob("own.db*")
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize("versions", ["ab", [1.5], [None], [True]])
def test_versions_that_are_no_numbers_are_refused_and_the_session_goes_on(
    run: Callable[..., ActorSystem], versions: Any
) -> None:
    session = run(["hi", "again"]).session("s")
    session.send("hello").result(WAIT)
    with pytest.raises(TypeError, match="a version is a whole number"):
        session.erase(versions)
    assert session.send("and?").result(WAIT).text == "again"
