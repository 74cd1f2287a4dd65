"""The same conversations on every adapter, and on the model that is scripted here.

What a session records and what the model is asked may not depend on whose model it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from saying import Broken, Fault, Heard, Kind, Said
from talking import Talk

from turnstream.actors import ActorSystem, Agent, Session, tool
from turnstream.actors.testing import call, said
from turnstream.events import (
    AssistantMessage,
    ContextTooLong,
    FilePart,
    ImagePart,
    ModelCallDiscarded,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelTurnRecorded,
    ModelUnavailable,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

WAIT = 20
HALF = "a\ud83d b"
PNG = b"\x89PNG\r\n\x1a\n\x00\xff"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def echo(value: Any) -> Any:
    """Give it back."""
    return value


@tool
def nothing() -> None:
    """Do nothing."""


def at_once(failures: int, retry_after: float | None) -> float:
    return 0


Begin = Callable[..., Session]


@pytest.fixture
def begin(talk: Talk, tmp_path: Path) -> Iterator[Begin]:
    """A session with a model that says these lines, always on the same store."""
    systems: list[ActorSystem] = []

    def start(script: list[Any], *, session: str = "s", **options: Any) -> Session:
        while systems:
            systems.pop().close()
        model = talk.model(script)
        options = {"tools": [add, echo, nothing], "retry_wait": at_once, **options}
        agent = Agent("agent", model=model, **options)
        systems.append(ActorSystem(agent, store=f"sqlite:///{tmp_path}/s.db"))
        return systems[-1].session(session)

    yield start
    for system in systems:
        system.close()


def recorded(session: Session) -> list[ModelTurnRecorded]:
    events = [each.event for each in session.events()]
    return [each for each in events if isinstance(each, ModelTurnRecorded)]


def discarded(session: Session) -> list[tuple[str, Usage | None]]:
    events = [each.event for each in session.events()]
    return [(e.reason, e.usage) for e in events if isinstance(e, ModelCallDiscarded)]


def test_a_text_is_shown_as_it_comes_and_then_recorded(begin: Begin, talk: Talk) -> None:
    session = begin(["Hello, world."], instructions="Be brief.")
    turn = session.send("hi")
    shown = [item.text for item in turn.stream() if item.type == "text.delta"]

    assert "".join(shown) == "Hello, world." == turn.result(WAIT).text
    (heard,) = talk.heard
    tools = ("add", "echo", "nothing")
    assert heard == Heard((UserMessage("hi"),), "Be brief.", tools)
    assert [each.finish_reason for each in recorded(session)] == ["stop"]


def test_a_call_is_run_and_its_result_told(begin: Begin, talk: Talk) -> None:
    session = begin([Said("Let me see.", (call("add", "c1", a=1, b=2),)), "It is 3."])
    assert session.send("1 + 2?").result(WAIT).text == "It is 3."

    assert talk.heard[-1].messages == (
        UserMessage("1 + 2?"),
        AssistantMessage("Let me see.", (ToolCall("c1", "add", {"a": 1, "b": 2}),)),
        ToolMessage("c1", "add", "3"),
    )
    assert [each.finish_reason for each in recorded(session)] == ["tool_calls", "stop"]


def test_calls_side_by_side_are_told_apart_and_answered_in_their_order(
    begin: Begin, talk: Talk
) -> None:
    calls = tuple(call("add", f"c{n}", a=n, b=n * 100) for n in range(1, 6))
    session = begin([Said("", calls), "Done."])
    session.send("all").result(WAIT)

    _, answer, *results = talk.heard[-1].messages
    assert answer == AssistantMessage("", calls)
    assert [(each.call_id, each.content) for each in results] == [
        (f"c{n}", str(n * 101)) for n in range(1, 6)
    ]


def test_equal_calls_in_one_answer_stay_two(begin: Begin, talk: Talk) -> None:
    twice = (call("add", "c1", a=1, b=1), call("add", "c2", a=1, b=1))
    begin([Said("", twice), "Done."]).send("twice").result(WAIT)
    assert [each.content for each in talk.heard[-1].messages[2:]] == ["2", "2"]


def test_arguments_that_are_no_object_are_answered_with_an_error(begin: Begin, talk: Talk) -> None:
    wrong = tuple(
        ToolCall(f"c{n}", "add", malformed=text) for n, text in enumerate(('{"a": 1', "[1,2]", "7"))
    )
    session = begin([Said("", wrong), "Sorry."])
    assert session.send("go").result(WAIT).text == "Sorry."

    (first, _) = recorded(session)
    assert [each.malformed for each in first.tool_calls] == ['{"a": 1', "[1,2]", "7"]
    _, answer, *results = talk.heard[-1].messages
    assert [each.arguments for each in answer.tool_calls] == [{}, {}, {}]
    assert len(results) == 3


def test_a_call_without_arguments_has_none(begin: Begin, talk: Talk) -> None:
    session = begin([Said("", (call("nothing", "c1"),)), "Done."])
    session.send("go").result(WAIT)
    assert talk.heard[-1].messages[1:] == (
        AssistantMessage("", (ToolCall("c1", "nothing"),)),
        ToolMessage("c1", "nothing", "null"),
    )


def test_what_the_provider_sealed_comes_back_with_every_later_request(
    begin: Begin, talk: Talk
) -> None:
    script = [
        Said("", (call("add", "c1", a=1, b=2),), thought="Add them.", seal="sealed one=="),
        Said("It is 3.", thought="Say it.", seal="sealed two=="),
        "You are welcome.",
    ]
    session = begin(script)
    session.send("1 + 2?").result(WAIT)
    session.send("thanks").result(WAIT)
    both = ("sealed one==", "sealed two==")
    assert [each.seals for each in talk.heard] == [(), both[:1], both]


def test_a_conversation_goes_on_in_another_process_as_if_nothing_had_been(
    begin: Begin, talk: Talk
) -> None:
    first = Said("", (call("add", "c1", a=1, b=2),), thought="Add.", seal="sealed")
    begin([first, Said("It is 3.")]).send("1 + 2?").result(WAIT)
    begin(["Again 3."]).send("again").result(WAIT)

    before, after = talk.heard[1:]
    assert after.messages[:3] == before.messages
    assert said(after.messages[3:]) == ["It is 3.", "again"]
    assert after.seals == ("sealed",)


def test_a_fork_takes_along_what_was_sealed(begin: Begin, talk: Talk) -> None:
    session = begin([Said("One.", seal="sealed"), "Two.", "Other two."])
    session.send("one").result(WAIT)
    fork = session.fork(session_id="f")
    session.send("two").result(WAIT)
    fork.send("two").result(WAIT)
    assert talk.heard[1] == talk.heard[2] and talk.heard[1].seals == ("sealed",)


def test_images_and_files_are_told_as_they_are(begin: Begin, talk: Talk) -> None:
    content = (
        TextPart("Look:"),
        ImagePart("image/png", data=PNG),
        ImagePart(url="https://example.org/a.png"),
        FilePart("a.pdf", "application/pdf", data=b"%PDF-1.7\n"),
    )
    begin(["Nice."]).send(content).result(WAIT)
    (message,) = talk.heard[0].messages
    assert message == UserMessage(content)


def test_tokens_are_counted_once(begin: Begin) -> None:
    session = begin(
        [
            Said("", (call("add", "c1", a=1, b=2),), usage=Usage(100, 20, 64, 8)),
            Said("3", usage=Usage(130, 5, 100, 0)),
        ]
    )
    result = session.send("1 + 2?").result(WAIT)
    assert [each.usage for each in recorded(session)] == [
        Usage(100, 20, 64, 8),
        Usage(130, 5, 100, 0),
    ]
    assert result.usage == session.usage == Usage(230, 25, 164, 8)


@pytest.mark.parametrize(("finish", "text"), [("length", "It is a lon"), ("refusal", "I won't.")])
def test_an_answer_that_ends_otherwise_is_an_answer(begin: Begin, finish: Any, text: str) -> None:
    session = begin([Said(text, finish=finish), "More."])
    assert session.send("go").result(WAIT).text == text
    assert [each.finish_reason for each in recorded(session)] == [finish]
    assert session.send("go on").result(WAIT).text == "More."


@pytest.mark.parametrize("kind", ["rate-limited", "overloaded", "broken"])
def test_a_provider_that_is_away_for_a_while_is_asked_again(begin: Begin, kind: Kind) -> None:
    waits = []

    def note(failures: int, retry_after: float | None) -> float:
        waits.append((failures, retry_after))
        return 0

    session = begin([Fault(kind), Fault(kind, retry_after=7), "Here."], retry_wait=note)
    assert session.send("hi").result(WAIT).text == "Here."
    assert waits == [(1, None), (2, 7)]
    assert discarded(session) == [("retried", None), ("retried", None)]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_nobody_but_the_agent_repeats_a_call(begin: Begin, talk: Talk, retries: int) -> None:
    session = begin([Fault("overloaded", retry_after=3)] * 9, model_retries=retries)
    with pytest.raises(ModelUnavailable) as failure:
        session.send("hi").result(WAIT)
    assert failure.value.retry_after == 3
    assert len(talk.heard) == retries + 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("too-long", ContextTooLong),
        ("wrong-key", ModelRefused),
        ("unknown-model", ModelRefused),
        ("invalid", ModelRefused),
        ("used-up", ModelRefused),
    ],
)
def test_what_would_fail_again_fails_the_turn_at_once(
    begin: Begin, talk: Talk, kind: Kind, error: type[ModelFailed]
) -> None:
    session = begin([Fault(kind), "Well again."])
    with pytest.raises(ModelFailed) as failure:
        session.send("hi").result(WAIT)
    assert type(failure.value) is error and failure.value.turn_id == "turn-1"
    assert len(talk.heard) == 1

    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "Well again."


@pytest.mark.parametrize("how", ["cut", "ended", "garbage"])
def test_nothing_of_an_answer_that_breaks_off_is_kept(begin: Begin, talk: Talk, how: Any) -> None:
    half = Said("Half of it", (call("add", "c1", a=1, b=2),))
    session = begin([Broken(half, 3, how), "Whole."])
    assert session.send("hi").result(WAIT).text == "Whole."
    assert [each.text for each in recorded(session)] == ["Whole."]
    assert [reason for reason, _ in discarded(session)] == ["stream-ended"]
    assert talk.heard[0] == talk.heard[1]


def test_a_stream_that_breaks_off_each_time_fails_the_turn(begin: Begin, talk: Talk) -> None:
    session = begin([Broken(Said("Half of it"), 3)] * 3, model_retries=2)
    with pytest.raises(ModelStreamEnded):
        session.send("hi").result(WAIT)
    assert len(talk.heard) == 3


def test_no_text_is_too_odd_to_be_sent(begin: Begin, talk: Talk) -> None:
    odd = f"{HALF} \x00 \u2028 𝄞"
    session = begin(
        [Said("", (call("echo", "c1", value={odd: [odd, float("nan"), 10**30]}),)), "ok", "ok"],
        instructions=odd,
    )
    session.send(odd).result(WAIT)
    session.send("again").result(WAIT)
    assert len(talk.heard) == 3
    if talk.name != "scripted":
        replaced = odd.replace("\ud83d", "\ufffd")
        assert talk.heard[-1].messages[0] == UserMessage(replaced)
        assert talk.heard[-1].instructions == replaced


def test_an_empty_answer_does_not_spoil_the_conversation(begin: Begin, talk: Talk) -> None:
    session = begin([Said(""), "Now I know."])
    assert session.send("hm").result(WAIT).text == ""
    assert session.send("well?").result(WAIT).text == "Now I know."
    assert [each for each in said(talk.heard[-1].messages) if each] == ["hm", "well?"]


def test_a_model_without_tools_is_offered_none(begin: Begin, talk: Talk) -> None:
    begin(["Hello."], tools=()).send("hi").result(WAIT)
    assert talk.heard == [Heard((UserMessage("hi"),))]


class Place(Struct):
    city: str
    heat: int


@pytest.mark.parametrize("output_type", [Place, list[int], dict[str, int], Place | None])
def test_a_type_of_the_answer_is_asked_for(begin: Begin, talk: Talk, output_type: Any) -> None:
    answer = '{"city": "Ulm", "heat": 21}' if "Place" in str(output_type) else "[1, 2]"
    answer = '{"a": 1}' if "dict" in str(output_type) else answer
    session = begin(["no JSON", answer], output_type=output_type)
    result = session.send("where?").result(WAIT)

    assert msgspec.to_builtins(result.output) == json.loads(answer)
    asked = [each.output for each in talk.heard]
    assert asked[0] is not None and asked[0] == asked[1]
    if output_type is Place:
        assert set(asked[0]["properties"]) == {"city", "heat"} == set(asked[0]["required"])


def test_settings_go_along(begin: Begin, talk: Talk) -> None:
    session = begin(["ok"], settings={"temperature": 0.5, "metadata": {"for": "tests"}})
    session.send("hi").result(WAIT)
    assert talk.settings("temperature", "metadata") == [(0.5, {"for": "tests"})]
