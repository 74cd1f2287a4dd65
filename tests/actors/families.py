"""A boss and its workers: agents that work for one another."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Tool, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ModelTurn,
    SessionStarted,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    Usage,
    UserMessage,
)

WAIT = 20


class Works:
    """What tools did, and how often models were asked."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[tuple[str, int]] = []

    def tools(self) -> list[Tool]:
        @tool(name="remove", needs_approval=True)
        def remove(path: str) -> str:
            """Remove."""
            self.done.append(path)
            return f"removed {path}"

        @tool(name="look")
        def look(path: str) -> str:
            """Look."""
            self.done.append(f"look {path}")
            return f"saw {path}"

        return [remove, look]

    def obeying(self, name: str) -> Callable[[ModelRequest], ModelTurn]:
        """A model that does what it is told: ``remove a, look b``, ``worker: ...``."""

        def model(request: ModelRequest) -> ModelTurn:
            self.asked.append((request.session_id, request.step))
            last = request.messages[-1]
            if isinstance(last, UserMessage):
                return ModelTurn(tool_calls=told(str(last.content)), usage=Usage(10, 1))
            results = [
                each.content
                for each in request.messages[_last_input(request) :]
                if isinstance(each, ToolMessage)
            ]
            return ModelTurn(f"{name}: {'; '.join(map(str, results))}", usage=Usage(10, 1))

        return model


def _last_input(request: ModelRequest) -> int:
    places = [n for n, each in enumerate(request.messages) if isinstance(each, UserMessage)]
    return places[-1]


def told(text: str) -> tuple[ToolCall, ...]:
    """``remove a | worker look b`` as calls: the first word names the tool."""
    calls = []
    for number, part in enumerate(text.split("|"), 1):
        name, _, rest = part.strip().partition(" ")
        argument = "path" if name in ("remove", "look") else "input"
        calls.append(call(name, f"c{number}", **{argument: rest.replace("&", "|")}))
    return tuple(calls)


def family(works: Works, *, helper: str = "", **options: Any) -> Agent:
    """A boss with a worker; that one has a helper of its own, with those instructions."""
    innermost = Agent(
        "helper", model=works.obeying("helper"), tools=works.tools(), instructions=helper
    )
    worker = Agent(
        "worker", model=works.obeying("worker"), tools=[*works.tools(), innermost.as_tool()]
    )
    return Agent(
        "boss",
        model=works.obeying("boss"),
        tools=[*works.tools(), worker.as_tool(), innermost.as_tool()],
        **options,
    )


def children(system: ActorSystem, session: Session | str = "s") -> list[Session]:
    """The sessions that work for one, in the order in which they began."""
    parent = session if isinstance(session, str) else session.id
    found = []
    for row in sorted(system.sessions(), key=lambda each: each.created):
        begun = system.session(row.session_id).events()[0].event
        if isinstance(begun, SessionStarted) and begun.parent is not None:
            if begun.parent.session_id == parent:
                found.append(system.session(row.session_id))
    return found


def results(session: Session) -> list[tuple[str, str, Any]]:
    """The results that a session recorded, as they are."""
    found = [each.event for each in session.events()]
    return [
        (each.call_id, each.outcome, each.content)
        for each in found
        if isinstance(each, ToolResultRecorded)
    ]


def wait_for(condition: Callable[[], object]) -> None:
    """Until it holds."""
    pause = Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to that")
