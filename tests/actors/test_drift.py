"""Turns that go on with an agent that is not the one that began them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, Session, Tool, Turn, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CODEC,
    AgentConfigured,
    AgentDriftDetected,
    AgentDrifted,
    Budget,
    EncodedEvent,
    InputQueued,
    ModelFailed,
    Owner,
    SessionEvent,
    SessionStarted,
    StoredRecord,
    ToolCallStarted,
    ToolMessage,
    TurnResumed,
    TurnStarted,
)
from turnstream.stores import Append, EventStore, RowChange, open_store

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def shared(opened: EventStore) -> EventStore:
    """A store that outlives the systems on it."""
    return opened


@tool
def look(place: str, unit: str, days: int = 3) -> str:
    """Look up the weather."""
    return f"sun in {place}"


@tool
def note(text: str) -> str:
    """Take a note."""
    return "noted"


def agent(
    *script: Any,
    model: str = "m1",
    instructions: str = "Be brief.",
    tools: Sequence[Tool] = (look, note),
    **limits: Any,
) -> Agent:
    scripted = ScriptedModel(script, id=model)
    return Agent("agent", model=scripted, instructions=instructions, tools=tools, **limits)


def system(store: EventStore, *script: Any, drift: Any = "warn", **changed: Any) -> ActorSystem:
    options: dict[str, Any] = {"store": store, "on_failure": "keep", "on_agent_drift": drift}
    return ActorSystem(agent(*script, **changed), **options)


@pytest.fixture
def begun(shared: EventStore) -> EventStore:
    """A store with a turn that was begun by the original agent, and failed."""
    with system(shared, ConnectionError("down")) as before, pytest.raises(ModelFailed):
        before.session("s").send("go").result(WAIT)
    return shared


def resumed(session: Session) -> Turn:
    turn = session.resume()
    assert turn is not None
    return turn


def events(session: Session) -> list[Any]:
    return [each.event for each in session.events()]


def drifts(session: Session) -> list[tuple[str, ...]]:
    return [each.changes for each in events(session) if isinstance(each, AgentDriftDetected)]


def look_reordered(days: int = 3, *, unit: str, place: str) -> str:
    return f"sun in {place}"


def look_longer(place: str, unit: str, days: int = 7) -> str:
    return f"sun in {place}"


def look_floating(place: str, unit: str, days: float = 3) -> str:
    return f"sun in {place}"


def look_elsewhere(place: str, unit: str, days: int = 3) -> str:
    return f"rain in {place}"


def looking(fn: Callable[..., str], **options: Any) -> list[Tool]:
    told: dict[str, Any] = {"name": "look", "description": "Look up the weather."}
    return [tool(**told | options)(fn), note]


def jot() -> Tool:
    return tool(name="jot", description="Take a note.")(note.fn)


STAYS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "tools in another order": {"tools": [note, look]},
    "parameters in another order": {"tools": looking(look_reordered)},
    "code in another place": {"tools": looking(look_elsewhere)},
    "how a tool is run": {
        "tools": looking(look.fn, on_crash="ask", timeout=9, needs_approval=True)
    },
    "limits": {"max_steps": 3, "token_budget": 9, "tool_concurrency": 1, "model_timeout": 9},
}
BREAKS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a tool is gone": ({"tools": [look]}, ("tool removed: note",)),
    "a tool is renamed": ({"tools": [look, jot()]}, ("tool removed: note", "tool added: jot")),
    "a description": (
        {"tools": looking(look.fn, description="Look up the Weather.")},
        ("tool changed: look",),
    ),
    "a default": ({"tools": looking(look_longer)}, ("tool changed: look",)),
    "a type": ({"tools": looking(look_floating)}, ("tool changed: look",)),
    "the model": ({"model": "m2"}, ("model",)),
    "the instructions": ({"instructions": "Be verbose."}, ("instructions",)),
    "white space in the instructions": ({"instructions": "Be brief.\n"}, ("instructions",)),
    "everything": (
        {"model": "m2", "instructions": "", "tools": [jot(), looking(look_longer)[0]]},
        ("model", "instructions", "tool removed: note", "tool added: jot", "tool changed: look"),
    ),
}
DRIFTS = BREAKS | {"a tool is new": ({"tools": [look, note, jot()]}, ("tool added: jot",))}


@pytest.mark.parametrize("changed", STAYS.values(), ids=STAYS)
@pytest.mark.parametrize("policy", ["warn", "error"])
def test_what_changes_nothing_for_a_model_is_no_drift(
    begun: EventStore, changed: Any, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with system(begun, "done", drift=policy, **changed) as after:
        session = after.session("s")
        assert resumed(session).result(WAIT).text == "done"
        assert drifts(session) == []
        assert sum(isinstance(each, AgentConfigured) for each in events(session)) == 1
    assert not caplog.records


@pytest.mark.parametrize(("changed", "named"), DRIFTS.values(), ids=DRIFTS)
def test_a_drift_is_named_in_the_stream_and_in_the_log_and_the_turn_goes_on(
    begun: EventStore, changed: Any, named: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with system(begun, "done", **changed) as after:
        session = after.session("s")
        assert resumed(session).result(WAIT).text == "done"
        (drift,) = [each for each in events(session) if isinstance(each, AgentDriftDetected)]
        (began,) = [each for each in events(session) if isinstance(each, TurnStarted)]
        (on,) = [each for each in events(session) if isinstance(each, TurnResumed)]

    assert (drift.changes, drift.turn_id) == (named, began.turn_id)
    assert (drift.recorded, drift.current) == (began.fingerprint, on.fingerprint)
    (logged,) = caplog.records
    assert logged.name.startswith("turnstream") and logged.levelname == "WARNING"
    assert ", ".join(named) in logged.getMessage()


@pytest.mark.parametrize(("changed", "named"), DRIFTS.values(), ids=DRIFTS)
def test_a_drift_to_be_ignored_leaves_no_trace_but_the_new_agent(
    begun: EventStore, changed: Any, named: object, caplog: pytest.LogCaptureFixture
) -> None:
    with system(begun, "done", drift="ignore", **changed) as after:
        session = after.session("s")
        assert resumed(session).result(WAIT).text == "done"
        assert drifts(session) == []
        assert sum(isinstance(each, AgentConfigured) for each in events(session)) == 2
    assert not caplog.records


@pytest.mark.parametrize(("changed", "named"), BREAKS.values(), ids=BREAKS)
def test_a_drift_that_is_an_error_appends_nothing_and_the_agent_restored_goes_on(
    begun: EventStore, changed: Any, named: tuple[str, ...]
) -> None:
    with system(begun, drift="error", **changed) as after:
        session = after.session("s")
        version = session.version
        with pytest.raises(AgentDrifted) as caught:
            resumed(session).result(WAIT)
        assert session.version == version
    error = caught.value
    assert (error.code, error.changes) == ("agent-drifted", named)
    assert (error.session_id, error.turn_id) == ("s", "turn-1")
    with system(begun, "done", drift="error") as restored:
        assert resumed(restored.session("s")).result(WAIT).text == "done"
        assert drifts(restored.session("s")) == []


def test_a_new_tool_is_never_an_error(begun: EventStore) -> None:
    with system(begun, "done", drift="error", tools=[look, note, jot()]) as after:
        assert resumed(after.session("s")).result(WAIT).text == "done"
        assert drifts(after.session("s")) == [("tool added: jot",)]


WAYS: dict[str, Callable[[Session, ActorSystem], Turn]] = {
    "send": lambda session, system: session.send("more"),
    "send again": lambda session, system: session.send("go"),
    "steer": lambda session, system: session.send("more", policy="steer"),
    "execute": lambda session, system: session.execute("more"),
    "resume": lambda session, system: resumed(session),
    "resume all": lambda session, system: system.resume_all()[0],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_whichever_way_a_drifted_turn_is_gone_on_with_the_error_is_raised(
    begun: EventStore, way: Callable[[Session, ActorSystem], Turn]
) -> None:
    with system(begun, drift="error", model="m2") as after:
        session = after.session("s")
        version = session.version
        turn = way(session, after)
        with pytest.raises(AgentDrifted):
            turn.accepted().result(WAIT)
        with pytest.raises(AgentDrifted):
            turn.result(WAIT)
        assert session.version == version


def test_a_drifted_turn_can_be_dropped_and_the_next_is_the_new_agents(begun: EventStore) -> None:
    with system(begun, "hello", drift="error", model="m2") as after:
        session = after.session("s")
        assert session.discard_pending().result(WAIT) is True
        assert session.send("hi").result(WAIT).text == "hello"
        assert drifts(session) == []


def test_a_drift_is_noted_once_and_the_way_back_is_another(begun: EventStore) -> None:
    for model in ("m2", "m2", "m1"):
        with system(begun, ConnectionError("down"), model=model) as after:
            with pytest.raises(ModelFailed):
                resumed(after.session("s")).result(WAIT)
            found = drifts(after.session("s"))

    assert found == [("model",), ("model",)]


def copied(records: Sequence[StoredRecord], store: EventStore) -> None:
    """What a process left that was lost after these."""
    encoded = tuple(EncodedEvent(each.topic, each.payload) for each in records)
    store.append(Append("s", 0, encoded, RowChange("running", "agent", AT)))


@pytest.fixture
def pending(shared: EventStore) -> EventStore:
    """A store with a turn that was lost when it had started one call of two."""
    calls = [call("note", id="a", text="one"), call("note", id="b", text="two")]
    with (
        closing(open_store("memory://")) as scratch,
        system(scratch, calls, "done", tool_concurrency=1) as before,
    ):
        before.session("s").send("go").result(WAIT)
        records = scratch.read("s")
        started = [isinstance(CODEC.recorded(each).event, ToolCallStarted) for each in records]
        copied(records[: started.index(True) + 1], shared)
    return shared


def note_number(text: int) -> str:
    return "noted"


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([look], "no tool named 'note'"),
        ([look, tool(name="note")(note_number)], "do not fit the tool's schema"),
    ],
    ids=["gone", "changed"],
)
def test_a_pending_call_whose_tool_is_not_what_it_was_has_an_error_and_the_turn_goes_on(
    pending: EventStore, tools: list[Tool], says: str
) -> None:
    with system(pending, "I can't", tools=tools) as after:
        session = after.session("s")
        result = resumed(session).result(WAIT)
        doubted, never_run = [m for m in result.messages if isinstance(m, ToolMessage)]

    assert result.text == "I can't"
    assert [each.outcome for each in (doubted, never_run)] == ["error", "error"]
    assert says in str(doubted.content) and says in str(never_run.content)
    assert "may or may not have taken effect" in str(doubted.content)
    assert "taken effect" not in str(never_run.content)


def test_where_drift_is_an_error_a_pending_call_waits_for_its_tool(pending: EventStore) -> None:
    with system(pending, drift="error", tools=[look]) as after, pytest.raises(AgentDrifted):
        resumed(after.session("s")).result(WAIT)
    with system(pending, "done", drift="error") as restored:
        result = resumed(restored.session("s")).result(WAIT)

    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["noted"] * 2


@pytest.mark.parametrize("policy", ["warn", "error"])
def test_a_decision_on_a_call_whose_tool_is_gone_runs_nothing(
    shared: EventStore, policy: str
) -> None:
    gated = tool(name="note", needs_approval=True)(note.fn)
    with system(shared, [call("note", text="one")], tools=[gated]) as before:
        (approval,) = before.session("s").send("go").result(WAIT).approvals
    with system(shared, "I can't", drift=policy, tools=[look]) as after:
        version = after.session("s").version
        turn = after.approve(approval.id)
        if policy == "error":
            with pytest.raises(AgentDrifted):
                turn.accepted().result(WAIT)
            assert after.session("s").version == version
            assert after.approvals() == [approval]
        else:
            (result,) = [m for m in turn.result(WAIT).messages if isinstance(m, ToolMessage)]
            assert result.outcome == "error" and "no tool named 'note'" in str(result.content)


@pytest.mark.parametrize("policy", ["warn", "error"])
def test_a_turn_without_a_fingerprint_has_not_drifted(
    shared: EventStore, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    owner, budget = Owner(0, "earlier"), Budget(max_steps=9)
    stream: list[SessionEvent] = [
        SessionStarted(at=AT, agent="agent"),
        AgentConfigured(at=AT, name="agent", model="m0"),
        InputQueued(at=AT, input_id="i", content="go"),
        TurnStarted(
            at=AT, turn_id="turn-1", input_ids=("i",), agent="agent", budget=budget, owner=owner
        ),
    ]
    encoded, _ = CODEC.chained(stream, 0, "")
    shared.append(Append("s", 0, encoded, RowChange("running", "agent", AT)))
    with system(shared, "done", drift=policy) as after:
        assert resumed(after.session("s")).result(WAIT).text == "done"
        assert drifts(after.session("s")) == []
    assert not caplog.records


FINGERPRINT = """
from enum import Enum
from typing import Literal
from turnstream.actors import ActorSystem, Agent, tool

class Unit(Enum):
    KELVIN = "K"
    CELSIUS = "C"

@tool
def look(place: str, unit: Unit = Unit.KELVIN, tags: set[str] = {"a", "b"},
         kind: Literal["now", "soon"] | None = None) -> str:
    "Look."

with ActorSystem(Agent("agent", model=lambda request: "hi", tools=[look])) as system:
    system.session("s").send("go").result(20)
    print(*[e.event.fingerprint for e in system.session("s").events() if e.topic == "turn_started"])
"""


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_fingerprint() -> None:
    prints = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    }

    assert len(prints) == 1 and prints != {""}
