"""Texts that programs trip over, in every place of a session that takes a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from turnstream.actors import (
    ActorSystem,
    Patch,
    Tool,
    audit_session,
    compare,
    export_chat,
    export_events,
    import_events,
    tool,
)
from turnstream.actors.testing import call
from turnstream.events import (
    AssistantMessage,
    Message,
    ModelTurn,
    ToolCall,
    ToolError,
    ToolMessage,
    UserMessage,
    render,
)
from turnstream.stores import EventStore, open_store

WAIT = 20
Run = Callable[..., ActorSystem]
TEXTS = [
    "a\ud83d b",
    "\ude00",
    "\0",
    "a\r\nb\n",
    "\u2028\u2029\x85",
    "\ufeff\u202eabc\u2066",
    "\x1b[2J\x07\x7f",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467e\u0301\U0010ffff",
    '"}\n{"',
]


def echo(**arguments: Any) -> Any:
    """What it is given, also as keys."""
    return arguments


@tool(needs_approval=True)
def ask() -> str:
    return "asked"


def script(text: str) -> list[ModelTurn]:
    calls = (ToolCall("c1", "echo", {text: text}), call("fail", "c2"), call("ask", "c3"))
    return [ModelTurn(text, calls, parts=({text: [text]},)), ModelTurn(text)]


def tools(text: str) -> list[Tool]:
    @tool
    def fail() -> None:
        raise ToolError(text)

    return [Tool.from_schema("echo", echo, {"type": "object"}), fail, ask]


def check(messages: Sequence[Message], text: str) -> None:
    """A turn with the text in every place."""
    said, asked, echoed, failed, refused, answered = messages
    assert (said, answered) == (UserMessage(text), AssistantMessage(text))
    assert isinstance(asked, AssistantMessage) and (asked.text, asked.parts) == (
        text,
        ({text: [text]},),
    )
    assert asked.tool_calls[0].arguments == {text: text}
    results = [each for each in (echoed, failed, refused) if isinstance(each, ToolMessage)]
    assert [each.outcome for each in results] == ["ok", "error", "rejected"]
    assert [each.content for each in results[:2]] == [render({text: text}), render(text)]
    for each in results:
        str(each.content).encode("utf-8")


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_they_are_what_they_were_in_every_place_and_after_every_edit(
    opened: EventStore, run: Run, text: str
) -> None:
    first = run(script(text), on=opened, tools=tools(text)).session("s")
    (asked,) = first.send(text, key=text).result(WAIT).approvals
    first.reject(asked.id, by=text, note=text).result(WAIT)
    check(first.messages, text)
    told = list(first.messages)

    later = run(["more", *script(text)], on=opened, tools=tools(text)).session("s")
    assert list(later.messages) == told
    assert later.send(text, key=text).result(WAIT).text == text, "the key is known again"
    assert later.send("and?").result(WAIT).text == "more"
    fork = later.fork(step=2, patch=Patch(state={text: text}, append_input=text, by=text))
    turn = fork.resume()
    assert turn is not None
    (again,) = turn.result(WAIT).approvals
    fork.reject(again.id, note=text).result(WAIT)
    check(fork.messages[6:], text)
    assert fork.state == {text: text} and compare(later, fork).diverged_at == 2
    later.rewind(keep_entries=6, by=text).result(WAIT)
    later.trim_tool_results(keep_chars=0, keep_turns=0, by=text).result(WAIT)
    assert [type(each) for each in later.messages] == [type(each) for each in told]
    json.dumps(export_chat(opened, "s")).encode("utf-8")

    with closing(open_store("memory://")) as copy:
        import_events(export_events(opened, "s", fork.id), copy)
        for each in ("s", fork.id):
            assert audit_session(copy, each).findings == audit_session(opened, each).findings == []
            assert [e.payload for e in copy.read(each)] == [e.payload for e in opened.read(each)]
