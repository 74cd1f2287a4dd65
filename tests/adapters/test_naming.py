"""Models by name, keys that are missing, and a client that is not installed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from asking import asked

from turnstream.actors import ActorSystem, Agent, AgentContext
from turnstream.actors.adapters import AnthropicMessages, OpenAIChat, OpenAIResponses, named_model
from turnstream.actors.testing import ScriptedModel
from turnstream.events import AgentConfigured, InvalidAgent, ModelRefused

WAIT = 20
NAMES = {"openai:gpt-x": OpenAIChat, "openai-responses:gpt-x": OpenAIResponses}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_for_a_model(name: str) -> None:
    model = named_model(name)
    assert type(model) is NAMES[name] and model.id == name
    assert Agent("agent", model=name).model is model


def test_a_name_may_hold_colons_and_slashes() -> None:
    assert named_model("openai:meta/llama:free").id == "openai:meta/llama:free"


def test_a_name_stands_for_the_same_model_each_time() -> None:
    assert named_model("openai:gpt-x") is named_model("openai:gpt-x")


@pytest.mark.parametrize(
    "name", ["", "gpt-x", "openai", "openai:", ":gpt-x", "os:system", "OpenAI:x"]
)
def test_a_name_that_stands_for_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidAgent, match='"openai:NAME"'):
        Agent("agent", model=name)


def test_an_agent_may_choose_its_model_by_name() -> None:
    chosen = []

    def model(context: AgentContext) -> Any:
        chosen.append(context.turn_id)
        return "openai:gpt-x"

    agent = Agent("agent", model=model)
    with ActorSystem(agent) as system:
        session = system.session()
        session.send("hi").accepted().result(WAIT)
        events = [each.event for each in session.events()]
    (configured,) = [each for each in events if isinstance(each, AgentConfigured)]
    assert configured.model == "openai:gpt-x" and chosen


@pytest.mark.parametrize("adapter", [OpenAIChat, OpenAIResponses])
def test_a_missing_key_is_named(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
        asked(adapter("gpt-x", base_url="http://127.0.0.1:9"))


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(InvalidAgent, match=r"pip install 'turnstream\[openai\]'"):
        Agent("agent", model="openai:not-asked-for-before")


def test_no_client_is_loaded_before_it_is_used() -> None:
    script = (
        "import sys, turnstream\n"
        "from turnstream.actors import adapters\n"
        "turnstream.Agent('a', model=lambda request: 'hi')\n"
        "print([each for each in ('openai', 'anthropic', 'httpx2') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("settings", [[], "temperature", {"at": object()}, {1: 2}])
def test_settings_are_plain(settings: Any) -> None:
    with pytest.raises(InvalidAgent):
        Agent("agent", model=ScriptedModel([]), settings=settings)


def test_settings_are_a_copy() -> None:
    given: dict[str, Any] = {"stop": ["a"]}
    agent = Agent("agent", model=(model := ScriptedModel(["ok"])), settings=given)
    given["stop"].append("b")
    with ActorSystem(agent) as system:
        system.session().send("hi").result(WAIT)
    assert model.requests[0].settings == {"stop": ["a"]}


@pytest.mark.parametrize("adapter", [OpenAIChat, OpenAIResponses, AnthropicMessages])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"name": "m", "timeout": "soon"}, "timeout"),
        ({"name": "m", "timeout": 0}, "timeout"),
        ({"name": "m", "headers": 5}, "headers"),
        ({"name": "m", "settings": [1]}, "settings"),
    ],
)
def test_what_makes_no_model_is_named(adapter: Any, given: Any, why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        adapter(**given)
