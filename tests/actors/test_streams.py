"""What a turn shows: the same to every reader, and an end to it, whatever happens."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import inf, nan
from random import Random
from typing import Any
from uuid import UUID

import pytest
from reading import ends_once, kinds, read, read_async, readers

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, Turn, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ImagePart,
    ModelTurn,
    TextPart,
)

WAIT = 20
Run = Callable[..., ActorSystem]


def test_readers_that_begin_at_any_moment_read_the_same(run: Run, led: Any) -> None:
    turn = run([], model=led).session("s").send("go")
    asked = led.asked()
    readings = readers(turn)
    for piece in "abcd":
        assert asked.show(piece)
        readings += readers(turn)
    asked.answer("abcd")
    turn.result(WAIT)
    readings += readers(turn)

    first, *others = [each.result(WAIT) for each in readings]
    assert kinds(first) == ["turn.started", *["text.delta"] * 4, "model.turn", "turn.done"]
    assert all(items == first for items in others)


def test_a_late_reader_gets_what_was_shown_and_then_follows(run: Run, led: Any) -> None:
    turn = run([], model=led).session("s").send("go")
    asked = led.asked()
    asked.show("a")
    asked.show("b")
    late = iter(turn.stream())
    assert [getattr(next(late), "text", "") for _ in range(3)] == ["", "a", "b"]

    asked.show("c")
    assert next(late).text == "c"
    asked.answer("abc")
    assert kinds(list(late)) == ["model.turn", "turn.done"]


class Talkative:
    """Answers in many pieces, as fast as it can."""

    id = "talkative"
    pieces = tuple(map(str, range(300)))

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        for piece in self.pieces:
            yield TextDelta(piece)
        yield ModelTurn("".join(self.pieces))


def test_no_item_is_lost_or_doubled_however_threads_interleave(
    run: Run, switching_often: None
) -> None:
    turn = run([], model=Talkative()).session("s").send("go")
    readings = readers(turn) + readers(turn) + readers(turn)

    for reading in readings:
        items = reading.result(WAIT)
        assert [each.text for each in items if each.type == "text.delta"] == [*Talkative.pieces]
        assert ends_once(items)


End = Callable[[ActorSystem, Turn, Any], object]
ENDS: dict[str, tuple[End, str]] = {
    "answered": (lambda system, turn, asked: asked.answer("whole"), "stop"),
    "failed": (lambda system, turn, asked: asked.fail(ConnectionError("reset")), "error"),
    "aborted": (lambda system, turn, asked: turn.abort(), "aborted"),
    "stopped": (lambda system, turn, asked: turn.abort(keep=True), "aborted"),
    "closed": (lambda system, turn, asked: system.close(timeout=0.05), "error"),
}


@pytest.mark.parametrize("shown", [0, 1, 3])
@pytest.mark.parametrize("how", ENDS)
def test_a_stream_has_one_terminal_item_and_it_is_the_last(
    run: Run, led: Any, how: str, shown: int
) -> None:
    system = run([], model=led)
    turn = system.session("s").send("go")
    asked = led.asked()
    readings = readers(turn)
    for _ in range(shown):
        asked.show("x")
    end, reason = ENDS[how]
    end(system, turn, asked)

    expected = ["turn.started", *["text.delta"] * shown]
    expected += {"stop": ["model.turn"], "error": ["error"]}.get(reason, [])
    for reading in [*readings, *readers(turn)]:
        items = reading.result(WAIT)
        assert kinds(items) == [*expected, "turn.done"]
        assert items[-1].finish_reason == reason
        assert (items[-1].result is None) == (reason == "error")


@pytest.mark.slow
def test_every_stream_of_many_turns_that_end_at_random_begins_and_ends(run: Run) -> None:
    random = Random(7)

    def model(request: ModelRequest) -> ModelTurn:
        match random.randrange(4):
            case 0:
                raise ConnectionError("reset")
            case 1:
                return ModelTurn(tool_calls=(call("add", a=1, b=2), call("add", a=1)))
            case _:
                return ModelTurn("done")

    sessions = [run([], model=model, on_failure="drop").session(f"{n}") for n in range(3)]
    endings = set[str]()
    for number in range(150):
        turn = sessions[number % 3].send("go", policy=random.choice(["wait", "queue", "steer"]))
        readings = readers(turn)
        if random.random() < 0.3:
            turn.abort()
        elif random.random() < 0.3:
            next(iter(turn.stream()))
        items, same = (reading.result(WAIT) for reading in readings)
        assert items == same == read(turn) and ends_once(items)
        assert re.fullmatch("(turn.started .*)?(error )?turn.done", " ".join(kinds(items)))
        endings.add(items[-1].finish_reason)

    assert endings == {"stop", "error", "aborted"}


@pytest.mark.parametrize("policy", ["queue", "steer"])
def test_a_joined_handle_streams_the_end_and_the_one_that_started_it_everything(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led).session("s")
    starter = session.send("go")
    asked = led.asked()
    asked.show("let me see")
    joined = session.send("more", policy=policy)
    input_id = joined.accepted().result(WAIT)
    readings = readers(joined)
    asked.answer([call("add", a=1, b=2)])
    led.asked().answer("done")

    (end,) = readings[0].result(WAIT)
    assert readings[1].result(WAIT) == [end] == read(joined)
    items = read(starter)
    assert items[-1].result is end.result is starter.result(WAIT)
    started = ["tool.started"] if policy == "queue" else []
    assert kinds(items) == [
        "turn.started",
        "text.delta",
        "input.queued",
        "model.turn",
        *started,
        "tool.result",
        "input.applied",
        "model.turn",
        "turn.done",
    ]
    assert {item.input_id for item in items if item.type.startswith("input.")} == {input_id}


def test_a_joined_handle_streams_the_error_its_turn_failed_with(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    starter = session.send("go")
    asked = led.asked()
    joined = starter.enqueue("more")
    joined.accepted().result(WAIT)
    asked.fail(ConnectionError("reset"))

    assert read(joined) == read_async(joined) == read(starter)[-2:]
    assert kinds(read(joined)) == ["error", "turn.done"]


def test_the_stream_of_an_input_that_waits_is_that_of_its_own_turn(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    session.send("one")
    second = session.send("two")
    readings = readers(second)
    led.asked().answer("1")
    led.asked().answer("2")

    for reading in readings:
        items = reading.result(WAIT)
        assert kinds(items) == ["turn.started", "model.turn", "turn.done"]
        assert {item.turn_id for item in items} == {"turn-2"}


class Colour(Enum):
    RED = "red"


@dataclass
class Row:
    when: datetime
    tags: set[str]


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", b"", [], {}, 0, False),
        *(b"\xff\0", nan, inf, -inf, 2**70, Decimal("1.10"), Decimal("NaN"), UUID(int=7)),
        pytest.param(-(10**5000), id="a number of 5000 digits"),
        *("a\0\u2028\x1b", "\ud83d"),
        *(datetime(2025, 5, 17, tzinfo=UTC), date(2025, 5, 17), time(12, 30), timedelta(1)),
        *((1, (2, 3)), {"a"}, Colour.RED, Row(datetime(2025, 5, 17, tzinfo=UTC), {"x"})),
        *({1: "a"}, {None: "a", True: "b"}, {date(2025, 5, 17): b"x"}, {"\ud83d": [nan]}),
        [ImagePart(data=b"\x89PNG", media_type="image/png")],
        object(),
        ValueError("x"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_every_item_of_a_turn_is_a_line_of_json_that_reads_as_the_stream_does(value: Any) -> None:
    @tool
    def odd() -> Any:
        return value

    model = ScriptedModel([[call("odd")], "done"])
    with ActorSystem(Agent("agent", model=model, tools=[odd])) as system:
        items = read(system.session("s").send("go"))
        stored = {each.version: strict(each.payload) for each in system._store.read("s")}
    lines = [strict(item.json()) for item in items]

    assert [line["type"] for line in lines] == kinds(items)
    assert ends_once(items) and items[-1].finish_reason == "stop"
    (result,) = [line for line in lines if line["type"] == "tool.result"]
    assert result["content"] == stored[result["version"]].get("content", "")


def test_odd_texts_of_users_and_models_are_lines_of_json_too(run: Run, led: Any) -> None:
    @tool
    def echo(text: str) -> str:
        return text

    turn = run([], model=led, tools=[echo]).session("s").send("\ud83d\0")
    asked = led.asked()
    asked.show("\ude00\n")
    image = ImagePart(data=b"\x89PNG")
    turn.enqueue((TextPart("\ud83d"), image)).accepted().result(WAIT)
    asked.answer(
        ModelTurn(
            "\ud83d\u2028", (call("echo", text="\ud83d"),), parts=({"mean": nan, "raw": b"x"},)
        )
    )
    led.asked().fail(ValueError("\ude00"))

    items = read(turn)
    assert [strict(item.json())["type"] for item in items] == kinds(items)
    assert {*kinds(items)} >= {"text.delta", "input.queued", "input.applied", "error"}


def strict(line: bytes) -> Any:
    def refuse(constant: str) -> Any:
        pytest.fail(f"{constant} is no JSON")

    assert b"\n" not in line
    return json.loads(line.decode("utf-8"), parse_constant=refuse)
