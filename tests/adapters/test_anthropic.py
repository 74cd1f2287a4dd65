"""What Messages ask for that no other format does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anthropic_wire import AnthropicWire, framed
from msgspec import Struct
from saying import Line, Said
from serving import Reply, streamed
from talking import OnWire

from turnstream.actors import ActorSystem, Agent, Session, tool
from turnstream.actors.adapters import AnthropicMessages, named_model
from turnstream.actors.testing import call
from turnstream.events import (
    FilePart,
    ImagePart,
    ModelRefused,
    ModelTurnRecorded,
    ModelUnavailable,
    Part,
    TextPart,
    ToolCall,
    Usage,
)

WAIT = 20

Begin = Callable[..., Session]
Block = dict[str, Any]


class Point(Struct):
    x: int
    y: int = 0


class Tree(Struct):
    children: list[Tree]


class Counts(Struct):
    words: dict[str, int]


@tool
def look(at: str = "") -> str:
    """Look."""
    if at == "nowhere":
        raise ValueError("there is nothing")
    return "a tree"


@pytest.fixture
def wired() -> Iterator[OnWire]:
    talk = OnWire(AnthropicWire())
    yield talk
    talk.close()


@pytest.fixture
def begin(wired: OnWire) -> Iterator[Begin]:
    """A session with a model that says these lines, or streams these events."""
    systems: list[ActorSystem] = []

    def start(*script: Line | Reply, settings: Any = None, **options: Any) -> Session:
        lines = iter(script)
        wire = AnthropicWire()

        def reply(_: object) -> Reply:
            line = next(lines)
            if isinstance(line, Reply):
                return line
            said = Said(line) if isinstance(line, str) else line
            assert isinstance(said, Said)
            return streamed(*wire.answer(said))

        model = wired.served(reply, settings=settings)
        options = {"tools": [look], **options}
        systems.append(ActorSystem(Agent("agent", model=model, **options)))
        return systems[-1].session("s")

    yield start
    for system in systems:
        system.close()


def events_of(*blocks: tuple[Block, list[Block]], stop: str = "end_turn") -> Reply:
    """An answer of these blocks, each with its deltas."""
    sent = [{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}]
    for index, (block, deltas) in enumerate(blocks):
        sent.append({"type": "content_block_start", "index": index, "content_block": block})
        sent += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        sent.append({"type": "content_block_stop", "index": index})
    sent.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop},
            "usage": {"output_tokens": 2},
        }
    )
    sent.append({"type": "message_stop"})
    return streamed(*map(framed, sent))


def text(words: str) -> tuple[Block, list[Block]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": words}]


def asked(wired: OnWire, number: int = -1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = wired.requests[number].json()["messages"]
    return messages


def recorded(session: Session) -> list[ModelTurnRecorded]:
    events = [each.event for each in session.events()]
    return [each for each in events if isinstance(each, ModelTurnRecorded)]


def test_blocks_go_back_in_their_order_and_as_they_came(begin: Begin, wired: OnWire) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srv_1",
        "content": [{"type": "web_search_result", "encrypted_content": "E=="}],
    }
    hidden = {"type": "redacted_thinking", "data": "R=="}
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    citation = {"type": "web_search_result_location", "encrypted_index": "I=="}
    session = begin(
        events_of(
            (
                thinking,
                [
                    {"type": "thinking_delta", "thinking": "Search"},
                    {"type": "thinking_delta", "thinking": " it."},
                    {"type": "signature_delta", "signature": "S=="},
                ],
            ),
            text("Let me search."),
            (
                search,
                [
                    {"type": "input_json_delta", "partial_json": each}
                    for each in ("", '{"query":', ' "trees"}')
                ],
            ),
            (found, []),
            (
                {"type": "text", "text": ""},
                [
                    {"type": "text_delta", "text": "Found."},
                    {"type": "citations_delta", "citation": citation},
                ],
            ),
            (hidden, []),
            (use, [{"type": "input_json_delta", "partial_json": '{"at": "it"}'}]),
            stop="tool_use",
        ),
        "A tree.",
    )
    assert session.send("look").result(WAIT).text == "A tree."
    assert asked(wired)[1]["content"] == [
        {"type": "thinking", "thinking": "Search it.", "signature": "S=="},
        {"type": "text", "text": "Let me search."},
        {**search, "input": {"query": "trees"}},
        found,
        {"type": "text", "text": "Found.", "citations": [citation]},
        hidden,
        {**use, "input": {"at": "it"}},
    ]
    assert recorded(session)[0].text == "Let me search.Found."


def test_what_was_written_to_a_cache_is_input_too(begin: Begin) -> None:
    counts = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "output_tokens": 1,
    }
    session = begin(
        streamed(
            framed({"type": "message_start", "message": {"usage": counts}}),
            framed(
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 9, "cache_read_input_tokens": None},
                }
            ),
            framed({"type": "message_stop"}),
        )
    )
    session.send("hi").result(WAIT)
    assert session.usage == Usage(1107, 9, 1000, 0)


def test_ids_that_are_not_taken_there_are_numbered(begin: Begin, wired: OnWire) -> None:
    odd = (ToolCall("a.b:c/é", "look"), ToolCall("same", "look"), ToolCall("same", "look"))
    session = begin(Said("", odd), Said("", (call("look", "same"),)), "Done.")
    assert session.send("look").result(WAIT).text == "Done."
    messages = asked(wired)
    ids = [each["id"] for message in (messages[1], messages[3]) for each in message["content"]]
    answered = [
        each["tool_use_id"] for message in (messages[2], messages[4]) for each in message["content"]
    ]
    assert len(set(ids)) == 4 and ids == answered and ids[1] == "same"


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_texts_that_say_nothing_are_left_out(begin: Begin, wired: OnWire, blank: str) -> None:
    session = begin(Said(blank), Said(blank, (call("look", "c1"),)), "Yes.", "No.")
    session.send(blank).result(WAIT)
    session.send("look").result(WAIT)
    assert session.send("and?").result(WAIT).text == "No."
    assert [[each.get("text", each["type"]) for each in m["content"]] for m in asked(wired)] == [
        ["(nothing)", "look"],
        ["tool_use"],
        ["tool_result"],
        ["Yes."],
        ["and?"],
    ]


def test_results_and_inputs_that_follow_each_other_are_one_message(
    begin: Begin, wired: OnWire
) -> None:
    session = begin(Said("", (call("look", "c1"), call("look", "c2", at="nowhere"))), "Well.")
    turn = session.send("look")
    turn.result(WAIT)
    blocks = asked(wired)[-1]["content"]
    assert [(each["tool_use_id"], each.get("is_error", False)) for each in blocks] == [
        ("c1", False),
        ("c2", True),
    ]


@pytest.mark.parametrize(
    ("settings", "most"), [({}, 8192), ({"max_tokens": 64}, 64), ({"temperature": 0.0}, 8192)]
)
def test_an_answer_has_a_limit(begin: Begin, wired: OnWire, settings: Any, most: int) -> None:
    begin("Hello.", settings=settings).send("hi").result(WAIT)
    body = wired.requests[-1].json()
    assert body["max_tokens"] == most and {**body, **settings} == body


def test_settings_of_the_agent_win_and_none_leaves_out(begin: Begin, wired: OnWire) -> None:
    session = begin(
        "Hello.",
        settings={"max_tokens": 64, "temperature": 0.5, "top_k": 3},
        model_retries=0,
    )
    session.send("hi").result(WAIT)
    agent = Agent(
        "agent", model=wired.model(["Hi."], settings={"top_k": 3}), settings={"top_k": None}
    )
    with ActorSystem(agent) as system:
        system.session("t").send("hi").result(WAIT)
    assert "top_k" in wired.requests[0].json() and "top_k" not in wired.requests[1].json()


def test_a_type_that_the_provider_can_hold_to_is_its_setting(begin: Begin, wired: OnWire) -> None:
    session = begin('{"x": 1, "y": 2}', output_type=Point, instructions="Where?")
    assert session.send("go").result(WAIT).output == Point(1, 2)
    body = wired.requests[-1].json()
    schema = body["output_config"]["format"]["schema"]
    assert schema["properties"].keys() == {"x", "y"} and schema["additionalProperties"] is False
    assert body["system"] == "Where?"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(Tree, {"children": []}), (Counts, {"words": {"a": 1}}), (tuple[int, str], [1, "a"])],
)
def test_a_type_that_it_can_not_hold_to_is_told_with_the_instructions(
    begin: Begin, wired: OnWire, kind: Any, answer: Any
) -> None:
    session = begin("no JSON", json.dumps(answer), output_type=kind, instructions="Be brief.")
    session.send("go").result(WAIT)
    body = wired.requests[-1].json()
    assert "output_config" not in body
    assert body["system"].startswith("Be brief.\n\nYour final answer is JSON")


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (
            FilePart("a.md", "text/markdown", data=b"# A"),
            {
                "source": {"type": "text", "media_type": "text/plain", "data": "# A"},
                "title": "a.md",
            },
        ),
        (
            FilePart("", url="https://x.org/a.pdf"),
            {"source": {"type": "url", "url": "https://x.org/a.pdf"}},
        ),
        (
            ImagePart(url="https://x.org/a.png"),
            {"source": {"type": "url", "url": "https://x.org/a.png"}},
        ),
    ],
)
def test_files_have_their_places(begin: Begin, wired: OnWire, part: Part, sent: Block) -> None:
    begin("Nice.").send((TextPart("See:"), part)).result(WAIT)
    kind = "image" if isinstance(part, ImagePart) else "document"
    assert asked(wired)[0]["content"][1] == {"type": kind, **sent}


def test_a_file_that_there_is_no_place_for_is_named(begin: Begin, wired: OnWire) -> None:
    session = begin()
    with pytest.raises(ModelRefused, match="application/zip"):
        session.send((FilePart("a.zip", "application/zip", data=b"PK"),)).result(WAIT)
    assert wired.requests == []


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("stop_sequence", "stop"), ("model_context_window_exceeded", "length"), ("pause_turn",) * 2],
)
def test_why_it_stopped_is_recorded(begin: Begin, stop: str, reason: str) -> None:
    session = begin(events_of(text("So far."), stop=stop))
    session.send("hi").result(WAIT)
    assert [each.finish_reason for each in recorded(session)] == [reason]


def test_an_error_within_an_answer_is_the_providers(begin: Begin) -> None:
    wire = AnthropicWire()
    begun = wire.answer(Said("begun"))[:3]
    session = begin(
        streamed(*begun, wire.fault_inside("overloaded")),
        streamed(*begun, wire.fault_inside("wrong-key")),
        retry_wait=lambda *_: 0,
    )
    with pytest.raises(ModelRefused, match="authentication_error"):
        session.send("hi").result(WAIT)
    again = begin(streamed(*begun, wire.fault_inside("broken")), model_retries=0)
    with pytest.raises(ModelUnavailable, match="api_error"):
        again.send("hi").result(WAIT)


def test_a_missing_key_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    model = AnthropicMessages("small", base_url="http://127.0.0.1:9")
    with (
        ActorSystem(Agent("agent", model=model)) as system,
        pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY"),
    ):
        system.session("s").send("hi").result(WAIT)


def test_a_model_has_a_short_name() -> None:
    model = named_model("anthropic:small")
    assert isinstance(model, AnthropicMessages) and model.id == "anthropic:small"
    assert named_model("anthropic:small") is model
