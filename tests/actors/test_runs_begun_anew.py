"""What may be asked for other than the run of an id: another one, none there is, or only one
there is."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from places import on_durable_stores
from sending import at_once, events
from telling import EMPTY, WAIT, Run, failed, refused, told

from turnstream.actors import tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    ApprovalWithdrawn,
    InputConflict,
    InputWithdrawn,
    ModelFailed,
    RunExists,
    RunNotFound,
    TurnAborted,
    TurnStarted,
)


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


class TestRestart:
    def test_an_unknown_run_begins(self, run: Run) -> None:
        session = run(["one"]).session("s")
        assert session.send("a", run_id="r", if_run_exists="restart").result(WAIT).text == "one"

    @pytest.mark.parametrize("given", ["b", ()])
    def test_an_unfinished_run_is_dropped_and_another_begins(
        self, run: Run, led: Any, given: Any
    ) -> None:
        """With the same words, where it is given none; what was recorded of it is not used."""
        session = run([], model=led, on_failure="keep").session("s")
        first = session.send("a", run_id="r")
        led.asked().answer([call("add", a=1, b=2)])
        led.asked().fail(ConnectionError("down"))
        with pytest.raises(ModelFailed):
            first.result(WAIT)
        again = session.send(given, run_id="r", if_run_exists="restart")
        asked = led.asked()
        words = given or "a"
        assert said(asked.request.messages) == [words]
        asked.answer("new")

        assert said(again.result(WAIT).messages) == [words, "new"]
        assert told(session.send(words, run_id="r").result(WAIT)) == told(again.result())
        assert [each.kept for each in events(session, TurnAborted)] == [False]
        assert [each.run_id for each in events(session, TurnStarted)] == ["r", "r"]
        if given:
            refused(InputConflict, lambda: session.send("a", run_id="r"))

    @on_durable_stores
    def test_a_run_of_another_process_that_is_gone_is_dropped(
        self, run: Run, led: Any, held: Any, store: str
    ) -> None:
        system = run([], model=led, tools=held.tools, on=store)
        system.session("s").send("a", run_id="r")
        led.asked().answer([call("held", text="x")])
        held.begun("x")
        system.close(timeout=0.05)
        held.let("x")
        session = run([], model=led, tools=held.tools, on=store).session("s")
        again = session.send("b", run_id="r", if_run_exists="restart")
        led.asked().answer("new")

        assert said(again.result(WAIT).messages) == ["b", "new"]

    def test_a_paused_run_is_dropped_with_its_question(self, run: Run) -> None:
        session = run([[call("remove", path="x")], "new"], tools=[remove]).session("s")
        session.send("a", run_id="r").result(WAIT)
        again = session.send("a", run_id="r", if_run_exists="restart").result(WAIT)

        assert said(again.messages) == ["a", "new"]
        assert len(events(session, ApprovalWithdrawn)) == 1 and session.pending() is None

    def test_a_run_that_waits_is_taken_back_and_whoever_waits_is_told(
        self, run: Run, led: Any
    ) -> None:
        session = run([], model=led).session("s")
        session.send("a")
        asked = led.asked()
        first = session.send("b", run_id="r")
        again = session.send("c", run_id="r", if_run_exists="restart")
        assert (first.result(WAIT).finish_reason, first.result().run_id) == ("aborted", "r")
        asked.answer("one")
        led.asked().answer("two")

        assert said(again.result(WAIT).messages) == ["a", "one", "c", "two"]
        assert len(events(session, InputWithdrawn)) == 1

    def test_a_run_that_runs_is_left_alone_and_the_restart_refused(
        self, run: Run, led: Any
    ) -> None:
        session = run([], model=led).session("s")
        first = session.send("a", run_id="r")
        asked = led.asked()
        version = session.version
        error = refused(RunExists, lambda: session.send("a", run_id="r", if_run_exists="restart"))
        assert error.code == "run-exists" and "running" in str(error)
        assert session.version == version and not asked.cancelled.is_set()
        asked.answer("one")

        assert first.result(WAIT).text == "one"

    @pytest.mark.slow
    @on_durable_stores
    def test_a_run_that_another_process_runs_is_left_alone(
        self, run: Run, led: Any, store: str
    ) -> None:
        first = run([], model=led, on=store).session("s").send("a", run_id="r")
        asked = led.asked()
        session = run([], on=store).session("s")
        refused(RunExists, lambda: session.send("b", run_id="r", if_run_exists="restart"))
        attached = session.send((), run_id="r", if_run_exists="resume_only")
        attached.accepted().result(WAIT)
        asked.answer("one")

        assert told(attached.result(WAIT)) == told(first.result(WAIT))

    def test_after_an_ended_run_its_id_means_the_new_one(self, run: Run) -> None:
        session = run(["one", "two"]).session("s")
        session.send("a", run_id="r").result(WAIT)
        second = session.send("b", run_id="r", if_run_exists="restart").result(WAIT)

        assert said(second.messages) == ["a", "one", "b", "two"]
        assert said(second.new_messages) == ["b", "two"]
        assert told(session.send("b", run_id="r").result(WAIT)) == told(second)
        refused(InputConflict, lambda: session.send("a", run_id="r"))

    def test_what_waits_behind_the_dropped_run_goes_first(self, run: Run, led: Any) -> None:
        session = run([], model=led).session("s")
        first = session.send("a", run_id="r")
        led.asked()
        waiting = session.send("b")
        waiting.accepted().result(WAIT)
        assert first.abort(keep=True).result(WAIT)
        again = session.send("a", run_id="r", if_run_exists="restart")
        led.asked().answer("one")
        led.asked().answer("two")

        assert said(again.result(WAIT).messages) == ["b", "one", "a", "two"]

    @pytest.mark.parametrize("when", ["failed", "ended"])
    def test_of_many_restarts_at_once_one_begins_what_others_can_wait_for(
        self, run: Run, led: Any, when: str
    ) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        if when == "ended":
            ended = session.send("a", run_id="r")
            led.asked().answer("one")
            ended.result(WAIT)
        else:
            failed(session, led, "a", run_id="r")
        session.send((), run_id="r", if_run_exists="restart").accepted().result(WAIT)
        asked = led.asked()
        restart = partial(session.send, "a", run_id="r", if_run_exists="restart")
        for turn in at_once(*[restart] * 8):
            with pytest.raises(RunExists):
                turn.accepted().result(WAIT)
        waits = session.send("a", run_id="r")
        asked.answer("new")

        assert waits.result(WAIT).text == "new" and len(events(session, TurnStarted)) == 2


class TestFail:
    def test_an_unknown_run_begins(self, run: Run) -> None:
        session = run(["one"]).session("s")
        assert session.send("a", run_id="r", if_run_exists="fail").result(WAIT).text == "one"

    @pytest.mark.parametrize("when", ["running", "waiting", "failed", "kept", "paused", "ended"])
    def test_a_known_run_is_refused_whatever_became_of_it(
        self, run: Run, led: Any, when: str
    ) -> None:
        session = run([], model=led, tools=[remove], on_failure="keep").session("s")
        if when == "waiting":
            session.send("z")
        turn = session.send("a", run_id="r")
        turn.accepted().result(WAIT)
        asked = led.asked()
        match when:
            case "failed":
                asked.fail(ConnectionError("down"))
                with pytest.raises(ModelFailed):
                    turn.result(WAIT)
            case "kept":
                assert turn.abort(keep=True).result(WAIT)
            case "paused":
                asked.answer([call("remove", path="x")])
                turn.result(WAIT)
            case "ended":
                asked.answer("one")
                turn.result(WAIT)
        version = session.version
        for given in ("a", "b", ()):
            ask = partial(session.send, cast("Any", given), run_id="r", if_run_exists="fail")
            error = refused(RunExists, ask)
            assert (error.run_id, error.session_id) == ("r", "s")

        assert session.version == version

    def test_of_many_at_once_one_begins_it(self, run: Run, switching_often: None) -> None:
        model = ScriptedModel([f"to {n}" for n in range(10)])
        system = run([], model=model)
        for place in range(10):
            send = system.session(f"s{place}").send
            turns = at_once(*[partial(send, "go", run_id="r", if_run_exists="fail")] * 20)
            outcomes = []
            for each in turns:
                try:
                    outcomes.append(each.result(WAIT).text)
                except RunExists as error:
                    outcomes.append(error.code)

            assert sorted(outcomes) == ["run-exists"] * 19 + [f"to {place}"]
            assert len(model.requests) == place + 1


class TestResumeOnly:
    @pytest.mark.parametrize("given", ["a", *EMPTY])
    def test_an_unknown_run_is_refused_and_makes_no_session(self, run: Run, given: Any) -> None:
        system = run([])
        ask = partial(system.session("s").send, given, run_id="r", if_run_exists="resume_only")
        error = refused(RunNotFound, ask)

        assert (error.code, error.run_id, error.session_id) == ("run-not-found", "r", "s")
        assert not system.sessions()

    @pytest.mark.parametrize("how", ["resume", "restart", "fail"])
    @pytest.mark.parametrize("given", EMPTY)
    def test_a_run_needs_words_to_begin_with(self, run: Run, given: Any, how: Any) -> None:
        system = run([])
        refused(
            RunNotFound, partial(system.session("s").send, given, run_id="r", if_run_exists=how)
        )
        assert not system.sessions()

    @on_durable_stores
    def test_a_run_that_another_process_began_since_is_found(self, run: Run, store: str) -> None:
        here, there = run(["one"], on=store).session("s"), run(["two"], on=store).session("s")
        here.send("a").result(WAIT)
        begun = there.send("b", run_id="r").result(WAIT)

        assert told(here.send((), run_id="r", if_run_exists="resume_only").result(WAIT)) == told(
            begun
        )
