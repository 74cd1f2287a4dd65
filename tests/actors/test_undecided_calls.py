"""A conversation that ends with a gated call nobody decided on: no way to go on with it runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from travelling import WAIT, resumed

from turnstream.actors import ActorSystem, Session, ToolContext, import_transcript, tool
from turnstream.actors.testing import call
from turnstream.events import SessionAwaitingApproval, ToolMessage
from turnstream.stores import EventStore

Run = Callable[..., ActorSystem]
ran: list[str] = []


@tool(needs_approval=True)
def remove(context: ToolContext, path: str) -> str:
    """Remove."""
    ran.append(context.session_id)
    return "removed"


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "remove", "arguments": '{"path": "x"}'},
            }
        ],
    },
]

WAYS: dict[str, Callable[[Session], Session]] = {
    "resume": lambda session: session,
    "fork": lambda session: session.fork(version=session.version),
    "fork of the step": lambda session: session.fork(step=1),
    "fork of a fork": lambda session: session.fork(step=1).fork(step=1),
}


@pytest.mark.parametrize("origin", ["imported", "paused", "lost"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_asked_about_and_not_run(opened: EventStore, run: Run, origin: str, way: str) -> None:
    script: list[Any] = ["done"] * 4
    if origin != "imported":
        script.insert(0, [call("remove", "c1", path="x")])
    system = run(script, on=opened, tools=[remove])
    session = system.session("s")
    if origin == "imported":
        import_transcript(CHAT, opened, "s", agent="agent")
    else:
        assert session.send("go").result(WAIT).finish_reason == "awaiting-approval"
    target = WAYS[way](session)
    if origin == "lost" and way == "resume":
        system.close()
        target = run(script[1:], on=opened, tools=[remove]).session("s")
    if target.status != "awaiting-approval":
        assert resumed(target).result(WAIT).finish_reason == "awaiting-approval"
    with pytest.raises(SessionAwaitingApproval):
        target.send("go on then").result(WAIT)
    with pytest.raises(SessionAwaitingApproval):
        target.resume().result(WAIT)  # type: ignore[union-attr]
    assert ran == []
    pending = target.pending()
    assert pending is not None
    (asked,) = pending.approvals
    assert asked.session_id == target.id
    assert target.reject(asked.id, note="no").result(WAIT).text == "done"
    (result,) = [each for each in target.messages if isinstance(each, ToolMessage)]
    assert result.outcome == "rejected" and ran == []


def test_a_rejection_that_is_recorded_holds_in_a_fork(opened: EventStore, run: Run) -> None:
    system = run([[call("remove", "c1", path="x")], "one", "two"], on=opened, tools=[remove])
    session = system.session("s")
    (asked,) = session.send("go").result(WAIT).approvals
    session.reject(asked.id).result(WAIT)
    fork = session.fork(step=1)
    assert resumed(fork).result(WAIT).text == "two"
    (result,) = [each for each in fork.messages if isinstance(each, ToolMessage)]
    assert result.outcome == "rejected" and ran == []


def test_a_rewind_to_it_cuts_it(opened: EventStore, run: Run) -> None:
    system = run([[call("remove", "c1", path="x")], "one", "two"], on=opened, tools=[remove])
    session = system.session("s")
    (asked,) = session.send("go").result(WAIT).approvals
    paused = session.version
    session.approve(asked.id).result(WAIT)
    assert session.rewind(to_version=paused).result(WAIT) is True
    assert len(session.messages) == 1 and session.resume() is None
    assert session.send("more").result(WAIT).text == "two"
    assert ran == ["s"]
