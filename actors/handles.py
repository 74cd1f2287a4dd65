"""What callers hold of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, get_args

from ..events.errors import WouldDeadlock
from ..events.messages import (
    AssistantMessage,
    Content,
    Message,
    Policy,
    ToolMessage,
    UserMessage,
)
from ..events.values import plain
from ..projections import SessionState
from .commands import (
    ChangeState,
    Clear,
    Command,
    Continue,
    Discard,
    IfRunExists,
    LateCommand,
    Resolve,
    Resume,
    Rewind,
    Submit,
    Trim,
)
from .effects import Place, current_session
from .inputs import content_of
from .patching import Patch
from .reading import SessionReading
from .removing import Delete, Erase, Removal
from .runs import run_content
from .turns import Reply, Turn
from .viewing import point
from .waiting import Promise

if TYPE_CHECKING:
    from .system import ActorSystem

MAX_NAME = 512

Input: TypeAlias = str | UserMessage | Content


class Session(SessionReading):
    """A handle on a session. It opens nothing until it is used; any number may exist."""

    def __init__(
        self, system: ActorSystem, session_id: str, agent: str, tenant: str, turn_policy: Policy
    ) -> None:
        self._system = system
        self.id: str = session_id
        self.agent: str = agent
        self.tenant: str = tenant
        self.turn_policy: Policy = turn_policy

    def send(
        self,
        input: Input,
        *,
        policy: Policy | None = None,
        run_id: str | None = None,
        if_run_exists: IfRunExists = "resume",
        key: str | None = None,
    ) -> Turn:
        """Ask for a turn. Returns at once: storage and model work in the background.

        While a turn runs, the input waits and then runs as a turn of its own (``"wait"``), joins
        the running turn before its next model call (``"queue"``), or joins it as soon as may be
        (``"steer"``): a model call that has shown nothing yet is asked again with it, and tool
        calls that have not started are skipped. Whoever joins a turn has its result.

        An unfinished turn is finished first. ``key`` is your own name for the input: sent again
        with it, also after a crash, it is the same input. Without one, sending again what an
        interrupted turn began with is a retry, and anything else a message of its own.

        ``run_id`` is your own name, in this session, for a turn that is the input's own, whatever
        the handle's policy: a run. Where there is one of this id, it is gone on with, or waited
        for, or its result is given again (``"resume"``; the input is the same one, or ``()``); it
        is dropped, and another one begins (``"restart"``, also where it ended, not where it runs);
        or that is an error (``"fail"``). With ``"resume_only"`` it is an error where there is none.

        Raises ``SystemClosed``, ``MailboxFull``, and ``WouldDeadlock`` for ``"wait"`` inside the
        session's own tools or model, whose turn would have to end first.
        """
        chosen = self.turn_policy if policy is None else check_policy(policy)
        run = check_run(run_id, if_run_exists, policy, key)
        chosen = "wait" if run else chosen
        if chosen == "wait":
            self._refuse_inside("send", "use policy='queue' or 'steer', without a run_id")
        turn = Turn(self, token_hex(8))
        content = run_content(input) if run else content_of(input)
        command = Submit(turn.input_id, content, chosen, _name(key, "key"), run, if_run_exists)
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
            command = Continue(turn.input_id, tuple(input), _name(key, "key"))
        else:
            command = Submit(turn.input_id, content_of(input), "queue", _name(key, "key"))
        self._system.tell(self, command, turn)
        return turn

    def resume(self) -> Turn | None:
        """Finish what is unfinished; None where nothing is.

        Blocks for one short read of the store.
        """
        return self.resume_from(self._system.view(self.id).folded)

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
        return self._told(Discard())

    def delete(self) -> Reply[bool]:
        """Delete the session: its events, its row, its open questions. Its id is not used again;
        its forks are sessions of their own, and stay.

        Returns at once; the answer says whether there was one. What runs is cancelled, and whoever
        waits for it gets ``SessionDeleted``, also in another process, when that writes next.
        """
        return self._told(Delete())

    def erase(self, versions: Iterable[int], *, reason: str = "", by: str = "") -> Reply[int]:
        """Erase the content of the events at these versions: what was said or returned goes, its
        place, its digest, and who calls whom stay, so the chain still verifies.

        Returns at once; the answer is of how many events content was erased. Those that have none
        do not count. Its forks have copies of their own. ``ErasureRefused`` where a version does
        not exist or its content is still to be used, ``SessionNotFound``.
        """
        named = tuple([_whole(each, "a version") for each in versions])
        erase = Erase(named, as_text(reason, "reason"), as_text(by, "by"))
        return self._told(erase)

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

    def fork(
        self,
        *,
        step: int | None = None,
        version: int | None = None,
        patch: Patch | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session that begins as a copy of this one up to a step or a version, perhaps
        with something different in it (``patch``). Nothing of this one changes.

        Without a point it is the last one at which nothing was unfinished. Without a
        ``session_id`` the fork is called ``<id>.fork-<n>``. What was unfinished goes on in the
        fork when it is resumed, or sent something: results are there, calls without one run, and
        decisions are asked for anew. Blocks for one read and one write of the store.

        Raises ``SessionNotFound``, ``CheckpointNotFound``, ``SessionExists``,
        ``InvalidSessionId``, and ``InvalidTranscript`` where the patch makes no conversation.
        """
        at = point(version, step)
        return self._system.fork(self, at, patch, session_id)

    def rewind(
        self,
        *,
        to_step: int | None = None,
        to_version: int | None = None,
        keep_entries: int | None = None,
        by: str = "",
    ) -> Reply[bool]:
        """Let the conversation go on from what it was at a step or a version, or from its first
        ``keep_entries`` messages, those of ``pending`` counted along.

        An unfinished turn that is cut is dropped; calls are cut together with their results. The
        stream keeps everything: a later rewind to before this one brings it back. The answer says
        whether anything changed. It fails with ``CheckpointNotFound`` where there is no such
        point.
        """
        given = (to_step, to_version, keep_entries)
        if sum(each is not None for each in given) != 1:
            raise TypeError("give one of to_step, to_version and keep_entries")
        who, at = as_text(by, "by"), point(to_version, to_step)
        if at is not None:
            return self._told(lambda: self._system.rewinding(self.id, at, who))
        return self._told(Rewind(_count(keep_entries, "keep_entries"), None, who))

    def trim_tool_results(
        self, *, keep_chars: int = 400, keep_turns: int = 1, by: str = ""
    ) -> Reply[int]:
        """Shorten tool results to so many characters, but for those of the last ``keep_turns``
        turns: that is what a model reads of them from now on, and the stream keeps them whole.
        The answer says how many became shorter."""
        chars, turns = _count(keep_chars, "keep_chars"), _count(keep_turns, "keep_turns")
        return self._told(Trim(chars, turns, as_text(by, "by")))

    def clear(self, *, by: str = "") -> Reply[bool]:
        """Begin the conversation afresh. An unfinished turn is dropped; the stream keeps all. The
        answer says whether there was anything."""
        return self._told(Clear(as_text(by, "by")))

    def set_state(self, value: Any, *, by: str = "") -> Reply[bool]:
        """Give the application's own state another value, any plain data; also before the first
        input. No turn is begun or disturbed by it: calls that run keep what they read. ``True``
        once it is durable.

        Raises ``Unstorable``, with the path to the piece, where the value is no plain data.
        """
        return self._told(ChangeState(plain(value, "state"), as_text(by, "by")))

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def _resolve(self, command: Resolve) -> Turn:
        turn = Turn(self, "")
        self._system.tell(self, command, turn)
        return turn

    def _told(self, command: Command | LateCommand | Removal) -> Reply[Any]:
        promise: Promise[Any] = Promise(self.id)
        self._system.tell(self, command, promise)
        return Reply(promise)

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


def check_run(
    run_id: str | None, if_run_exists: IfRunExists, policy: Policy | None, key: str | None
) -> str:
    """The run id, "" for none, if what is given with it makes sense; ``ValueError`` otherwise."""
    if if_run_exists not in get_args(IfRunExists):
        options = ", ".join(map(repr, get_args(IfRunExists)))
        raise ValueError(f"if_run_exists is one of {options}, not {if_run_exists!r}")
    if run_id is None:
        if if_run_exists != "resume":
            raise ValueError(f"if_run_exists={if_run_exists!r} takes a run_id")
        return ""
    if key is not None:
        raise ValueError("give a key or a run_id: the run is recognised by its id already")
    if policy not in (None, "wait"):
        raise ValueError(f"a run is a turn of its own: leave out policy={policy!r}, or the run_id")
    return _name(run_id, "run_id")


def _name(given: str | None, what: str) -> str:
    """A name that the caller gives to something; "" for None."""
    if given is None:
        return ""
    if not isinstance(given, str) or not 0 < len(given) <= MAX_NAME:
        shown = f"one of {len(given)}" if isinstance(given, str) else type(given).__name__
        raise ValueError(f"a {what} is a str of 1 to {MAX_NAME} characters, or None, not {shown}")
    return str(plain(given, what))


def as_text(given: str, name: str) -> str:
    """The text, if it is one; ``TypeError`` with its name otherwise."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is text, not {type(given).__name__}")
    return str(plain(given))


def _whole(given: int | None, name: str) -> int:
    if type(given) is not int:
        raise TypeError(f"{name} is a whole number, not {type(given).__name__}")
    return given


def _count(given: int | None, name: str) -> int:
    if (count := _whole(given, name)) < 0:
        raise ValueError(f"{name} must be 0 or more, not {count!r}")
    return count


def _is_conversation(given: Any) -> TypeGuard[Sequence[Message]]:
    messages = (UserMessage, AssistantMessage, ToolMessage)
    if not isinstance(given, Sequence) or isinstance(given, str):
        return False
    return all(isinstance(each, messages) for each in given)
