"""What is peculiar to Chat Completions, and to servers that speak them in their own way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import answered, asked
from openai_chat_wire import OpenAIChatWire, usage
from saying import Broken, Said
from serving import CUT, Piece, streamed
from talking import OnWire

from turnstream.actors import ActorSystem, Agent, ReasoningDelta, ToolCallDelta
from turnstream.actors.adapters import OpenAIChat
from turnstream.events import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ModelCallDiscarded,
    ModelRefused,
    ModelStreamEnded,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

WAIT = 20


@pytest.fixture
def chat() -> Iterator[OnWire]:
    talk = OnWire(OpenAIChatWire())
    yield talk
    talk.close()


def chunk(delta: Any = None, reason: Any = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": reason}
    return f"data: {json.dumps({'choices': [choice], **fields})}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def streaming(chat: OnWire, *pieces: Piece) -> OpenAIChat:
    """A model whose server sends these chunks."""
    model = chat.served(lambda _: streamed(*pieces))
    assert isinstance(model, OpenAIChat)
    return model


def fragment(arguments: Any = "", **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "add"} if "id" in fields else {})}
    return {"tool_calls": [{"function": function, **fields}]}


LAST = fragment("{}", index=1, id="c2")


@pytest.mark.parametrize(
    "fragments",
    [
        [
            fragment('{"a"', index=0, id="c1"),
            fragment(":1}", index=0),
            fragment("{}", index=1, id="c2"),
        ],
        [fragment('{"a"', id="c1"), fragment(":1}"), fragment("{}", id="c2")],
        [fragment('{"a":1}', index=0, id="c1"), fragment("{}", index=0, id="c2")],
        [fragment({"a": 1}, index=0, id="c1"), fragment(None, index=1, id="c2")],
        [fragment('{"a"', id="c1"), fragment(":1}", id="c1"), fragment("{}", id="c2")],
        [fragment('{"a":1}', index=3, id="c1"), fragment("", index=7, id="c2")],
    ],
    ids=["as said", "no index", "one index", "objects", "the id each time", "odd indices"],
)
def test_calls_are_told_apart_however_a_server_numbers_them(
    chat: OnWire, fragments: list[Any]
) -> None:
    model = streaming(chat, *map(chunk, fragments), chunk(None, "stop"), DONE)
    turn = answered(model)
    assert turn.tool_calls == (ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add"))
    assert turn.finish_reason == "tool_calls"


def test_a_call_without_an_id_gets_one_when_it_is_recorded(chat: OnWire) -> None:
    model = streaming(chat, chunk({"tool_calls": [{"function": {"name": "x"}}]}), chunk({}, "stop"))
    with ActorSystem(Agent("agent", model=model, max_steps=1)) as system:
        result = system.session().send("hi").result(WAIT)
    assert [each.name for each in result.tool_calls] == ["x"]
    assert all(each.id for each in result.tool_calls)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_shown_whatever_it_is_called_and_goes_back_as_it_came(
    chat: OnWire, field: str
) -> None:
    model = streaming(
        chat, chunk({field: "I "}), chunk({field: "add."}), chunk({"content": "3"}, "stop"), DONE
    )
    *before, turn = asked(model)
    assert "".join(e.text for e in before if isinstance(e, ReasoningDelta)) == "I add."
    assert turn.text == "3"

    asked(model, UserMessage("hi"), AssistantMessage("3", parts=turn.parts), UserMessage("so?"))
    assert chat.requests[-1].json()["messages"][1] == {
        "role": "assistant",
        "content": "3",
        field: "I add.",
    }


def test_another_model_of_the_same_server_gets_none_of_it(chat: OnWire) -> None:
    model = streaming(chat, chunk({"reasoning_content": "I add."}), chunk({"content": "3"}, "stop"))
    turn = answered(model)
    other = OpenAIChat("large", base_url=f"{chat.servers[0].url}/v1", api_key="sk-none")
    asked(other, UserMessage("hi"), AssistantMessage("3", parts=turn.parts), UserMessage("so?"))
    assert chat.requests[-1].json()["messages"][1] == {"role": "assistant", "content": "3"}


def test_details_of_reasoning_that_come_in_pieces_are_put_together(chat: OnWire) -> None:
    def details(*entries: dict[str, Any]) -> bytes:
        return chunk({"reasoning_details": list(entries)})

    model = streaming(
        chat,
        details({"type": "reasoning.text", "index": 0, "text": "I ", "format": "f"}),
        details({"type": "reasoning.text", "index": 0, "text": "add.", "signature": None}),
        details({"type": "reasoning.text", "index": 0, "signature": "s1=="}),
        details({"type": "reasoning.encrypted", "index": 1, "data": "e1=="}),
        chunk({"content": "3"}, "stop"),
        DONE,
    )
    turn = answered(model)
    asked(model, UserMessage("hi"), AssistantMessage("3", parts=turn.parts), UserMessage("so?"))
    assert chat.requests[-1].json()["messages"][1]["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "index": 0,
            "text": "I add.",
            "format": "f",
            "signature": "s1==",
        },
        {"type": "reasoning.encrypted", "index": 1, "data": "e1=="},
    ]


def test_what_a_server_adds_to_a_call_goes_back_with_that_call(chat: OnWire) -> None:
    sign = {"extra_content": {"google": {"thought_signature": "s1=="}}}
    calls = [fragment('{"a":1}', index=0, id="c1", **sign), fragment("{}", index=1, id="c2")]
    model = streaming(chat, *map(chunk, calls), chunk(None, "tool_calls"), DONE)
    turn = answered(model)
    said = AssistantMessage("", turn.tool_calls, turn.parts)
    results = [ToolMessage(each, "add", "0") for each in ("c1", "c2")]
    asked(model, UserMessage("hi"), said, *results)

    first, second = chat.requests[-1].json()["messages"][1]["tool_calls"]
    assert first["extra_content"] == sign["extra_content"] and first["id"] == "c1"
    assert "extra_content" not in second


def test_a_character_that_is_cut_in_two_is_whole_again(chat: OnWire) -> None:
    model = streaming(
        chat,
        *(chunk({"content": half}) for half in ("a\ud834", "\udd1e b")),
        *(chunk(fragment(half, index=0, id="c1")) for half in ('{"a":"\ud834', '\udd1e"}')),
        chunk({}, "tool_calls"),
        DONE,
    )
    turn = answered(model)
    assert turn.text == "a𝄞 b"
    assert turn.tool_calls == (ToolCall("c1", "add", {"a": "𝄞"}),)


@pytest.mark.parametrize(
    "ends",
    [
        [chunk({}, "stop"), DONE],
        [chunk({}, "stop")],
        [chunk({}, "stop", usage=None), b": ping\n\n", DONE],
        [chunk({}, "stop"), chunk({}), DONE],
        [chunk({"content": ""}, "stop"), b'data: {"choices": []}\n\n'],
    ],
)
def test_an_answer_ends_with_its_reason(chat: OnWire, ends: list[bytes]) -> None:
    turn = answered(streaming(chat, chunk({"content": "all"}), *ends))
    assert (turn.text, turn.finish_reason, turn.usage) == ("all", "stop", Usage())


@pytest.mark.parametrize("end", [[DONE], [chunk({}), DONE], [chunk({}, ""), DONE]])
def test_an_answer_without_a_reason_to_end_is_not_whole(chat: OnWire, end: list[bytes]) -> None:
    with pytest.raises(ModelStreamEnded):
        asked(streaming(chat, chunk({"content": "half"}), *end))


def test_of_several_answers_the_first_counts(chat: OnWire) -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    others = f"data: {json.dumps(other)}\n\n".encode()
    turn = answered(streaming(chat, chunk({"content": "yes"}), others, chunk({}, "stop"), DONE))
    assert (turn.text, turn.finish_reason) == ("yes", "stop")


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {"prompt_tokens": None},
        {"prompt_tokens": -1},
        {"prompt_tokens": "7"},
        {"prompt_tokens": True, "prompt_tokens_details": None},
        {"prompt_tokens_details": {"cached_tokens": 2.5}},
    ],
)
def test_counts_that_are_none_count_as_nothing(chat: OnWire, counts: dict[str, Any]) -> None:
    turn = answered(streaming(chat, chunk({"content": "ok"}, "stop", usage=counts), DONE))
    assert turn.usage == Usage()


def test_tokens_of_an_answer_that_broke_off_are_known_where_they_were_told(chat: OnWire) -> None:
    told = chunk({"content": "Hal"}, usage=usage(Usage(10, 5, 4, 2)))
    replies = [streamed(told, CUT), streamed(chunk({"content": "ok"}, "stop"), DONE)]
    model = chat.served(lambda _: replies.pop(0))
    agent = Agent("agent", model=model, retry_wait=lambda *_: 0)
    with ActorSystem(agent) as system:
        session = system.session()
        session.send("hi").result(WAIT)
        events = [each.event for each in session.events()]
    (broken,) = [each for each in events if isinstance(each, ModelCallDiscarded)]
    assert broken.usage == Usage(10, 5, 4, 2)


def test_a_file_by_its_address_has_no_place(chat: OnWire) -> None:
    part = FilePart("a.pdf", "application/pdf", url="https://example.org/a.pdf")
    with pytest.raises(ModelRefused, match="OpenAIResponses"):
        asked(chat.model([]), UserMessage((part,)))


def test_an_image_of_a_tool_has_no_place(chat: OnWire) -> None:
    result = ToolMessage("c1", "look", (ImagePart(url="https://example.org/a.png"),))
    said = AssistantMessage("", (ToolCall("c1", "look"),))
    with pytest.raises(ModelRefused, match="'c1' of 'look'"):
        asked(chat.model([]), UserMessage("hi"), said, result)


def test_texts_of_a_tool_stay_apart(chat: OnWire) -> None:
    result = ToolMessage("c1", "look", (TextPart("one"), TextPart("two")))
    said = AssistantMessage("", (ToolCall("c1", "look"),))
    asked(chat.model(["ok"]), UserMessage("hi"), said, result)
    assert chat.heard[0].messages[-1] == result


def test_sounds_are_sent_as_sounds(chat: OnWire) -> None:
    asked(chat.model(["ok"]), UserMessage((FilePart("a.wav", "audio/wav", data=b"RIFF"),)))
    (part,) = chat.requests[0].json()["messages"][0]["content"]
    assert part == {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


def test_arguments_are_shown_as_they_come(chat: OnWire) -> None:
    said = Said("", (ToolCall("c1", "add", {"a": 1}),))
    deltas = [e for e in asked(chat.model([said])) if isinstance(e, ToolCallDelta)]
    assert "".join(each.arguments for each in deltas) == '{"a": 1}'
    assert {(each.call_id, each.name) for each in deltas} == {("c1", "add")}


def test_settings_reach_into_what_the_adapter_says_itself(chat: OnWire) -> None:
    said = {"stream_options": None, "tools": [{"type": "custom", "name": "x"}], "model": "large"}
    asked(streaming(chat, chunk({"content": "ok"}, "stop")), settings={**said, "tools": None})
    body = chat.requests[0].json()
    assert body["model"] == "large"
    assert "stream_options" not in body and "tools" not in body


def test_a_client_of_ones_own_is_used_without_its_retries(chat: OnWire, tmp_path: Path) -> None:
    from openai import AsyncOpenAI

    chat.model([Broken(Said("Half."), 0), "ok"])
    made = []

    def make() -> AsyncOpenAI:
        client = AsyncOpenAI(
            base_url=f"{chat.servers[0].url}/v1",
            api_key="sk-mine",
            max_retries=5,
            default_headers={"x-team": "blue"},
        )
        made.append(client)
        return client

    model = OpenAIChat("small", client=make)
    agent = Agent("agent", model=model, model_retries=1, retry_wait=lambda *_: 0)
    with ActorSystem(agent) as system:
        assert system.session().send("hi").result(WAIT).text == "ok"
    assert len(made) == 1 and len(chat.requests) == 2
    assert {each.headers["x-team"] for each in chat.requests} == {"blue"}
    assert {each.headers["authorization"] for each in chat.requests} == {"Bearer sk-mine"}


def test_headers_go_along(chat: OnWire) -> None:
    asked(chat.model(["ok"], headers={"x-team": "blue"}))
    assert chat.requests[0].headers["x-team"] == "blue"
