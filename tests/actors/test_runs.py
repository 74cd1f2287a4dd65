"""A run is a turn that its caller has a name for: asked for again, it is the same turn."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from places import on_durable_stores
from sending import at_once, events
from telling import EMPTY, WAIT, Run, failed, refused, told

from turnstream.actors import tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    InputConflict,
    InputQueued,
    ModelFailed,
    ModelTurnRecorded,
    RunNotFound,
    SessionAwaitingApproval,
    SystemClosed,
    TextPart,
    TurnResumed,
    TurnStarted,
    UserMessage,
)


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


class TestResume:
    def test_an_unknown_run_begins_and_its_id_is_recorded(self, run: Run) -> None:
        session = run(["one"]).session("s")
        result = session.send("a", run_id="r").result(WAIT)

        assert (result.text, result.run_id) == ("one", "r")
        assert [each.run_id for each in events(session, InputQueued, TurnStarted)] == ["r", "r"]

    def test_a_turn_without_a_run_id_is_no_run(self, run: Run) -> None:
        session = run(["one"]).session("s")
        assert session.send("a").result(WAIT).run_id == ""
        assert isinstance(
            refused(RunNotFound, lambda: session.send((), run_id="turn-1")), RunNotFound
        )

    @pytest.mark.parametrize("given", ["a", *EMPTY])
    def test_an_ended_run_is_told_in_full_and_nothing_is_appended(
        self, run: Run, led: Any, held: Any, given: Any
    ) -> None:
        session = run([], model=led, tools=held.tools).session("s")
        held.let("x")
        first = session.send("a", run_id="r")
        led.asked().answer([call("held", text="x")])
        led.asked().answer("one")
        first.result(WAIT)
        later = session.send("b")
        led.asked().answer("two")
        later.result(WAIT)
        version = session.version
        again = session.send(given, run_id="r")

        assert told(again.result(WAIT)) == told(first.result(WAIT))
        assert again.accepted().result(WAIT) == first.input_id
        assert [item.type for item in again.stream()] == ["turn.done"]
        assert session.version == version and len(led.requests) == 3

    @on_durable_stores
    @pytest.mark.parametrize("limits", [{"max_steps": 1}, {}])
    def test_the_way_it_ended_is_told_again_after_a_restart(
        self, run: Run, store: str, limits: dict[str, int]
    ) -> None:
        script = [[call("add", a=1, b=2)], "three"]
        system = run(script, on=store, **limits)
        first = system.session("s").send("a", run_id="r").result(WAIT)
        system.close()
        again = run([], on=store).session("s").send((), run_id="r").result(WAIT)

        assert told(again) == told(first)
        assert again.finish_reason == ("max-steps" if limits else "stop")

    def test_a_run_that_runs_is_waited_for(self, run: Run, led: Any) -> None:
        session = run([], model=led).session("s")
        first = session.send("a", run_id="r")
        asked = led.asked()
        version = session.version
        others = [session.send(given, run_id="r") for given in ("a", ())]
        assert {each.accepted().result(WAIT) for each in others} == {first.input_id}
        assert session.version == version
        asked.answer("one")

        assert {id(each.result(WAIT)) for each in (first, *others)} == {id(first.result(WAIT))}

    def test_a_run_that_waits_is_waited_for(self, run: Run, led: Any) -> None:
        session = run([], model=led).session("s")
        session.send("a")
        asked = led.asked()
        first, again = session.send("b", run_id="r"), session.send((), run_id="r")
        assert first.accepted().result(WAIT) == again.accepted().result(WAIT) == first.input_id
        asked.answer("one")
        led.asked().answer("two")

        assert again.result(WAIT) is first.result(WAIT)
        assert said(session.messages) == ["a", "one", "b", "two"]

    def test_a_run_asked_for_by_many_at_once_is_one_turn(
        self, run: Run, switching_often: None
    ) -> None:
        model = ScriptedModel([f"to {n}" for n in range(10)])
        system = run([], model=model)
        for place in range(10):
            session = system.session(f"s{place}")
            turns = at_once(*[partial(session.send, "go", run_id="r")] * 20)

            first = turns[0].result(WAIT)
            assert all(told(each.result(WAIT)) == told(first) for each in turns)
            assert first.text == f"to {place}" and len(model.requests) == place + 1
            assert len(events(session, InputQueued)) == len(events(session, TurnStarted)) == 1

    @on_durable_stores
    @pytest.mark.parametrize("given", ["a", ()])
    def test_an_interrupted_run_goes_on_in_another_process(
        self, run: Run, led: Any, held: Any, store: str, given: Any
    ) -> None:
        system = run([], model=led, tools=held.tools, on=store)
        lost = system.session("s").send("a", run_id="r")
        led.asked().answer([call("held", text="x")])
        held.begun("x")
        system.close(timeout=0.05)
        with pytest.raises(SystemClosed):
            lost.result(WAIT)
        held.let("x")
        session = run([], model=led, tools=held.tools, on=store).session("s")
        again = session.send(given, run_id="r", if_run_exists="resume_only")
        led.asked().answer("one")

        assert said(again.result(WAIT).messages) == ["a", "", "x", "one"]
        assert again.result(WAIT).run_id == "r"
        assert [each.step for each in events(session, ModelTurnRecorded)] == [1, 2]
        assert len(events(session, InputQueued)) == len(events(session, TurnResumed)) == 1

    def test_a_run_that_failed_goes_on(self, run: Run, led: Any) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        failed(session, led, "a", run_id="r")
        again = session.send("a", run_id="r")
        led.asked().answer("one")

        assert said(again.result(WAIT).messages) == ["a", "one"]

    def test_a_run_that_was_stopped_and_kept_goes_on(self, run: Run, led: Any) -> None:
        session = run([], model=led).session("s")
        first = session.send("a", run_id="r")
        led.asked()
        assert first.abort(keep=True).result(WAIT)
        again = session.send((), run_id="r")
        led.asked().answer("one")

        assert said(again.result(WAIT).messages) == ["a", "one"]

    def test_a_paused_run_is_refused_and_tells_its_end_once_that_is_decided(self, run: Run) -> None:
        session = run([[call("remove", path="x")], "gone"], tools=[remove]).session("s")
        paused = session.send("a", run_id="r").result(WAIT)
        assert (paused.finish_reason, paused.run_id) == ("awaiting-approval", "r")
        for given in ("a", ()):
            refused(SessionAwaitingApproval, lambda given=given: session.send(given, run_id="r"))
        ended = session.approve(paused.approvals[0].id).result(WAIT)

        assert ended.run_id == "r"
        assert told(session.send("a", run_id="r").result(WAIT)) == told(ended)

    def test_an_ended_run_is_told_while_another_turn_is_paused_or_failed(
        self, run: Run, led: Any
    ) -> None:
        session = run([], model=led, tools=[remove], on_failure="keep").session("s")
        first = session.send("a", run_id="r")
        led.asked().answer("one")
        first.result(WAIT)
        failed(session, led, "b")
        version = session.version
        assert told(session.send("a", run_id="r").result(WAIT)) == told(first.result())
        assert session.version == version, "the failed turn was gone on with"
        resumed = session.resume()
        assert resumed is not None
        led.asked().answer([call("remove", path="x")])
        assert resumed.result(WAIT).finish_reason == "awaiting-approval"

        assert told(session.send("a", run_id="r").result(WAIT)) == told(first.result())
        refused(SessionAwaitingApproval, lambda: session.send("c", run_id="another"))

    @pytest.mark.parametrize("when", ["running", "waiting", "failed", "ended"])
    @pytest.mark.parametrize("how", ["resume", "resume_only"])
    def test_other_words_for_a_run_are_refused_and_change_nothing(
        self, run: Run, led: Any, when: str, how: Any
    ) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        if when == "waiting":
            session.send("z")
        turn = session.send("a", run_id="r")
        turn.accepted().result(WAIT)
        asked = led.asked()
        if when == "ended":
            asked.answer("one")
            turn.result(WAIT)
        if when == "failed":
            asked.fail(ConnectionError("down"))
            with pytest.raises(ModelFailed):
                turn.result(WAIT)
        version = session.version
        error = refused(InputConflict, lambda: session.send("b", run_id="r", if_run_exists=how))

        assert (error.code, error.run_id, error.session_id) == ("input-conflict", "r", "s")
        assert "'r'" in str(error) and "restart" in str(error)
        assert session.version == version

    def test_a_runs_parts_are_compared_as_its_words_are(self, run: Run) -> None:
        session = run(["one"]).session("s")
        parts = (TextPart("a"), TextPart("b"))
        first = session.send(UserMessage(parts), run_id="r").result(WAIT)

        assert told(session.send([*parts], run_id="r").result(WAIT)) == told(first)  # type: ignore[arg-type]
        refused(InputConflict, lambda: session.send((TextPart("a"),), run_id="r"))

    def test_a_run_belongs_to_its_session(self, run: Run) -> None:
        system = run(["one", "two"])
        results = [
            system.session(name).send(text, run_id="r").result(WAIT)
            for name, text in (("s", "a"), ("t", "b"))
        ]
        assert [each.text for each in results] == ["one", "two"]

    def test_runs_with_equal_words_are_turns_of_their_own(self, run: Run, led: Any) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        failed(session, led, "a", run_id="r")
        second = session.send("a", run_id="q")
        led.asked().answer("one")
        led.asked().answer("two")

        assert said(second.result(WAIT).messages) == ["a", "one", "a", "two"]
        assert session.send((), run_id="r").result(WAIT).text == "one"

    def test_the_words_of_an_interrupted_run_sent_without_its_id_are_a_retry(
        self, run: Run, led: Any
    ) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        failed(session, led, "a", run_id="r")
        again = session.send("a")
        led.asked().answer("one")

        assert again.result(WAIT).run_id == "r" and len(events(session, InputQueued)) == 1
