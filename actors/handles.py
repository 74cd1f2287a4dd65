"""What callers hold of a session: the handle, and views of what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, get_args

from msgspec import Struct

from ..events.approvals import Approval
from ..events.envelope import RecordedEvent, StoredRecord
from ..events.errors import WouldDeadlock
from ..events.messages import (
    AssistantMessage,
    Content,
    Message,
    Policy,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..events.session import Status
from ..events.values import plain
from ..projections import SessionState, Settled
from ..projections.usage import SessionUsage
from .commands import Command, Continue, Discard, LateCommand, Resolve, Resume, Submit
from .effects import Place, current_session
from .inputs import content_of
from .turns import Reply, Turn
from .waiting import Promise

if TYPE_CHECKING:
    from .system import ActorSystem

MAX_KEY = 512


class Pending(Struct, frozen=True, eq=False):
    """What is unfinished in a session: the open turn's messages so far, the calls that lack a
    result, and the inputs that wait. ``code`` and ``error`` say why a failed turn does not go
    on, ``approvals`` which decisions a paused one waits for."""

    turn_id: str
    messages: Sequence[Message]
    calls: tuple[ToolCall, ...]
    queued: tuple[Content, ...]
    code: str = ""
    error: str = ""
    approvals: tuple[Approval, ...] = ()


class View(Struct, frozen=True, eq=False):
    """A session as it was at one version."""

    session_id: str
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
        """Idle, running, failed, aborted or awaiting approval."""
        return self.folded.status

    @property
    def pending(self) -> Pending | None:
        """What is unfinished; None where nothing is."""
        turn, queued = self.folded.turn, tuple(each.content for each in self.folded.queued)
        if turn is None:
            return Pending("", (), (), queued) if queued else None
        return Pending(
            turn.turn_id,
            (*self.folded.transcript[turn.base :], *turn.results),
            tuple(each.call for each in turn.calls if not isinstance(each.stage, Settled)),
            queued,
            turn.halt.code if turn.halt else "",
            turn.halt.error if turn.halt else "",
            self.folded.approvals(self.session_id),
        )


Input: TypeAlias = str | UserMessage | Content


class Session:
    """A handle on a session. It opens nothing until it is used; any number may exist."""

    def __init__(
        self, system: ActorSystem, session_id: str, agent: str, tenant: str, turn_policy: Policy
    ) -> None:
        self._system = system
        self.id: str = session_id
        self.agent: str = agent
        self.tenant: str = tenant
        self.turn_policy: Policy = turn_policy

    def send(self, input: Input, *, policy: Policy | None = None, key: str | None = None) -> Turn:
        """Ask for a turn. Returns at once: storage and model work in the background.

        While a turn runs, the input waits and then runs as a turn of its own (``"wait"``), joins
        the running turn before its next model call (``"queue"``), or joins it as soon as may be
        (``"steer"``): a model call that has shown nothing yet is asked again with it, and tool
        calls that have not started are skipped. Whoever joins a turn has its result.

        An unfinished turn is finished first. ``key`` is your own name for the input: sent again
        with it, also after a crash, it is the same input. Without one, sending again what an
        interrupted turn began with is a retry, and anything else a message of its own.

        Raises ``SystemClosed``, ``MailboxFull``, and ``WouldDeadlock`` for ``"wait"`` inside the
        session's own tools or model, whose turn would have to end first.
        """
        chosen = self.turn_policy if policy is None else check_policy(policy)
        if chosen == "wait":
            self._refuse_inside("send", "use policy='queue' or 'steer'")
        turn = Turn(self, token_hex(8))
        command = Submit(turn.input_id, content_of(input), chosen, _key(key))
        self._system.tell(self, command, turn)
        return turn

    def execute(self, input: Input | Sequence[Message], *, key: str | None = None) -> Turn:
        """Go on with the unfinished turn, with this input after its tool results. Where nothing
        is unfinished it is the next turn.

        What an interrupted turn began with, sent again, is a retry. Given messages, those that
        the conversation has already are recognised, and one from the user may follow them;
        without one the turn is only resumed. ``InputConflict`` where they are another
        conversation. Raises what ``send`` raises.
        """
        turn = Turn(self, token_hex(8))
        command: Command
        if _is_conversation(input):
            command = Continue(turn.input_id, tuple(input), _key(key))
        else:
            command = Submit(turn.input_id, content_of(input), "queue", _key(key))
        self._system.tell(self, command, turn)
        return turn

    def resume(self) -> Turn | None:
        """Finish what is unfinished; None where nothing is.

        Blocks for one short read of the store.
        """
        return self.resume_from(self._system.read_view(self.id).folded)

    def resume_from(self, state: SessionState) -> Turn | None:
        """``resume``, for who has read the session already. For the system."""
        self._refuse_inside("resume", "let the tool return")
        inputs = state.turn.inputs if state.turn is not None else state.queued
        if not inputs and state.turn is None:
            return None
        turn = Turn(self, inputs[0].input_id if inputs else "")
        self._system.tell(self, Resume(), turn)
        return turn

    def approve(
        self,
        id: str,
        *,
        by: str = "",
        note: str = "",
        arguments: dict[str, Any] | None = None,
    ) -> Turn:
        """Let a call run that waits for a decision; the turn goes on when it waits for no more.

        ``by`` and ``note`` are recorded. ``arguments`` take the place of the proposed ones, which
        stay in the stream; the model sees what ran. What the decision meets is raised by the
        turn, and by its ``accepted``: ``ApprovalNotFound``, ``ApprovalDecided`` where it was
        taken before, ``ArgumentsRefused``.
        """
        edited = None if arguments is None else plain(arguments, "arguments")
        return self._resolve(
            Resolve(id, "approved", as_text(by, "by"), as_text(note, "note"), edited)
        )

    def reject(self, id: str, *, by: str = "", note: str = "") -> Turn:
        """Do not let a call run: the model reads that it was rejected, and the note. Otherwise as
        ``approve``."""
        return self._resolve(Resolve(id, "rejected", as_text(by, "by"), as_text(note, "note")))

    def discard_pending(self) -> Reply[bool]:
        """Drop the unfinished turn: the conversation is as before it, the stream keeps it.

        Returns at once; the answer, once it is durable, says whether there was one."""
        promise: Promise[bool] = Promise(self.id)
        self._system.tell(self, Discard(), promise)
        return Reply(promise)

    def tell(self, command: LateCommand, reply: Promise[bool]) -> None:
        """Say something about a turn that was asked for. For handles."""
        self._system.tell(self, command, reply)

    @property
    def place(self) -> Place:
        """Where its code runs. For handles."""
        return self._system.place(self.id)

    def soon(self, job: Callable[[], object]) -> None:
        """Have ``job`` done by a worker. For handles."""
        self._system.soon(job)

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
        """Idle, running, failed, aborted or awaiting approval, as of now."""
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

    def records(self) -> Sequence[StoredRecord]:
        """The events as they are stored, in order. For comparing and replaying."""
        return self._system.read_records(self.id)

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def _resolve(self, command: Resolve) -> Turn:
        turn = Turn(self, "")
        self._system.tell(self, command, turn)
        return turn

    def _refuse_inside(self, what: str, instead: str) -> None:
        if current_session.get() == self.place:
            raise WouldDeadlock(
                f"{what}: session {self.id!r} runs the turn that this is called in, which would "
                f"have to end first: {instead}",
                session_id=self.id,
            )


def check_policy(policy: Policy) -> Policy:
    """The policy, if it is one; ``ValueError`` otherwise."""
    if policy not in get_args(Policy):
        raise ValueError(f"a policy is 'wait', 'queue' or 'steer', not {policy!r}")
    return policy


def _key(key: str | None) -> str:
    if key is None:
        return ""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        shown = f"one of {len(key)}" if isinstance(key, str) else type(key).__name__
        raise ValueError(f"a key is a str of 1 to {MAX_KEY} characters, or None, not {shown}")
    return str(plain(key, "key"))


def as_text(given: str, name: str) -> str:
    """The text, if it is one; ``TypeError`` with its name otherwise."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is text, not {type(given).__name__}")
    return str(plain(given))


def _is_conversation(given: Any) -> TypeGuard[Sequence[Message]]:
    messages = (UserMessage, AssistantMessage, ToolMessage)
    if not isinstance(given, Sequence) or isinstance(given, str):
        return False
    return all(isinstance(each, messages) for each in given)
