"""Code that calls the session it runs in: refused where it would wait for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnstream.actors import (
    ActorSystem,
    ModelRequest,
    Session,
    Turn,
    TurnResult,
    tool,
)
from turnstream.actors.testing import call, said
from turnstream.events import ModelTurn, ToolMessage, WouldDeadlock

WAIT = 20
Run = Callable[..., ActorSystem]
Visit = Callable[[Session], Any]


class Inside:
    """Runs code once inside a session's own tool or model, and keeps what it returned or raised.

    After it the model answers ``done``, and ``more`` to whatever comes next."""

    def __init__(self, run: Run, **options: Any) -> None:
        self._run, self._options = run, options
        self.outcome: Any = None
        self.requests: list[list[str]] = []
        self.session: Session

    def tool(self, visit: Visit) -> TurnResult:
        """Go through a session one of whose tools, a function, does this."""

        @tool(name="visit")
        def visited() -> str:
            return self._keep(visit, self.session)

        return self._turn(self._model(), visited)

    def async_tool(self, visit: Visit) -> TurnResult:
        """The same with a tool that is a coroutine, as ``visit`` may be or not."""

        @tool(name="visit")
        async def visited() -> str:
            return await self._keep_async(visit, self.session)

        return self._turn(self._model(), visited)

    def model(self, visit: Visit) -> TurnResult:
        """The same with the model, a function."""

        def model(request: ModelRequest) -> str:
            texts = said(request.messages)
            self.requests.append(texts)
            if len(self.requests) == 1:
                self._keep(visit, self.session)
            return "done" if texts[-1] == "go" else "more"

        return self._turn(model)

    def async_model(self, visit: Visit) -> TurnResult:
        """The same with a model that is a coroutine."""

        async def model(request: ModelRequest) -> str:
            texts = said(request.messages)
            self.requests.append(texts)
            if len(self.requests) == 1:
                await self._keep_async(visit, self.session)
            return "done" if texts[-1] == "go" else "more"

        return self._turn(model)

    def _model(self) -> Callable[[ModelRequest], ModelTurn]:
        def model(request: ModelRequest) -> ModelTurn:
            self.requests.append(said(request.messages))
            if len(self.requests) == 1:
                return ModelTurn(tool_calls=(call("visit"),))
            last = request.messages[-1]
            return ModelTurn("done" if isinstance(last, ToolMessage) else "more")

        return model

    def _turn(self, model: Any, *tools: Any) -> TurnResult:
        system = self._run([], model=model, tools=list(tools), **self._options)
        self.session = system.session("s")
        return self.session.send("go", policy="wait").result(WAIT)

    def _keep(self, visit: Visit, session: Session) -> str:
        try:
            self.outcome = visit(session)
        except Exception as error:
            self.outcome = error
        return "visited"

    async def _keep_async(self, visit: Visit, session: Session) -> str:
        try:
            given = visit(session)
            self.outcome = await given if asyncio.iscoroutine(given) else given
        except Exception as error:
            self.outcome = error
        return "visited"


KINDS = ["tool", "async_tool", "model", "async_model"]


def in_a_task(visit: Visit) -> Visit:
    """Do it in a task that the code starts and waits for."""

    async def started(session: Session) -> Any:
        async def task() -> Any:
            return visit(session)

        return await asyncio.create_task(task())

    return started


def in_to_thread(visit: Visit) -> Visit:
    """Do it on a thread that knows where it comes from."""

    async def started(session: Session) -> Any:
        return await asyncio.to_thread(visit, session)

    return started


REFUSED: dict[str, Visit] = {
    "send": lambda session: session.send("more"),
    "send to wait": lambda session: session.send("more", policy="wait"),
    "resume": lambda session: session.resume(),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_would_wait_for_its_own_turn_is_refused_at_once(
    run: Run, kind: str, what: str
) -> None:
    inside = Inside(run)
    result = getattr(inside, kind)(REFUSED[what])

    assert isinstance(inside.outcome, WouldDeadlock) and inside.outcome.session_id == "s"
    assert result.text == "done"
    topics = [each.topic for each in inside.session.events()]
    assert topics.count("input_queued") == 1, "nothing was accepted"


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("started", [in_a_task, in_to_thread])
@pytest.mark.parametrize("kind", ["async_tool", "async_model"])
def test_it_is_refused_in_what_the_code_starts_too(
    run: Run, kind: str, started: Callable[[Visit], Visit], what: str
) -> None:
    inside = Inside(run)
    result = getattr(inside, kind)(started(REFUSED[what]))

    assert isinstance(inside.outcome, WouldDeadlock)
    assert result.text == "done"


@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_that_knows_nothing_of_its_session_may_enqueue(run: Run, kind: str) -> None:
    """In a thread of its own the code is a caller as any other: its turn comes afterwards."""
    inside, sent = Inside(run), list[Turn]()

    def visit(session: Session) -> str:
        def send() -> None:
            sent.append(session.send("more"))
            sent[0].accepted().result(WAIT)

        thread = threading.Thread(target=send)
        thread.start()
        thread.join(WAIT)
        return "sent"

    result = getattr(inside, kind)(visit)
    assert (inside.outcome, result.text) == ("sent", "done")
    assert sent[0].result(WAIT).text == "more"
    assert said(inside.session.messages)[-2:] == ["more", "more"]


ALLOWED: dict[str, Visit] = {
    "queue": lambda session: session.send("x", policy="queue"),
    "steer": lambda session: session.send("x", policy="steer"),
    "execute": lambda session: session.execute("x"),
}


@pytest.mark.parametrize("what", ALLOWED)
@pytest.mark.parametrize("kind", ["tool", "async_tool"])
def test_a_tool_may_add_an_input_to_its_own_turn(run: Run, kind: str, what: str) -> None:
    inside = Inside(run)
    result = getattr(inside, kind)(ALLOWED[what])

    assert isinstance(inside.outcome, Turn)
    assert inside.requests[1:] == [["go", "", "visited", "x"]]
    assert inside.outcome.result(WAIT) is result
    assert result.text == "more"


@pytest.mark.parametrize("options", [{"turn_policy": "queue"}, {"turn_policy": "steer"}])
def test_a_tool_may_send_where_the_policy_of_the_system_lets_inputs_join(
    run: Run, options: dict[str, Any]
) -> None:
    inside = Inside(run, **options)
    result = inside.tool(lambda session: session.send("x"))

    assert inside.outcome.result(WAIT) is result


@pytest.mark.parametrize("kind", ["model", "async_model"])
def test_an_input_a_model_queues_for_itself_runs_after_its_answer(run: Run, kind: str) -> None:
    inside = Inside(run)
    result = getattr(inside, kind)(ALLOWED["queue"])

    assert result.text == "done"
    assert inside.outcome.result(WAIT).text == "more"
    assert inside.requests == [["go"], ["go", "done", "x"]]


@pytest.mark.parametrize("kind", ["model", "async_model"])
def test_a_model_that_steers_itself_is_asked_again(run: Run, kind: str) -> None:
    inside = Inside(run)

    async def until_cancelled() -> None:
        await asyncio.Event().wait()

    def steer(session: Session) -> Any:
        turn = session.send("x", policy="steer")
        return turn.accepted().result(WAIT) if kind == "model" else until_cancelled()

    result = getattr(inside, kind)(steer)
    assert result.text == "more"
    assert inside.requests == [["go"], ["go", "x"]]
    assert said(result.messages) == ["go", "x", "more"]


async def awaited(turn: Turn) -> Any:
    return await turn


async def read_on(turn: Turn) -> Any:
    return [item async for item in turn.stream()]


def awaiting(what: str, wait: Callable[[Turn], Any]) -> Visit:
    return lambda session: wait(ALLOWED[what](session))


@pytest.mark.parametrize("what", ALLOWED)
@pytest.mark.parametrize("wait", [lambda turn: turn.result(), lambda turn: list(turn.stream())])
def test_a_tool_that_waits_for_what_it_added_is_refused(
    run: Run, wait: Callable[[Turn], Any], what: str
) -> None:
    inside = Inside(run)
    result = inside.tool(awaiting(what, wait))

    assert isinstance(inside.outcome, WouldDeadlock)
    assert inside.requests[1:] == [["go", "", "visited", "x"]]
    assert result.text == "more", "the input was added all the same"


@pytest.mark.parametrize("what", ALLOWED)
@pytest.mark.parametrize("wait", [awaited, read_on])
@pytest.mark.parametrize("in_task", [False, True])
def test_an_async_tool_that_awaits_what_it_added_is_refused(
    run: Run, wait: Callable[[Turn], Any], what: str, in_task: bool
) -> None:
    inside = Inside(run)

    async def visit(session: Session) -> Any:
        waits = wait(ALLOWED[what](session))
        return await (asyncio.create_task(waits) if in_task else waits)

    result = inside.async_tool(visit)
    assert isinstance(inside.outcome, WouldDeadlock)
    assert result.text == "more"


def test_a_tool_may_wait_until_what_it_added_is_durable(run: Run) -> None:
    inside = Inside(run)
    result = inside.tool(lambda session: ALLOWED["queue"](session).accepted().result(WAIT))

    assert isinstance(inside.outcome, str)
    assert inside.outcome in [
        each.event.input_id for each in inside.session.events() if each.topic == "input_applied"
    ]
    assert result.text == "more"


def test_a_tool_that_aborts_its_own_turn_ends_it(run: Run) -> None:
    inside = Inside(run)
    result = inside.tool(lambda session: session.discard_pending().result(WAIT))

    assert result.finish_reason == "aborted"
    following = inside.session.send("next").result(WAIT)
    assert said(following.messages) == ["next", "more"]
