"""The sessions of sub-agents, begun, gone on with and stopped for the sessions they work for.

A call of a sub-agent sends its input to a session whose id and input key are made of the call's.
So the first run begins that session, and a later one finds it: its turn running, waiting for a
decision, or ended. What was recorded there is not asked or run again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ..events.errors import (
    ActorError,
    ApprovalDecided,
    SessionAwaitingApproval,
    SessionCrashed,
    SessionDeleted,
    SessionError,
    StoreError,
    SystemClosed,
    TurnError,
    TurnstreamError,
    TurnTakenOver,
    TurnWithdrawn,
)
from ..events.messages import NO_USAGE, ToolCall
from ..events.session import TurnAborted
from ..events.terms import ParentCall
from ..projections import OpenCall, SessionState, Settled
from .approving import not_found
from .commands import Abort, Command, GoOn, Resolve, Submit
from .descent import children_of
from .draft import Decision
from .idempotency import idempotency_key
from .inputs import content_of
from .letters import Asked, Asker
from .outcomes import ToolDone
from .parentage import MAX_DEPTH, PREFIX, is_used_up, key_of, served, wants
from .recording import Known, read_on, those_above
from .removing import Delete
from .results import TurnResult
from .sub_agents import SubAgent, SubAgentGone, SubAgentOutcome, SubAgentWaits
from .tool_context import ToolContext
from .turns import Turn
from .waiting import Promise

if TYPE_CHECKING:
    from .handles import Session
    from .runtime import Runtime

TOO_DEEP = f"Not run: agents ask agents more than {MAX_DEPTH} deep, which is the limit."
USED_UP = "Not run: the turn has used its budget."


class Children:
    """What the sessions of one system do with those of their sub-agents."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.open: Callable[[str, str, str], Session]
        """Gives a handle on a session, by its id, its agent's name and its tenant."""

    async def serve(
        self, tool: SubAgent, parent: ParentCall, tenant: str, call: ToolCall, context: ToolContext
    ) -> SubAgentOutcome:
        """Have the agent do a call's work, and wait until it ended, or can't go on by itself."""
        if len(parent.path) > MAX_DEPTH:
            return ToolDone("error", TOO_DEEP)
        if context.attempt == 1 and is_used_up(parent.budget):
            return ToolDone("error", USED_UP)
        agent, key = tool.agent.name, context.idempotency_key
        try:
            child = self.open(f"{PREFIX}{key}", agent, tenant)
            submit = Submit(key, content_of(tool.input_of(call)), "wait", key, parent=parent)
            return await self._run(child, submit, context)
        except SessionDeleted:
            return ToolDone("error", f"The session of the agent {agent!r} was deleted.")
        except (SystemClosed, TurnTakenOver, StoreError) as error:
            return SubAgentGone(error)
        except (TurnError, SessionCrashed) as error:
            return _failed(agent, error)
        except SessionError as error:
            return SubAgentGone(error)

    async def _run(self, child: Session, submit: Submit, context: ToolContext) -> SubAgentOutcome:
        def begin() -> Command:
            if context.cancelled:  # or it would begin after it was stopped
                raise TurnWithdrawn("the call is no longer wanted", session_id=child.id)
            return submit

        while True:
            turn = Turn(child, submit.input_id)
            child.ask(begin, turn)
            try:
                return _outcome(child.agent, await turn)
            except SessionAwaitingApproval:
                if asked := (await self._state_of(child.id)).approvals(child.id):
                    return SubAgentWaits(asked)

    async def _state_of(self, session_id: str) -> SessionState:
        read: Promise[SessionState] = Promise(session_id)
        self._runtime.soon(partial(_read, self._runtime, session_id, read))
        return await read

    def answered(self, state: SessionState) -> frozenset[str]:
        """The questions in a session that hold no more, since those of its sub-agents don't."""
        turn = state.turn
        if turn is None or not turn.calls:
            return frozenset()
        nested = [gated for _, gated in turn.gated if gated.asked]
        return frozenset(
            gated.approval_id
            for gated in nested
            if not all(self._waits(each.session_id, each.id) for each in gated.asked)
        )

    def _waits(self, session_id: str, approval_id: str) -> bool:
        row = self._runtime.store.session(session_id)
        return row is not None and any(each.id == approval_id for each in row.approvals)

    def check(self, session_id: str, state: SessionState, command: Command) -> None:
        """Raise what a decision, if the command is one, meets where the sessions that it is taken
        for can't go on: ``ApprovalDecided`` where one of them was stopped, ``ApprovalNotFound``
        where the session it was looked for in is none of them, ``UnknownAgent``, and the store's
        errors."""
        if not isinstance(command, Resolve):
            return
        line = () if state.parent is None else state.parent.within
        if command.within not in ("", session_id, *line):
            raise not_found(command.approval_id)
        child = session_id
        for parent, above in those_above(self._runtime.store, state):
            if not wants(above, parent):
                self._abort(child, key_of(parent), above, keep=_is_kept(above, parent))
                raise ApprovalDecided(command.approval_id, "aborted")
            self._runtime.agent(above.active)
            child = parent.session_id

    def passes_up(self, decision: Decision, command: Command, asker: Asker) -> bool:
        """Whether the asker is answered by the session that this one works for, which goes on
        now as well."""
        parent = served(decision.states[0])
        if parent is None or not isinstance(command, (Resolve, GoOn)) or isinstance(asker, Promise):
            return False
        state = decision.states[0]
        asker.accept(asker.input_id)
        asker.move(self.open(parent.session_id, state.agent, state.tenant))
        try:
            self._tell(parent.session_id, state, GoOn(), asker)
        except ActorError as error:
            asker.fail(error)
        return True

    def stop(self, session_id: str, decision: Decision) -> None:
        """Stop those that work for the turn that was stopped, as it was."""
        turn = decision.states[0].turn
        at_work = [] if turn is None else [call for call in turn.calls if _is_at_work(call)]
        if turn is None or not at_work:
            return
        for event in decision.events:
            if isinstance(event, TurnAborted):
                for each in at_work:
                    key = idempotency_key(session_id, turn.turn_id, each.call.id)
                    self._abort(each.child, key, decision.states[0], keep=event.kept)

    def _abort(self, session_id: str, key: str, state: SessionState, *, keep: bool) -> None:
        told: Promise[bool] = Promise(session_id)
        with suppress(ActorError):  # closed: ``resume_all`` of the next system does it
            self._tell(session_id, state, Abort(key, keep, halted=True), told)

    def leave_to_parent(self, session_id: str, state: SessionState) -> bool:
        """Whether a session works for another one, which goes on with it. One that nobody waits
        for any more is stopped."""
        parent = served(state)
        if parent is None:
            return False
        above = read_on(self._runtime.store, parent.session_id, Known()).state
        if state.status != "failed" and not wants(above, parent):
            self._abort(session_id, key_of(parent), state, keep=_is_kept(above, parent))
        return True

    def delete_first(self, session_id: str, asker: Promise[bool]) -> bool:
        """Whether there are children to be deleted before the session is, which is then tried
        again."""
        children = children_of(self._runtime.store, session_id)
        left = set(children)

        def deleted(child: str, told: Promise[bool]) -> None:
            try:
                told.result()
                left.discard(child)
                if not left:
                    self._tell(session_id, SessionState(), Delete(), asker)
            except TurnstreamError as error:
                asker.fail(error)

        for child in children:
            told: Promise[bool] = Promise(child)
            told.when_done(partial(deleted, child, told))
            self._tell(child, SessionState(), Delete(), told)
        return bool(children)

    def _tell(
        self, session_id: str, state: SessionState, command: Command | Delete, asker: Asker
    ) -> None:
        self._runtime.tell(session_id, Asked(command, asker, state.agent, state.tenant))


def _is_kept(state: SessionState, parent: ParentCall) -> bool:
    turn = state.turn
    return turn is not None and turn.turn_id == parent.turn_id and turn.halt is not None


def _read(runtime: Runtime, session_id: str, read: Promise[SessionState]) -> None:
    try:
        read.resolve(read_on(runtime.store, session_id, Known()).state)
    except TurnstreamError as error:
        read.fail(error)


def _outcome(agent: str, result: TurnResult) -> SubAgentOutcome:
    match result.finish_reason:
        case "awaiting-approval":
            return SubAgentWaits(result.approvals)
        case "stop":
            return ToolDone("ok", result.text, result.usage)
        case "aborted":
            return ToolDone("cancelled", f"The agent {agent!r} was stopped.", result.usage)
        case reason:
            said = f" Its last words: {result.text}" if result.text else ""
            why = f"The agent {agent!r} was stopped by a limit ({reason}).{said}"
            return ToolDone("error", why, result.usage)


def _failed(agent: str, error: TurnError | SessionCrashed) -> ToolDone:
    why, used = str(error), NO_USAGE
    if isinstance(error, TurnError):
        why, used = error.reason or why, error.spent or NO_USAGE
    return ToolDone("error", f"The agent {agent!r} failed ({error.code}): {why}", used)


def _is_at_work(call: OpenCall) -> bool:
    return bool(call.child) and not isinstance(call.stage, Settled)
