"""Hand-offs, and what comes of them in other processes, in copies and after edits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from typing import Any

import pytest
from composing import put
from places import on_durable_stores

from turnstream.actors import (
    ActorSystem,
    Agent,
    Patch,
    Session,
    ToolResultPatch,
    audit_session,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call, crash_points
from turnstream.events import (
    AgentHandedOff,
    AssistantMessage,
    ModelFailed,
    ModelTurnRecorded,
    SessionEvent,
    ToolMessage,
    TurnFinished,
    TurnStarted,
    UnknownAgent,
    UnknownEvent,
)
from turnstream.projections import (
    Folded,
    check_transcript,
    dump_snapshot,
    fold,
    fold_usage,
    load_snapshot,
)
from turnstream.stores import EventStore, MemoryStore

pytestmark = on_durable_stores

WAIT = 20
THERE, BACK = call("transfer_to_b"), call("transfer_to_a")


@tool
def look() -> str:
    return "seen, and told at length " * 4


def pair(a: Sequence[Any] = (), b: Sequence[Any] = (), **options: Any) -> list[Agent]:
    other = Agent("b", model=ScriptedModel(b, id="model of b"), tools=[look], handoffs=["a"])
    first = Agent("a", model=ScriptedModel(a, id="model of a"), tools=[look], handoffs=["b"])
    return [first, other]


@cache
def recorded() -> Sequence[SessionEvent]:
    """A turn that goes from a to b and back, and there again in the next one."""
    a = [[THERE, call("look")], "a has it.", [THERE]]
    b = [[call("look")], [call("look"), BACK, BACK], "b has it."]
    with ActorSystem(pair(a, b)) as system:
        session = system.session("s")
        assert session.send("1").result(WAIT).text == "a has it."
        assert session.send("2").result(WAIT).text == "b has it."
        return known(session)


def stored(events: Sequence[SessionEvent]) -> EventStore:
    store = MemoryStore()
    if events:
        put(store, "s", list(events))
    return store


def known(session: Session) -> list[SessionEvent]:
    events = [each.event for each in session.events()]
    return [each for each in events if not isinstance(each, UnknownEvent)]


def switches(events: Sequence[SessionEvent]) -> list[tuple[str, str]]:
    return [
        (each.source, each.target)
        for each in events
        if isinstance(each, AgentHandedOff) and each.applied
    ]


def saying(name: str) -> Any:
    def answer(request: Any) -> str:
        check_transcript(request.messages)
        return f"{name} goes on"

    return answer


def asked_for(events: Sequence[SessionEvent]) -> str:
    """The agent that is to go on when the last of the events has happened."""
    name = "a"
    for each in events:
        if isinstance(each, AgentHandedOff):
            name = each.target
    return name


@pytest.mark.parametrize("version", range(2, len(recorded())))
def test_whatever_a_crash_leaves_of_a_hand_off_the_one_that_was_asked_to_goes_on(
    version: int,
) -> None:
    prefix = list(crash_points(recorded()))[version]
    unanswered = [each for each in prefix if isinstance(each, ModelTurnRecorded)]
    agents = [
        Agent("a", model=saying("a"), tools=[look], handoffs=["b"]),
        Agent("b", model=saying("b"), tools=[look], handoffs=["a"]),
    ]
    with closing(stored(prefix)) as store, ActorSystem(agents, store=store) as system:
        session = system.session("s")
        if (turn := session.resume()) is not None:
            turn.result(WAIT)
        events = known(session)
        assert session.send("more").result(WAIT).text == f"{session.active_agent} goes on"
        assert audit_session(store, "s").findings == []

    assert session_is_sound(events)
    last = unanswered[-1] if unanswered else None
    transfers = [each for each in (last.tool_calls if last else ()) if each.name in NAMES]
    expected = NAMES[transfers[0].name] if transfers else asked_for(prefix)
    assert fold(events).active == expected


NAMES = {"transfer_to_a": "a", "transfer_to_b": "b"}


def session_is_sound(events: Sequence[SessionEvent]) -> bool:
    """Every hand-off that was asked for was done once, and every call has its result."""
    asked = [e for e in events if isinstance(e, AgentHandedOff) and not e.applied]
    done = [e for e in events if isinstance(e, AgentHandedOff) and e.applied]
    assert [(e.source, e.target, e.call_id) for e in asked] == [
        (e.source, e.target, e.call_id) for e in done
    ]
    messages = fold(events).transcript
    calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert [m.call_id for m in messages if isinstance(m, ToolMessage)] == calls
    finished = sum(isinstance(each, TurnFinished) for each in events)
    return finished == sum(isinstance(each, TurnStarted) for each in events)


@pytest.mark.parametrize("version", range(len(recorded()) + 1))
def test_a_snapshot_of_any_prefix_is_its_fold(version: int) -> None:
    prefix = recorded()[:version]
    folded = Folded(version, "prev", fold(prefix), fold_usage(prefix))
    snapshot = dump_snapshot(folded)
    assert snapshot is not None
    after = load_snapshot(snapshot)
    assert after == folded and repr(after) == repr(folded)
    assert after is not None and fold(recorded()[version:], after.state) == fold(recorded())


@pytest.fixture
def handed(address: str) -> str:
    """The address of a store with a finished session that b goes on with."""
    with ActorSystem(pair(["a", [THERE, call("look")]], ["b"]), store=address) as system:
        system.session("s").send("1").result(WAIT)
        assert system.session("s").send("2").result(WAIT).text == "b"
    return address


def test_another_process_goes_on_with_the_active_agent(handed: str) -> None:
    with ActorSystem(pair([], ["still b"]), store=handed) as system:
        assert system.session("s").active_agent == "b"
        assert system.session("s").send("3").result(WAIT).text == "still b"


def test_going_back_before_a_hand_off_undoes_it_and_going_forth_again_does_not(handed: str) -> None:
    with ActorSystem(pair(["a again"], ["b again"]), store=handed) as system:
        session = system.session("s")
        before = session.version
        session.rewind(keep_entries=2).result(WAIT)
        assert (session.active_agent, len(session.messages)) == ("a", 2)
        session.rewind(to_version=before).result(WAIT)
        assert (session.active_agent, len(session.messages)) == ("b", 7)
        session.rewind(keep_entries=2).result(WAIT)
        assert session.send("3").result(WAIT).text == "a again"
        assert known(session)[-2].model == "model of a"  # type: ignore[union-attr]


def test_going_back_within_what_the_other_agent_said_leaves_it_active(handed: str) -> None:
    with ActorSystem(pair([], ["b again"]), store=handed) as system:
        session = system.session("s")
        session.rewind(keep_entries=6).result(WAIT)
        assert session.active_agent == "b"
        session.rewind(keep_entries=3).result(WAIT)
        assert session.active_agent == "a"


def test_shortened_results_leave_the_agent_as_it_is(handed: str) -> None:
    with ActorSystem(pair(["a"], ["b"]), store=handed) as system:
        session = system.session("s")
        assert session.trim_tool_results(keep_chars=40, keep_turns=0).result(WAIT)
        assert session.active_agent == "b"


def test_who_began_the_session_begins_it_afresh(handed: str) -> None:
    with ActorSystem(pair(["a afresh"], []), store=handed) as system:
        session = system.session("s")
        session.clear().result(WAIT)
        assert session.active_agent == "a"
        assert session.send("hello").result(WAIT).text == "a afresh"


def test_a_fork_goes_on_with_the_agent_of_the_version_it_was_taken_at(handed: str) -> None:
    with ActorSystem(pair(["a in a fork"], ["b in a fork", "b"]), store=handed) as system:
        session = system.session("s")
        late, early = session.fork(), session.fork(step=1)
        assert (late.active_agent, early.active_agent) == ("b", "a")
        assert late.send("3").result(WAIT).text == "b in a fork"
        assert early.send("3").result(WAIT).text == "a in a fork"
        late.clear().result(WAIT)
        assert late.active_agent == "a"
        assert session.send("4").result(WAIT).text == "b"


def place_of(events: Sequence[SessionEvent], kind: type, **fields: Any) -> int:
    found = [
        n
        for n, e in enumerate(events, 1)
        if isinstance(e, kind) and all(getattr(e, k) == v for k, v in fields.items())
    ]
    return found[0]


def test_a_fork_between_the_call_and_the_switch_does_the_switch(handed: str) -> None:
    with ActorSystem(pair([], ["b in a fork"]), store=handed) as system:
        session = system.session("s")
        at = place_of(known(session), AgentHandedOff, applied=False)
        fork = session.fork(version=at)
        turn = fork.resume()
        assert turn is not None and turn.result(WAIT).text == "b in a fork"
        assert switches(known(fork)) == [("a", "b")]


@pytest.mark.parametrize(("calls", "active"), [(True, "b"), (False, "a")])
def test_a_fork_whose_turn_says_otherwise_hands_off_only_if_it_has_the_call_still(
    handed: str, calls: bool, active: str
) -> None:
    def rewritten(messages: Any) -> Any:
        said = [*messages[:-1], AssistantMessage("hm", messages[-1].tool_calls)]
        return said if calls else messages[:-1]

    with ActorSystem(pair(["a goes on"], ["b goes on"]), store=handed) as system:
        session = system.session("s")
        at = place_of(known(session), AgentHandedOff, applied=False)
        fork = session.fork(version=at, patch=Patch(messages=rewritten))
        turn = fork.resume()
        assert turn is not None and turn.result(WAIT).text == f"{active} goes on"
        assert fork.active_agent == active


def test_a_fork_in_which_a_call_has_another_result_hands_nothing_off(handed: str) -> None:
    with ActorSystem(pair(["a goes on"], []), store=handed) as system:
        session = system.session("s")
        at = place_of(known(session), AgentHandedOff, applied=False) - 1
        instead = ToolResultPatch("call-1-1", "b is out")
        fork = session.fork(version=at, patch=Patch(tool_result=instead))
        turn = fork.resume()
        assert turn is not None and turn.result(WAIT).text == "a goes on"
        assert fork.active_agent == "a"


def test_an_open_turn_in_another_conversation_leaves_its_agent_to_the_next_one(handed: str) -> None:
    with ActorSystem(pair([], ["b goes on", "b again"]), store=handed) as system:
        session = system.session("s")
        at = place_of(known(session), AgentHandedOff, applied=True)
        shorter = Patch(messages=lambda messages: messages[2:3])
        fork = session.fork(version=at, patch=shorter)
        turn = fork.resume()
        assert turn is not None and turn.result(WAIT).text == "b goes on"
        assert fork.active_agent == "b"
        assert fork.send("3").result(WAIT).text == "b again"


@pytest.fixture
def unfinished(address: str) -> str:
    """The address of a store with a turn that b did not finish."""
    script: list[Any] = [ConnectionError("down")]
    with (
        ActorSystem(pair([[THERE]], script), store=address) as system,
        pytest.raises(ModelFailed, match="down"),
    ):
        system.session("s").send("1").result(WAIT)
    return address


def test_unfinished_work_of_an_agent_that_is_missing_is_refused_and_both_ways_out_work(
    unfinished: str,
) -> None:
    with ActorSystem(Agent("a", model=ScriptedModel(["a"])), store=unfinished) as system:
        session = system.session("s")
        version = session.version
        turn = session.resume()
        assert turn is not None
        with pytest.raises(UnknownAgent, match=r"'b'.*'a'.*aliases.*discard_pending") as refused:
            turn.result(WAIT)
        assert refused.value.session_id == "s"
        with pytest.raises(UnknownAgent):
            session.send("2").result(WAIT)
        assert (session.version, session.status) == (version, "failed")
        fork = session.fork(version=version)

        assert session.discard_pending().result(WAIT) is True
        assert session.active_agent == "a"
        assert session.send("2").result(WAIT).text == "a"
    renamed = Agent("c", model=ScriptedModel(["c, once b"]), aliases=["b"])
    with ActorSystem([Agent("a", model=ScriptedModel([])), renamed], store=unfinished) as system:
        turn = system.session(fork.id).resume()
        assert turn is not None and turn.result(WAIT).text == "c, once b"
        assert system.session(fork.id).active_agent == "b"


def test_inputs_that_wait_for_a_missing_agent_outlive_the_turn_that_is_dropped(
    address: str, led: Any
) -> None:
    alone = Agent("a", model=led)
    with ActorSystem(alone, store=address) as system:
        session = system.session("s")
        turns = [session.send("1"), session.send("2")]
        for each in turns:
            each.accepted().result(WAIT)
        led.asked()
        system.close(0)
    with ActorSystem(Agent("other", model=ScriptedModel([])), store=address) as system:
        assert system.session("s").discard_pending().result(WAIT) is True
    with ActorSystem(Agent("a", model=ScriptedModel(["to 2"])), store=address) as system:
        turn = system.session("s").resume()
        assert turn is not None and turn.result(WAIT).text == "to 2"


def test_a_hand_off_to_an_agent_that_is_missing_is_refused_before_anything_happens() -> None:
    events = recorded()
    at = place_of(events, AgentHandedOff, applied=False)
    with closing(stored(events[:at])) as store:
        with ActorSystem(Agent("a", model=ScriptedModel([]), tools=[look]), store=store) as system:
            turn = system.session("s").resume()
            assert turn is not None
            with pytest.raises(UnknownAgent, match="'b'"):
                turn.result(WAIT)
            assert system.session("s").version == at
        done_under_another_name(store)


def done_under_another_name(store: EventStore) -> None:
    c = Agent("c", model=ScriptedModel(["c, once b"]), aliases=["b"])
    a = Agent("a", model=ScriptedModel([]), tools=[look], handoffs=[c])
    with ActorSystem(a, store=store) as system:
        turn = system.session("s").resume()
        assert turn is not None and turn.result(WAIT).text == "c, once b"
        assert switches(known(system.session("s"))) == [("a", "b")]
        assert audit_session(store, "s").findings == []
