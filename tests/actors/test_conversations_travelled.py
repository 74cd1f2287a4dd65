"""Real conversations, forked at every one of their versions: each fork goes on to the same end.

The model of all forks is the recording, so what differs from it was lost, added or reordered by
the fork.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from places import NewAddress, on_stores
from recordings import Chat, needs_recordings, read_chats, various
from travelling import WAIT, shown, stored

from turnstream.actors import ActorSystem, Agent, Session, Turn, import_transcript
from turnstream.actors.testing import RecordedModel
from turnstream.events import (
    Message,
    ModelFailed,
    UserMessage,
    verify,
)
from turnstream.projections import INITIAL, evolve, fold
from turnstream.stores import EventStore, open_store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

pytestmark = needs_recordings


@pytest.fixture
def chats() -> Sequence[Chat]:
    return read_chats()


@pytest.fixture
def store(opened: EventStore) -> EventStore:
    return opened


def travelled(store: EventStore, chat: Chat, every: int) -> int:
    """Fork the conversation at one version of ``every``, resume each fork with the recorded
    answers, and compare; how many forks were made."""
    import_transcript(numbered(chat), store, "talk", agent="replay", at=NOON)
    source = stored(store, "talk")
    versions = range(1, len(source) + 1, every)
    with ActorSystem(Agent("reader", model=RecordedModel([])), store=store) as system:
        view = system.session("talk").at(version=len(source))
        said = shown(view)
        inputs = [each.content for each in said if isinstance(each, UserMessage)]
    model = RecordedModel(said)
    agent = Agent("replay", model=model, tools=model.tools)
    with ActorSystem(agent, store=store, on_failure="keep", on_agent_drift="ignore") as system:
        for version in versions:
            fork = system.session("talk").fork(version=version, session_id=f"fork-{version}")
            before = shown(fork.at(version=fork.version))
            assert before == shown(system.session("talk").at(version=version))
            finish(fork, inputs)
            pending = fork.pending()
            assert [*fork.messages, *(pending.messages if pending else ())] == said
            assert verify(store.read(fork.id)) is None
            store.delete(fork.id)
    assert stored(store, "talk") == source
    return len(versions)


def finish(fork: Session, inputs: Sequence[Any]) -> None:
    """Go on with the fork, and say what was not said yet."""
    if (turn := fork.resume()) is not None:
        end(turn)
    while len(heard := user_messages(shown(fork.at(version=fork.version)))) < len(inputs):
        end(fork.send(inputs[len(heard)]))


def numbered(chat: Chat) -> Chat:
    """The conversation, its calls numbered: the provider gave some ids out twice, and what a
    recording answers to a call it looks up by its id."""
    numbered: Chat = json.loads(json.dumps(chat))
    latest: dict[str, str] = {}
    for place, message in enumerate(numbered):
        for n, each in enumerate(message.get("tool_calls") or ()):
            latest[each["id"]] = f"call-{place}.{n}"
            each["id"] = latest[each["id"]]
        if "tool_call_id" in message:
            message["tool_call_id"] = latest[message["tool_call_id"]]
    return numbered


def end(turn: Turn) -> None:
    """The recording ends before its last answer."""
    with suppress(ModelFailed):
        turn.result(WAIT)


def user_messages(messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages if isinstance(each, UserMessage)]


def test_a_fork_at_any_version_of_a_sample_goes_on_to_the_recorded_end(
    chats: Sequence[Chat], store: EventStore
) -> None:
    assert travelled(store, min(chats, key=len), every=1) > 10


@pytest.mark.slow
@pytest.mark.timeout(1500)
@on_stores("memory", "sqlite")
def test_a_fork_at_every_version_of_every_conversation_goes_on_to_the_recorded_end(
    chats: Sequence[Chat], new_address: NewAddress
) -> None:
    assert forks_of(chats, new_address) > 2 * len(chats)


@pytest.mark.slow
@pytest.mark.timeout(600)
@on_stores("jsonl", "postgresql")
def test_a_fork_at_some_versions_of_various_conversations_goes_on_to_the_recorded_end(
    chats: Sequence[Chat], new_address: NewAddress
) -> None:
    sample = various(chats)
    assert len(sample) < len(chats) // 6
    assert forks_of(sample, new_address, every=5) > 4 * len(sample)


def forks_of(chats: Sequence[Chat], new_address: NewAddress, every: int = 1) -> int:
    """Travel through these conversations, each in a store of its own; how many forks were made."""
    forks = 0
    for chat in chats:
        with closing(open_store(new_address())) as store:
            forks += travelled(store, chat, every)
    return forks


@pytest.mark.slow
def test_every_version_of_every_conversation_is_the_fold_up_to_it(chats: Sequence[Chat]) -> None:
    with closing(open_store("memory://")) as store:
        for place, chat in enumerate(chats):
            import_transcript(chat, store, f"talk-{place}", at=NOON)
        with ActorSystem(Agent("reader", model=RecordedModel([])), store=store) as system:
            for place in range(len(chats)):
                session, state = system.session(f"talk-{place}"), INITIAL
                events = [each.event for each in session.events()]
                for version, event in enumerate(events, 1):
                    state = evolve(state, event)
                    assert session.at(version=version).folded == state
                for entry in session.history():
                    assert entry.checkpoint.folded == fold(events[: entry.version])
