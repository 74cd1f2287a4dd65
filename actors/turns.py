"""What a caller holds of a turn it asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from ..events.errors import ActorError
from .commands import Abort, Command, Withdraw
from .effects import Place
from .feed import Feed, Reader
from .results import ErrorShown, TurnDone, TurnResult
from .waiting import Promise

if TYPE_CHECKING:
    from .handles import Input, Session

T = TypeVar("T")


class Reply(Generic[T]):
    """An answer that will come: to wait on, or to await."""

    def __init__(self, promise: Promise[T]) -> None:
        self._promise = promise

    def result(self, timeout: float | None = None) -> T:
        """Block for the answer, at most ``timeout`` seconds (``TimeoutError``). Raises what went
        wrong, and ``WouldDeadlock`` on a running event loop: await it there."""
        return self._promise.result(timeout)

    def __await__(self) -> Generator[object, None, T]:
        return self._promise.__await__()


class Turn:
    """A turn that was asked for. Dropping the handle does not stop it.

    ``input_id`` names its input: for a retry, and for ``resume``, that of the input the
    unfinished turn began with, which is known once it was accepted.
    """

    __slots__ = ("_accepted", "_result", "_session", "feed", "input_id")

    def __init__(self, session: Session, input_id: str) -> None:
        self._session = session
        self.input_id: str = input_id
        self._accepted: Promise[str] = Promise(session.id)
        self._result: Promise[TurnResult] = Promise(session.id, after=session.place)
        self.feed: Feed = Feed()

    @property
    def session_id(self) -> str:
        """The session it is a turn of."""
        return self._session.id

    @property
    def place(self) -> Place:
        """Where its code runs. For readers."""
        return self._session.place

    def accepted(self) -> Reply[str]:
        """The moment from which no crash loses the input; the answer is the input's id. Raises
        there what only the stream can refuse, such as ``InputConflict``."""
        return Reply(self._accepted)

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

    def stream(self, *, abort_on_exit: bool = False) -> TurnStream:
        """The turn's items from the first on, for ``for`` and ``async for``; the last is
        ``turn.done``, and the only one where the input joined a turn that ran already.

        Leaving early leaves the turn alone, unless ``abort_on_exit``.
        """
        return TurnStream(self, abort_on_exit=abort_on_exit)

    def steer(self, input: Input) -> Turn:
        """Send another input that joins this turn as soon as may be; see ``Session.send``."""
        return self._session.send(input, policy="steer")

    def enqueue(self, input: Input) -> Turn:
        """Send another input that joins this turn before its next model call."""
        return self._session.send(input, policy="queue")

    def withdraw(self) -> Reply[bool]:
        """Take the input back, if it was not used yet: the answer says whether it was not. Then
        waiting for the turn raises ``TurnWithdrawn``."""
        return self._tell(Withdraw)

    def abort(self, *, keep: bool = False) -> Reply[bool]:
        """Stop the turn: the answer says whether this stopped it, or it had ended before.

        Dropped, the conversation is as before it, and what it did stays in the stream. With
        ``keep``, calls that run are cancelled, and ``resume`` goes on from there. Async code is
        cancelled; a sync function can't be: it runs on, and what it returns is not recorded. An
        input that waits for its turn is taken back. Whoever waits has a result that says
        ``aborted``.
        """
        return self._tell(lambda input_id: Abort(input_id, keep))

    def accept(self, input_id: str) -> None:
        """Say that the input is durable, under this id. For the runtime."""
        self.input_id = input_id
        self._accepted.resolve(input_id)

    def move(self, session: Session) -> None:
        """Say that it is a turn of another session from here on. For the runtime."""
        self._session = session
        self._result.comes_from(session.place)

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

    def abandon(self) -> None:
        """Have the turn aborted soon. May be called wherever a reader is dropped, be it by the
        garbage collector in the middle of something. For readers."""
        self._session.soon(partial(_abort_if_open, self))

    def _tell(self, make: Callable[[str], Command]) -> Reply[bool]:
        promise: Promise[bool] = Promise(self._session.id)
        self._session.tell(lambda: make(self.input_id), promise)
        return Reply(promise)

    def __repr__(self) -> str:
        return f"<Turn of {self.session_id!r}, {'done' if self.done() else 'running'}>"


def _abort_if_open(turn: Turn) -> None:
    with suppress(ActorError):  # closed: nothing runs any more
        turn.abort()


class TurnStream:
    """A turn's items, in blocking and async form. Any number of readers may read.

    As a context manager it marks where reading ends. What ``abort_on_exit`` stops is a turn
    whose reader leaves before the last item: out of the loop, or out of the ``with`` block.
    """

    def __init__(self, turn: Turn, *, abort_on_exit: bool) -> None:
        self._turn, self._on_leave = turn, turn.abandon if abort_on_exit else None

    def __iter__(self) -> Reader:
        return Reader(self._turn.feed, self._turn.place, self._on_leave)

    def __aiter__(self) -> Reader:
        return Reader(self._turn.feed, self._turn.place, self._on_leave)

    def __enter__(self) -> TurnStream:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._on_leave is not None and not self._turn.done():
            self._on_leave()

    async def __aenter__(self) -> TurnStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)
