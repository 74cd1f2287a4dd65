"""What is peculiar to the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from asking import answered, asked
from openai_responses_wire import OpenAIResponsesWire
from saying import Said
from serving import streamed
from talking import OnWire

from turnstream.actors import Model, ReasoningDelta
from turnstream.events import (
    AssistantMessage,
    ContextTooLong,
    FilePart,
    ImagePart,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

CALL = {"type": "function_call", "name": "add", "arguments": "{}", "status": "completed"}
FIRST, SECOND = ({**CALL, "id": f"fc_{n}", "call_id": f"c{n}"} for n in (1, 2))
THOUGHTS = [
    {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"e{n}=="}
    for n in (1, 2)
]


@pytest.fixture
def responses() -> Iterator[OnWire]:
    talk = OnWire(OpenAIResponsesWire())
    yield talk
    talk.close()


def message(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    named = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**named, "content": content, **fields}


def event(kind: str, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, **fields})}\n\n".encode()


def completed(*output: dict[str, Any], **fields: Any) -> bytes:
    response = {"status": "completed", "output": list(output), **fields}
    return event(f"response.{response['status']}", response=response)


def streaming(responses: OnWire, *pieces: bytes) -> Model:
    return responses.served(lambda _: streamed(*pieces))


def sent_back(responses: OnWire, *output: dict[str, Any]) -> list[dict[str, Any]]:
    """What the next request has in the place of an answer that consisted of these items."""
    model = streaming(responses, completed(*output))
    turn = answered(model)
    said = AssistantMessage(turn.text, turn.tool_calls, turn.parts)
    results = [ToolMessage(each.id, each.name, "0") for each in turn.tool_calls]
    asked(model, UserMessage("hi"), said, *results, UserMessage("so?"))
    items: list[dict[str, Any]] = responses.requests[-1].json()["input"]
    return items[1 : -1 - len(results)]


def test_an_answer_goes_back_item_by_item_as_it_came(responses: OnWire) -> None:
    output = [
        THOUGHTS[0],
        message("Let me see.", phase="commentary"),
        FIRST,
        THOUGHTS[1],
        SECOND,
        message("And so on.", id="msg_2"),
    ]
    expected = json.loads(json.dumps(output))
    for each in expected:
        for piece in each.get("content", ()):
            del piece["logprobs"]
    assert sent_back(responses, *output) == expected


def test_items_that_nobody_here_knows_go_back_too(responses: OnWire) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "x"}}
    assert sent_back(responses, search, message("Found it."))[0] == search


def test_a_text_that_was_changed_since_goes_back_as_it_is_now(responses: OnWire) -> None:
    model = streaming(responses, completed(THOUGHTS[0], message("Three.")))
    turn = answered(model)
    said = AssistantMessage("Four, they say.", turn.tool_calls, turn.parts)
    asked(model, UserMessage("hi"), said, UserMessage("so?"))
    heard = responses.heard[-1]
    assert heard.messages[1] == AssistantMessage("Four, they say.")


def test_a_call_that_was_taken_out_since_does_not_come_back(responses: OnWire) -> None:
    model = streaming(responses, completed(FIRST, SECOND))
    turn = answered(model)
    said = AssistantMessage("", turn.tool_calls[1:], turn.parts)
    asked(model, UserMessage("hi"), said, ToolMessage("c2", "add", "0"))
    assert responses.heard[-1].messages[1].tool_calls == (ToolCall("c2", "add"),)


def test_items_may_be_listed_only_as_they_come(responses: OnWire) -> None:
    model = streaming(
        responses,
        event("response.output_item.done", output_index=1, item=FIRST),
        event("response.output_item.done", output_index=0, item=message("Both.")),
        completed(),
    )
    turn = answered(model)
    assert (turn.text, turn.tool_calls) == ("Both.", (ToolCall("c1", "add"),))
    assert turn.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "kind", ["response.reasoning_text.delta", "response.reasoning_summary_text.delta"]
)
def test_reasoning_and_its_summary_are_shown(responses: OnWire, kind: str) -> None:
    model = streaming(responses, event(kind, delta="I add."), completed(message("3")))
    assert [e.text for e in asked(model) if isinstance(e, ReasoningDelta)] == ["I add."]


@pytest.mark.parametrize(
    ("why", "reason"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), (None, "incomplete")],
)
def test_an_answer_that_is_not_complete_says_why(
    responses: OnWire, why: str | None, reason: str
) -> None:
    details = {"reason": why} if why else None
    end = completed(message("Half."), status="incomplete", incomplete_details=details)
    turn = answered(streaming(responses, end))
    assert (turn.text, turn.finish_reason) == ("Half.", reason)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "server_error", "message": "oh"}, ModelUnavailable),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, ModelUnavailable),
        ({"code": "context_length_exceeded", "message": "too long"}, ContextTooLong),
        ({"code": "invalid_image", "message": "no"}, ModelRefused),
        ({"code": "insufficient_quota", "message": "pay"}, ModelRefused),
        (None, ModelUnavailable),
        ("odd", ModelUnavailable),
    ],
)
def test_a_response_that_failed_says_why(
    responses: OnWire, error: object, expected: type[ModelFailed]
) -> None:
    end = completed(status="failed", error=error, usage={"input_tokens": 7, "output_tokens": 1})
    told: list[Any] = []
    with pytest.raises(ModelFailed) as failure:
        told += asked(streaming(responses, end))
    assert type(failure.value) is expected


@pytest.mark.parametrize(
    "error",
    [
        {"code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"error": {"type": "server_error", "code": None, "message": "oh"}},
    ],
)
def test_an_event_may_be_an_error(responses: OnWire, error: dict[str, Any]) -> None:
    with pytest.raises(ModelUnavailable):
        asked(streaming(responses, event("error", **error)))


def test_a_tool_may_answer_with_images_and_files(responses: OnWire) -> None:
    content = (
        TextPart("Here:"),
        ImagePart("image/png", data=b"\x89PNG"),
        FilePart("", url="https://example.org/a.pdf"),
    )
    said = AssistantMessage("", (ToolCall("c1", "look"),))
    asked(responses.model(["ok"]), UserMessage("hi"), said, ToolMessage("c1", "look", content))
    assert responses.heard[0].messages[-1] == ToolMessage("c1", "look", content)


def test_nothing_is_stored_at_the_provider_unless_it_is_wished(responses: OnWire) -> None:
    asked(responses.model(["ok"]))
    assert responses.requests[0].json()["store"] is False


def test_settings_stand_beside_what_the_request_has(responses: OnWire) -> None:
    schema = {"type": "object", "properties": {}, "required": []}
    added = {"text": {"verbosity": "low"}, "include": ["file_search_call.results"]}
    asked(streaming(responses, completed(message("{}"))), output=schema, settings=added)
    body = responses.requests[0].json()
    assert body["text"]["verbosity"] == "low" and body["text"]["format"]["strict"]
    assert body["include"] == ["reasoning.encrypted_content", "file_search_call.results"]


def test_counts_are_read_where_this_api_has_them(responses: OnWire) -> None:
    counted = Usage(100, 20, 64, 8)
    assert answered(responses.model([Said("ok", usage=counted)])).usage == counted
    assert answered(streaming(responses, completed(message("ok"), usage=None))).usage == Usage()
