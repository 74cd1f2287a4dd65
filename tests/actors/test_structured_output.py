"""Final answers that are to have a type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, tool
from turnstream.actors.outputs import Fits, Output, Unfit
from turnstream.actors.testing import ScriptedModel, call, crash_points
from turnstream.events import (
    AgentConfigured,
    AgentDrifted,
    EncodedEvent,
    InvalidAgent,
    InvalidOutput,
    ModelTurn,
    OutputRefused,
    StoredRecord,
    ToolMessage,
    TurnFinished,
    UserMessage,
)
from turnstream.stores import Append, EventStore, RowChange, open_store

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)
OSLO = '{"name": "Oslo", "people": 7}'


class City(Struct):
    name: str
    people: int = 0


class Cities(Struct):
    cities: list[City]


@dataclass
class Place:
    name: str


class Spot(TypedDict):
    name: str


@tool
def look(city: str) -> str:
    """Look."""
    return f"{city} is there"


@pytest.fixture
def start(store: str) -> Iterable[Callable[..., ActorSystem]]:
    systems: list[ActorSystem] = []

    def start(script: list[Any], output_type: Any = City, **parts: Any) -> ActorSystem:
        options = {key: parts.pop(key) for key in ("on_failure", "on_agent_drift") if key in parts}
        model = ScriptedModel(script)
        agent = Agent("agent", model=model, output_type=output_type, tools=[look], **parts)
        systems.append(ActorSystem(agent, store=store, **options))
        return systems[-1]

    yield start
    for system in systems:
        system.close()


Start = Callable[..., ActorSystem]


def refusals(session: Session) -> list[OutputRefused]:
    return [each.event for each in session.events() if isinstance(each.event, OutputRefused)]


def test_the_output_is_the_answer_as_the_agents_type(start: Start) -> None:
    session = start([OSLO]).session("s")
    result = session.send("Which city?").result(WAIT)
    assert result.output == City("Oslo", 7)
    assert result.text == OSLO
    (finished,) = [e.event for e in session.events() if isinstance(e.event, TurnFinished)]
    assert finished.output == {"name": "Oslo", "people": 7}


@pytest.mark.parametrize(
    ("kind", "answer", "output"),
    [
        (City, '{"name": "Oslo", "people": "7"}', City("Oslo", 7)),
        (Cities, '{"cities": [{"name": "Oslo"}]}', Cities([City("Oslo")])),
        (Place, '{"name": "Oslo"}', Place("Oslo")),
        (Spot, '{"name": "Oslo"}', {"name": "Oslo"}),
        (dict[str, int], '{"Oslo": 7}', {"Oslo": 7}),
        (list[City] | None, "null", None),
        (City, f"```json\n{OSLO}\n```", City("Oslo", 7)),
        (City, f"\n  {OSLO}\n", City("Oslo", 7)),
    ],
)
def test_types_of_many_kinds_are_read_from_json(
    start: Start, kind: Any, answer: str, output: Any
) -> None:
    assert start([answer], kind).session("s").send("?").result(WAIT).output == output


def test_an_answer_that_does_not_fit_is_told_why_and_the_model_answers_again(start: Start) -> None:
    system = start(["Oslo!", '{"people": 7}', OSLO])
    session = system.session("s")
    result = session.send("Which city?").result(WAIT)
    assert result.output == City("Oslo", 7)
    assert result.steps == 3
    first, second = refusals(session)
    assert "JSON" in first.text and "name" in second.text
    assert [each.content for each in result.messages if isinstance(each, UserMessage)] == [
        "Which city?",
        first.text,
        second.text,
    ]


def test_a_turn_whose_answers_never_fit_fails_and_goes_on_when_it_is_resumed(
    store: str,
) -> None:
    model = ScriptedModel(["a", "b", OSLO])
    agent = Agent("agent", model=model, output_type=City, output_retries=1)
    with ActorSystem(agent, store=store, on_failure="keep") as system:
        session = system.session("s")
        with pytest.raises(InvalidOutput) as failed:
            session.send("Which city?").result(WAIT)
        assert failed.value.code == "invalid-output" and session.status == "failed"
        assert len(model.requests) == 2
        turn = session.resume()
        assert turn is not None
        assert turn.result(WAIT).output == City("Oslo", 7)


def test_without_retries_the_first_answer_counts(start: Start) -> None:
    session = start(["Oslo", OSLO], output_retries=0).session("s")
    with pytest.raises(InvalidOutput):
        session.send("Which city?").result(WAIT)
    assert refusals(session) == []


def test_a_dropped_failure_leaves_the_conversation_as_it_was(start: Start) -> None:
    session = start(["a", OSLO], output_retries=0, on_failure="drop").session("s")
    with pytest.raises(InvalidOutput):
        session.send("1").result(WAIT)
    assert list(session.messages) == []
    assert session.send("2").result(WAIT).output == City("Oslo", 7)


def test_answers_that_call_tools_are_no_final_ones(start: Start) -> None:
    session = start([[call("look", city="Oslo")], OSLO]).session("s")
    assert session.send("Which city?").result(WAIT).output == City("Oslo", 7)
    assert refusals(session) == []


def test_a_turn_that_ends_by_a_limit_has_no_output(start: Start) -> None:
    result = start([[call("look", city="Oslo")]], max_steps=1).session("s").send("?").result(WAIT)
    assert result.finish_reason == "max-steps" and result.output is None


def test_refused_answers_count_as_steps(start: Start) -> None:
    result = start(["Oslo"], max_steps=1).session("s").send("?").result(WAIT)
    assert result.finish_reason == "max-steps" and result.output is None


def test_the_model_is_told_the_schema_and_the_stream_too(start: Start) -> None:
    def model(request: Any) -> str:
        assert request.output["properties"]["people"]["type"] == "integer"
        return OSLO

    agent = Agent("agent", model=model, output_type=City)
    with ActorSystem(agent) as system:
        session = system.session("s")
        session.send("?").result(WAIT)
        events = [each.event for each in session.events()]
        (configured,) = [each for each in events if isinstance(each, AgentConfigured)]
        assert configured.output is not None
        assert configured.output["required"] == ["name"]


def test_a_retried_send_with_a_key_gives_the_output_again(start: Start) -> None:
    session = start([OSLO]).session("s")
    first = session.send("?", key="k").result(WAIT)
    assert session.send("?", key="k").result(WAIT).output == first.output == City("Oslo", 7)


@on_durable_stores
def test_another_output_type_is_drift_by_name(store: str) -> None:
    broken = Agent("agent", model=ScriptedModel([OSError("away")]), output_type=City)
    with ActorSystem(broken, store=store) as system, pytest.raises(Exception, match="away"):
        system.session("s").send("?").result(WAIT)
    changed = Agent("agent", model=ScriptedModel([OSLO], id="scripted"), output_type=Cities)
    with ActorSystem(changed, store=store, on_agent_drift="error") as system:
        turn = system.session("s").resume()
        assert turn is not None
        with pytest.raises(AgentDrifted) as drifted:
            turn.result(WAIT)
        assert drifted.value.changes == ("output",)


def test_agents_without_an_output_type_have_the_fingerprint_they_always_had() -> None:
    with ActorSystem(Agent("agent", model=ScriptedModel(["a"]))) as system:
        session = system.session("s")
        session.send("?").result(WAIT)
        events = [each.event for each in session.events()]
    (configured,) = [each for each in events if isinstance(each, AgentConfigured)]
    assert configured.fingerprint == "ad1f22da04523ea6"
    assert configured.output is None


@pytest.mark.parametrize("kind", [Agent, Callable[[], None], object()])
def test_a_type_that_json_has_no_schema_for_is_refused_when_the_agent_is_made(kind: Any) -> None:
    with pytest.raises(InvalidAgent, match="output_type"):
        Agent("agent", model=ScriptedModel([]), output_type=kind)


@pytest.mark.parametrize("retries", [-1, True, 1.5, "2"])
def test_output_retries_are_a_whole_number(retries: Any) -> None:
    with pytest.raises(InvalidAgent, match="output_retries"):
        Agent("agent", model=ScriptedModel([]), output_retries=retries)


def test_a_process_lost_anywhere_ends_with_the_same_output() -> None:
    agent = Agent("agent", model=looks_then_errs, output_type=City, tools=[look])
    with closing(open_store("memory://")) as store, ActorSystem(agent, store=store) as system:
        whole = system.session("s").send("?").result(WAIT)
        records = store.read("s")
    assert whole.output == City("Oslo", 7)
    begun = next(n for n, each in enumerate(records, 1) if each.topic == "turn_started")
    for prefix in list(crash_points(records))[begun:]:
        with closing(copy_of(prefix)) as store, ActorSystem(agent, store=store) as system:
            turn = system.session("s").resume()
            if turn is not None:
                result = turn.result(WAIT)
                assert result.output == whole.output
                assert list(result.messages) == list(whole.messages)


def looks_then_errs(request: ModelRequest) -> ModelTurn | str:
    """A model that keeps nothing: its answer follows from the conversation."""
    match request.messages[-1]:
        case ToolMessage():
            return "It is Oslo!"
        case UserMessage(content="?"):
            return ModelTurn(tool_calls=(call("look", "c", city="Oslo"),))
        case _:
            return OSLO


def copy_of(records: Sequence[StoredRecord]) -> EventStore:
    store = open_store("memory://")
    store.next_generation()  # that of the node that was lost
    events = tuple(EncodedEvent(each.topic, each.payload) for each in records)
    store.append(Append("s", 0, events, RowChange("running", "agent", AT)))
    return store


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_whatever_a_model_answers_either_fits_or_says_why(text: str) -> None:
    match Output("agent", City).check(text):
        case Fits(value=value):
            assert isinstance(value, dict)
        case Unfit(why=why):
            assert why


@given(st.builds(City, st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**60)))
def test_what_fits_is_read_back_equal(city: City) -> None:
    output = Output("agent", City)
    checked = output.check(msgspec.json.encode(city).decode())
    assert isinstance(checked, Fits)
    assert output.typed(checked.value) == city
