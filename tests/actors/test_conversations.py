"""Real conversations, held again: the recorded answers as the model, the recorded outputs as tools.

They end with the user or with a tool, so their last turn stays unfinished: what is compared is
the finished conversation and then the messages that are pending.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from recordings import Chat, needs_recordings, read_chats

from turnstream.actors import ActorSystem, Agent, Session, audit_session, import_transcript
from turnstream.actors.testing import RecordedModel
from turnstream.events import (
    AssistantMessage,
    Message,
    ModelFailed,
    ModelTurnRecorded,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    UserMessage,
)
from turnstream.projections import INITIAL, check_transcript, evolve, fold
from turnstream.stores import EventStore, open_store

pytestmark = needs_recordings


@pytest.fixture
def chats() -> Sequence[Chat]:
    return read_chats()


@pytest.fixture
def store(opened: EventStore) -> EventStore:
    return opened


class Said(NamedTuple):
    """A message as both sides have it: arguments parsed, no text as empty text."""

    role: str
    text: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    answers: str = ""


def recorded(chat: Chat) -> list[Said]:
    """What was said in a conversation in OpenAI chat format."""
    return [
        Said(
            message["role"],
            message["content"] or "",
            tuple(
                (each["id"], each["function"]["name"], json.loads(each["function"]["arguments"]))
                for each in message.get("tool_calls") or ()
            ),
            message.get("tool_call_id", ""),
        )
        for message in chat
        if message["role"] != "system"
    ]


def held(messages: Sequence[Message]) -> list[Said]:
    """What was said in one of ours."""
    return [_held(each) for each in messages]


def _held(message: Message) -> Said:
    match message:
        case UserMessage(content=str(text)):
            return Said("user", text)
        case AssistantMessage(text=text, tool_calls=calls):
            return Said("assistant", text, tuple((c.id, c.name, c.arguments) for c in calls))
        case ToolMessage(call_id=call_id, content=str(text), outcome="ok"):
            return Said("tool", text, (), call_id)
    raise AssertionError(message)


def messages(chat: Chat) -> list[Message]:
    """A conversation in OpenAI chat format as messages of ours."""
    names: dict[str, str] = {}
    found: list[Message] = []
    for said in recorded(chat):
        names.update({call_id: name for call_id, name, _ in said.calls})
        match said.role:
            case "user":
                found.append(UserMessage(said.text))
            case "assistant":
                found.append(AssistantMessage(said.text, tuple(ToolCall(*c) for c in said.calls)))
            case _:
                found.append(ToolMessage(said.answers, names[said.answers], said.text))
    return found


@pytest.mark.slow
def test_every_conversation_held_again_is_the_recorded_one(
    chats: Sequence[Chat], store: EventStore
) -> None:
    with ActorSystem(map(replaying, range(len(chats)), chats), store=store, on_failure="keep") as s:
        asyncio.run(hold_all(s, chats))
        for place, chat in enumerate(chats):
            assert_same(s.session(f"talk-{place}"), chat)
    assert_sound(store, len(chats))


def replaying(place: int, chat: Chat) -> Agent:
    model = RecordedModel(messages(chat))
    return Agent(f"talk-{place}", model=model, tools=model.tools)


async def hold_all(system: ActorSystem, chats: Sequence[Chat]) -> None:
    async def hold(place: int, chat: Chat) -> None:
        session = system.session(f"talk-{place}", agent=f"talk-{place}")
        *answered, last = [each["content"] for each in chat if each["role"] == "user"]
        for text in answered:
            await session.send(text)
        with pytest.raises(ModelFailed, match="recording"):
            await session.send(last)

    await asyncio.gather(*[hold(place, chat) for place, chat in enumerate(chats)])


def assert_same(session: Session, chat: Chat) -> None:
    """Message by message. A call whose id the provider had given out before has another one."""
    pending = session.pending()
    assert pending is not None and pending.queued == () and pending.calls == ()
    ours, theirs = [*session.messages, *pending.messages], recorded(chat)
    check_transcript(ours)
    assert len(ours) == len(theirs)
    known: dict[str, str] = {}
    for mine, original in zip(held(ours), theirs, strict=True):
        assert (mine.role, mine.text) == (original.role, original.text)
        assert [each[1:] for each in mine.calls] == [each[1:] for each in original.calls]
        for (call_id, *_), (recorded_id, *_) in zip(mine.calls, original.calls, strict=True):
            assert call_id == recorded_id or recorded_id in known
            known[recorded_id] = call_id
        assert mine.answers == known.get(original.answers, "")


def assert_sound(store: EventStore, sessions: int) -> None:
    """Each chain holds, each call ran once, and no step was recorded twice."""
    with ActorSystem(Agent("reader", model=RecordedModel([])), store=store) as system:
        for place in range(sessions):
            assert audit_session(store, f"talk-{place}").findings == []
            events = [each.event for each in system.session(f"talk-{place}").events()]
            turns = [e for e in events if isinstance(e, ModelTurnRecorded)]
            asked = sorted((e.turn_id, c.id) for e in turns for c in e.tool_calls)
            for kind in (ToolCallStarted, ToolResultRecorded):
                assert (
                    sorted((e.turn_id, e.call_id) for e in events if isinstance(e, kind)) == asked
                )
            assert len({(e.turn_id, e.step) for e in turns}) == len(turns)


def test_every_conversation_is_imported_message_by_message(
    chats: Sequence[Chat], store: EventStore
) -> None:
    for place, chat in enumerate(chats):
        version = import_transcript(chat, store, f"talk-{place}")
        assert version == len(store.read(f"talk-{place}"))
    with ActorSystem(Agent("reader", model=RecordedModel([])), store=store) as system:
        for place, chat in enumerate(chats):
            session = system.session(f"talk-{place}")
            pending = session.pending()
            assert pending is not None
            assert held([*session.messages, *pending.messages]) == recorded(chat)
            assert audit_session(store, session.id).findings == []


@pytest.mark.slow
def test_every_prefix_of_an_imported_conversation_folds_and_goes_on_to_the_same(
    chats: Sequence[Chat],
) -> None:
    with closing(open_store("memory://")) as store:
        for place, chat in enumerate(chats):
            import_transcript(chat, store, f"talk-{place}", at=datetime(2026, 1, 1, tzinfo=UTC))
        with ActorSystem(Agent("reader", model=RecordedModel([])), store=store) as system:
            for place in range(len(chats)):
                events = [each.event for each in system.session(f"talk-{place}").events()]
                whole, state = fold(events), INITIAL
                for cut, event in enumerate(events):
                    assert state == fold(events[:cut])
                    check_transcript(state.conversation)
                    assert fold(events[cut:], state) == whole
                    state = evolve(state, event)
