"""Calls and their results, next to each other whatever comes between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, import_transcript, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CODEC,
    AssistantMessage,
    Budget,
    InputApplied,
    InputQueued,
    InvalidTranscript,
    Message,
    ModelTurn,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionReadOnly,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    UserMessage,
    digest,
)
from turnstream.projections import check_transcript, fold
from turnstream.stores import (
    Append,
    EventStore,
    MemoryStore,
    RowChange,
    SQLiteStore,
)

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)
Run = Callable[..., ActorSystem]


@tool
def echo(value: Any) -> Any:
    """The value itself."""
    return value


@pytest.fixture
def shared(opened: EventStore) -> EventStore:
    """A store that outlives the systems on it."""
    return opened


def plant(store: EventStore, *events: SessionEvent) -> None:
    """Write by hand, past everything that decides what may happen."""
    records = store.read("s")
    version = len(records)
    prev = digest(records[-1].topic, version, records[-1].payload) if records else ""
    encoded, _ = CODEC.chained(events, version, prev)
    store.append(Append("s", version, encoded, RowChange("idle", "agent", AT)))


def system(store: EventStore, *script: Any) -> ActorSystem:
    return ActorSystem(Agent("agent", model=ScriptedModel(script), tools=[echo]), store=store)


def results(messages: Any) -> list[ToolMessage]:
    return [each for each in messages if isinstance(each, ToolMessage)]


def test_two_calls_with_one_id_both_run_and_are_answered_in_their_places(run: Run) -> None:
    twins = [call("echo", "x", value=1), call("echo", "x", value=2)]
    result = run([twins, "ok"], tools=[echo]).session("s").send("go").result(WAIT)

    assert [each.content for each in results(result.messages)] == ["1", "2"]
    check_transcript(result.messages)


def test_results_that_say_nothing_are_there_in_order_after_a_reload(shared: EventStore) -> None:
    values: list[Any] = [None, "", b"", [], {}, 0, False]

    @tool
    def give(place: int) -> Any:
        return values[place]

    batch = [call("give", f"c{n}", place=n) for n in range(len(values))]
    agent = Agent("agent", model=ScriptedModel([batch, "done"]), tools=[give])
    with ActorSystem(agent, store=shared) as first:
        first.session("s").send("go").result(WAIT)

    with system(shared, "and on") as second:
        recorded = {
            each.event.call_id: each.event.content
            for each in second.session("s").events()
            if isinstance(each.event, ToolResultRecorded)
        }
        kept = [recorded[each.id] for each in batch]
        assert [(type(each), each) for each in kept] == [(type(each), each) for each in values]
        result = second.session("s").send("more").result(WAIT)
    assert [each.call_id for each in results(result.messages)] == [each.id for each in batch]


def test_opaque_parts_stay_as_they_came_in_the_turn_they_came_with(shared: EventStore) -> None:
    signed = ModelTurn(
        tool_calls=(call("echo", "c1", value=1),), parts=({"type": "opaque", "sig": "abc"},)
    )
    empty = ModelTurn("text", parts=({}, {"order": [3, 1, 2], "raw": b"\x00\xff"}))
    with system(shared, signed, empty) as first:
        first.session("s").send("go").result(WAIT)

    model = ScriptedModel(["and on"])
    with ActorSystem(Agent("agent", model=model, tools=[echo]), store=shared) as second:
        session = second.session("s")
        session.send("more").result(WAIT)
        events = [each.event for each in session.events()]
    (request,) = model.requests
    assert [m.parts for m in request.messages if isinstance(m, AssistantMessage)] == [
        signed.parts,
        empty.parts,
    ]
    for cut in range(len(events)):
        shown = [m for m in fold(events[:cut]).transcript if isinstance(m, AssistantMessage)]
        assert [m.parts for m in shown] == [signed.parts, empty.parts, ()][: len(shown)]


HOLE: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "echo", "arguments": "{}"}}],
    },
    {"role": "assistant", "content": "I was interrupted."},
    {"role": "user", "content": "hi"},
]


def test_a_conversation_with_an_unanswered_call_is_not_imported(shared: EventStore) -> None:
    with pytest.raises(InvalidTranscript, match="message 2"):
        import_transcript(HOLE, shared, "s")

    assert list(shared.read("s")) == []


OUT_OF_PLACE: dict[str, list[SessionEvent]] = {
    "a note": [ModelTurnRecorded(at=AT, turn_id="turn-1", step=2, text="I was interrupted.")],
    "an input": [
        InputQueued(at=AT, input_id="i", content="hi"),
        InputApplied(at=AT, turn_id="turn-1", input_id="i"),
    ],
    "an end": [TurnFinished(at=AT, turn_id="turn-1")],
    "a turn": [
        TurnStarted(
            at=AT,
            turn_id="turn-2",
            input_ids=(),
            agent="agent",
            budget=Budget(max_steps=2),
            owner=Owner(1, "n"),
        )
    ],
}


@pytest.mark.parametrize("planted", OUT_OF_PLACE)
def test_what_was_planted_after_an_unanswered_call_never_reaches_a_model(
    shared: EventStore, planted: str
) -> None:
    import_transcript(HOLE[:2], shared, "s", agent="agent", at=AT)
    plant(shared, *OUT_OF_PLACE[planted])
    model = ScriptedModel(["never asked"] * 2)
    with ActorSystem(Agent("agent", model=model, tools=[echo]), store=shared) as reader:
        session = reader.session("s")
        with pytest.raises(SessionReadOnly):
            session.send("x").result(WAIT)
        assert list(session.messages) == []

    assert model.requests == []


def test_a_planted_result_that_answers_no_call_never_reaches_a_model(shared: EventStore) -> None:
    with system(shared, "one") as first:
        first.session("s").send("a").result(WAIT)
    plant(shared, ToolResultRecorded(at=AT, turn_id="turn-1", call_id="c9", content="stray"))
    with system(shared, "two") as second:
        messages = second.session("s").send("b").result(WAIT).messages

    assert results(messages) == [] and len(messages) == 4


def test_a_result_planted_a_second_time_is_there_once(shared: EventStore) -> None:
    with system(shared, [call("echo", "c1", value=1)], "one") as first:
        first.session("s").send("a").result(WAIT)
    plant(shared, ToolResultRecorded(at=AT, turn_id="turn-1", call_id="c1", content="again"))
    with system(shared, "two") as second:
        messages = second.session("s").send("b").result(WAIT).messages

    assert [each.content for each in results(messages)] == ["1"]


class Interrupting:
    """Before the ``nth`` append somebody else's input gets into the stream."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def interrupt(self, store: EventStore) -> None:
        self.left -= 1
        if self.left == 0:
            plant(store, InputQueued(at=AT, input_id="theirs", content="note"))


class InterruptedMemory(MemoryStore):
    by: Interrupting

    def submit(self, append: Append, done: Callable[[Any], None]) -> None:
        self.by.interrupt(self)
        super().submit(append, done)


class InterruptedSQLite(SQLiteStore):
    by: Interrupting

    def submit(self, append: Append, done: Callable[[Any], None]) -> None:
        self.by.interrupt(self)
        super().submit(append, done)


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("kind", [InterruptedMemory, InterruptedSQLite])
def test_an_input_that_comes_between_any_two_events_stands_after_all_results(
    kind: type[InterruptedMemory | InterruptedSQLite], nth: int
) -> None:
    batch = [call("echo", "c1", value=1), call("echo", "c2", value=2)]
    script: list[Any] = [batch, [call("echo", "c3", value=3)], "done", "noted"]
    model = ScriptedModel(script if nth > 1 else ["noted", *script[:3]])
    with closing(kind()) as store:
        store.by = Interrupting(nth)
        with ActorSystem(Agent("agent", model=model, tools=[echo]), store=store) as system:
            session = system.session("s")
            session.send("go").result(WAIT)
            if (rest := session.resume()) is not None:
                rest.result(WAIT)
            said = [briefly(each) for each in session.messages]

    ours = ["go", "calls", "c1", "c2", "calls", "c3", "done"]
    theirs = ["note", "noted"]
    assert said == (theirs + ours if nth == 1 else ours + theirs)


def briefly(message: Message) -> str:
    match message:
        case UserMessage(content=str(content)):
            return content
        case ToolMessage(call_id=call_id):
            return call_id
        case AssistantMessage(text=text):
            return text or "calls"
    raise AssertionError(message)


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1,2]", "null", "7", '"text"'])
def test_arguments_that_are_no_object_are_kept_as_text_beside_an_empty_object(
    run: Run, arguments: Any
) -> None:
    turn = ModelTurn(tool_calls=(ToolCall("c1", "echo", arguments),))
    result = run([turn, "sorry"], tools=[echo]).session("s").send("go").result(WAIT)

    (asked,) = result.tool_calls
    assert (asked.arguments, asked.malformed) == ({}, arguments)
    assert [each.outcome for each in results(result.messages)] == ["error"]
