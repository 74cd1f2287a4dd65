"""The public API as a caller uses it. Never run: mypy and pyright check it in CI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, assert_type

import turnstream
from turnstream import (
    ActorSystem,
    Agent,
    AssistantMessage,
    Checkpoint,
    FilePart,
    Handoff,
    Hooks,
    ImagePart,
    Journal,
    JournalRun,
    MailboxFull,
    Message,
    Model,
    ModelFailed,
    ModelRequest,
    ModelTurn,
    Patch,
    Pending,
    ReasoningDelta,
    RecordedEvent,
    Refused,
    Session,
    SessionError,
    StoreError,
    StreamItem,
    SystemClosed,
    TextDelta,
    TextPart,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolContext,
    ToolMessage,
    ToolResultPatch,
    Turn,
    TurnError,
    TurnResult,
    TurnstreamError,
    Usage,
    UserMessage,
    View,
    WouldDeadlock,
    compare,
    import_transcript,
    replay,
    tool,
)
from turnstream.actors import (
    ErrorShown,
    ImportedSession,
    Replayed,
    Rest,
    Stretch,
    TextEmitted,
    ToolEnded,
    TurnDone,
    export_chat,
    export_events,
    export_trajectory,
    import_events,
    import_trajectory,
)
from turnstream.actors.testing import RecordedModel, ScriptedModel, call, crash_points
from turnstream.events import InputQueued, Outcome, SessionEvent, WrongExpectedVersion
from turnstream.projections import (
    ArgumentDrift,
    Comparison,
    ModelUsage,
    TrajectoryStep,
    UsageByDay,
)
from turnstream.stores import open_store

assert_type(turnstream.__version__, str)
turnstream.ActorSytem  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


# Tools: bare and with options, sync and async, with and without a context.


@tool
def weather(city: str, days: int = 1) -> str:
    """Weather in a city."""
    return f"{city}: sunny for {days}"


async def hold(flight: str) -> int:
    return len(flight)


@tool(name="book_flight", description="Book a flight.", on_crash="fail", timeout=5.0)
async def book(context: ToolContext, flight: str) -> dict[str, str]:
    assert_type(context.idempotency_key, str)
    assert_type(context.attempt, int)
    assert_type(context.cancelled, bool)
    held = await context.step("hold", hold, flight, idempotency_key=flight)
    lines = [each async for each in context.step_stream("read", search, path=flight)]
    assert_type([held, *lines], list[Any])
    return {"flight": flight, "session": context.session_id, "call": context.call_id}


def search(**arguments: object) -> list[object]:
    return list(arguments)


listed = Tool.from_schema("search", search, {"type": "object"}, description="Search.")
assert_type(weather, Tool)
assert_type(book, Tool)
assert_type(listed, Tool)


# Models: a function, an async function, and a streaming class.


def echo(request: ModelRequest) -> str:
    return request.instructions


async def answer(request: ModelRequest) -> ModelTurn:
    return ModelTurn(text=f"step {request.step}", usage=Usage(input_tokens=3, output_tokens=1))


class Streaming:
    id = "streaming"

    async def stream(
        self, request: ModelRequest
    ) -> AsyncIterator[TextDelta | ReasoningDelta | ToolCallDelta | ModelTurn]:
        yield ReasoningDelta("hm")
        yield TextDelta("Hel")
        yield ToolCallDelta("c1", "weather", '{"city"')
        yield ModelTurn("Hello", (ToolCall("c1", "weather", {"city": "Oslo"}),))


streaming: Model = Streaming()
scripted: Model = ScriptedModel([[call("weather", city="Oslo")], "Sunny.", ModelTurn("Bye.")])


# Hooks: sync, async, and some of the methods.


class Policy(Hooks):
    async def before_model(self, stretch: Stretch, request: ModelRequest) -> ModelRequest | None:
        return request if stretch.resumed else None

    def before_tool(self, context: ToolContext, call: ToolCall) -> Refused | None:
        return Refused("no", "error") if call.name == "book_flight" else None

    async def after_tool(
        self, context: ToolContext, call: ToolCall, outcome: Outcome, content: Any
    ) -> Any:
        return None

    def on_event(self, session_id: str, version: int, event: SessionEvent) -> None:
        if isinstance(event, InputQueued):
            assert_type(event.input_id, str)

    async def on_rest(self, stretch: Stretch, rest: Rest) -> None:
        assert_type(rest.usage, Usage)


agents = [
    Agent("hooked", model=echo, hooks=[Policy()]),
    Agent("function", model=echo),
    Agent("async", model=answer, instructions="Be brief.", tools=[weather, book, listed]),
    Agent("class", model=streaming, max_steps=8, tool_concurrency=1, token_budget=10_000),
    Agent("test", model=scripted),
    Agent("handing", model=echo, handoffs=[Handoff("test", name="test"), "class"], aliases=["old"]),
]


# Blocking callers.


def blocking() -> None:
    with ActorSystem(agents, store="sqlite:///planner.db", idle_timeout=5.0) as system:
        assert_type(system, ActorSystem)
        session = system.session("user-42", agent="async", tenant="acme")
        assert_type(session, Session)
        turn = session.send("Plan my trip")
        assert_type(turn, Turn)
        assert_type(turn.accepted().result(timeout=1.0), str)
        show(turn.result(timeout=30.0))
        for item in turn.stream():
            assert_type(item, StreamItem)
            assert_type(item.type, str)
            match item:
                case TextEmitted(text=text) | ErrorShown(error=text):
                    assert_type(text, str)
                case ToolEnded():
                    assert_type(item.call_id, str)
                case TurnDone(result=result):
                    assert_type(result, TurnResult | None)
                case _:
                    assert_type(item.turn_id, str)
        for resumed in system.resume_all():
            assert_type(resumed, Turn)
        for recorded in system.events(after=0):
            assert_type(recorded, RecordedEvent)
        with system.subscribe(after=10) as log:
            for recorded in log:
                if isinstance(recorded.event, InputQueued):
                    assert_type(recorded.event.input_id, str)
                    break
        assert_type(system.close(timeout=1.0), bool)


def show(result: TurnResult) -> None:
    assert_type(result.text, str)
    assert_type(result.usage, Usage)
    assert_type(result.usage.total_tokens, int)
    assert_type(result.new_messages, Sequence[Message])
    assert_type(result.tool_calls, tuple[ToolCall, ...])
    if result.finish_reason == "max-steps":
        return
    for message in result.messages:
        match message:
            case UserMessage():
                assert_type(message.content, str | tuple[TextPart | ImagePart | FilePart, ...])
            case AssistantMessage():
                assert_type(message.tool_calls, tuple[ToolCall, ...])
            case ToolMessage():
                assert_type(message.call_id, str)


def inspecting(session: Session) -> None:
    assert_type(session.messages, Sequence[Message])
    assert_type(session.usage, Usage)
    assert_type(session.version, int)
    assert_type(session.active_agent, str)
    assert_type(session.resume(), Turn | None)
    if pending := session.pending():
        assert_type(pending, Pending)
        assert_type(pending.calls, tuple[ToolCall, ...])
        assert_type(session.discard_pending().result(), bool)
    session.send(UserMessage("again"))
    session.send((TextPart("What is this?"), ImagePart(url="https://example.org/cat.png")))
    session.send((FilePart("notes.txt", data=b"..."),), policy="wait")
    session.send("again", run_id="job-7", if_run_exists="resume_only").result().run_id.upper()
    replayed = RecordedModel(session.events())
    assert_type(replayed.tools, list[Tool])
    for prefix in crash_points(session.events(after=3)):
        assert_type(prefix, Sequence[RecordedEvent])


def travelling(session: Session) -> None:
    for entry in session.history(limit=3):
        assert_type(entry, Checkpoint)
        assert_type(entry.checkpoint, View)
    assert_type(session.at(step=2), View)
    patch = Patch(state={"n": 1}, tool_result=ToolResultPatch("c1", "rain"), append_input="Go on.")
    assert_type(session.fork(step=1, patch=patch, session_id="other"), Session)
    assert_type(session.fork(version=7, patch=Patch(messages=lambda said: said[:-1])), Session)
    assert_type(session.rewind(to_step=1, by="mia").result(), bool)
    assert_type(session.trim_tool_results(keep_chars=100).result(), int)
    assert_type(session.clear().result(), bool)
    assert_type(session.set_state({"n": 2}, by="mia").result(), bool)


def importing() -> int:
    store = open_store("sqlite:///imported.db")
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    return import_transcript(chat, store, "imported-1", agent="support")


def kept(system: ActorSystem) -> None:
    usage = system.read_model(UsageByDay())
    assert_type(usage.catch_up(print), int)
    with usage.follow() as following:
        assert_type(following.wait(7, timeout=1.0), bool)
    for key, row in usage.rows("model/"):
        assert_type(key, str)
        if isinstance(row, ModelUsage):
            assert_type(row.usage, Usage)


def exporting() -> int:
    store, other = open_store("sqlite:///a.db"), open_store("memory://")
    lines = export_events(store, "user-42", "user-43")
    assert_type(import_events(lines, other, session_id="copy"), Sequence[ImportedSession])
    assert_type(export_chat(store, "user-42")["messages"], Any)
    return import_trajectory(export_trajectory(store, "user-42"), other, "again", agent="planner")


def comparing(session: Session, other: Session, transcript: Sequence[Message]) -> int | None:
    found = compare(session, other, ignore={"search": ("token",)})
    assert_type(found, Comparison)
    assert_type(found.a, tuple[TrajectoryStep, ...])
    assert_type(compare(session, transcript, ignore_text=True).shared, int | None)
    for drift in found.drift:
        if isinstance(drift, ArgumentDrift):
            assert_type(drift.argument, str)
    return found.diverged_at


def replaying(session: Session, agent: Agent) -> int | None:
    replayed = replay(session, agent, all_steps=True).result(timeout=60)
    assert_type(replayed, Replayed)
    assert_type(replay(session.events(), agent).result().usage, Usage)
    return replayed.diverged_at


# Async callers: the same names.


async def asynchronous(agent: Agent) -> None:
    async with ActorSystem(agent) as system:
        session = system.session()
        turn = session.send("Plan my trip")
        assert_type(await turn.accepted(), str)
        assert_type(await turn, TurnResult)
        async for item in turn.stream():
            assert_type(item.turn_id, str)
        assert_type(await session.view(), View)
        assert_type(await session.view(version=3), View)
        assert_type(await replay(session, agent), Replayed)


# Errors: one tree.


def refused(session: Session) -> str:
    try:
        session.send("hello").result()
    except MailboxFull as error:
        return error.session_id
    except WrongExpectedVersion as error:
        assert_type(error.code, str)
    except (ModelFailed, TurnError) as error:
        return error.turn_id
    except (SessionError, StoreError, SystemClosed, WouldDeadlock):
        return "try later"
    except TurnstreamError as error:
        return f"{error.code} {error.turn_id} {error.call_id}"
    return ""


def loading(run: JournalRun, path: str) -> int:
    assert_type(run.epoch, int)
    assert_type(run.idempotency_key, str)
    run.run("inner", loading, path, idempotency_key=path)
    for line in run.step_stream("read", search, path=path):
        run.step("store", print, line)
    return run.epoch


with Journal("memory://", wait=1.5) as journal:
    assert_type(journal.run("import", loading, "a.csv"), Any)
    assert_type(journal.resume("import", loading, path="a.csv"), Any)
    assert_type(journal.abandon("import"), bool)
    assert_type([each.session_id for each in journal.runs("failed")], list[str])
