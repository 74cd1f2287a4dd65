"""A conversation that a client sends again whole: what the session has is not added twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores
from sending import events

from turnstream.actors import ActorSystem
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    InputConflict,
    InputQueued,
    InvalidTranscript,
    ModelFailed,
    UserMessage,
)

WAIT = 20
Run = Callable[..., ActorSystem]

SUM = [call("add", "c1", a=1, b=2)]


def test_what_is_sent_again_is_recognised_and_only_the_new_message_added(run: Run) -> None:
    model = ScriptedModel([SUM, "3", "and 4"])
    session = run([], model=model).session("s")
    history = session.send("1 + 2?").result(WAIT).messages
    result = session.execute([*history, UserMessage("and then?")]).result(WAIT)

    assert list(result.messages) == [
        *history,
        UserMessage("and then?"),
        AssistantMessage("and 4"),
    ]
    assert list(model.requests[2].messages) == list(result.messages)[:-1]
    assert [each.content for each in events(session, InputQueued)] == ["1 + 2?", "and then?"]


AS_KNOWN = {"its input": (1, ()), "its call": (2, ()), "its result": (3, ()), "more": (3, ("and",))}


@on_durable_stores
@pytest.mark.parametrize(("known", "more"), AS_KNOWN.values(), ids=AS_KNOWN)
def test_the_conversation_of_an_interrupted_turn_sent_again_resumes_it(
    run: Run, store: str, known: int, more: tuple[str, ...]
) -> None:
    model = ScriptedModel([SUM, ConnectionError("down"), "3"])
    session = run([], model=model, on=store).session("s")
    with pytest.raises(ModelFailed):
        session.send("1 + 2?").result(WAIT)
    pending = session.pending()
    assert pending is not None and len(pending.messages) == 3

    new = [UserMessage(each) for each in more]
    result = session.execute([*pending.messages[:known], *new]).result(WAIT)
    assert list(result.messages) == [*pending.messages, *new, AssistantMessage("3")]
    assert len(events(session, InputQueued)) == 1 + len(more)


REFUSED: dict[str, tuple[type[Exception], Callable[[list[Any]], list[Any]]]] = {
    "another beginning": (InputConflict, lambda said: [UserMessage("?"), *said[1:]]),
    "another answer": (InputConflict, lambda said: [said[0], AssistantMessage("no")]),
    "two new messages": (InvalidTranscript, lambda said: [*said, *map(UserMessage, "xy")]),
    "a new answer": (InvalidTranscript, lambda said: [*said, AssistantMessage("and more")]),
}


@pytest.mark.parametrize(("error", "sent"), REFUSED.values(), ids=REFUSED)
def test_what_is_another_conversation_is_refused_and_changes_nothing(
    run: Run, error: type[Exception], sent: Callable[[list[Any]], list[Any]]
) -> None:
    session = run(["hello", "again"]).session("s")
    history = list(session.send("hi").result(WAIT).messages)
    version = session.version
    with pytest.raises(error):
        session.execute(sent(history)).result(WAIT)

    assert session.version == version and session.pending() is None
    assert session.send("more").result(WAIT).text == "again"
