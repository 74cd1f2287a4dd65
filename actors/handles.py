"""What callers hold: a session, and a turn in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..events.envelope import RecordedEvent
from ..events.errors import InvalidTranscript, NotSupported
from ..events.messages import (
    Content,
    FilePart,
    ImagePart,
    Message,
    Policy,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
)
from ..events.session import Status
from ..projections import SessionState, Settled
from ..projections.usage import SessionUsage
from .commands import Discard, Resume, Submit
from .feed import Feed
from .results import ErrorShown, StreamItem, TurnDone, TurnResult
from .waiting import Promise

if TYPE_CHECKING:
    from .system import ActorSystem


class Acceptance:
    """That an input is durable: to wait on, or to await."""

    def __init__(self, promise: Promise[str]) -> None:
        self._promise = promise

    def result(self, timeout: float | None = None) -> str:
        """Block until the input is durable, at most ``timeout`` seconds, and return its id: for
        a retry, and for ``resume``, that of the input the unfinished turn began with."""
        return self._promise.result(timeout)

    def __await__(self) -> Generator[object, None, str]:
        return self._promise.__await__()


class Turn:
    """A turn that was asked for. Dropping the handle does not stop it."""

    __slots__ = ("_accepted", "_result", "feed", "input_id", "session_id")

    def __init__(self, session_id: str, input_id: str = "") -> None:
        self.session_id: str = session_id
        self.input_id: str = input_id
        self._accepted: Promise[str] = Promise(session_id)
        self._result: Promise[TurnResult] = Promise(session_id)
        self.feed: Feed = Feed()

    def accepted(self) -> Acceptance:
        """The moment from which no crash loses the input."""
        return Acceptance(self._accepted)

    def done(self) -> bool:
        """Whether the turn ended, one way or the other."""
        return self._result.done()

    def result(self, timeout: float | None = None) -> TurnResult:
        """Block until the turn ended, at most ``timeout`` seconds (``TimeoutError``).

        Raises the turn's error where it failed, and ``WouldDeadlock`` where the wait could never
        end: on a running event loop (``await`` the turn instead) or inside the turn's own tools.
        """
        return self._result.result(timeout)

    def __await__(self) -> Generator[object, None, TurnResult]:
        return self._result.__await__()

    def stream(self) -> TurnStream:
        """The turn's items from the first on, for ``for`` and ``async for``; the last is
        ``turn.done``."""
        return TurnStream(self.feed)

    def accept(self, input_id: str) -> None:
        """Say that the input is durable, under this id. For the runtime."""
        self._accepted.resolve(input_id)

    def finish(self, result: TurnResult) -> None:
        """Say how the turn ended. For the runtime."""
        self.feed.publish(TurnDone(result.turn_id, result.finish_reason, result))
        self._result.resolve(result)

    def fail(self, error: BaseException) -> None:
        """Say that the turn can't go on. For the runtime."""
        turn_id, code = getattr(error, "turn_id", ""), getattr(error, "code", "error")
        self.feed.publish(ErrorShown(turn_id, code, str(error)))
        self.feed.publish(TurnDone(turn_id, "error"))
        self._accepted.fail(error)
        self._result.fail(error)

    def __repr__(self) -> str:
        return f"<Turn of {self.session_id!r}, {'done' if self.done() else 'running'}>"


class TurnStream:
    """A turn's items, in blocking and async form. Any number of readers may read."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __iter__(self) -> Iterator[StreamItem]:
        return iter(self._feed)

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self._feed.__aiter__()


class Pending(Struct, frozen=True, eq=False):
    """What is unfinished in a session: the open turn's messages so far, the calls that lack a
    result, and the inputs that wait. ``code`` and ``error`` say why a failed turn does not go
    on."""

    turn_id: str
    messages: Sequence[Message]
    calls: tuple[ToolCall, ...]
    queued: tuple[Content, ...]
    code: str = ""
    error: str = ""


class View(Struct, frozen=True, eq=False):
    """A session as it was at one version."""

    version: int
    folded: SessionState
    usage: SessionUsage

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the turns that ended."""
        return self.folded.conversation

    @property
    def state(self) -> Any:
        """The application's own state."""
        return self.folded.application

    @property
    def status(self) -> Status:
        """Idle, running, failed or awaiting approval."""
        return self.folded.status

    @property
    def pending(self) -> Pending | None:
        """What is unfinished; None where nothing is."""
        turn, queued = self.folded.turn, tuple(each.content for each in self.folded.queued)
        if turn is None:
            return Pending("", (), (), queued) if queued else None
        return Pending(
            turn.turn_id,
            self.folded.transcript[turn.base :],
            tuple(each.call for each in turn.calls if not isinstance(each.stage, Settled)),
            queued,
            turn.halt.code if turn.halt else "",
            turn.halt.error if turn.halt else "",
        )


class Session:
    """A handle on a session. It opens nothing until it is used; any number may exist."""

    def __init__(self, system: ActorSystem, session_id: str, agent: str, tenant: str) -> None:
        self._system = system
        self.id: str = session_id
        self.agent: str = agent
        self.tenant: str = tenant

    def send(self, input: str | UserMessage | Content, *, policy: Policy | None = None) -> Turn:
        """Ask for a turn. Returns at once: storage and model work in the background.

        An unfinished turn is finished first. Sending again what an interrupted turn began with
        is a retry, not a second message.
        """
        if policy not in (None, "wait"):
            raise NotSupported(f"policy {policy!r} is not available in this version; use 'wait'")
        turn = Turn(self.id, token_hex(8))
        self._system.tell(self, Submit(turn.input_id, _content(input)), turn)
        return turn

    def resume(self) -> Turn | None:
        """Finish what is unfinished; None where nothing is.

        Blocks for one short read of the store.
        """
        if self.pending() is None:
            return None
        turn = Turn(self.id)
        self._system.tell(self, Resume(), turn)
        return turn

    def discard_pending(self) -> Acceptance:
        """Drop the unfinished turn: the conversation is as before it, the stream keeps it.

        Returns at once; what comes back tells, to whoever waits or awaits, that it is durable."""
        turn = Turn(self.id)
        self._system.tell(self, Discard(), turn)
        return turn.accepted()

    def pending(self) -> Pending | None:
        """What is unfinished; None where nothing is."""
        return self._system.read_view(self.id).pending

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the turns that ended, as of now."""
        return self._system.read_view(self.id).messages

    @property
    def state(self) -> Any:
        """The application's own state, as of now."""
        return self._system.read_view(self.id).state

    @property
    def usage(self) -> Usage:
        """The tokens of all recorded model turns, as of now."""
        return self._system.read_view(self.id).usage.recorded

    @property
    def status(self) -> Status:
        """Idle, running, failed or awaiting approval, as of now."""
        return self._system.read_view(self.id).status

    @property
    def version(self) -> int:
        """How many events the stream has, as of now."""
        return self._system.read_view(self.id).version

    async def view(self) -> View:
        """The session as of now, without blocking the event loop."""
        return await self._system.read_view_async(self.id)

    def events(self, after: int = 0) -> Sequence[RecordedEvent]:
        """The recorded events with versions above ``after``, in order."""
        return self._system.read_events(self.id, after)

    def __repr__(self) -> str:
        return f"Session({self.id!r})"


def _content(given: object) -> Content:
    content = given.content if isinstance(given, UserMessage) else given
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)) and content:
        if all(isinstance(part, (TextPart, ImagePart, FilePart)) for part in content):
            return tuple(content)
    raise InvalidTranscript(
        f"an input is text, a UserMessage, or a sequence of parts, not {type(given).__name__}"
    )
