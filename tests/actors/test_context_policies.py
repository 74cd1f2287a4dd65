"""What a model sees of a long conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import on_durable_stores

from turnstream.actors import (
    ActorSystem,
    Agent,
    Context,
    ContextPolicy,
    ModelRequest,
    Session,
    Shrunk,
    last_turns,
    replay,
    summarised,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    AssistantMessage,
    ContextCarried,
    InvalidAgent,
    Message,
    ModelCallDiscarded,
    ModelFailed,
    ModelStreamEnded,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from turnstream.projections.transcript import check_transcript

WAIT = 20


@tool
def look() -> str:
    """Look."""
    return "there"


def echo(request: ModelRequest) -> str:
    return f"{len(request.messages)} seen"


@pytest.fixture
def start(store: str) -> Iterable[Callable[..., ActorSystem]]:
    systems: list[ActorSystem] = []

    def start(policy: ContextPolicy, model: Any = echo, **parts: Any) -> ActorSystem:
        agent = Agent("agent", model=model, context_policy=policy, tools=[look], **parts)
        systems.append(ActorSystem(agent, store=store))
        return systems[-1]

    yield start
    for system in systems:
        system.close()


Start = Callable[..., ActorSystem]


def carried(session: Session) -> list[tuple[Any, int]]:
    events = [each.event for each in session.events()]
    return [(each.value, each.covers) for each in events if isinstance(each, ContextCarried)]


def talk(session: Session, texts: Iterable[str]) -> list[str]:
    return [session.send(text).result(WAIT).text for text in texts]


def test_the_model_sees_the_view_and_the_conversation_stays_whole(start: Start) -> None:
    session = start(lambda context: context.messages[-1:]).session("s")
    assert talk(session, "abc") == ["1 seen"] * 3
    assert said(session.messages) == ["a", "1 seen", "b", "1 seen", "c", "1 seen"]
    assert carried(session) == []


def test_a_policy_learns_where_turns_begin(start: Start) -> None:
    seen: list[Context] = []

    def policy(context: Context) -> Sequence[Message]:
        seen.append(context)
        return context.messages

    model = ScriptedModel([[call("look")], "one", "two"])
    session = start(policy, model).session("s")
    talk(session, "ab")
    assert [list(each.turns) for each in seen] == [[0], [0], [0, 4]]
    assert [(each.turn_id, each.step) for each in seen] == [
        ("turn-1", 1),
        ("turn-1", 2),
        ("turn-2", 1),
    ]
    assert {each.session_id for each in seen} == {"s"}


def test_the_last_turns_are_seen_whole(start: Start) -> None:
    model = ScriptedModel(["one", [call("look")], "two", "three"])
    session = start(last_turns(2), model).session("s")
    talk(session, "abc")
    assert said(model.requests[-1].messages) == ["b", "", "there", "two", "c"]
    assert said(model.requests[0].messages) == ["a"]


def test_what_is_carried_over_is_recorded_with_the_answer_and_given_to_the_next_call(
    start: Start,
) -> None:
    def policy(context: Context) -> Shrunk:
        return Shrunk(context.messages, (context.carried or 0) + 1, 0)

    session = start(policy).session("s")
    talk(session, "ab")
    assert carried(session) == [(1, 0), (2, 0)]
    topics = [each.topic for each in session.events()]
    assert topics[-3:] == ["context_carried", "model_turn_recorded", "turn_finished"]


def test_what_did_not_change_is_not_recorded_again(start: Start) -> None:
    session = start(lambda context: Shrunk(context.messages, {"summary": "s"}, 0)).session("s")
    talk(session, "abc")
    assert carried(session) == [({"summary": "s"}, 0)]


@on_durable_stores
def test_what_is_carried_over_outlives_the_process(store: str) -> None:
    def policy(context: Context) -> Shrunk:
        return Shrunk(context.messages, (context.carried or 0) + 1, 0)

    for number in (1, 2, 3):
        agent = Agent("agent", model=echo, context_policy=policy)
        with ActorSystem(agent, store=store) as system:
            session = system.session("s")
            talk(session, "a")
            assert carried(session)[-1] == (number, 0)


def test_a_model_call_that_broke_off_keeps_what_was_carried_over(start: Start) -> None:
    calls: list[Any] = []

    def policy(context: Context) -> Shrunk:
        calls.append(context.carried)
        return Shrunk(context.messages, "a summary", 0)

    model = ScriptedModel([ModelStreamEnded("cut"), "one"])
    session = start(policy, model).session("s")
    assert talk(session, "a") == ["one"]
    assert calls == [None, "a summary"]
    topics = [each.event for each in session.events()]
    first = next(n for n, each in enumerate(topics) if isinstance(each, ContextCarried))
    assert isinstance(topics[first + 1], ModelCallDiscarded)
    assert carried(session) == [("a summary", 0)]


def test_old_turns_are_summarised_once_and_the_summary_grows(start: Start) -> None:
    asked: list[tuple[str, list[str]]] = []

    def summarise(summary: str, messages: Sequence[Message]) -> str:
        asked.append((summary, said(messages)))
        return f"{summary}{len(messages)};"

    model = ScriptedModel(["A", "B", "C", "D", "E", "F"])
    session = start(summarised(summarise, keep_turns=1, every=2), model).session("s")
    talk(session, "abcdef")
    assert asked == [("", ["a", "A", "b", "B"]), ("4;", ["c", "C", "d", "D"])]
    assert [len(each.messages) for each in model.requests] == [1, 3, 2, 4, 2, 4]
    assert said(model.requests[4].messages) == ["Summary of the conversation so far:\n4;4;", "e"]
    assert len(session.messages) == 12


def test_an_async_summary_may_ask_a_model(start: Start) -> None:
    async def summarise(summary: str, messages: Sequence[Message]) -> str:
        return f"{len(messages)} messages"

    for model in (echo, ScriptedModel(["A", "B", "C"])):
        session = start(summarised(summarise, keep_turns=1, every=1), model).session()
        talk(session, "abc")
        assert [value["summary"] for value, _ in carried(session)] == ["2 messages"] * 2


def test_a_rewind_to_before_what_a_summary_covers_forgets_it(start: Start) -> None:
    def summarise(summary: str, messages: Sequence[Message]) -> str:
        return summary + "".join(said(messages))

    model = ScriptedModel(["A", "B", "C", "D", "E"])
    session = start(summarised(summarise, keep_turns=1, every=1), model).session("s")
    talk(session, "abc")
    assert [value["summary"] for value, _ in carried(session)] == ["aA", "aAbB"]
    session.rewind(keep_entries=2).result(WAIT)
    talk(session, "d")
    assert said(model.requests[-1].messages) == ["Summary of the conversation so far:\naA", "d"]
    session.rewind(keep_entries=2).result(WAIT)
    talk(session, "e")
    assert said(model.requests[-1].messages) == ["Summary of the conversation so far:\naA", "e"]


def test_a_turn_that_is_dropped_leaves_a_summary_of_what_was_before_it(start: Start) -> None:
    model = ScriptedModel(["A", "B", [call("look")], OSError("away"), "D"])
    policy = summarised(lambda before, messages: before + "x", keep_turns=1, every=1)
    session = start(policy, model).session("s")
    talk(session, "ab")
    with pytest.raises(ModelFailed):
        session.send("c").result(WAIT)
    session.discard_pending().result(WAIT)
    talk(session, "d")
    assert said(model.requests[-1].messages)[-1] == "d"
    assert [value["summary"] for value, _ in carried(session)] == ["x", "xx"]


def test_a_fork_carries_on_from_what_was_carried_over_there(start: Start) -> None:
    def policy(context: Context) -> Shrunk:
        return Shrunk(context.messages, (context.carried or 0) + 1, 0)

    session = start(policy).session("s")
    talk(session, "ab")
    first = next(each.version for each in session.events() if each.topic == "turn_finished")
    fork = session.fork(version=first)
    talk(fork, "c")
    assert carried(fork) == [(1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("text", "a context policy returns messages"),
        (None, "a context policy returns messages"),
        (7, "a context policy returns messages"),
        ([ToolMessage("c", "look", "r")], "out of its place"),
        ([AssistantMessage("", (ToolCall("c", "look"),))], "has no result"),
        (Shrunk((), "x", 99), "covers"),
        (Shrunk((), object(), 0), "carried"),
        (OSError("gone"), "gone"),
    ],
)
def test_a_view_that_no_provider_takes_fails_the_turn_and_says_why(
    start: Start, view: Any, why: str
) -> None:
    def policy(context: Context) -> Any:
        if isinstance(view, BaseException):
            raise view
        return view

    session = start(policy).session("s")
    with pytest.raises(ModelFailed, match=why):
        session.send("a").result(WAIT)
    assert carried(session) == []


def test_a_replay_asks_with_the_view(start: Start) -> None:
    session = start(last_turns(1)).session("s")
    talk(session, "ab")
    same = Agent("agent", model=echo, tools=[look], context_policy=last_turns(1))
    whole = Agent("agent", model=echo, tools=[look])
    assert replay(session, same).result(WAIT).diverged_at is None
    assert replay(session, whole).result(WAIT).diverged_at == 1
    assert replay(list(session.messages), same).result(WAIT).diverged_at is None


def test_what_is_no_policy_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(InvalidAgent, match="context_policy"):
        Agent("agent", model=echo, context_policy="short")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="count"):
        last_turns(0)
    with pytest.raises(ValueError, match="keep_turns"):
        summarised(lambda summary, messages: "", keep_turns=0)


conversations = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(conversations, st.integers(1, 4), st.integers(1, 4))
def test_every_view_of_the_built_in_policies_is_a_conversation_that_ends_as_the_whole_does(
    turns: list[int], keep: int, every: int
) -> None:
    messages: list[Message] = []
    starts: list[int] = []
    memory: Any = None
    summary = summarised(
        lambda before, added: before + "+" * len(added), keep_turns=keep, every=every
    )
    for number, calls in enumerate(turns):
        starts.append(len(messages))
        messages.append(UserMessage(f"u{number}"))
        context = Context("s", f"turn-{number + 1}", 1, tuple(messages), tuple(starts), memory)
        view = summary(context)
        assert isinstance(view, Shrunk)
        memory = view.carried if view.carried is not None and view.covers else memory
        covered = memory["covers"] if memory else 0
        assert memory is None or memory["summary"] == "+" * covered
        assert list(view.messages)[(1 if covered else 0) :] == messages[covered:]
        for shown in (view.messages, last_turns(keep)(context)):
            assert isinstance(shown, Sequence)
            check_transcript(shown)
            assert shown[-1] == messages[-1]
        if calls:
            asked = tuple(ToolCall(f"c{number}.{n}", "look") for n in range(calls))
            messages.append(AssistantMessage("", asked))
            messages += [ToolMessage(each.id, "look", "there") for each in asked]
        messages.append(AssistantMessage(f"a{number}"))
