"""A call that waits for a decision is the same wherever the session is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import (
    ActorSystem,
    Agent,
    export_chat,
    export_events,
    export_trajectory,
    import_events,
    import_trajectory,
    import_transcript,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import Approval
from turnstream.stores import EventStore, open_store

WAIT = 20
HALF = "a\ud83d b"
RAN: list[Any] = []


@tool(needs_approval=True)
def pay(sum: int, note: str = "") -> str:
    """Pay."""
    RAN.append(sum)
    return f"paid {sum}"


@tool
def look(city: str) -> str:
    """Look."""
    return city


ASKED = [call("look", "c1", city="Oslo"), call("pay", "c2", sum=5, note=HALF)]


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@pytest.fixture
def paused(opened: EventStore, run: Callable[..., ActorSystem]) -> ActorSystem:
    system = run([ASKED, "Done."], on=opened, tools=[pay, look])
    result = system.session("s").send(f"pay {HALF}").result(WAIT)
    assert result.finish_reason == "awaiting-approval"
    return system


def shown(approvals: Any) -> list[tuple[str, str, str, Any]]:
    return [(each.id, each.call_id, each.tool, dict(each.arguments)) for each in approvals]


def goes_on(store: EventStore, approval: Approval, *, script: list[Any]) -> list[Any]:
    """What the tools did once it was approved, by another system."""
    agent = Agent("agent", model=ScriptedModel(script), tools=[pay, look])
    with ActorSystem(agent, store=store) as system:
        assert system.approve(approval.id).result(WAIT).text == "Done."
    return list(RAN)


def test_every_look_at_a_session_shows_the_same_question(
    paused: ActorSystem, opened: EventStore, store: str
) -> None:
    (live,) = paused.approvals()
    expected = [(live.id, "c2", "pay", {"sum": 5, "note": HALF})]
    session = paused.session("s")
    pending = session.pending()
    assert pending is not None
    assert shown(pending.approvals) == shown([live]) == expected
    assert shown(paused.session("s").pending().approvals) == expected
    assert shown(paused._runtime.store.session("s").approvals) == expected
    if not store.startswith("memory"):
        with closing(open_store(store)) as reopened:
            agent = Agent("agent", model=ScriptedModel([]), tools=[pay, look])
            with ActorSystem(agent, store=reopened) as other:
                assert shown(other.approvals()) == expected
                assert shown(other.session("s").pending().approvals) == expected
    for exported in (export_chat(opened, "s"), export_trajectory(opened, "s")):
        document = json.loads(json.dumps(exported))
        found = document.get("approvals") or document["extra"]["turnstream"]["approvals"]
        (told,) = found
        assert (told["id"], told["call_id"], told["tool"]) == expected[0][:3]
        assert json.loads(told["arguments"])["sum"] == 5
    with closing(open_store("memory://")) as copy:
        import_events(export_events(opened, "s"), copy)
        row = copy.session("s")
        assert row is not None and row.status == "awaiting-approval"
        assert shown(row.approvals) == expected
        assert goes_on(copy, row.approvals[0], script=["Done."]) == [5]


@pytest.mark.usefixtures("paused")
def test_a_conversation_that_is_imported_asks_anew_and_runs_nothing_before(
    opened: EventStore,
) -> None:
    chat, trajectory = export_chat(opened, "s"), export_trajectory(opened, "s")
    import_transcript(chat["messages"], opened, "chat", agent="agent")
    import_trajectory(trajectory, opened, "atif", agent="agent")
    for session_id in ("chat", "atif"):
        RAN.clear()
        agent = Agent("agent", model=ScriptedModel(["Done."]), tools=[pay, look])
        with ActorSystem(agent, store=opened) as system:
            turn = system.session(session_id).resume()
            assert turn is not None
            result = turn.result(WAIT)
            assert (result.finish_reason, RAN) == ("awaiting-approval", [])
            (approval,) = result.approvals
            assert (approval.session_id, approval.call_id, approval.tool) == (
                session_id,
                "c2",
                "pay",
            )
            assert system.approve(approval.id).result(WAIT).text == "Done."
            assert RAN == [5]


def test_a_rejected_call_stays_rejected_in_every_form(
    paused: ActorSystem, opened: EventStore
) -> None:
    (approval,) = paused.approvals()
    paused.reject(approval.id, note="no").result(WAIT)
    held = [repr(each) for each in paused.session("s").messages]
    assert "outcome='rejected'" in "".join(held)
    import_transcript(export_chat(opened, "s")["messages"], opened, "chat", agent="agent")
    assert [repr(each) for each in paused.session("chat").messages] == held
    import_trajectory(export_trajectory(opened, "s"), opened, "atif", agent="agent")
    mended = [each.replace("\\ud83d", "\ufffd") for each in held]
    assert [repr(each) for each in paused.session("atif").messages] == mended
    assert RAN == []


def test_a_lone_half_of_a_pair_is_no_obstacle_to_any_export(
    paused: ActorSystem, opened: EventStore, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(export_events(opened, "s")))
    with closing(open_store("memory://")) as copy, file.open("rb") as lines:
        import_events(lines, copy)
        assert [each[3:] for each in copy.read("s")] == [each[3:] for each in opened.read("s")]
    chat = json.dumps(export_chat(opened, "s")).encode("utf-8")
    assert json.loads(chat)["messages"][0]["content"] == f"pay {HALF}"
    trajectory = json.dumps(export_trajectory(opened, "s"), ensure_ascii=False)
    assert "pay a\ufffd b" in trajectory.encode("utf-8").decode()
