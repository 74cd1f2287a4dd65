"""The demo, run whole: a worker is killed within a refund, and another one goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from turnstream.actors.cli.playing import PlainNarrator, play
from turnstream.actors.demo.calls import Called, CallLog, ModelAsked
from turnstream.actors.demo.desk import OrderDesk, Refund
from turnstream.actors.demo.recording import HELD_CALL, recording
from turnstream.actors.demo.stage import Stage, Told, own_store
from turnstream.actors.demo.verdict import Evidence, judge
from turnstream.events.chain import digest
from turnstream.events.codec import CODEC
from turnstream.events.envelope import StoredRecord
from turnstream.events.messages import AssistantMessage
from turnstream.events.session import SessionEvent, ToolResultRecorded, TurnFinished, UnknownEvent
from turnstream.stores import Append, EventStore, RowChange, open_store

ASKED, ANSWERED, RAN_AGAIN, REFUNDED, CHAINED, AS_RECORDED = range(6)


class Witnessed(NamedTuple):
    """What the witnesses of a performance say."""

    records: Sequence[StoredRecord]
    called: Sequence[Called]
    refunds: Sequence[Refund]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Witnessed:
    """A performance without fault."""
    folder = tmp_path_factory.mktemp("demo")
    store = open_store(own_store(folder))
    stage = Stage(store, own_store(folder), folder)
    list(stage.perform())
    records = store.read(stage.session_id)
    store.close()
    return Witnessed(
        records, CallLog(folder / "calls.jsonl").read(), OrderDesk(folder / "orders.db").refunds()
    )


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    desk = OrderDesk(tmp_path / "orders.db")
    desk.set_up()
    return desk


def demo(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """Start the demo in an empty folder, with another one for temporary files."""
    (tmp_path / "here").mkdir()
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    environment.pop("TURNSTREAM_STORE", None)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "turnstream", "demo", *options],
        cwd=tmp_path / "here",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def left_behind(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.rglob("*") if path.name not in ("here", "tmp")]


@pytest.mark.slow
def test_the_demo_survives_a_kill_in_the_middle_of_a_refund(tmp_path: Path) -> None:
    running = demo(tmp_path)
    out, error = running.communicate(timeout=50)
    assert (running.returncode, error) == (0, "")
    verdict = out.partition("The verdict")[2]
    assert (verdict.count("  ok  "), verdict.count("WRONG")) == (6, 0)
    for said in ("begins the session", "is killed within", "resumes the session", "attempt 2"):
        assert said in out
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_the_demo_as_json_is_the_stream_and_a_verdict(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/kept/sessions.db"
    running = demo(tmp_path, "--json", "--store", address)
    out, error = running.communicate(timeout=50)
    assert (running.returncode, error) == (0, "")
    *events, last = map(json.loads, out.splitlines())
    verdict = last["verdict"]
    assert verdict["holds"]
    assert [check["holds"] for check in verdict["checks"]] == [True] * 6
    store = open_store(address)
    stored = store.read(verdict["session_id"])
    store.close()
    assert [event["payload"] for event in events] == [json.loads(e.payload) for e in stored]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_demo_finds_its_own_session_in_a_store_with_others(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/sessions.db"
    store = open_store(address)
    for n in range(3):
        event = CODEC.encode(TurnFinished(at=datetime.now(UTC), turn_id="t"))
        change = RowChange("idle", "other", datetime.now(UTC))
        store.append(Append(f"other-{n}", 0, (event,) * 5, change))
    running = demo(tmp_path, "--json", "--store", address)
    out, _ = running.communicate(timeout=50)
    *events, last = map(json.loads, out.splitlines())
    assert running.returncode == 0
    assert {event["session_id"] for event in events} == {last["verdict"]["session_id"]}
    assert len(store.sessions()) == 4
    store.close()


@pytest.mark.slow
def test_the_demo_keeps_its_files_when_asked(tmp_path: Path) -> None:
    running = demo(tmp_path, "--keep")
    out, _ = running.communicate(timeout=50)
    (folder,) = (tmp_path / "tmp").iterdir()
    assert str(folder) in out
    assert {"sessions.db", "orders.db", "calls.jsonl"} <= {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_the_demo_as_json_names_the_files_it_keeps(tmp_path: Path) -> None:
    running = demo(tmp_path, "--keep", "--json")
    out, _ = running.communicate(timeout=50)
    (folder,) = (tmp_path / "tmp").iterdir()
    assert json.loads(out.splitlines()[-1])["verdict"]["folder"] == str(folder)


def test_the_demo_needs_a_store_that_processes_share(tmp_path: Path) -> None:
    running = demo(tmp_path, "--store", "memory://")
    _, error = running.communicate(timeout=50)
    assert running.returncode == 2
    assert error.startswith("error: ")
    assert left_behind(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't interrupt a single process")
@pytest.mark.parametrize("lines_before", [2, 8, 15])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, lines_before: int) -> None:
    running = demo(tmp_path)
    assert running.stdout is not None
    told = [running.stdout.readline() for _ in range(lines_before)]
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=50)
    assert (running.returncode, error) == (130, "")
    assert left_behind(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(told[1].split()[2]), 0)


def test_a_worker_does_not_outlive_its_parent(tmp_path: Path, desk: OrderDesk) -> None:
    module, address = "turnstream.actors.demo.worker", own_store(tmp_path)
    command = [sys.executable, "-P", "-m", module, address, "s", str(tmp_path), "--hold", HELD_CALL]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdin is not None
        assert worker.stdout.readline() == f"{HELD_CALL}\n"
        worker.stdin.close()
        assert worker.wait(30) == 1
    assert "A-1003" in {refund.order_id for refund in desk.refunds()}


def test_a_worker_that_cannot_work_is_told_of_and_no_check_holds(tmp_path: Path) -> None:
    store = open_store(own_store(tmp_path))
    stage = Stage(store, "sqlite:///", tmp_path)
    told = list(stage.perform())
    checks = stage.judge()
    store.close()
    failures = [each for each in told if isinstance(each, Told) and "failed: " in each.text]
    assert len(failures) == 2
    assert not any(check.holds for check in checks)


def test_the_recorded_conversation_holds_a_batch_of_two_calls() -> None:
    turns = [each for each in recording().transcript if isinstance(each, AssistantMessage)]
    assert max(len(turn.tool_calls) for turn in turns) >= 2


def test_a_refund_asked_for_again_with_its_key_is_paid_once(desk: OrderDesk) -> None:
    for attempt in (1, 2):
        desk.refund("A-1003", Decimal("39.90"), "key", attempt)
    assert desk.refunds() == [Refund("key", "A-1003", 3990, 1)]


@pytest.mark.parametrize(
    ("order", "amount"),
    [("A-1003", "39.91"), ("A-1003", "0"), ("A-1003", "-1"), ("A-1003", "0.001"), ("A-9", "1")],
)
def test_a_refund_that_is_not_due_is_refused(desk: OrderDesk, order: str, amount: str) -> None:
    with pytest.raises(ValueError, match="order"):
        desk.refund(order, Decimal(amount), "key", 1)
    assert desk.refunds() == []


def test_an_order_is_refunded_no_more_than_was_paid(desk: OrderDesk) -> None:
    desk.refund("A-1003", Decimal("39.00"), "first", 1)
    with pytest.raises(ValueError, match=r"0\.90 can be refunded"):
        desk.refund("A-1003", Decimal("1.00"), "second", 1)


def wrong(witnessed: Witnessed) -> set[int]:
    """The places of the checks that do not hold."""
    checks = judge(Evidence(*witnessed))
    return {place for place, check in enumerate(checks) if not check.holds}


def rewritten(records: Sequence[StoredRecord], *events: SessionEvent) -> list[StoredRecord]:
    """The stream with other events, in an unbroken chain."""
    encoded, _ = CODEC.chained(events)
    return [
        StoredRecord(version, records[0].session_id, version, topic, payload)
        for version, (topic, payload) in enumerate(encoded, 1)
    ]


def decoded(records: Sequence[StoredRecord]) -> list[SessionEvent]:
    events = [CODEC.decode(each.topic, each.payload) for each in records]
    return [event for event in events if not isinstance(event, UnknownEvent)]


def test_nothing_is_wrong_with_a_performance_without_fault(told: Witnessed) -> None:
    assert wrong(told) == set()


def test_a_second_result_of_a_call_is_found(told: Witnessed) -> None:
    events = decoded(told.records)
    result = next(each for each in events if isinstance(each, ToolResultRecorded))
    tampered = rewritten(told.records, *events, result)
    assert wrong(told._replace(records=tampered)) == {ANSWERED}


def test_a_missing_result_of_a_call_is_found(told: Witnessed) -> None:
    events = decoded(told.records)
    results = [each for each in events if isinstance(each, ToolResultRecorded)]
    kept = [each for each in events if each is not results[-1]]
    assert ANSWERED in wrong(told._replace(records=rewritten(told.records, *kept)))


def test_a_model_that_was_asked_once_more_is_found(told: Witnessed) -> None:
    first = next(each for each in told.called if isinstance(each, ModelAsked))
    assert wrong(told._replace(called=[*told.called, replace(first, pid=1)])) == {ASKED}


def test_a_second_refund_is_found(told: Witnessed) -> None:
    again = told.refunds[0]._replace(idempotency_key="another")
    assert wrong(told._replace(refunds=[*told.refunds, again])) == {REFUNDED}


def test_a_refund_that_was_not_paid_is_found(told: Witnessed) -> None:
    assert REFUNDED in wrong(told._replace(refunds=told.refunds[1:]))


def test_a_performance_without_a_crash_is_found(told: Witnessed) -> None:
    events = [each for each in decoded(told.records) if getattr(each, "attempt", 1) == 1]
    assert wrong(told._replace(records=rewritten(told.records, *events))) == {RAN_AGAIN}


def test_an_altered_event_is_found(told: Witnessed) -> None:
    records = [*told.records]
    place = next(n for n, each in enumerate(records) if b"64.00 for order" in each.payload)
    payload = records[place].payload.replace(b"64.00 for order", b"65.00 for order")
    records[place] = records[place]._replace(payload=payload)
    assert wrong(told._replace(records=records)) == {CHAINED, AS_RECORDED}


def test_a_conversation_that_does_not_end_is_found(told: Witnessed) -> None:
    assert wrong(told._replace(records=told.records[:-1])) == {AS_RECORDED}


class Tampering(PlainNarrator):
    """Adds a second result to a call as soon as the turn is finished."""

    def __init__(self, store: EventStore) -> None:
        super().__init__()
        self._store = store

    def tell(self, moment: StoredRecord | Told) -> None:
        """Tell, and tamper."""
        super().tell(moment)
        if isinstance(moment, StoredRecord) and moment.topic == "turn_finished":
            result = ToolResultRecorded(at=datetime.now(UTC), turn_id="turn-1", call_id=HELD_CALL)
            prev = digest(moment.topic, moment.version, moment.payload)
            change = RowChange("idle", "order-desk", result.at)
            events = (CODEC.encode(result, prev),)
            self._store.append(Append(moment.session_id, moment.version, events, change))


@pytest.mark.slow
def test_the_demo_does_not_hold_when_its_stream_was_tampered_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(own_store(tmp_path))
    assert not play(own_store(tmp_path), Tampering(store), keep=False)
    store.close()
    told = capsys.readouterr().out
    assert "WRONG  every call has exactly one result" in told
    assert "4 calls, 5 results" in told
