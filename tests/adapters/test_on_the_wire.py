"""What every adapter does with its connection: streams, cuts, waits, errors, keys."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from asking import asked, request
from saying import Broken, Fault, Held, Kind, Said
from serving import Hold, Reply, refused, streamed
from talking import KEY, OnWire, reply_of

from turnstream.actors import (
    ActorSystem,
    Agent,
    Model,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    tool,
)
from turnstream.actors.testing import call
from turnstream.events import (
    ContextTooLong,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelTimedOut,
    ModelTurn,
    ModelUnavailable,
    ToolCall,
    Usage,
    UserMessage,
)

WAIT = 20
LONG = Said("A rather long answer to hold on to.")


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def at_once(failures: int, retry_after: float | None) -> float:
    return 0


Start = Callable[..., ActorSystem]


@pytest.fixture
def start() -> Iterator[Start]:
    systems: list[ActorSystem] = []

    def begin(model: Model, store: str = "memory://", **options: Any) -> ActorSystem:
        options = {"tools": [add], "retry_wait": at_once, **options}
        systems.append(ActorSystem(Agent("agent", model=model, **options), store=store))
        return systems[-1]

    yield begin
    for system in systems:
        system.close()


def test_everything_is_streamed_as_it_comes(wired: OnWire) -> None:
    calls = (call("add", "c1", a=1, b=2), call("add", "c2", a=30, b=40))
    items = asked(wired.model([Said("Let me see.", calls, thought="I add.", seal="sealed")]))

    *before, turn = items
    assert isinstance(turn, ModelTurn)
    assert (turn.text, turn.tool_calls) == ("Let me see.", calls)
    assert "".join(e.text for e in before if isinstance(e, TextDelta)) == "Let me see."
    assert "".join(e.text for e in before if isinstance(e, ReasoningDelta)) == "I add."
    assert len([each for each in before if isinstance(each, TextDelta)]) > 2
    deltas = [each for each in before if isinstance(each, ToolCallDelta)]
    for each in calls:
        mine = [delta for delta in deltas if delta.call_id == each.id]
        assert {delta.name for delta in mine} == {"add"}
        assert json.loads("".join(delta.arguments for delta in mine)) == each.arguments
    assert [each for each in before if isinstance(each, Usage)][-1] == turn.usage


def test_a_delta_is_shown_before_the_next_one_is_there(wired: OnWire, start: Start) -> None:
    held = Held(LONG, len(wired.wire.answer(LONG)) // 2)
    turn = start(wired.model([held])).session("s").send("hi")
    stream = turn.stream()
    first = next(item for item in stream if item.type == "text.delta")
    assert first.text and LONG.text.startswith(first.text)
    held.hold.go()
    assert turn.result(WAIT).text == LONG.text


def test_an_abort_hangs_up(wired: OnWire, start: Start) -> None:
    held = Held(LONG, 3)
    turn = start(wired.model([held])).session("s").send("hi")
    held.hold.reached()
    turn.abort().result(WAIT)
    assert turn.result(WAIT).finish_reason == "aborted"
    assert held.hold.left()


def test_an_abort_hangs_up_before_anything_was_answered(wired: OnWire, start: Start) -> None:
    hold = Hold()
    model = wired.served(lambda _: streamed(hold, *wired.wire.answer(LONG)))
    turn = start(model).session("s").send("hi")
    hold.reached()
    turn.abort().result(WAIT)
    assert hold.left()


@pytest.mark.slow
def test_a_model_that_takes_too_long_is_hung_up_on(wired: OnWire, start: Start) -> None:
    held = Held(LONG, 3)
    session = start(wired.model([held]), model_timeout=0.3).session("s")
    with pytest.raises(ModelTimedOut):
        session.send("hi").result(WAIT)
    assert held.hold.left()


def test_a_closed_system_hangs_up(wired: OnWire, start: Start) -> None:
    held = Held(LONG, 3)
    system = start(wired.model([held]))
    system.session("s").send("hi")
    held.hold.reached()
    system.close(timeout=0.1)
    assert held.hold.left()


def test_a_steer_that_comes_before_the_answer_goes_along(wired: OnWire, start: Start) -> None:
    hold = Hold()
    replies = [streamed(hold, *wired.wire.answer(LONG)), reply_of(wired.wire, "Both.")]
    turn = start(wired.served(lambda _: replies.pop(0))).session("s").send("one")
    hold.reached()
    assert turn.steer("two").result(WAIT).text == "Both."
    assert hold.left()
    assert wired.heard[-1].messages == (UserMessage("one"), UserMessage("two"))


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 3])
def test_a_server_that_says_nothing_for_too_long_is_away(wired: OnWire, few: int) -> None:
    held = Held(LONG, few)
    with pytest.raises(ModelUnavailable, match="in time"):
        asked(wired.model([held], timeout=0.3))
    assert held.hold.left()


def test_a_server_that_is_not_there_is_away(wired: OnWire) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        model = wired.wire.model(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(ModelUnavailable, match="could not be reached"):
            asked(model)


@pytest.mark.slow
def test_every_place_to_cut_a_stream_leaves_no_half_answer(wired: OnWire) -> None:
    said = Said("Half.", (call("add", "c1", a=1, b=2),), thought="Hm.", seal="sealed")
    places = range(len(wired.wire.answer(said)))
    lines = [Broken(said, few, how) for few in places for how in ("cut", "ended", "garbage")]
    model = wired.model(lines)

    async def ask() -> list[Broken]:
        whole = []
        for line in lines:
            try:
                *_, turn = [each async for each in model.stream(request())]
            except ModelStreamEnded:
                continue
            assert (turn.text, turn.tool_calls) == (said.text, said.calls), line
            whole.append(line)
        return whole

    # Some formats say that they end after they said all.
    assert all(line.how == "ended" for line in asyncio.run(ask()))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded", ModelUnavailable),
        ("broken", ModelUnavailable),
        ("rate-limited", ModelUnavailable),
        ("too-long", ContextTooLong),
        ("invalid", ModelRefused),
        ("used-up", ModelRefused),
    ],
)
def test_an_error_within_a_stream_means_what_it_means_before_it(
    wired: OnWire, kind: Kind, error: type[ModelFailed]
) -> None:
    with pytest.raises(ModelFailed) as failure:
        asked(wired.model([Fault(kind, inside=True)]))
    assert type(failure.value) is error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_provider_says_how_long_to_wait(
    wired: OnWire, headers: dict[str, str], seconds: float | None
) -> None:
    status, body = wired.wire.fault("rate-limited", KEY)
    with pytest.raises(ModelUnavailable) as failure:
        asked(wired.served(lambda _: refused(status, body, **headers)))
    assert failure.value.retry_after == seconds


def test_the_provider_may_say_when_to_come_back(wired: OnWire) -> None:
    status, body = wired.wire.fault("rate-limited", KEY)
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    with pytest.raises(ModelUnavailable) as failure:
        asked(wired.served(lambda _: refused(status, body, **{"retry-after": when})))
    assert failure.value.retry_after is not None and 50 < failure.value.retry_after <= 60


@pytest.mark.parametrize(("status", "error"), [(502, ModelUnavailable), (404, ModelRefused)])
@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[1]", b'"no"', b"\xff{"])
def test_an_error_without_a_word_of_the_provider_goes_by_its_status(
    wired: OnWire, status: int, error: type[ModelFailed], body: bytes
) -> None:
    with pytest.raises(ModelFailed, match=str(status)) as failure:
        asked(wired.served(lambda _: Reply((body,), status)))
    assert type(failure.value) is error


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"<html></html>", b"data: 7\n\n", b"data: []\n\n", b"data: \xff\n\n"]
)
def test_what_is_no_stream_is_no_answer(wired: OnWire, body: bytes) -> None:
    with pytest.raises(ModelStreamEnded):
        asked(wired.served(lambda _: streamed(body)))


def test_a_key_is_in_the_request_and_nowhere_else(
    wired: OnWire, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script = ["Hello.", Fault("wrong-key"), Fault("invalid"), Broken(LONG, 3), Fault("overloaded")]
    model = wired.model(script, api_key=KEY)
    address = f"sqlite:///{tmp_path}/s.db"
    system = start(model, address, model_retries=0)
    session = system.session("s")
    session.send("hi").result(WAIT)
    shown = [repr(model), str(vars(model)), repr(Agent("agent", model=model)), repr(system)]
    for text in ("two", "three", "four", "five"):
        with pytest.raises((ModelFailed, ModelStreamEnded)) as failure:
            (session.resume() or session.send(text)).result(WAIT)
        shown += traceback.format_exception(failure.value)
        shown += [repr(failure.value), str(vars(failure.value)), str(failure.value.__context__)]
    system.close()
    shown += [each.read_bytes().decode("latin-1") for each in tmp_path.iterdir()]
    shown += [record.getMessage() for record in caplog.records]

    assert KEY in wired.requests[0].headers[wired.wire.key_header]
    assert len(wired.requests) == 5
    assert [text for text in shown if KEY in text] == []


KILLED = """
import sys
from turnstream import ActorSystem, Agent

_, model, store = sys.argv
ActorSystem(Agent("agent", model=model), store=store).session("s").send("hi").result()
"""


@pytest.mark.slow
def test_a_process_that_is_killed_in_an_answer_leaves_nothing_of_it(
    wired: OnWire, start: Start, tmp_path: Path
) -> None:
    held = Held(LONG, 5)
    replies = [reply_of(wired.wire, held), reply_of(wired.wire, "Whole.")]
    model, address = wired.served(lambda _: replies.pop(0)), f"sqlite:///{tmp_path}/s.db"
    (server,) = wired.servers
    found = wired.wire.environment(server.url, "sk-found")
    command = [sys.executable, "-c", KILLED, f"{wired.name}:small", address]
    with subprocess.Popen(command, env=os.environ | found) as child:
        held.hold.reached()
        child.kill()
    assert held.hold.left()

    resumed = start(model, address, tools=()).session("s").resume()
    assert resumed is not None and resumed.result(WAIT).text == "Whole."
    first, second = wired.heard
    assert first == second
    assert "sk-found" in wired.requests[0].headers[wired.wire.key_header]


def test_the_steps_of_a_turn_go_over_one_connection(wired: OnWire, start: Start) -> None:
    steps = [Said("", (call("add", f"c{n}", a=n, b=n),)) for n in range(4)]
    start(wired.model([*steps, "Done."])).session("s").send("go").result(WAIT)
    assert len({each.connection for each in wired.requests}) == 1


@pytest.mark.slow
def test_many_sessions_ask_one_model_at_once(wired: OnWire, start: Start) -> None:
    together = threading.Barrier(12)

    def reply(request: Any) -> Reply:
        together.wait(WAIT)
        (message,) = wired.wire.heard(request.json()).messages
        return reply_of(wired.wire, f"You said {message.content}.")

    system = start(wired.served(reply))
    turns = [system.session(f"s{n}").send(f"{n}") for n in range(12)]
    assert [each.result(WAIT).text for each in turns] == [f"You said {n}." for n in range(12)]


def test_a_model_may_be_shared_by_systems_one_after_the_other(wired: OnWire, start: Start) -> None:
    model = wired.model(["One.", "Two.", "Three."])
    for expected in ("One.", "Two.", "Three."):
        system = start(model)
        assert system.session("s").send("hi").result(WAIT).text == expected
        system.close()


def test_a_conversation_may_change_its_model(
    wired: OnWire, other: OnWire, start: Start, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path}/s.db"
    calls = (call("add", "c1", a=1, b=2),)
    first = [Said("I add.", calls, thought="Sum them.", seal="sealed"), Said("3", seal="again")]
    system = start(wired.model(first), address)
    system.session("s").send("1 + 2?").result(WAIT)
    system.close()
    session = start(other.model(["Indeed."]), address).session("s")
    assert session.send("sure?").result(WAIT).text == "Indeed."

    (heard,) = other.heard
    assert heard.messages[1].tool_calls == (ToolCall("c1", "add", {"a": 1, "b": 2}),)
    same = wired.name == other.name
    assert heard.seals == (("sealed", "again") if same else ())
    (body,) = [each.body for each in other.requests]
    assert same or not any(own in body for own in (b"sealed", b"again", b"Sum them."))


@pytest.mark.parametrize("field", ["messages", "input", "stream"])
def test_settings_do_not_take_the_place_of_the_conversation(wired: OnWire, field: str) -> None:
    with pytest.raises(ModelRefused, match=field):
        asked(wired.model([], settings={field: []}))
    with pytest.raises(ModelRefused, match=field):
        asked(wired.model([]), settings={field: []})


def test_settings_of_the_agent_win_over_those_of_its_model(wired: OnWire) -> None:
    given = {"temperature": 0.1, "top_p": 0.2, "user": "u"}
    model = wired.model(["ok"], settings=given)
    asked(model, settings={"temperature": 0.9, "user": None})
    body = wired.requests[0].json()
    assert (body["temperature"], body["top_p"]) == (0.9, 0.2)
    assert "user" not in body
