"""Conversations in OpenAI chat format, out and in again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from transcripts import HALF, conversations, exactly

from turnstream.actors import (
    ActorSystem,
    Agent,
    export_chat,
    import_transcript,
    tool,
    transcript_events,
)
from turnstream.actors.exporting import chat_messages
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    ImagePart,
    InvalidTranscript,
    Message,
    ModelTurn,
    SessionNotFound,
    TextPart,
    ToolCall,
    ToolError,
    ToolMessage,
    UserMessage,
)
from turnstream.projections import course
from turnstream.stores import EventStore

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = 20


def read_back(chat: list[dict[str, Any]]) -> list[Message]:
    """What is made of a chat once it was a file."""
    chat = json.loads(json.dumps(chat).encode("ascii"))
    return list(course(transcript_events(chat, agent="agent", at=NOON)).messages)


@pytest.mark.slow
@given(conversations())
@example([UserMessage(HALF), AssistantMessage("", (ToolCall("c", "find", {HALF: [HALF]}),))])
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_conversation_comes_back_to_the_letter(messages: list[Message]) -> None:
    assert exactly(read_back(chat_messages(messages, "Be brief."))) == exactly(messages)


def test_the_format_is_the_one_that_providers_take() -> None:
    image = ImagePart("image/jpeg", data=b"\xff\xd8")
    chat = chat_messages(
        [
            UserMessage((TextPart("What is it?"), image, ImagePart(url="https://x.org/a.png"))),
            AssistantMessage("", (ToolCall("c1", "look", {"at": "ü"}), ToolCall("c2", "look"))),
            ToolMessage("c1", "look", "A cat."),
            ToolMessage("c2", "look", "?"),
            AssistantMessage("It is a cat."),
        ],
        "Be brief.",
    )
    assert chat == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9g="}},
                {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at": "\\u00fc"}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A cat."},
        {"role": "tool", "tool_call_id": "c2", "content": "?"},
        {"role": "assistant", "content": "It is a cat."},
    ]


def test_malformed_arguments_stand_there_word_for_word() -> None:
    (written,) = chat_messages([AssistantMessage("", (ToolCall("c", "f", malformed='{"a":'),))])
    assert written["tool_calls"][0]["function"]["arguments"] == '{"a":'
    assert "turnstream" not in written["tool_calls"][0]


def test_what_the_format_has_no_words_for_stands_beside_it() -> None:
    opaque = {"signature": "abc", "nested": [1, {"$int": 2}]}
    messages = [
        UserMessage("go"),
        AssistantMessage("", (ToolCall("c", "f", {"at": NOON}),), (opaque, {})),
        ToolMessage("c", "f", "no", "rejected"),
    ]
    chat = chat_messages(messages)
    assert chat[1]["turnstream"] == {
        "parts": [{"signature": "abc", "nested": [1, {"$$int": 2}]}, {}]
    }
    function = chat[1]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"at": "2026-01-01T12:00:00+00:00"}
    assert chat[2]["turnstream"] == {"outcome": "rejected"}
    assert exactly(read_back(chat)) == exactly(messages)


def test_integers_of_any_length_come_back() -> None:
    messages = [UserMessage("go"), AssistantMessage("", (ToolCall("c", "f", {"n": 10**5000}),))]
    assert read_back(chat_messages(messages)) == messages


def test_a_session_is_exported_with_its_id_instructions_and_unfinished_turn(
    opened: EventStore,
) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolError("no luck")

    script = [ModelTurn("Hm.", (call("fail"),), parts=({"sig": "x"},)), "Sorry.", RuntimeError()]
    agent = Agent("a", model=ScriptedModel(script), instructions="Be brief.", tools=[fail])
    with ActorSystem(agent, store=opened, on_failure="keep") as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        with pytest.raises(Exception, match="RuntimeError"):
            session.send("again").result(WAIT)
        pending = session.pending()
        assert pending is not None
        held = [*session.messages, *pending.messages]
    document = export_chat(opened, "s")
    assert document["id"] == "s" and set(document) == {"id", "messages"}
    assert document["messages"][0] == {"role": "system", "content": "Be brief."}
    assert exactly(read_back(document["messages"])) == exactly(held)
    with pytest.raises(SessionNotFound):
        export_chat(opened, "nobody")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "x", "turnstream": {"parts": {"$int": "x"}}},
        {"role": "assistant", "content": "x", "turnstream": {"parts": [{"$import": "os"}]}},
        {"role": "assistant", "content": "x", "turnstream": 7},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c", "function": {"name": "f"}, "turnstream": {"arguments": {"$dict": [1]}}}
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "a", "turnstream": {"type": "x"}}]},
        {"role": "user", "content": [{"turnstream": {"type": "image"}}]},
    ],
)
def test_what_nobody_wrote_beside_a_message_is_refused_naming_it(message: dict[str, Any]) -> None:
    with pytest.raises(InvalidTranscript, match="message 1 "):
        transcript_events([{"role": "user", "content": "go"}, message], agent="a", at=NOON)


def test_an_outcome_that_is_none_is_refused() -> None:
    asked = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c", "content": "x", "turnstream": {"outcome": "great"}},
    ]
    with pytest.raises(InvalidTranscript, match="message 1 "):
        transcript_events(chat, agent="a", at=NOON)


@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded conversations beside this checkout")
def test_every_real_conversation_comes_back_and_reads_as_it_was(
    opened: EventStore, run: Callable[..., ActorSystem]
) -> None:
    with gzip.open(RECORDED, "rt") as file:
        chats = [json.loads(line)["messages"] for line in file]
    for place, chat in enumerate(chats):
        import_transcript(chat, opened, f"talk-{place}")
        document = export_chat(opened, f"talk-{place}")
        import_transcript(document["messages"], opened, f"again-{place}")
        again = export_chat(opened, f"again-{place}")
        assert again == document | {"id": f"again-{place}"}
        assert [plainly(each) for each in document["messages"]] == [plainly(each) for each in chat]


def plainly(message: dict[str, Any]) -> tuple[Any, ...]:
    """A message of either, its arguments read."""
    asked = [
        (each["id"], each["function"]["name"], json.loads(each["function"]["arguments"]))
        for each in message.get("tool_calls") or ()
    ]
    return (message["role"], message["content"] or "", asked, message.get("tool_call_id"))
