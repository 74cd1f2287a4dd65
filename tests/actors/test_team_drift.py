"""Drift of an agent that hands off: what it reaches is part of what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec import Struct

from turnstream.actors import ActorSystem, Agent, Handoff, Session, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import AgentConfigured, AgentDriftDetected, AgentDrifted, ModelFailed
from turnstream.stores import EventStore, MemoryStore

WAIT = 20


class City(Struct):
    name: str


@tool
def pay(order: str) -> str:
    """Pay money back."""
    return "paid"


@tool
def file(order: str) -> str:
    """Put it in a file."""
    return "filed"


def team(*script: Any, changed: str = "", **options: Any) -> list[Agent]:
    """A desk that hands off to billing, which hands off to a clerk, which hands back."""
    made: dict[str, dict[str, Any]] = {
        "desk": {"model": "m1", "instructions": "Ask.", "handoffs": ["billing"]},
        "billing": {"model": "m1", "instructions": "Pay.", "handoffs": ["clerk"], "tools": [pay]},
        "clerk": {"model": "m1", "instructions": "File.", "handoffs": ["desk"]},
        "boss": {"model": "m1"},
    }
    if changed:
        made[changed] |= options
    for fields in made.values():
        fields["model"] = ScriptedModel([], id=fields["model"])
    made["desk"]["model"] = ScriptedModel(script, id=made["desk"]["model"].id)
    return [Agent(fields.pop("name", name), **fields) for name, fields in made.items()]


@pytest.fixture
def begun() -> Iterator[EventStore]:
    """A store with a turn of the desk that was begun, and failed."""
    with closing(MemoryStore()) as store:
        with (
            ActorSystem(team(ConnectionError("down")), store=store, on_failure="keep") as before,
            pytest.raises(ModelFailed),
        ):
            before.session("s").send("go").result(WAIT)
        yield store


def system(store: EventStore, policy: Any, *script: Any, **changed: Any) -> ActorSystem:
    agents = team(*script, **changed)
    return ActorSystem(agents, store=store, on_failure="keep", on_agent_drift=policy)


def resume(session: Session) -> Any:
    turn = session.resume()
    assert turn is not None
    return turn.result(WAIT)


def events(session: Session, kind: type) -> list[Any]:
    return [each.event for each in session.events() if isinstance(each.event, kind)]


STAYS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an agent that is not reached": {"changed": "boss", "instructions": "Rule."},
    "limits of an agent further on": {"changed": "clerk", "max_steps": 3, "token_budget": 9},
    "another name": {"changed": "clerk", "name": "filer", "aliases": ["clerk"]},
}
BREAKS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "who goes on next has another model": (
        {"changed": "billing", "model": "m2"},
        ("handoff 'billing': model",),
    ),
    "who is reached over two hand-offs has other instructions": (
        {"changed": "clerk", "instructions": "File it."},
        ("handoff 'clerk': instructions",),
    ),
    "a tool of the other one is gone": (
        {"changed": "billing", "tools": []},
        ("handoff 'billing': tool removed: pay",),
    ),
    "a tool of the other one takes something else": (
        {"changed": "billing", "tools": [tool(name="pay", description="Pay.")(pay.fn)]},
        ("handoff 'billing': tool changed: pay",),
    ),
    "the other one's answers have a type": (
        {"changed": "clerk", "output_type": City},
        ("handoff 'clerk': output",),
    ),
    "it hands off to nobody": ({"changed": "desk", "handoffs": []}, ("handoff removed: billing",)),
    "it hands off to somebody else": (
        {"changed": "desk", "handoffs": ["boss"]},
        ("handoff removed: billing", "handoff added: boss"),
    ),
    "the model is told otherwise of a hand-off": (
        {"changed": "desk", "handoffs": [Handoff("billing", description="To pay.")]},
        ("handoff changed: billing",),
    ),
    "the other one hands off to nobody": (
        {"changed": "billing", "handoffs": []},
        ("handoff 'billing': handoff removed: clerk",),
    ),
}
ADDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "one more hand-off": (
        {"changed": "desk", "handoffs": ["billing", "boss"]},
        ("handoff added: boss",),
    ),
    "one more tool of the other one": (
        {"changed": "billing", "tools": [pay, file]},
        ("handoff 'billing': tool added: file",),
    ),
    "one more hand-off of the other one": (
        {"changed": "clerk", "handoffs": ["desk", "boss"]},
        ("handoff 'clerk': handoff added: boss",),
    ),
}


@pytest.mark.parametrize("changed", STAYS.values(), ids=STAYS)
@pytest.mark.parametrize("policy", ["warn", "error"])
def test_what_changes_nothing_for_any_model_of_the_team_is_no_drift(
    begun: EventStore, changed: dict[str, Any], policy: str
) -> None:
    with _of(begun, policy, changed) as after:
        session = after.session("s")
        assert resume(session).text == "done"
        assert events(session, AgentDriftDetected) == []


def _of(begun: EventStore, policy: Any, changed: dict[str, Any]) -> ActorSystem:
    """With what changed, and where that is a name, with who hands off to it."""
    agents = team("done", **changed)
    if "name" in changed:
        billing = next(each for each in agents if each.name == "billing")
        agents = [each for each in agents if each.name != "billing"]
        agents.append(
            Agent(
                "billing",
                model=billing.model,
                instructions=billing.instructions,
                tools=[pay],
                handoffs=[changed["name"]],
            )
        )
    return ActorSystem(agents, store=begun, on_failure="keep", on_agent_drift=policy)


@pytest.mark.parametrize(("changed", "named"), (BREAKS | ADDS).values(), ids=[*BREAKS, *ADDS])
def test_what_changed_is_named_with_the_agent_it_changed_of(
    begun: EventStore, changed: dict[str, Any], named: tuple[str, ...]
) -> None:
    with system(begun, "warn", "done", **changed) as after:
        session = after.session("s")
        assert resume(session).text == "done"
        (drift,) = events(session, AgentDriftDetected)
        assert drift.changes == named


@pytest.mark.parametrize(("changed", "named"), BREAKS.values(), ids=BREAKS)
def test_an_agent_further_on_that_changed_is_an_error_where_drift_is(
    begun: EventStore, changed: dict[str, Any], named: tuple[str, ...]
) -> None:
    with system(begun, "error", "done", **changed) as after:
        session = after.session("s")
        version = session.version
        with pytest.raises(AgentDrifted) as refused:
            resume(session)
        assert (refused.value.changes, session.version) == (named, version)


@pytest.mark.parametrize("changed", [each for each, _ in ADDS.values()], ids=ADDS)
def test_what_is_only_added_anywhere_is_never_an_error(
    begun: EventStore, changed: dict[str, Any]
) -> None:
    with system(begun, "error", "done", **changed) as after:
        assert resume(after.session("s")).text == "done"


def test_a_drift_to_be_ignored_is_recorded_as_the_new_agent_alone(begun: EventStore) -> None:
    changed = {"changed": "clerk", "instructions": "File it."}
    with system(begun, "ignore", "done", **changed) as after:
        session = after.session("s")
        assert resume(session).text == "done"
        assert events(session, AgentDriftDetected) == []
        assert len(events(session, AgentConfigured)) == 2


@pytest.mark.parametrize("changed", [False, True])
def test_a_turn_that_was_handed_over_is_held_against_the_agent_that_goes_on(changed: bool) -> None:
    def agents(a: list[Any], b: list[Any], instructions: str = "") -> list[Agent]:
        other = Agent("b", model=ScriptedModel(b), instructions=instructions)
        return [Agent("a", model=ScriptedModel(a), handoffs=[other])]

    with closing(MemoryStore()) as store:
        script: list[Any] = [[call("transfer_to_b")]]
        with (
            ActorSystem(
                agents(script, [ConnectionError("down")]), store=store, on_failure="keep"
            ) as system,
            pytest.raises(ModelFailed),
        ):
            system.session("s").send("x").result(WAIT)
        with ActorSystem(
            agents([], ["done"], "Be brief." if changed else ""), store=store
        ) as system:
            session = system.session("s")
            assert resume(session).text == "done"
            found = [each.changes for each in events(session, AgentDriftDetected)]
            assert found == ([("instructions",)] if changed else [])


def fingerprint(agent: Agent) -> str:
    with ActorSystem(agent) as system:
        session = system.session("s")
        session.send("x").result(WAIT)
        (configured,) = events(session, AgentConfigured)
        return str(configured.fingerprint)


def a(*handoffs: Any) -> Agent:
    return Agent("a", model=ScriptedModel(["x"]), handoffs=handoffs)


def b(**options: Any) -> Agent:
    return Agent("b", model=ScriptedModel([]), **options)


def c(**options: Any) -> Agent:
    return Agent("c", model=ScriptedModel([]), **options)


def test_the_fingerprint_depends_on_nothing_but_what_models_see() -> None:
    alike = [a(b(), c()), a(c(), b()), a(c(max_steps=2), b(aliases=["d"]))]
    assert len(set(map(fingerprint, alike))) == 1
    others = [
        a(),
        a(b()),
        a(b(handoffs=["a"])),
        a(b(handoffs=[c()])),
        a(b(handoffs=[c(handoffs=["b"])])),
        a(b(instructions="x"), c()),
        a(b(), c(instructions="x")),
        a(b(tools=[pay]), c()),
    ]
    assert len(set(map(fingerprint, [*others, a(b(), c())]))) == len(others) + 1
