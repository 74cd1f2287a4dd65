"""What the tests of edits share: events of every kind, in any order, and conversations as they are
held."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st

from turnstream.events import (
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    AssistantMessage,
    Budget,
    ForkOrigin,
    ForkPatched,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    Message,
    ModelTurnRecorded,
    Owner,
    SessionCleared,
    SessionRewound,
    SessionStarted,
    StateChanged,
    StepRecorded,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    ToolResultsTrimmed,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
    Usage,
    UserMessage,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = Owner(1, "node")
BUDGET = Budget(max_steps=32)

call_ids = st.sampled_from(["c1", "c2", "c3"])
input_ids = st.sampled_from(["i1", "i2", "i3"])
turn_ids = st.sampled_from(["turn-1", "turn-2"])
agents = st.sampled_from(["planner", "planner", "booker"])
keys = st.sampled_from(["", "", "k1", "k2"])
texts = st.sampled_from(["", "a", "b", "yes " * 20])
calls = st.lists(call_ids.map(lambda name: ToolCall(name, "f", {"x": [1]})), max_size=2).map(tuple)
messages: st.SearchStrategy[Message] = st.one_of(
    texts.map(UserMessage),
    st.builds(AssistantMessage, texts, calls, st.sampled_from([(), ({"sig": [1]},)])),
    st.builds(ToolMessage, call_ids, st.just("f"), texts),
)


@st.composite
def conversations(draw: st.DrawFn, *, unfinished: bool = False) -> tuple[Message, ...]:
    """Messages that providers accept; ``unfinished``: perhaps but for results at the end."""
    found: list[Message] = []
    for _ in range(draw(st.integers(0, 3))):
        found.append(UserMessage(draw(texts)))
        found.append(AssistantMessage(draw(texts), asked := draw(calls)))
        found += [ToolMessage(each.id, each.name, draw(texts)) for each in asked]
    if unfinished and draw(st.booleans()):
        found.append(AssistantMessage("", draw(calls)))
    return tuple(found)


junk = st.one_of(
    st.none(),
    st.integers(),
    st.just("text"),
    st.lists(st.one_of(messages, st.integers()), max_size=4),
    st.just([{"role": "user", "content": "x"}]),
)
whole_numbers = st.one_of(st.integers(-2, 12), st.integers())

edits: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(
        ForkPatched,
        at=st.just(NOON),
        messages=st.one_of(junk, conversations(), conversations(unfinished=True)),
        state=st.integers(),
        call_id=call_ids,
        result=st.one_of(texts, st.integers()),
        changed=st.lists(st.sampled_from(["messages", "state", "tool_result"]), unique=True).map(
            tuple
        ),
    ),
    st.builds(
        SessionRewound, at=st.just(NOON), keep_entries=whole_numbers, undoes=st.integers(-1, 4)
    ),
    st.builds(
        ToolResultsTrimmed,
        at=st.just(NOON),
        keep_chars=whole_numbers,
        keep_turns=st.one_of(st.integers(-1, 2), st.integers()),
    ),
    st.just(SessionCleared(at=NOON)),
    st.just(SessionStarted(at=NOON, agent="planner", forked_from=ForkOrigin("source", 3))),
)

growth: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(InputQueued, at=st.just(NOON), input_id=input_ids, content=texts, key=keys),
    st.builds(InputApplied, at=st.just(NOON), turn_id=turn_ids, input_id=input_ids),
    st.builds(InputWithdrawn, at=st.just(NOON), input_id=input_ids),
    st.builds(
        AgentHandedOff,
        at=st.just(NOON),
        turn_id=turn_ids,
        source=agents,
        target=agents,
        applied=st.booleans(),
        call_id=call_ids,
        budget=st.sampled_from([None, Budget(max_steps=3, seconds=9)]),
    ),
    st.builds(
        TurnStarted,
        at=st.just(NOON),
        turn_id=turn_ids,
        input_ids=input_ids.map(lambda each: (each,)),
        agent=agents,
        budget=st.sampled_from([BUDGET, Budget(max_steps=3, seconds=9)]),
        owner=st.just(OWNER),
    ),
    st.builds(TurnResumed, at=st.just(NOON), turn_id=turn_ids, owner=st.just(OWNER)),
    st.builds(
        ModelTurnRecorded,
        at=st.just(NOON),
        turn_id=turn_ids,
        step=st.integers(1, 3),
        text=texts,
        tool_calls=calls,
        usage=st.just(Usage(3, 4)),
    ),
    st.builds(ToolCallStarted, at=st.just(NOON), turn_id=turn_ids, call_id=call_ids),
    st.builds(
        ToolResultRecorded, at=st.just(NOON), turn_id=turn_ids, call_id=call_ids, content=texts
    ),
    st.builds(
        StepRecorded,
        at=st.just(NOON),
        turn_id=turn_ids,
        call_id=st.one_of(call_ids, st.just("")),
        name=st.just("step"),
        arguments_digest=st.just("d"),
        value=texts.map(lambda text: [text]),
        position=st.integers(0, 2),
        key=keys,
    ),
    st.builds(
        ApprovalRequested,
        at=st.just(NOON),
        approval_id=st.just("s/turn-1.1.1"),
        turn_id=turn_ids,
        call_id=call_ids,
    ),
    st.builds(
        ApprovalResolved,
        at=st.just(NOON),
        approval_id=st.just("s/turn-1.1.1"),
        decision=st.sampled_from(["approved", "rejected"]),
        arguments=st.sampled_from([None, {"x": 2}]),
    ),
    st.builds(ApprovalWithdrawn, at=st.just(NOON), approval_id=st.just("s/turn-1.1.1")),
    st.builds(TurnFinished, at=st.just(NOON), turn_id=turn_ids),
    st.builds(
        TurnFailed,
        at=st.just(NOON),
        turn_id=turn_ids,
        code=st.just("x"),
        error=st.just("x"),
        kept=st.booleans(),
    ),
    st.builds(TurnAborted, at=st.just(NOON), turn_id=turn_ids, kept=st.booleans()),
    st.builds(StateChanged, at=st.just(NOON), value=st.integers()),
    st.just(UnknownEvent("from_later", b"{}")),
)
hostile = st.lists(st.one_of(growth, edits), max_size=25)


def turn(
    number: int, *said: str | ToolCall, results: Sequence[str] = (), key: str = "", end: bool = True
) -> list[AnyEvent]:
    """A turn of one input, an answer with calls, and their results; answered at the ``end``."""
    turn_id, input_id = f"turn-{number}", f"input-{number}"
    text = "".join(each for each in said if isinstance(each, str)) or f"question {number}"
    asked = tuple(each for each in said if isinstance(each, ToolCall))
    events: list[AnyEvent] = [
        InputQueued(at=NOON, input_id=input_id, content=text, key=key),
        TurnStarted(
            at=NOON,
            turn_id=turn_id,
            input_ids=(input_id,),
            agent="planner",
            budget=BUDGET,
            owner=OWNER,
        ),
    ]
    if asked:
        events.append(ModelTurnRecorded(at=NOON, turn_id=turn_id, step=1, tool_calls=asked))
        events += [
            ToolResultRecorded(at=NOON, turn_id=turn_id, call_id=each.id, content=result)
            for each, result in zip(asked, results, strict=False)
        ]
    if end:
        step = 2 if asked else 1
        answer = f"answer {number}"
        events += [
            ModelTurnRecorded(at=NOON, turn_id=turn_id, step=step, text=answer),
            TurnFinished(at=NOON, turn_id=turn_id),
        ]
    return events
