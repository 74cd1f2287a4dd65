"""Hooks: code of an application's own around the model and tool calls of an agent."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..events.messages import ModelTurn, Outcome, ToolCall, Usage
from ..events.session import SessionEvent
from .models import ModelRequest
from .tool_context import ToolContext

WhyRest: TypeAlias = Literal[
    "finished", "failed", "aborted", "awaiting-approval", "handed-over", "interrupted"
]


class Stretch(Struct, frozen=True):
    """A stretch of a turn: from where it began or went on in this process, to where it rests.

    ``version`` and ``at`` are those of the event that set it going; ``resumed`` says that the turn
    began before. ``input_id`` names the turn's first input: no two turns share one, whatever
    their sessions are called.
    """

    session_id: str
    turn_id: str
    agent: str
    model: str
    input_id: str
    version: int
    at: datetime
    resumed: bool = False


class Rest(Struct, frozen=True):
    """Why and when a stretch ended. ``usage`` is the turn's so far, ``finish_reason`` how it
    finished, ``code`` that of the error it failed with. ``handed-over``: another agent goes on, in
    a stretch of its own. ``interrupted``: nothing of it runs here
    any more, because the system was closed, the store failed, or another node runs it."""

    reason: WhyRest
    at: datetime
    usage: Usage
    finish_reason: str = ""
    code: str = ""


class Refused(Struct, frozen=True):
    """What ``before_tool`` returns so that the tool does not run: what the model reads instead of
    its result."""

    content: Any
    outcome: Literal["rejected", "error"] = "rejected"


class Hooks:
    """What an application may do around the calls of an agent. Derive from it, and give it the
    methods you need; the others do nothing.

    Those named ``before_`` and ``after_`` take part: they may change what is asked and what is
    recorded, and where one raises, the call fails. They may be sync or async, whatever the model
    or the tool is. Sync ones run on a thread, async ones on the event loop, within the time-out of
    the call. Those named ``during_`` and ``on_`` look on: what they raise is logged and changes
    nothing.

    Hooks of an agent are called in order, ``after_`` and the ends of ``during_`` in reverse. One
    object serves all sessions of its agents, from several threads at once.
    """

    def before_model(
        self, stretch: Stretch, request: ModelRequest
    ) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """Before the model is asked. May return another request, for this call only: the
        conversation stays as it is recorded. Raising fails the turn with ``HookFailed``, as does
        a request with a conversation that no provider takes."""

    def after_model(
        self, stretch: Stretch, request: ModelRequest, turn: ModelTurn
    ) -> ModelTurn | Awaitable[ModelTurn | None] | None:
        """After the model answered, before that is recorded. May return another answer, which is
        recorded instead; without a usage of its own it keeps the model's. Raising fails the turn
        with ``HookFailed``; what the model used counts. Deltas were shown before."""

    def before_tool(
        self, context: ToolContext, call: ToolCall
    ) -> Refused | Awaitable[Refused | None] | None:
        """Before a tool runs, each time it does. May return ``Refused``: then it does not.
        Raising, or returning anything else, stops it too, with an ``error`` result.

        Comes after the decision where one is needed; there is nothing it could return to do
        without."""

    def after_tool(
        self, context: ToolContext, call: ToolCall, outcome: Outcome, content: Any
    ) -> Any:
        """After a tool returned (``ok``) or raised (``error``), before that is recorded: the
        ``content`` is what would be. May return other content; None leaves it. Raising makes it an
        ``error`` result that says that the tool ran; it is not run again."""

    def during_model(
        self, stretch: Stretch, request: ModelRequest
    ) -> AbstractContextManager[Any] | None:
        """A context to ask the model in, the hooks before and after it included. It is entered
        where the call runs, also on the event loop, and so must not block. If what it gives is
        callable, that is called with the ``ModelTurn`` that will be recorded."""

    def during_tool(
        self, stretch: Stretch, context: ToolContext, call: ToolCall
    ) -> AbstractContextManager[Any] | None:
        """The same for a tool; called with the outcome and the content."""

    def on_event(
        self, session_id: str, version: int, event: SessionEvent
    ) -> Awaitable[None] | None:
        """Told of each event that this process appended, once it is durable: of each session in
        order, each once, on a thread of this hook's own, which no session waits for. Not told is
        what was recorded and not yet told when the process was lost: who can't do without keeps a
        read model."""

    def on_rest(self, stretch: Stretch, rest: Rest) -> Awaitable[None] | None:
        """Told, in order with the events, that a stretch of a turn ended: once for each."""
