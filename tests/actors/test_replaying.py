"""Recorded sessions, replayed against an agent that may have changed."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from turnstream.actors import (
    ActorSystem,
    Agent,
    AgentContext,
    ModelRequest,
    Replayed,
    Session,
    TextDelta,
    Tool,
    compare,
    import_transcript,
    replay,
    tool,
)
from turnstream.actors.testing import RecordedModel, ScriptedModel, call, said
from turnstream.events import (
    AssistantMessage,
    InvalidAgent,
    InvalidTranscript,
    ModelFailed,
    ModelTurn,
    ToolMessage,
    Usage,
    UserMessage,
    WouldDeadlock,
)
from turnstream.projections import ArgumentDrift, ToolOrderDrift
from turnstream.stores import EventStore

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
WAIT = 20
RAN: list[str] = []
SCRIPT: list[Any] = [
    [call("look", city="Oslo")],
    "Sunny.",
    [call("look", city="Rome"), call("book", seats=2)],
    "Booked.",
]


@tool
def look(city: str) -> str:
    """Look."""
    RAN.append(city)
    return f"{city} is sunny"


@tool
def book(seats: int) -> int:
    """Book."""
    RAN.append("book")
    return seats


@pytest.fixture
def session(opened: EventStore, run: Callable[..., ActorSystem]) -> Session:
    """Two turns, four steps."""
    found = run(SCRIPT, on=opened, tools=[look, book]).session("s")
    found.send("Weather?").result(WAIT)
    found.send("Then book.").result(WAIT)
    RAN.clear()
    return found


def changed(script: list[Any] = SCRIPT, **options: Any) -> Agent:
    options = {"tools": [look, book], "instructions": "Be brief."} | options
    return Agent("agent", model=ScriptedModel(script), **options)


def requests_of(agent: Agent) -> list[ModelRequest]:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


def verdicts(replayed: Replayed) -> list[str]:
    return [each.verdict for each in replayed.steps]


def test_an_unchanged_agent_diverges_nowhere(session: Session) -> None:
    model = RecordedModel(session.events())
    replayed = replay(session, Agent("agent", model=model, tools=[look, book])).result(WAIT)
    assert verdicts(replayed) == ["same"] * 4
    assert (replayed.diverged_at, replayed.failed_at, replayed.recorded) == (None, None, 4)
    assert [each.turn_id for each in replayed.steps] == ["turn-1", "turn-1", "turn-2", "turn-2"]


def test_the_model_is_asked_what_was_recorded_and_the_agent_as_it_is_now(session: Session) -> None:
    agent = changed()
    replay(session, agent).result(WAIT)
    requests = requests_of(agent)
    assert [len(each.messages) for each in requests] == [1, 3, 5, 8]
    assert said(requests[3].messages)[-2:] == ["Rome is sunny", "2"]
    assert {each.instructions for each in requests} == {"Be brief."}
    assert {tuple(spec.name for spec in each.tools) for each in requests} == {("look", "book")}
    assert [(r.session_id, r.turn_id, r.step) for r in requests] == [
        ("s", "turn-1", 1),
        ("s", "turn-1", 2),
        ("s", "turn-2", 1),
        ("s", "turn-2", 2),
    ]


def test_a_replay_runs_no_tool_and_writes_nothing(session: Session, opened: EventStore) -> None:
    before = [*opened.read_all()]
    replay(session, changed([*SCRIPT[:2], "no", "no"]), all_steps=True).result(WAIT)
    assert ([*opened.read_all()], RAN) == (before, [])


def test_it_ends_at_the_first_step_that_goes_another_way(session: Session) -> None:
    agent = changed([SCRIPT[0], "Sunny.", [call("look", city="Bonn"), call("book", seats=2)], "x"])
    replayed = replay(session, agent).result(WAIT)
    assert verdicts(replayed) == ["same", "same", "differs"]
    assert (replayed.diverged_at, replayed.recorded) == (2, 4)
    assert replayed.steps[2].drift == (ArgumentDrift(2, 0, "look", "city", "Rome", "Bonn"),)
    assert replayed.steps[2].recorded.calls[0].result == "Rome is sunny"


def test_all_steps_go_on_from_what_was_recorded(session: Session) -> None:
    script = [[call("book", seats=1)], "Sunny.", [call("look", city="Rome")], "Booked."]
    agent = changed(script)
    replayed = replay(session, agent, all_steps=True).result(WAIT)
    assert verdicts(replayed) == ["differs", "same", "differs", "same"]
    assert replayed.diverged_at == 0
    assert replayed.steps[0].drift == (ToolOrderDrift(0, ("look",), ("book",)),)
    assert said(requests_of(agent)[1].messages) == ["Weather?", "", "Oslo is sunny"]


def test_a_changed_text_counts_unless_it_is_ignored(session: Session) -> None:
    script = [SCRIPT[0], "It is sunny.", *SCRIPT[2:]]
    assert replay(session, changed(script)).result(WAIT).diverged_at == 1
    assert replay(session, changed(script), ignore_text=True).result(WAIT).diverged_at is None


def test_volatile_arguments_can_be_ignored(session: Session) -> None:
    script = [[call("look", city="Bergen")], *SCRIPT[1:]]
    ignored = replay(session, changed(script), ignore={"look": ["city"]}).result(WAIT)
    assert ignored.diverged_at is None


def test_a_changed_prompt_is_located(session: Session) -> None:
    def model(request: ModelRequest) -> str | ModelTurn:
        if "never book" in request.instructions and request.turn_id == "turn-2":
            return "I may not."
        line = SCRIPT[sum(isinstance(each, AssistantMessage) for each in request.messages)]
        return line if isinstance(line, str) else ModelTurn(tool_calls=tuple(line))

    agent = Agent("agent", model=model, tools=[look, book])
    assert replay(session, agent).result(WAIT).diverged_at is None
    agent = Agent("agent", model=model, tools=[look, book], instructions="never book")
    assert replay(session, agent).result(WAIT).diverged_at == 2


def test_a_tool_that_is_gone_and_one_whose_schema_changed_are_named(session: Session) -> None:
    @tool(name="book")
    def rebook(seats: int, name: str) -> str:
        """Book for somebody."""
        return f"{seats} {name}"

    @tool
    def search(city: str) -> str:
        """Look."""
        return city

    replayed = replay(session, changed(tools=[search, book])).result(WAIT)
    assert verdicts(replayed) == ["refused"]
    (refused,) = replayed.steps[0].refused
    assert (refused.call, refused.tool) == (0, "look")
    assert "search, book" in refused.reason
    replayed = replay(session, changed(tools=[look, rebook])).result(WAIT)
    assert (verdicts(replayed), replayed.diverged_at) == (["same", "same", "refused"], 2)
    (refused,) = replayed.steps[2].refused
    assert (refused.call, refused.tool) == (1, "book") and "name" in refused.reason


def test_a_call_that_was_refused_when_it_was_recorded_diverges_nowhere(
    run: Callable[..., ActorSystem],
) -> None:
    script: list[Any] = [[call("nothing"), call("look", town="x")], "Sorry."]
    recorded = run(script, tools=[look, book]).session()
    recorded.send("go").result(WAIT)
    assert replay(recorded, changed(script)).result(WAIT).diverged_at is None


def test_a_model_that_raises_is_told_apart_from_one_that_answers_otherwise(
    session: Session,
) -> None:
    script = [SCRIPT[0], RuntimeError("down"), *SCRIPT[2:]]
    replayed = replay(session, changed(script)).result(WAIT)
    assert verdicts(replayed) == ["same", "failed"]
    assert (replayed.diverged_at, replayed.failed_at) == (None, 1)
    assert replayed.steps[1].code == "model-failed" and "down" in replayed.steps[1].error
    replayed = replay(session, changed(script), all_steps=True).result(WAIT)
    assert verdicts(replayed) == ["same", "failed", "same", "same"]


def test_a_model_that_takes_too_long_has_failed(session: Session) -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(WAIT)
        return "late"

    replayed = replay(session, Agent("agent", model=slow, model_timeout=0.05)).result(WAIT)
    assert replayed.steps[0].code == "model-timed-out"


class Streaming:
    id = "streaming"

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        yield TextDelta("S")
        yield ModelTurn("Sunny.", usage=Usage(7, 2))


async def coroutine(request: ModelRequest) -> ModelTurn:
    return ModelTurn("Sunny.", usage=Usage(7, 2))


def function(request: ModelRequest) -> ModelTurn:
    return ModelTurn("Sunny.", usage=Usage(7, 2))


@pytest.mark.parametrize("model", [Streaming(), coroutine, function])
def test_models_of_any_kind_are_asked(session: Session, model: Any) -> None:
    replayed = replay(session, Agent("agent", model=model), all_steps=True).result(WAIT)
    assert verdicts(replayed) == ["differs", "same", "differs", "differs"]
    assert replayed.usage == Usage(28, 8)


def test_a_dynamic_agent_chooses_for_each_turn(session: Session) -> None:
    contexts: list[AgentContext] = []

    def choose(context: AgentContext) -> str:
        contexts.append(context)
        return f"Turn of {len(context.messages)}"

    def tools(context: AgentContext) -> list[Tool]:
        return [look, book] if context.messages else [look]

    model = ScriptedModel(SCRIPT)
    agent = Agent("agent", model=model, instructions=choose, tools=tools)
    assert replay(session, agent).result(WAIT).diverged_at is None
    assert [(each.turn_id, len(each.messages)) for each in contexts] == [
        ("turn-1", 0),
        ("turn-2", 4),
    ]
    assert {(each.agent, each.session_id, each.recorded) for each in contexts} == {
        ("agent", "s", None)
    }
    assert [each.instructions for each in model.requests] == ["Turn of 0"] * 2 + ["Turn of 4"] * 2
    assert [len(each.tools) for each in model.requests] == [1, 1, 2, 2]


def test_what_a_dynamic_agent_chooses_wrongly_is_raised(session: Session) -> None:
    agent = Agent("agent", model=function, instructions=lambda context: context.nothing)
    with pytest.raises(InvalidAgent):
        replay(session, agent).result(WAIT)


def test_a_replay_can_be_awaited_and_does_not_block_a_loop(session: Session) -> None:
    async def main() -> None:
        asked = Event()
        reply = replay(session, changed(instructions=lambda _: str(asked.wait(WAIT))))
        with pytest.raises(WouldDeadlock):
            reply.result()
        asked.set()
        assert (await reply).diverged_at is None

    asyncio.run(main())


def test_events_and_messages_can_be_replayed_without_their_session(session: Session) -> None:
    for recorded in (session.events(), session.messages):
        agent = changed()
        replayed = replay(recorded, agent).result(WAIT)
        assert verdicts(replayed) == ["same"] * 4
        assert [each.turn_id for each in replayed.steps] == ["turn-1"] * 2 + ["turn-2"] * 2
        assert [each.step for each in requests_of(agent)] == [1, 2, 1, 2]


def test_what_is_no_recording_is_refused(session: Session) -> None:
    mixed: Any = [*session.messages, *session.events()]
    with pytest.raises(TypeError):
        replay(mixed, changed()).result(WAIT)
    with pytest.raises(InvalidTranscript):
        replay([UserMessage("go"), ToolMessage("c", "look", "stray")], changed()).result(WAIT)
    with pytest.raises(InvalidAgent):
        replay(session, "agent")  # type: ignore[arg-type]


def test_arguments_that_were_edited_later_are_not_the_models(
    run: Callable[..., ActorSystem],
) -> None:
    gated = tool(needs_approval=True, name="book")(book.fn)
    recorded = run([[call("book", seats=2)], "Booked."], tools=[gated]).session()
    (approval,) = recorded.send("book").result(WAIT).approvals
    recorded.approve(approval.id, arguments={"seats": 9}).result(WAIT)
    assert compare(recorded, recorded).a[0].calls[0].arguments == {"seats": 9}
    agent = changed([[call("book", seats=2)], "Booked."])
    assert replay(recorded, agent).result(WAIT).diverged_at is None


def test_a_call_that_was_rejected_did_not_run_and_need_not_run_now(
    run: Callable[..., ActorSystem],
) -> None:
    gated = tool(needs_approval=True, name="book")(book.fn)
    recorded = run([[call("book", seats=2)], "Not booked."], tools=[gated]).session()
    (approval,) = recorded.send("book").result(WAIT).approvals
    recorded.reject(approval.id).result(WAIT)
    agent = changed([[call("book", seats=2)], "Not booked."], tools=[look])
    assert replay(recorded, agent).result(WAIT).diverged_at is None


def test_a_turn_that_was_dropped_is_not_replayed(run: Callable[..., ActorSystem]) -> None:
    script = ["One.", [call("look", city="a")], RuntimeError(), "Two."]
    recorded = run(script, tools=[look], on_failure="drop").session()
    recorded.send("1").result(WAIT)
    with pytest.raises(ModelFailed):
        recorded.send("lost").result(WAIT)
    recorded.send("2").result(WAIT)
    agent = changed(["One.", "Two."])
    replayed = replay(recorded, agent).result(WAIT)
    assert (verdicts(replayed), replayed.recorded) == (["same", "same"], 2)
    assert [each.turn_id for each in replayed.steps] == ["turn-1", "turn-3"]


def test_an_unfinished_turn_is_replayed_as_far_as_it_went(run: Callable[..., ActorSystem]) -> None:
    gated = tool(needs_approval=True, name="book")(book.fn)
    recorded = run([[call("look", city="a"), call("book", seats=2)]], tools=[look, gated]).session()
    recorded.send("book").result(WAIT)
    replayed = replay(recorded, changed([[call("look", city="a"), call("book", seats=2)]]))
    assert verdicts(replayed.result(WAIT)) == ["same"]


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded conversations beside this checkout")
def test_real_conversations_go_the_same_way_and_a_change_in_one_is_located(
    opened: EventStore, run: Callable[..., ActorSystem]
) -> None:
    with gzip.open(RECORDED, "rt") as file:
        chats = [json.loads(line)["messages"] for line in file]
    system = run([], on=opened)
    for place, chat in enumerate(chats):
        import_transcript(chat, opened, f"talk-{place}", agent="agent")
        recorded = system.session(f"talk-{place}")
        model = RecordedModel(recorded.events())
        unchanged = Agent("agent", model=model, tools=model.tools)
        replayed = replay(recorded, unchanged).result(WAIT)
        assert verdicts(replayed) == ["same"] * replayed.recorded
        assert replayed.recorded == sum(each["role"] == "assistant" for each in chat)
        at = place % replayed.recorded
        changed_model = Agent("agent", model=Changed(model, at), tools=model.tools)
        assert replay(recorded, changed_model).result(WAIT).diverged_at == at


class Changed:
    """A model that answers one step otherwise."""

    id = "changed"

    def __init__(self, model: RecordedModel, step: int) -> None:
        self._model, self._step, self._asked = model, step, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self._asked += 1
        if self._asked == self._step + 1:
            yield ModelTurn("Something else.")
            return
        async for item in self._model.stream(request):
            yield item


def test_each_agent_of_a_session_that_was_handed_over_is_held_against_what_it_said() -> None:
    def desk(a: list[Any], b: list[Any]) -> Agent:
        other = Agent("b", model=ScriptedModel(b), tools=[look], handoffs=["a"])
        return Agent("a", model=ScriptedModel(a), handoffs=[other])

    says_a: list[Any] = [[call("transfer_to_b")], "a has it"]
    says_b: list[Any] = [[call("look", city="Oslo")], [call("transfer_to_a")]]
    with ActorSystem(desk(says_a, says_b)) as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        same = replay(session, desk(says_a, says_b)).result(WAIT)
        other = replay(session, desk(says_a, [[call("look", city="Rome")]])).result(WAIT)
        alone = replay(session, Agent("a", model=ScriptedModel(says_a))).result(WAIT)
    assert (same.diverged_at, same.failed_at, len(same.steps)) == (None, None, 4)
    assert other.diverged_at == 1
    assert [each.tool for each in alone.steps[0].refused] == ["transfer_to_b"]
