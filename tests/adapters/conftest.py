"""Every adapter on a server of its provider's format, and the model that is scripted here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# What several files of tests share lies beside them.
sys.path.insert(0, str(Path(__file__).parent))

from anthropic_wire import AnthropicWire
from openai_chat_wire import OpenAIChatWire
from openai_responses_wire import OpenAIResponsesWire
from saying import Wire
from talking import OnWire, Scripted, Talk

WIRES: dict[str, Wire] = {
    wire.name: wire
    for wire in (
        OpenAIChatWire(),
        OpenAIResponsesWire(),
        AnthropicWire(),
    )
}


# The two of one provider have most of an adapter in common.
ADAPTERS = [
    pytest.param(name, marks=pytest.mark.slow if name == "openai-responses" else ())
    for name in WIRES
]


@pytest.fixture(params=["scripted", *ADAPTERS])
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    """A model for each way there is to have one."""
    wire = WIRES.get(request.param)
    talk: Talk = Scripted() if wire is None else OnWire(wire)
    yield talk
    talk.close()


@pytest.fixture(params=ADAPTERS)
def wired(request: pytest.FixtureRequest) -> Iterator[OnWire]:
    """Each adapter."""
    talk = OnWire(WIRES[request.param])
    yield talk
    talk.close()


@pytest.fixture(params=ADAPTERS)
def other(request: pytest.FixtureRequest) -> Iterator[OnWire]:
    """Each adapter, once more: for conversations that change theirs."""
    talk = OnWire(WIRES[request.param])
    yield talk
    talk.close()
