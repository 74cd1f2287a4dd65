"""The session actor: one live writer of one stream.

A message is decided on (pure), the events are appended, and only then does anything follow from
them: state, effects, results, in that order. While an append is under way the mailbox is held,
so that no thread waits and no other message is looked at. The actor never waits for a model or
a tool either: they run elsewhere and come back as messages.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..events.errors import (
    SessionDeleted,
    SessionError,
    StoreError,
    TurnstreamError,
    WrongExpectedVersion,
)
from ..events.session import AgentDriftDetected, ModelCallDiscarded, ToolCallStarted, TurnAborted
from ..projections import SessionState
from ..projections.phases import Phase
from ..stores.port import Appended
from . import refusals
from .alarm import Alarm
from .attempts import Attempt, Commit
from .callers import Callers
from .calls import Call, Calls
from .cast import Cast
from .commands import Command, Continue, Look, OfACall, Resume, Stamp, Submit
from .decider import decide
from .draft import Decision
from .inputs import steers
from .letters import Asked, Asker, Committed, Completed, Drain, Heed, IdleFor, Message
from .logging_context import about, log_failure
from .mailbox import Envelope
from .pooled import PooledActor
from .ready import ReadyAgent
from .recording import Known, append_after, read_news, read_on
from .removing import Delete, Erase, Removal, remove
from .snapshotting import next_due, take_snapshot
from .telling import Teller
from .waiting import Promise

if TYPE_CHECKING:
    from .runtime import Runtime

log: logging.Logger = logging.getLogger("turnstream.session")

MAX_CONFLICTS = 20
DRIFTED = "%s of session %r goes on with an agent that differs from the one that began it: %s"


class SessionActor(PooledActor):
    """The actor of one session; see the module's docstring for the order of things."""

    def __init__(self, session_id: str, runtime: Runtime) -> None:
        super().__init__()
        self._id, self._runtime = session_id, runtime
        self._cast = Cast(session_id, runtime.agent)
        self._callers = Callers(session_id, self._cast.typed)
        self._teller = Teller(session_id, runtime.listeners)
        ask = partial(runtime.ask, session_id, self.actor_inbox)
        self._calls = Calls(session_id, runtime.effects, self._teller, self._post, ask)
        self._agent = self._tenant = ""
        self._draining: Drain | None = None
        self._commit: Commit | None = None
        self._submitting = 0
        self._outcome: Appended | StoreError | None = None
        self._known = Known()
        self._loaded = self._adopted = False
        self._alarm = Alarm(session_id, runtime)
        self._snapshot_due = 0

    def on_receive(self, message: Message) -> None:
        try:
            self._handle(message)
        except TurnstreamError as error:
            self._break(error)
        except Exception as error:
            log_failure(log, error, about(self._id), "session %r: its actor failed", self._id)
            crash = refusals.crashed(self._id, error)
            if isinstance(message, Asked):
                message.asker.fail(crash)
            self._break(crash)
        self._stop_if_drained()

    @property
    def runs_a_turn(self) -> bool:
        """Whether it does, as far as another thread can tell."""
        return self._adopted

    def _handle(self, message: Message) -> None:
        match message:
            case Committed(outcome=outcome):
                self._committed(outcome)
            case Completed(command=command, call=call):
                if self._calls.finished(call):
                    self._callers.cause = message.cause
                    self._decide(Attempt(command))
            case Asked():
                self._asked(message)
            case IdleFor():
                self._passivate()
            case Heed(version=version):
                self._heed(version)
            case Drain():
                self._draining = message
                self._calls.drain(now=message.now)

    def _asked(self, asked: Asked) -> None:
        if self._draining is not None and not isinstance(asked.command, OfACall):
            asked.asker.fail(refusals.closing(self._id))
            return
        try:
            command = asked.command() if callable(asked.command) else asked.command
            if isinstance(command, (Delete, Erase)):
                self._remove(command, asked.asker)
                return
            self._load(asked)
            self._check_room(command)
            self._decide(Attempt(command, asked.asker, self._silences(command)))
        except TurnstreamError as error:
            error.session_id = error.session_id or self._id
            asked.asker.fail(error)
            if isinstance(error, StoreError):
                self._break(error)

    def _remove(self, removal: Removal, asker: Asker) -> None:
        """Take something out of the stream, and tell no model of it from here on."""
        assert isinstance(asker, Promise)
        removed = remove(self._runtime.store, self._id, removal)
        if removed.gone is not None:
            self._break(removed.gone)
        elif self._loaded:
            self._catch_up()
        asker.resolve(removed.answer)

    def _load(self, asked: Asked) -> None:
        if not self._loaded:
            self._read()
            self._loaded = True
            self._set_alarm()
            self._snapshot_due = next_due(self._known.begun)
        self._agent, self._tenant = asked.agent, asked.tenant

    def _check_room(self, command: Command) -> None:
        limit = self._runtime.mailbox_limit
        if isinstance(command, (Submit, Continue)) and len(self._state.queued) >= limit:
            raise refusals.full(self._id, limit)

    def _read(self) -> None:
        self._known = read_on(self._runtime.store, self._id, self._known)

    def _forget(self) -> None:
        self._known = Known()
        self._loaded = self._adopted = False
        self._teller.interrupt()

    def _silences(self, command: Command) -> bool:
        """Whether the model call under way was cancelled for the command's sake. That has to be
        settled before it is decided: a call that has shown something goes on."""
        if not isinstance(command, Submit) or command.policy != "steer":
            return False
        return steers(self._state, command, self._stamp()) and self._calls.silence_model()

    def _stamp(self, *, silenced: bool = False) -> Stamp:
        elsewhere = self._goes_on_elsewhere()
        return Stamp(
            datetime.now(UTC),
            self._runtime.owner,
            self._id,
            self._tenant,
            self._adopted,
            self._draining is not None,
            self._calls.asking,
            silenced,
            elsewhere,
        )

    def _goes_on_elsewhere(self) -> bool:
        """Whether another node, which lives, runs the open turn. Where it is lost, this one is
        younger from now on, or it could not take the turn."""
        turn, nodes = self._state.turn, self._runtime.nodes
        if turn is None or self._adopted:
            return False
        elsewhere = nodes.runs_elsewhere(turn)
        if not elsewhere:
            nodes.rejuvenate(turn.owner)
        return elsewhere

    def _decide(self, attempt: Attempt) -> None:
        stamp = self._stamp(silenced=attempt.silenced)
        try:
            rules = self._cast.rules(self._state, self._agent)
            decision = decide(self._state, attempt.command, rules, stamp)
        except SessionError:
            if not self._is_news_for(attempt):
                raise
            self._decide(replace(attempt, current=True))
            return
        if decision.events:
            self._append(decision, attempt)
        elif self._is_news_for(attempt):
            self._decide(replace(attempt, current=True))
        else:
            if attempt.asker is not None:
                self._callers.answer(decision, attempt.command, attempt.asker)
            self._call_model_if_due()

    def _is_news_for(self, attempt: Attempt) -> bool:
        """Whether others wrote what the caller may be answered otherwise for: nobody is refused,
        or told that nothing follows, for what was so before."""
        if attempt.current or attempt.asker is None:
            return False
        before = self._known.version
        self._catch_up()
        return self._known.version > before

    def _append(self, decision: Decision, attempt: Attempt) -> None:
        append, known = append_after(self._known, self._id, decision.events, decision.state)
        self._commit = Commit(decision, attempt, known)
        if any(isinstance(event, TurnAborted) for event in decision.events):
            self._calls.cancel_all()  # or what is recorded as stopped could still begin
        self.actor_inbox.hold()
        self._submitting = get_ident()
        self._runtime.store.submit(append, self._release)
        self._submitting = 0
        if (outcome := self._outcome) is not None:
            self._outcome = None
            self.actor_inbox.unhold()
            self._committed(outcome)

    def _release(self, outcome: Appended | StoreError) -> None:
        """The append ended: inside of ``submit``, as it does where nobody else writes, or later
        and on another thread."""
        if self._submitting == get_ident():
            self._outcome = outcome
        else:
            self.actor_inbox.release(Envelope(Committed(outcome)))

    def _committed(self, outcome: Appended | StoreError) -> None:
        commit, self._commit = self._commit, None
        assert commit is not None
        match outcome:
            case Appended():
                self._follow(commit)
            case WrongExpectedVersion() if commit.attempt.conflicts < MAX_CONFLICTS:
                self._rebase(commit.attempt)
            case StoreError():
                if commit.attempt.asker is not None:
                    commit.attempt.asker.fail(outcome)
                raise outcome

    def _rebase(self, attempt: Attempt) -> None:
        """Somebody else wrote: read what, and decide anew."""
        self._catch_up()
        try:
            self._decide(replace(attempt, conflicts=attempt.conflicts + 1, current=True))
        except TurnstreamError as error:
            if attempt.asker is None:
                raise
            error.session_id = error.session_id or self._id
            attempt.asker.fail(error)
            if attempt.silenced and self._adopted:
                self._decide(Attempt(Resume(), silenced=True))  # or nobody asks the model again

    def _catch_up(self) -> None:
        """Read what others wrote, and tell whoever waits here."""
        before = self._known
        self._known, events = read_news(self._runtime.store, self._id, before)
        turn = self._state.turn
        if self._adopted and (turn is None or turn.owner.node != self._runtime.owner.node):
            self._adopted = False
            self._calls.cancel_all()
        self._teller.caught_up(self._known, adopted=self._adopted)
        self._callers.tell_news(before.state, events, before.version + 1)
        self._await_others()

    def _await_others(self) -> None:
        """See to it that somebody looks at what others do, where callers wait for it."""
        waits = self._callers.waiting and self._goes_on_elsewhere()
        self._runtime.follower.await_others(self._id, waits=waits)

    def _heed(self, version: int) -> None:
        """Others may have written, or whoever runs the turn may be lost."""
        concerned = self._loaded and (self._adopted or self._callers.waiting)
        if not concerned or 0 < version <= self._known.version:
            return
        waiting = self._state.queued
        self._catch_up()
        steered = [e for e in self._state.joining if e.policy == "steer" and e not in waiting]
        if not version and self._is_deleted():
            self._break(SessionDeleted(self._id))
        elif self._adopted:
            silenced = bool(steered) and self._state.phase is Phase.MODEL
            self._decide(Attempt(Look(), silenced=silenced and self._calls.silence_model()))
        elif self._callers.waiting and not self._goes_on_elsewhere():
            turn = self._state.turn
            if turn is None or (turn.halt is None and not turn.is_paused):
                self._decide(Attempt(Resume()))

    def _is_deleted(self) -> bool:
        """Whether the session that is known here is there no more: a deletion is no event."""
        return self._known.version > 0 and self._runtime.store.session(self._id) is None

    def _follow(self, commit: Commit) -> None:
        """What follows from events that are durable now."""
        decision, first = commit.decision, self._known.version + 1
        self._known = commit.known
        self._adopted = decision.adopted and decision.state.turn is not None
        if commit.attempt.asker is not None:
            self._callers.answer(decision, commit.attempt.command, commit.attempt.asker)
        self._callers.tell(decision, commit.attempt.command, first)
        self._teller.tell(self._cast.ready(self._state, self._agent), decision, first)
        self._await_others()
        for event in decision.events:
            match event:
                case ModelCallDiscarded():
                    self._calls.drop_model()
                case AgentDriftDetected(turn_id=turn_id, changes=changes):
                    found, extra = ", ".join(changes), about(self._id, turn_id)
                    log.warning(DRIFTED, turn_id, self._id, found, extra=extra)
                case ToolCallStarted():
                    self._calls.start_tool(self._ready, self._state, event)
        self._call_model_if_due()
        self._take_snapshot_if_due()
        self._set_alarm()
        if self._callers.sponsors(self._state):
            self._decide(Attempt(Resume()))

    def _take_snapshot_if_due(self) -> None:
        if self._known.version >= self._snapshot_due:
            self._snapshot_due = next_due(self._known.version)
            self._runtime.soon(partial(take_snapshot, self._runtime.store, self._id))

    def _call_model_if_due(self) -> None:
        if self._state.phase is Phase.MODEL and self._adopted and self._draining is None:
            self._calls.start_model(self._ready, self._state, self._callers.feed)

    def _set_alarm(self) -> None:
        self._alarm.set(self._state.turn, self._agent, self._tenant)

    @property
    def _state(self) -> SessionState:
        return self._known.state

    @property
    def _ready(self) -> ReadyAgent:
        return self._cast.active(self._state, self._agent)

    def _post(self, command: Command, call: Call, cause: BaseException | None) -> None:
        self._runtime.post(self.actor_inbox, Envelope(Completed(command, call, cause)))

    def _passivate(self) -> None:
        if not (self._calls.running or self._callers.waiting):
            self._runtime.directory.passivate(self)

    def _stop_if_drained(self) -> None:
        drain = self._draining
        if drain is None or self._commit is not None or self._calls.running:
            return
        self._callers.fail_all(refusals.interrupted(self._id))
        self.stop()

    def _break(self, error: Exception) -> None:
        """Fail whoever waits, and begin again from the stream with the next message."""
        self._calls.cancel_all()
        commit, self._commit = self._commit, None
        if commit is not None:  # the store raised: nobody will say how the append ended
            self._submitting, self._outcome = 0, None
            self.actor_inbox.unhold()
            if commit.attempt.asker is not None:
                commit.attempt.asker.fail(error)
        self._callers.fail_all(error)
        self._forget()

    def on_stop(self) -> None:
        self._calls.cancel_all()
        self._teller.interrupt()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._break(refusals.crashed(self._id, exception_value))
