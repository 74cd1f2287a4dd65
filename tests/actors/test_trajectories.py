"""Conversations in the Agent Trajectory Interchange Format, out and in again."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from atif_rules import check
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from transcripts import HALF, conversations, exactly

from turnstream.actors import (
    ActorSystem,
    Agent,
    export_trajectory,
    import_trajectory,
    import_transcript,
    tool,
    transcript_events,
)
from turnstream.actors.atif import trajectory_of
from turnstream.actors.atif_reading import trajectory_events
from turnstream.actors.exporting import chat_messages, session_course
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    ImagePart,
    InvalidTranscript,
    Message,
    ModelTurn,
    ModelTurnRecorded,
    SessionStarted,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    WrongExpectedVersion,
)
from turnstream.projections import Course, course
from turnstream.stores import EventStore

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = 20


def read(document: Any) -> Course:
    document = json.loads(json.dumps(document))
    return course(trajectory_events(document, agent=None, at=NOON))


@pytest.mark.slow
@given(conversations())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_conversation_is_valid_and_comes_back(messages: list[Message]) -> None:
    chat = chat_messages(messages, "Be brief.")
    held = course(transcript_events(chat, agent="agent", at=NOON))
    document = trajectory_of(held, "s")
    check(document)
    json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    assert exactly(read(document).messages) == exactly(map(mended, messages))


def mended(message: Message) -> Message:
    """Text is mended on its way out; parts, and what is beside the message, is exact but for it."""
    match message:
        case UserMessage(content=content):
            return UserMessage(_mended(content))
        case AssistantMessage():
            return replace(
                message,
                text=_mended(message.text),
                tool_calls=tuple(map(_mended_call, message.tool_calls)),
                parts=_mended(message.parts),
            )
        case ToolMessage():
            return replace(message, content=_mended(message.content))


def _mended_call(call: ToolCall) -> ToolCall:
    return replace(call, arguments=_mended(call.arguments), malformed=_mended(call.malformed))


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.replace(HALF, "a\ufffd b")
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list():
            return [_mended(item) for item in value]
        case tuple():
            return tuple(_mended(item) for item in value)
        case _:
            return value


@tool
def look(city: str) -> str:
    """Look."""
    return f"{city} is sunny"


def test_a_session_is_a_trajectory_with_times_models_and_tokens(opened: EventStore) -> None:
    script = [
        ModelTurn("Let me see.", (call("look", city="Oslo"),), Usage(10, 4, 2, 1)),
        ModelTurn("Sunny.", (), Usage(20, 3)),
    ]
    model = ScriptedModel(script, id="m-1")
    with ActorSystem(
        Agent("planner", model=model, instructions="Be brief.", tools=[look]), store=opened
    ) as system:
        system.session("s").send("Weather?").result(WAIT)
    document = export_trajectory(opened, "s")
    check(document)
    assert document["schema_version"] == "ATIF-v1.7" and document["session_id"] == "s"
    assert document["agent"]["name"] == "planner"
    assert document["agent"]["model_name"] == "m-1"
    (definition,) = document["agent"]["tool_definitions"]
    assert definition["function"]["name"] == "look"
    assert definition["function"]["parameters"]["required"] == ["city"]
    steps = document["steps"]
    assert [each["source"] for each in steps] == ["system", "user", "agent", "agent"]
    assert steps[2]["tool_calls"][0]["arguments"] == {"city": "Oslo"}
    assert steps[2]["observation"]["results"][0]["content"] == "Oslo is sunny"
    assert steps[2]["metrics"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "cached_tokens": 2,
        "extra": {"reasoning_tokens": 1},
    }
    assert all(datetime.fromisoformat(each["timestamp"]).tzinfo for each in steps[1:])
    final = document["final_metrics"]
    assert (final["total_prompt_tokens"], final["total_completion_tokens"]) == (30, 7)
    assert (final["total_cached_tokens"], final["total_steps"]) == (2, 4)


def test_an_imported_trajectory_keeps_its_times_models_and_tokens(opened: EventStore) -> None:
    with ActorSystem(Agent("a", model=lambda _: ModelTurn("Hi.", usage=Usage(7, 2))), store=opened):
        pass
    document = {
        "schema_version": "ATIF-v1.4",
        "session_id": "other",
        "agent": {"name": "terminus", "version": "2.0", "model_name": "m-default"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "go", "timestamp": "2025-10-11T10:00:00Z"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "timestamp": "2025-10-11T10:00:05+02:00",
                "model_name": "m-2",
                "reasoning_content": "Hm.",
                "tool_calls": [{"tool_call_id": "c", "function_name": "ls", "arguments": {"a": 1}}],
                "observation": {"results": [{"source_call_id": "c", "content": "file"}]},
                "metrics": {"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 1},
            },
            {"step_id": 3, "source": "agent", "message": "Done."},
        ],
    }
    import_trajectory(document, opened, "s", at=NOON)
    found = session_course(opened, "s")
    assert found.state.agent == "terminus"
    first, last = (each.event for each in found.answers)
    assert (first.model, first.usage) == ("m-2", Usage(9, 3, 1))
    assert first.at == datetime(2025, 10, 11, 8, 0, 5, tzinfo=UTC)
    assert (last.model, last.usage, last.at) == ("m-default", Usage(), NOON)
    assert list(found.messages) == [
        UserMessage("go"),
        AssistantMessage("", (ToolCall("c", "ls", {"a": 1}),), ({"reasoning_content": "Hm."},)),
        ToolMessage("c", "ls", "file"),
        AssistantMessage("Done."),
    ]
    again = export_trajectory(opened, "s")
    check(again)
    assert again["steps"][1]["reasoning_content"] == "Hm."
    with pytest.raises(WrongExpectedVersion):
        import_trajectory(document, opened, "s", agent="other", at=NOON)


def trajectory(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    } | fields


def agent_step(*results: dict[str, Any], calls: int = 1, message: str = "") -> dict[str, Any]:
    return {
        "source": "agent",
        "message": message,
        "tool_calls": [
            {"tool_call_id": f"c{n}", "function_name": "f", "arguments": {}} for n in range(calls)
        ],
        "observation": {"results": list(results)},
    }


GO = {"source": "user", "message": "go"}
DONE = {"source": "agent", "message": "Done."}


def test_a_call_without_a_result_is_cancelled_or_left_open_at_the_end() -> None:
    known = {"source_call_id": "c1", "content": "r"}
    found = read(trajectory(GO, agent_step(known, calls=2), DONE))
    assert [(each.outcome, each.call_id) for each in found.messages[2:4]] == [
        ("cancelled", "c0"),
        ("ok", "c1"),
    ]
    found = read(trajectory(GO, agent_step(known, calls=2)))
    turn = found.state.turn
    assert turn is not None and [each.call.id for each in turn.calls] == ["c0", "c1"]
    assert found.state.status == "running" and len(turn.results) == 1


def test_what_was_observed_without_a_call_is_read_as_an_input() -> None:
    observed = {"content": "$ ls"}
    assert read(trajectory(GO, agent_step(observed), DONE)).messages[2] == ToolMessage(
        "c0", "f", "$ ls"
    )
    found = read(trajectory(GO, agent_step(observed, calls=0, message="ls"), DONE))
    assert list(found.messages) == [
        UserMessage("go"),
        AssistantMessage("ls"),
        UserMessage("$ ls"),
        AssistantMessage("Done."),
    ]


def test_images_come_in_and_sound_is_named() -> None:
    image = {"type": "image", "source": {"media_type": "image/gif", "path": "pic/a.gif"}}
    sound = {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav"}}
    (message,) = read(
        trajectory({"source": "user", "message": [{"type": "text", "text": "t"}, image, sound]})
    ).messages
    assert message == UserMessage(
        (
            TextPart("t"),
            ImagePart("image/gif", url="pic/a.gif"),
            TextPart("[audio audio/wav: a.wav]"),
        )
    )


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"steps": []}, "ATIF"),
        (trajectory(GO, schema_version="ATIF-v2.0"), "ATIF-v2.0"),
        (trajectory(schema_version="ATIF-v1.7"), "neither"),
        (trajectory({"source": "system", "message": "x"}), "neither"),
        (trajectory(GO, agent={}), "ATIF"),
        (trajectory(GO, {"source": "nobody", "message": ""}), "step 2"),
        (trajectory(GO, agent_step({"source_call_id": "c9", "content": ""})), "step 2"),
        (trajectory(GO, {"source": "agent", "message": 7}), "ATIF|step 2"),
        (trajectory({"source": "user", "message": "x", "timestamp": "soon"}), "step 1"),
        (trajectory(GO, {"source": "agent", "message": "", "tool_calls": [{}]}), "ATIF"),
        (trajectory({"source": "user", "message": [{"type": "smell"}]}), "step 1"),
        (trajectory(GO, steps=7), "ATIF"),
    ],
)
def test_what_is_no_trajectory_is_refused_naming_the_step(
    document: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidTranscript, match=told):
        trajectory_events(document, agent=None, at=NOON)


def test_a_session_in_which_nothing_was_said_is_no_trajectory(opened: EventStore) -> None:
    with pytest.raises(InvalidTranscript, match="nothing was said"):
        trajectory_of(course([SessionStarted(at=NOON, agent="a")]), "s")


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded conversations beside this checkout")
def test_every_real_conversation_is_valid_and_comes_back(opened: EventStore) -> None:
    with gzip.open(RECORDED, "rt") as file:
        chats = [json.loads(line)["messages"] for line in file]
    for place, chat in enumerate(chats):
        import_transcript(chat, opened, f"talk-{place}")
        document = export_trajectory(opened, f"talk-{place}")
        check(document)
        agents = sum(each["source"] == "agent" for each in document["steps"])
        assert agents == sum(each["role"] == "assistant" for each in chat)
        import_trajectory(document, opened, f"again-{place}")
        mine, theirs = (session_course(opened, f"{n}-{place}") for n in ("again", "talk"))
        assert mine.messages == theirs.messages
        assert [type(each.event) for each in mine.answers] == [ModelTurnRecorded] * agents
        again = export_trajectory(opened, f"again-{place}")
        assert again == document | {"session_id": f"again-{place}"}
