"""Hooks where one agent hands the conversation to another."""

from __future__ import annotations

from typing import Any

import pytest
from hooked import WAIT
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnstream.actors import ActorSystem, Agent, Hooks, Rest, Stretch
from turnstream.actors.telemetry import Telemetry
from turnstream.actors.testing import ScriptedModel, call


class Told(Hooks):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.rests: list[tuple[str, str]] = []

    def on_event(self, session_id: str, version: int, event: Any) -> None:
        self.events.append(type(event).__name__)

    def on_rest(self, stretch: Stretch, rest: Rest) -> None:
        self.rests.append((stretch.agent, rest.reason))


def team(first: list[Hooks], second: list[Hooks]) -> Agent:
    billing = Agent("billing", model=ScriptedModel(["Paid.", "Yes."]), hooks=second)
    desk = ScriptedModel([[call("transfer_to_billing")]])
    return Agent("desk", model=desk, handoffs=[billing], hooks=first)


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_each_agents_hooks_are_told_of_what_it_does(before: bool, after: bool) -> None:
    first, second = Told(), Told()
    agent = team([first] if before else [], [second] if after else [])
    with ActorSystem(agent) as system:
        session = system.session("s")
        assert session.send("Pay me.").result(WAIT).text == "Paid."
        assert session.send("Really?").result(WAIT).text == "Yes."
        version = session.version
    assert first.rests == ([("desk", "handed-over")] if before else [])
    assert second.rests == ([("billing", "finished")] * 2 if after else [])
    if before and after:
        assert len(first.events) + len(second.events) == version
        assert (first.events[-1], second.events.count("AgentHandedOff")) == ("AgentHandedOff", 0)


def test_the_spans_of_both_agents_lead_to_the_same_send_and_end() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hooks: list[list[Hooks]] = [[Telemetry(tracer_provider=provider)] for _ in range(2)]
    with ActorSystem(team(*hooks)) as system:
        system.session("s").send("Pay me.").result(WAIT)
    spans: dict[str, Any] = {each.name: each for each in exporter.get_finished_spans()}
    first, second = spans["invoke_agent desk"], spans["invoke_agent billing"]
    (link,) = second.links
    assert first.parent.span_id == link.context.span_id == spans["send desk"].context.span_id
    assert first.end_time <= second.start_time
    chats = [each for each in exporter.get_finished_spans() if each.name == "chat scripted"]
    ids = [each.parent.span_id for each in chats if each.parent is not None]
    assert ids == [first.context.span_id, second.context.span_id]
