"""What can't be kept is refused where it is given, and the session is as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    FilePart,
    ImagePart,
    InvalidAgent,
    InvalidTranscript,
    ModelTurn,
    TextPart,
    ToolCall,
    Unstorable,
    UserMessage,
)

pytestmark = on_durable_stores

WAIT = 20
Run = Callable[..., ActorSystem]


class Markup(str):
    """Text of a library, as template engines and parsers return it."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"<{self!r}>"


STRANGE: dict[str, tuple[Any, type[Exception], str]] = {
    "number": (7, InvalidTranscript, "not int"),
    "nothing": (None, InvalidTranscript, "not NoneType"),
    "bytes": (b"x", InvalidTranscript, "not bytes"),
    "no parts": (UserMessage(()), InvalidTranscript, "an empty one"),
    "message of a number": (UserMessage(7), InvalidTranscript, "not int"),  # type: ignore[arg-type]
    "number among parts": ([TextPart("a"), 7], InvalidTranscript, "part 1 .* not int"),
    "text that is none": ([TextPart(7)], Unstorable, "part 0"),  # type: ignore[arg-type]
    "message of it": (UserMessage((TextPart(None),)), Unstorable, "part 0"),  # type: ignore[arg-type]
    "name that is none": ([FilePart(7, url="u")], Unstorable, "part 0"),  # type: ignore[arg-type]
    "data that is none": (
        [TextPart("a"), ImagePart(data="?")],  # type: ignore[arg-type]
        Unstorable,
        "part 1",
    ),
}


def check_untouched(store: str, session: Session) -> None:
    """It has nothing of what was refused, here and where it is read anew, and goes on."""
    assert session.version == 0
    assert session.send("hi").result(WAIT).text == "fine"
    with ActorSystem(Agent("agent", model=ScriptedModel(["again"])), store=store) as system:
        reopened = system.session("s")
        assert reopened.messages == session.messages
        assert reopened.send("and?").result(WAIT).text == "again"


@pytest.mark.parametrize("send", [Session.send, Session.execute])
@pytest.mark.parametrize("kind", STRANGE)
def test_an_input_that_could_not_be_read_back_is_refused(
    run: Run, store: str, send: Callable[[Session, Any], Any], kind: str
) -> None:
    given, error, names = STRANGE[kind]
    session = run(["fine"]).session("s")
    with pytest.raises(error, match=names):
        send(session, given)
    check_untouched(store, session)


@pytest.mark.parametrize("part", [TextPart(7), FilePart(7, url="u")])  # type: ignore[arg-type]
def test_a_conversation_that_could_not_be_read_back_is_refused(
    run: Run, store: str, part: Any
) -> None:
    session = run(["fine"]).session("s")
    with pytest.raises(Unstorable, match="part 0"):
        session.execute([UserMessage((part,))]).result(WAIT)
    check_untouched(store, session)


@pytest.mark.parametrize(
    ("key", "names"), [(7, "int"), ("", "one of 0"), ("k" * 513, "one of 513")]
)
def test_a_key_of_another_type_or_length_is_refused(
    run: Run, store: str, key: Any, names: str
) -> None:
    session = run(["fine"]).session("s")
    with pytest.raises(ValueError, match=names):
        session.send("a", key=key)
    check_untouched(store, session)


def test_a_tenant_that_is_no_text_is_refused(run: Run, store: str) -> None:
    tenant: Any = 7
    system = run(["fine"])
    with pytest.raises(TypeError, match="tenant is text, not int"):
        system.session("s", tenant=tenant)
    check_untouched(store, system.session("s"))


class Numbered:
    id = 7

    async def stream(self, request: ModelRequest) -> Any:
        yield ModelTurn("never")


def nothing() -> None: ...


numbered: Any = Numbered()
seven: Any = 7


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Agent("a", model=numbered), "id of a model is text, not int"),
        (lambda: Tool.from_schema(seven, nothing, {}), "name is text, not int"),
        (lambda: Tool.from_schema("t", nothing, {}, description=seven), "description is text"),
        (lambda: Tool.from_schema("t", nothing, seven), "schema is a dict, not int"),
    ],
)
def test_what_could_not_be_recorded_of_an_agent_is_refused_when_it_is_made(
    make: Callable[[], Any], names: str
) -> None:
    with pytest.raises(InvalidAgent, match=names):
        make()


def test_text_of_another_class_is_kept_as_the_text_it_is(run: Run, store: str) -> None:
    text, name = Markup("a"), Markup("add")
    answers = [
        ModelTurn(text, (call("add", a=1, b=2), ToolCall("c", name, {"a": 1, "b": 2}))),
        Markup("b"),
    ]

    def model(request: ModelRequest) -> Any:
        return answers.pop(0)

    system = run([], model=model)
    session = system.session("s", tenant=Markup("t"))
    assert session.send(text, key=Markup("k")).result(WAIT).text == "b"
    assert said(session.messages) == ["a", "a", "3", "3", "b"]
    assert session.send("a", key="k").result(WAIT).text == "b"
    assert [each.session_id for each in system.sessions(tenant="t")] == ["s"]
