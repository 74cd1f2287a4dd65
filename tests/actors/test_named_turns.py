"""What goes with a run id and what does not, and what it names when its turn is gone, or copied."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from places import on_durable_stores
from sending import events
from telling import WAIT, Run, failed, refused, told

from turnstream.actors import ActorSystem, Agent, Hooks, Patch, tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    AssistantMessage,
    InputConflict,
    InputQueued,
    RunNotFound,
    TurnWithdrawn,
    WouldDeadlock,
)


class TestArguments:
    @pytest.mark.parametrize(
        "options",
        [
            {"run_id": ""},
            {"run_id": "r" * 513},
            {"run_id": 7},
            {"run_id": "r", "key": "k"},
            {"run_id": "r", "policy": "queue"},
            {"run_id": "r", "policy": "steer"},
            {"run_id": "r", "if_run_exists": "attach"},
            {"if_run_exists": "fail"},
            {"if_run_exists": "restart", "key": "k"},
        ],
        ids=str,
    )
    def test_what_makes_no_sense_together_is_refused_at_once(
        self, run: Run, options: dict[str, Any]
    ) -> None:
        system = run([])
        with pytest.raises(ValueError, match="run"):
            system.session("s").send("a", **options)
        assert not system.sessions()

    def test_an_id_is_anything_that_can_be_said(self, run: Run) -> None:
        session = run(["one", "two"]).session("s")
        odd = "../ü'; --\n\0 " + "x" * 500
        assert session.send("a", run_id=odd).result(WAIT).run_id == odd
        assert session.send("a", run_id=odd).result(WAIT).text == "one"

    @pytest.mark.parametrize("policy", ["queue", "steer"])
    def test_a_run_joins_no_turn_whatever_its_handles_policy_is(
        self, run: Run, led: Any, policy: Any
    ) -> None:
        session = run([], model=led).session("s", turn_policy=policy)
        session.send("a", run_id="q")
        asked = led.asked()
        second = session.send("b", run_id="r")
        second.accepted().result(WAIT)
        assert not asked.cancelled.is_set()
        asked.answer("one")
        led.asked().answer("two")

        assert said(second.result(WAIT).new_messages) == ["b", "two"]
        assert [each.policy for each in events(session, InputQueued)] == ["wait", "wait"]

    def test_what_joins_a_run_is_part_of_it(self, run: Run, led: Any, held: Any) -> None:
        session = run([], model=led, tools=held.tools).session("s")
        first = session.send("a", run_id="r")
        led.asked().answer([call("held", text="x")])
        held.begun("x")
        joined = session.send("b", policy="queue")
        joined.accepted().result(WAIT)
        held.let("x")
        led.asked().answer("one")

        assert joined.result(WAIT) is first.result(WAIT) and joined.result().run_id == "r"
        assert told(session.send("a", run_id="r").result(WAIT)) == told(first.result())
        refused(InputConflict, lambda: session.send("b", run_id="r"))

    def test_a_tool_can_not_wait_for_a_run_of_its_own_session(self, run: Run) -> None:
        errors = []

        @tool
        def ask() -> str:
            try:
                session.send("b", run_id="r")
            except WouldDeadlock as error:
                errors.append(error.code)
            return "asked"

        session = run([[call("ask")], "one"], tools=[ask]).session("s", turn_policy="queue")
        session.send("a").result(WAIT)
        assert errors == ["would-deadlock"]


class TestWhatIsNoMore:
    def test_a_run_that_was_stopped_and_dropped_tells_that(self, run: Run, led: Any) -> None:
        session = run([], model=led).session("s")
        first = session.send("a", run_id="r")
        led.asked()
        assert first.abort().result(WAIT)
        again = session.send("a", run_id="r")
        assert again.result(WAIT).finish_reason == "aborted"
        assert told(again.result()) == told(first.result(WAIT))
        new = session.send("a", run_id="r", if_run_exists="restart")
        led.asked().answer("new")

        assert new.result(WAIT).text == "new"

    def test_the_id_of_a_run_that_failed_and_was_dropped_is_free(self, run: Run, led: Any) -> None:
        session = run([], model=led, on_failure="drop").session("s")
        failed(session, led, "a", run_id="r")
        refused(RunNotFound, lambda: session.send((), run_id="r"))
        again = session.send("b", run_id="r", if_run_exists="fail")
        led.asked().answer("one")

        assert said(again.result(WAIT).messages) == ["b", "one"]

    def test_the_id_of_a_run_that_was_taken_back_is_free(self, run: Run, led: Any) -> None:
        """Also where it took the place of one that had ended."""
        session = run([], model=led).session("s")
        ended = session.send("a", run_id="r")
        led.asked().answer("one")
        ended.result(WAIT)
        session.send("z")
        led.asked()
        second = session.send("b", run_id="r", if_run_exists="restart")
        assert second.withdraw().result(WAIT)
        with pytest.raises(TurnWithdrawn):
            second.result(WAIT)

        refused(RunNotFound, lambda: session.send((), run_id="r"))

    @pytest.mark.parametrize("how", ["rewind", "clear"])
    def test_the_id_of_a_run_that_was_cut_is_free_and_stays_so(self, run: Run, how: str) -> None:
        session = run(["one", "two", "three"]).session("s")
        session.send("a", run_id="q").result(WAIT)
        session.send("b", run_id="r").result(WAIT)
        before = session.version
        cut = session.rewind(keep_entries=2) if how == "rewind" else session.clear()
        assert cut.result(WAIT)
        refused(RunNotFound, lambda: session.send((), run_id="r"))
        if how == "rewind":
            assert session.send((), run_id="q").result(WAIT).text == "one"
        assert session.rewind(to_version=before).result(WAIT)
        assert said(session.messages) == ["a", "one", "b", "two"]

        refused(RunNotFound, lambda: session.send((), run_id="r"))
        assert session.send("c", run_id="r").result(WAIT).text == "three"


class TestForks:
    def test_an_ended_run_is_told_in_the_fork_too_and_may_be_another_there(self, run: Run) -> None:
        session = run(["one", "two"]).session("s")
        first = session.send("a", run_id="r").result(WAIT)
        version, fork = session.version, session.fork()
        assert told(fork.send("a", run_id="r").result(WAIT)) == told(first)
        other = fork.send("b", run_id="r", if_run_exists="restart").result(WAIT)
        assert (other.text, session.version) == ("two", version)

        assert told(session.send("a", run_id="r").result(WAIT)) == told(first)

    def test_the_id_of_a_run_that_a_patch_said_otherwise_is_free_in_the_fork(
        self, run: Run
    ) -> None:
        session = run(["one", "two", "three"]).session("s")
        kept = session.send("a", run_id="q").result(WAIT)
        session.send("b", run_id="r").result(WAIT)
        said_otherwise = [*session.messages[:3], AssistantMessage("otherwise")]
        fork = session.fork(patch=Patch(messages=said_otherwise))
        refused(RunNotFound, lambda: fork.send((), run_id="r"))

        assert told(fork.send("a", run_id="q").result(WAIT)) == told(kept)
        assert fork.send("c", run_id="r").result(WAIT).text == "three"
        assert session.send("b", run_id="r").result(WAIT).text == "two"

    def test_an_unfinished_run_goes_on_in_the_fork_as_the_forks_own(
        self, run: Run, led: Any
    ) -> None:
        session = run([], model=led, on_failure="keep").session("s")
        failed(session, led, "a", run_id="r")
        fork = session.fork(version=session.version)
        theirs = fork.send("a", run_id="r")
        led.asked().answer("in the fork")
        assert theirs.result(WAIT).text == "in the fork"
        ours = session.send("a", run_id="r")
        led.asked().answer("here")

        assert ours.result(WAIT).text == "here"
        assert fork.send((), run_id="r").result(WAIT).text == "in the fork"


class Verdict(Struct):
    good: bool


@on_durable_stores
class TestLater:
    """A run that has ended is told by what was recorded, whatever there is by then."""

    def test_without_the_tools_that_it_called(self, run: Run, store: str) -> None:
        system = run([[call("add", a=1, b=2)], "three"], on=store)
        first = system.session("s").send("a", run_id="r").result(WAIT)
        system.close()
        later = run([], on=store, tools=[], on_agent_drift="error")

        assert told(later.session("s").send("a", run_id="r").result(WAIT)) == told(first)

    def test_with_its_typed_answer(self, store: str) -> None:
        results = []
        for script in (['{"good": true}'], []):
            agent = Agent("judge", model=ScriptedModel(script), output_type=Verdict)
            with ActorSystem(agent, store=store) as system:
                results.append(system.session("s").send("a", run_id="r").result(WAIT))

        assert [each.output for each in results] == [Verdict(good=True)] * 2

    def test_without_telling_any_hook_again(self, store: str) -> None:
        heard: list[list[str]] = []

        class Listens(Hooks):
            def on_event(self, session_id: str, version: int, event: Any) -> None:
                heard[-1].append(type(event).__name__)

            def on_rest(self, stretch: Any, rest: Any) -> None:
                heard[-1].append(rest.reason)

        for script in (["one"], []):
            heard.append([])
            agent = Agent("agent", model=ScriptedModel(script), hooks=[Listens()])
            with ActorSystem(agent, store=store) as system:
                turns = [system.session("s").send("a", run_id="r") for _ in range(3)]
                assert {each.result(WAIT).text for each in turns} == {"one"}

        assert heard[0][-2:] == ["TurnFinished", "finished"] and heard[1] == []

    def test_when_its_words_are_erased_to_whoever_does_not_repeat_them(self, run: Run) -> None:
        session = run(["one"]).session("s")
        first = session.send("a", run_id="r").result(WAIT)
        words = [e.version for e in session.events() if isinstance(e.event, InputQueued)]
        assert session.erase(words).result(WAIT) == 1
        refused(InputConflict, lambda: session.send("a", run_id="r"))
        again = session.send((), run_id="r").result(WAIT)

        assert (again.text, again.turn_id) == ("one", first.turn_id)
