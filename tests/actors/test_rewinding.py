"""Going back: the conversation goes on from an earlier point, and nothing that was cut returns
unless somebody goes back to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sending import at_once, events, send
from travelling import WAIT, assert_sound, resumed, stored, texts, visible

from turnstream.actors import ActorSystem, Patch, Session, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ApprovalDecided,
    ApprovalNotFound,
    AssistantMessage,
    CheckpointNotFound,
    Message,
    ModelFailed,
    ModelTurn,
    SessionCleared,
    SessionRewound,
    ToolMessage,
    TurnAborted,
)
from turnstream.projections import check_transcript, fold
from turnstream.stores import EventStore

Run = Callable[..., ActorSystem]


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def unfinished(run: Run, store: EventStore) -> Session:
    """Three turns, and a fourth that stopped in a batch with one of two results."""
    script = [
        *("one", [call("add", "c1", a=1, b=2)], "three", "four"),
        [call("add", "c2", a=1, b=2), call("remove", "c3", path="x")],
    ]
    session = run(script, on=store, tools=[remove, add]).session("s")
    for text in "abcd":
        session.send(text, key=text).result(WAIT)
    return session


class TestEveryCut:
    """Over all that the user sees, of a conversation with an unfinished turn."""

    @pytest.mark.parametrize("keep", range(14))
    def test_by_entries(self, opened: EventStore, run: Run, keep: int) -> None:
        session = unfinished(run, opened)
        all_of_it, version = visible(session), session.version
        assert len(all_of_it) == 11
        cut = session.rewind(keep_entries=keep, by="ada").result(WAIT)
        assert cut is (keep < 11)
        if keep >= 11:
            assert session.version == version and session.status == "awaiting-approval"
            return
        messages = list(session.messages)
        check_transcript(messages)
        assert messages == all_of_it[: whole(all_of_it, keep)]
        assert (session.resume(), session.pending(), session.status) == (None, None, "idle")
        assert events(session, SessionRewound)[-1].by == "ada"
        assert not opened.sessions(status="awaiting-approval")
        assert_sound(opened, "s")


def whole(messages: list[Message], keep: int) -> int:
    """The most of the first ``keep`` messages that is a conversation."""
    for count in range(keep, -1, -1):
        try:
            check_transcript(messages[:count])
        except Exception:
            continue
        return count
    raise AssertionError(messages)


def test_after_a_cut_the_model_hears_what_is_left_and_then_what_is_new(
    opened: EventStore, run: Run
) -> None:
    session = unfinished(run, opened)
    session.rewind(keep_entries=3).result(WAIT)
    later = run(["anew"], on=opened, tools=[remove, add])
    assert later.session("s").send("e").result(WAIT).text == "anew"
    assert texts(session.messages) == ["a", "one", "b", "e", "anew"]


def test_to_a_step_and_to_a_version_is_to_what_history_shows(opened: EventStore, run: Run) -> None:
    session = unfinished(run, opened)
    for entry in session.history()[1:]:
        shown = list(entry.checkpoint.messages)
        pending = entry.checkpoint.pending
        shown += pending.messages if pending else ()
        session.rewind(to_step=entry.step).result(WAIT)
        assert list(session.messages) == shown[: whole(shown, len(shown))]


def test_back_and_forth(opened: EventStore, run: Run) -> None:
    session = unfinished(run, opened)
    versions = range(1, session.version + 1)
    then = {n: visible_at(session, n) for n in versions}
    order = [5, *reversed(versions), *versions[::3], versions[-1], 1, versions[-1]]
    for version in order:
        session.rewind(to_version=version).result(WAIT)
        assert list(session.messages) == then[version][: whole(then[version], 99)]
    recorded = [each.event for each in session.events()]
    assert session.at(version=len(recorded)).folded == fold(recorded)
    assert_sound(opened, "s")


def visible_at(session: Session, version: int) -> list[Message]:
    view = session.at(version=version)
    pending = view.pending
    return [*view.messages, *(pending.messages if pending else ())]


def test_going_back_to_where_it_is_changes_nothing(opened: EventStore, run: Run) -> None:
    session = run(["one", "two"], on=opened).session("s")
    for text in "ab":
        session.send(text).result(WAIT)
    session.rewind(keep_entries=2).result(WAIT)
    before = stored(opened, "s")
    gone_back = session.version - 1
    for same in (session.version, session.at(step=1).version):
        assert session.rewind(to_version=same).result(WAIT) is False
    assert session.rewind(keep_entries=2).result(WAIT) is False
    assert stored(opened, "s") == before
    assert session.rewind(to_version=gone_back).result(WAIT) is True
    assert texts(session.messages) == ["a", "one", "b", "two"]


@pytest.mark.parametrize(
    "request_",
    [
        {"keep_entries": -1},
        {"keep_entries": "3"},
        {"keep_entries": 1.0},
        {"to_step": 99},
        {"to_step": -1},
        {"to_version": 0},
        {"to_version": 10**9},
        {"to_version": "1"},
        {"keep_entries": 1, "by": 5},
        {},
    ],
    ids=str,
)
def test_an_invalid_request_changes_nothing(
    opened: EventStore, run: Run, request_: dict[str, Any]
) -> None:
    session = unfinished(run, opened)
    before = stored(opened, "s")
    with pytest.raises((ValueError, TypeError, CheckpointNotFound)):
        session.rewind(**request_).result(WAIT)
    assert session.rewind(keep_entries=10**9).result(WAIT) is False
    assert stored(opened, "s") == before
    (asked,) = session.at(version=session.version).folded.approvals("s")
    session.reject(asked.id).accepted().result(WAIT)


def test_a_session_that_does_not_exist_is_not_made(opened: EventStore, run: Run) -> None:
    session = run([], on=opened).session("nobody")
    assert session.rewind(keep_entries=0).result(WAIT) is False
    assert session.clear().result(WAIT) is False
    assert session.trim_tool_results().result(WAIT) == 0
    assert list(opened.sessions()) == []


EDITS: dict[str, Callable[[Session], Any]] = {
    "rewind": lambda session: session.rewind(keep_entries=2),
    "clear": lambda session: session.clear(),
}


@pytest.mark.parametrize("edit", EDITS)
class TestWhileATurnRuns:
    """It is stopped and dropped first, and who waits for it is told."""

    def left(self, session: Session, edit: str) -> None:
        expected = ["a", "one"] if edit == "rewind" else []
        assert texts(session.messages) == expected
        kinds = events(session, TurnAborted, SessionRewound, SessionCleared)
        edited = SessionRewound if edit == "rewind" else SessionCleared
        assert [type(each) for each in kinds] == [TurnAborted, edited]

    def begun(self, run: Run, led: Any, store: EventStore, **options: Any) -> Session:
        session = run([], model=led, on=store, **options).session("s")
        turn = session.send("a")
        led.asked().answer("one")
        turn.result(WAIT)
        return session

    def test_a_model_that_has_shown_something(
        self, opened: EventStore, run: Run, led: Any, edit: str
    ) -> None:
        session = self.begun(run, led, opened)
        turn = session.send("b", key="k")
        asked = led.asked()
        assert asked.show("I think")
        assert EDITS[edit](session).result(WAIT) is True
        assert asked.cancelled.wait(WAIT)
        assert turn.result(WAIT).finish_reason == "aborted"
        assert list(turn.stream())[-1].type == "turn.done"
        self.left(session, edit)
        again = session.send("b", key="k")
        led.asked().answer("new")
        assert again.result(WAIT).text == "new"

    def test_tools_that_run(
        self, opened: EventStore, run: Run, led: Any, held: Any, edit: str
    ) -> None:
        session = self.begun(run, led, opened, tools=held.tools)
        turn = session.send("b")
        led.asked().answer([call("held", "c1", text="x"), call("held_sync", "c2", text="y")])
        held.begun("x")
        held.begun("y")
        assert EDITS[edit](session).result(WAIT) is True
        held.cancelled("x")
        assert turn.result(WAIT).finish_reason == "aborted"
        before = session.version
        held.let("y")
        self.left(session, edit)
        nxt = session.send("c")
        led.asked().answer("done")
        assert nxt.result(WAIT).text == "done"
        assert not [e for e in session.events(after=before) if e.topic == "tool_result_recorded"]

    def test_a_question_that_is_open(
        self, opened: EventStore, run: Run, led: Any, edit: str
    ) -> None:
        session = self.begun(run, led, opened, tools=[remove])
        turn = session.send("b")
        led.asked().answer([call("remove", "c1", path="x")])
        (asked,) = turn.result(WAIT).approvals
        assert EDITS[edit](session).result(WAIT) is True
        self.left(session, edit)
        with pytest.raises((ApprovalNotFound, ApprovalDecided)):
            session.approve(asked.id).result(WAIT)
        assert not opened.sessions(status="awaiting-approval")
        assert session.status == "idle"

    @pytest.mark.parametrize("policy", ["wait", "queue", "steer"])
    def test_inputs_that_wait_run_next(
        self, opened: EventStore, run: Run, led: Any, edit: str, policy: str
    ) -> None:
        session = self.begun(run, led, opened)
        turn = session.send("b")
        asked = led.asked()
        assert asked.show("I think")
        waiting = send(session, "c", policy)
        assert EDITS[edit](session).result(WAIT) is True
        assert turn.result(WAIT).finish_reason == "aborted"
        led.asked().answer("c it is")
        assert waiting.result(WAIT).text == "c it is"
        assert texts(session.messages)[-2:] == ["c", "c it is"]
        assert len(session.messages) == (4 if edit == "rewind" else 2)

    def test_a_kept_turn(self, opened: EventStore, run: Run, led: Any, edit: str) -> None:
        session = self.begun(run, led, opened, on_failure="keep")
        turn = session.send("b")
        led.asked().fail(ConnectionError("no route"))
        with pytest.raises(ModelFailed):
            turn.result(WAIT)
        assert EDITS[edit](session).result(WAIT) is True
        assert session.resume() is None
        self.left(session, edit)


def test_a_cut_within_the_open_turn_frees_its_key(opened: EventStore, run: Run, led: Any) -> None:
    session = run([], model=led, on=opened).session("s")
    turn = session.send("a", key="k")
    led.asked().answer([call("add", "c1", a=1, b=2)])
    led.asked()
    assert session.rewind(keep_entries=1).result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    again = session.send("a", key="k")
    led.asked().answer("new")
    assert again.result(WAIT).text == "new"
    assert texts(session.messages) == ["a", "a", "new"]


def test_a_key_of_a_turn_that_was_cut_is_a_new_input_and_others_are_not(
    opened: EventStore, run: Run
) -> None:
    session = run(["one", "two", "two again"], on=opened).session("s")
    for text in "ab":
        session.send(text, key=text).result(WAIT)
    session.rewind(keep_entries=2).result(WAIT)
    assert session.send("a", key="a").result(WAIT).text == "one"
    assert session.send("b", key="b").result(WAIT).text == "two again"


def test_two_systems_edit_one_session(opened: EventStore, run: Run) -> None:
    here, there = (run(["one", "two", "three"], on=opened) for _ in range(2))
    for text in "abc":
        here.session("s").send(text).result(WAIT)
    edits = [
        lambda: here.session("s").rewind(keep_entries=4).result(WAIT),
        lambda: there.session("s").rewind(keep_entries=2).result(WAIT),
        lambda: there.session("s").trim_tool_results().result(WAIT) == 1,
    ]
    at_once(*edits)
    assert texts(here.session("s").messages) == ["a", "one"]
    assert there.session("s").send("d").result(WAIT).text == "one"
    assert_sound(opened, "s")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_no_reason_to_start_what_waits(opened: EventStore, run: Run, edit: str) -> None:
    session = run(["one", "two"], on=opened).session("s")
    session.send("a").result(WAIT)
    fork = session.fork(patch=Patch(append_input="b"))
    EDITS[edit](fork).result(WAIT)
    fork.trim_tool_results().result(WAIT)
    pending = fork.pending()
    assert pending is not None and (pending.turn_id, pending.queued) == ("", ("b",))
    assert resumed(fork).result(WAIT).text == "two"


def test_opaque_parts_are_cut_with_their_turn_or_not_at_all(opened: EventStore, run: Run) -> None:
    signed, empty = ({"sig": "abc"},), ({},)
    script = [
        ModelTurn("", (call("add", "c1", a=1, b=2),), parts=signed),
        ModelTurn("text", parts=empty),
    ]
    session = run(script, on=opened).session("s")
    session.send("go").result(WAIT)
    whole_version = session.version
    for keep in range(5):
        session.rewind(to_version=whole_version).result(WAIT)
        session.rewind(keep_entries=keep).result(WAIT)
        session.trim_tool_results(keep_chars=0, keep_turns=0).result(WAIT)
        answers = [m for m in session.messages if isinstance(m, AssistantMessage)]
        assert [m.parts for m in answers] == [signed, empty][: len(answers)]
        assert len(answers) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 2}[keep]
        assert sum(isinstance(m, ToolMessage) for m in session.messages) == (keep >= 3)


def test_clear_begins_afresh_and_can_be_gone_back_over(opened: EventStore, run: Run) -> None:
    session = run(["one", "two", "three"], on=opened).session("s")
    session.send("a", key="k").result(WAIT)
    version = session.version
    assert session.clear(by="ada").result(WAIT) is True
    assert session.clear().result(WAIT) is False
    assert (session.messages, session.status) == ([], "idle")
    assert session.send("b", key="k").result(WAIT).text == "two"
    session.rewind(to_version=version).result(WAIT)
    assert texts(session.messages) == ["a", "one"]
