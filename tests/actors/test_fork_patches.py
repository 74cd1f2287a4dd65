"""What is different in a fork: said in the stream, applied in order, or refused without a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sending import events
from travelling import WAIT, assert_sound, resumed, stored, texts, visible

from turnstream.actors import ActorSystem, Patch, Session, ToolResultPatch, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    EncodedEvent,
    ForkPatched,
    ImagePart,
    InputQueued,
    InvalidTranscript,
    Message,
    ModelTurn,
    SessionReadOnly,
    TextPart,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    Unstorable,
    UserMessage,
)
from turnstream.stores import Append, EventStore, RowChange
from turnstream.stores.specimens import NOON

Run = Callable[..., ActorSystem]
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool
def weather(city: str) -> str:
    """Weather."""
    ran.append(city)
    return "sunny"


@tool(needs_approval=True)
def book(hotel: str) -> str:
    """Book."""
    ran.append(hotel)
    return f"booked {hotel}"


SIGNED = ({"type": "reasoning", "sig": b"ab\0", "n": float("inf")},)
SCRIPT: list[Any] = [
    ModelTurn("Let me see.", (call("weather", "c1", city="Rome"),), parts=SIGNED),
    [call("weather", "c2", city="Oslo"), call("book", "c3", hotel="Ritz")],
]


def paused(run: Run, store: EventStore, *answers: Any) -> tuple[Session, ScriptedModel]:
    """A session whose second step waits for a decision; its first is done."""
    model = ScriptedModel([*SCRIPT, *answers])
    system = run([], model=model, tools=[weather, book], on=store)
    session = system.session("s")
    assert session.send("Plan.").result(WAIT).finish_reason == "awaiting-approval"
    ran.clear()
    return session, model


def said(fork: Session, model: ScriptedModel) -> list[Message]:
    """What the model was given last, which is what the fork shows."""
    asked = [each for each in model.requests if each.session_id == fork.id]
    return list(asked[-1].messages)


class TestAlone:
    """Each piece by itself."""

    def test_messages(self, opened: EventStore, run: Run) -> None:
        session, model = paused(run, opened, "fine")
        before = visible(session)
        fork = session.fork(
            step=1, patch=Patch(messages=lambda them: [UserMessage("Plan B."), *them[1:]])
        )
        assert resumed(fork).result(WAIT).text == "fine"
        assert said(fork, model) == [UserMessage("Plan B."), *before[1:3]]
        assert visible(session) == before

    def test_messages_of_a_settled_conversation(self, opened: EventStore, run: Run) -> None:
        session = run(["hi", "and you?"], on=opened).session("s")
        session.send("hello").result(WAIT)
        told = [UserMessage("good day"), AssistantMessage("sir")]
        fork = session.fork(patch=Patch(messages=told))
        assert list(fork.messages) == told and fork.status == "idle"
        assert fork.send("well").result(WAIT).text == "and you?"
        assert texts(fork.messages) == ["good day", "sir", "well", "and you?"]

    def test_state(self, opened: EventStore, run: Run) -> None:
        session, _ = paused(run, opened)
        fork = session.fork(step=1, patch=Patch(state={"n": (1, 2)}))
        assert fork.state == {"n": [1, 2]} and session.state is None
        again = session.fork(step=1, patch=Patch(state=None))
        assert events(again, ForkPatched)[0].changed == ("state",)

    def test_a_recorded_result(self, opened: EventStore, run: Run) -> None:
        session, model = paused(run, opened, "take an umbrella")
        patch = Patch(tool_result=ToolResultPatch("c1", {"rain": True}), by="ada")
        fork = session.fork(step=1, patch=patch)
        assert resumed(fork).result(WAIT).text == "take an umbrella"
        assert said(fork, model)[-1] == ToolMessage("c1", "weather", '{"rain":true}')
        assert ran == []
        (patched,) = events(fork, ForkPatched)
        assert (patched.by, patched.changed, patched.call_id) == ("ada", ("tool_result",), "c1")

    def test_a_missing_result_which_is_then_not_run(self, opened: EventStore, run: Run) -> None:
        session, model = paused(run, opened, "done")
        patch = Patch(tool_result=ToolResultPatch("c3", "booked elsewhere"))
        fork = session.fork(version=session.version, patch=patch)
        assert resumed(fork).result(WAIT).text == "done"
        assert texts(said(fork, model))[-2:] == ["sunny", "booked elsewhere"]
        assert ran == [] and session.status == "awaiting-approval"

    def test_an_input_which_comes_after_the_calls(self, opened: EventStore, run: Run) -> None:
        session, model = paused(run, opened, "done")
        patch = Patch(append_input="Only free ones.", tool_result=ToolResultPatch("c3", "no"))
        fork = session.fork(version=session.version, patch=patch)
        assert resumed(fork).result(WAIT).text == "done"
        assert texts(said(fork, model))[-3:] == ["sunny", "no", "Only free ones."]

    def test_an_input_of_a_settled_conversation_begins_the_next_turn(
        self, opened: EventStore, run: Run
    ) -> None:
        session = run(["hi", "again"], on=opened).session("s")
        session.send("hello").result(WAIT)
        content = (TextPart("look"), ImagePart(data=b"\xff"))
        fork = session.fork(patch=Patch(append_input=UserMessage(content)))
        assert resumed(fork).result(WAIT).text == "again"
        assert fork.messages[2] == UserMessage(content)


def test_an_input_at_the_limit_of_steps_begins_a_turn_that_reads_it(
    opened: EventStore, run: Run
) -> None:
    model = ScriptedModel([[call("weather", "c1", city="Rome")], "read u2", "read u3"])
    system = run([], model=model, tools=[weather], on=opened, max_steps=1)
    session = system.session("s")
    assert session.send("go").result(WAIT).finish_reason == "max-steps"
    fork = session.fork(version=session.version - 1, patch=Patch(append_input="u2"))
    going_on = resumed(fork)
    assert fork.send("u3", policy="wait").result(WAIT).text == "read u3"
    assert going_on.result(WAIT).finish_reason == "max-steps"
    assert texts(fork.messages)[3:] == ["u2", "read u2", "u3", "read u3"]
    assert texts(model.requests[1].messages)[-1] == "u2"


def test_all_four_are_applied_in_order(opened: EventStore, run: Run) -> None:
    session, model = paused(run, opened, "done")
    seen: list[Message] = []

    def rewrite(messages: list[Message]) -> Sequence[Message]:
        seen.extend(messages)
        return [UserMessage("Plan B."), *messages[1:-1],
                AssistantMessage("", (ToolCall("x1", "weather", {"city": "Bonn"}),
                                      ToolCall("x2", "weather", {"city": "Kiel"})))]  # fmt: skip

    patch = Patch(
        messages=rewrite,
        state=[1],
        tool_result=ToolResultPatch("x2", "foggy"),
        append_input="And?",
        by="ada",
    )
    fork = session.fork(version=session.version, patch=patch)
    assert seen == list(session.at(version=session.version).folded.transcript)
    kinds = [each.topic for each in fork.events(after=session.version)]
    assert kinds == ["session_started", "fork_patched", "input_queued"]
    (patched,) = events(fork, ForkPatched)
    assert (patched.changed, patched.by) == (("messages", "state", "tool_result"), "ada")
    pending = fork.pending()
    assert pending is not None and [each.id for each in pending.calls] == ["x1"]
    assert resumed(fork).result(WAIT).text == "done"
    assert texts(said(fork, model))[3:] == ["", "sunny", "foggy", "And?"]
    assert ran == ["Bonn"]
    assert fork.state == [1]
    assert_sound(opened, "s", fork.id)


def test_opaque_parts_travel_with_their_message(opened: EventStore, run: Run) -> None:
    session, _ = paused(run, opened)
    for patch in (Patch(messages=lambda them: them), Patch(messages=lambda them: them[:3])):
        fork = session.fork(step=2, patch=patch)
        (answer,) = [m for m in visible(fork) if isinstance(m, AssistantMessage) and m.text]
        assert answer.parts == SIGNED
    same = session.fork(step=2, patch=Patch(messages=lambda them: them))
    plain = session.fork(step=2)
    assert visible(same) == visible(plain)


INVALID: dict[str, tuple[type[Exception], Patch]] = {
    "a result without call": (
        InvalidTranscript,
        Patch(messages=[UserMessage("x"), ToolMessage("c", "f", "r")]),
    ),
    "a call without result": (
        InvalidTranscript,
        Patch(messages=[AssistantMessage("", (ToolCall("c", "f"),)), UserMessage("x")]),
    ),
    "no messages": (InvalidTranscript, Patch(messages=["hello"])),  # type: ignore[list-item]
    "a text": (InvalidTranscript, Patch(messages="hello")),  # type: ignore[arg-type]
    "content of no kind": (InvalidTranscript, Patch(messages=[UserMessage(5)])),  # type: ignore[arg-type]
    "text of no kind": (InvalidTranscript, Patch(messages=[AssistantMessage(5)])),  # type: ignore[arg-type]
    "calls of no kind": (InvalidTranscript, Patch(messages=[AssistantMessage("", ("c",))])),  # type: ignore[arg-type]
    "an outcome of no kind": (
        InvalidTranscript,
        Patch(messages=[ToolMessage("c", "f", "r", "fine")]),  # type: ignore[arg-type]
    ),
    "parts that can't be stored": (
        InvalidTranscript,
        Patch(messages=[AssistantMessage("", (), (object(),))]),
    ),
    "calls without ids": (
        InvalidTranscript,
        Patch(messages=[UserMessage("x"), AssistantMessage("", (ToolCall("", "weather"),))]),
    ),
    "calls that share one": (
        InvalidTranscript,
        Patch(messages=[AssistantMessage("", (ToolCall("c", "weather"),) * 2)]),
    ),
    "a state that can't be stored": (Unstorable, Patch(state=object())),
    "a result that can't be stored": (
        Unstorable,
        Patch(tool_result=ToolResultPatch("c1", object())),
    ),
    "a result of no call": (InvalidTranscript, Patch(tool_result=ToolResultPatch("nope", 1))),
    "a result of a call that the messages lack": (
        InvalidTranscript,
        Patch(messages=(), tool_result=ToolResultPatch("c3", 1)),
    ),
    "an input of no kind": (InvalidTranscript, Patch(append_input=5)),
    "a result of no kind": (TypeError, Patch(tool_result="c1")),  # type: ignore[arg-type]
    "nobody": (TypeError, Patch(state=1, by=None)),  # type: ignore[arg-type]
    "no patch": (TypeError, {"state": 1}),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", INVALID)
def test_a_patch_that_can_not_be_applied_makes_no_session(
    opened: EventStore, run: Run, name: str
) -> None:
    session, _ = paused(run, opened)
    error, patch = INVALID[name]
    before = stored(opened, "s")
    for target in (None, "mine"):
        with pytest.raises(error):
            session.fork(version=session.version, patch=patch, session_id=target)
    assert [each.session_id for each in opened.sessions()] == ["s"]
    assert stored(opened, "s") == before
    assert session.fork().id == "s.fork-1"


def test_an_error_in_a_rewrite_is_the_callers(opened: EventStore, run: Run) -> None:
    session, _ = paused(run, opened)

    def broken(messages: list[Message]) -> Sequence[Message]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        session.fork(patch=Patch(messages=broken))
    assert [each.session_id for each in opened.sessions()] == ["s"]


def test_what_can_not_be_read_is_not_patched(opened: EventStore, run: Run) -> None:
    session = run(["hi"], on=opened).session("s")
    session.send("hello").result(WAIT)
    row = RowChange("idle", "agent", NOON)
    opened.append(Append("s", session.version, (EncodedEvent("from_later", b"{}"),), row))
    for patch in (Patch(state=1), Patch(append_input="x"), Patch(messages=())):
        with pytest.raises(SessionReadOnly):
            session.fork(version=session.version, patch=patch)
        assert session.fork(version=session.version - 1, patch=patch).id != "s"
    assert session.fork(version=session.version, patch=Patch()).status == "idle"


def test_a_patch_that_changes_nothing_is_no_event(opened: EventStore, run: Run) -> None:
    session, _ = paused(run, opened)
    fork = session.fork(step=1, patch=Patch(by="ada"))
    assert events(fork, ForkPatched) == []
    assert len(events(fork, InputQueued)) == 1
    assert len(events(fork, ToolCallStarted)) == 1
