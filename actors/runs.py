"""A run: a turn that its caller has a name for. Pure.

What a send means depends on what its run id names by then: a run that has ended is told again and
never done again, one that is unfinished goes on, and an unknown one begins. ``restart`` begins
another one under the same id, which means that one from then on.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..events.errors import InputConflict, RunExists, RunNotFound
from ..events.messages import Content, UserMessage
from ..projections import KeyedInput, SessionState
from .approving import refuse_while_paused
from .commands import Stamp, Submit
from .draft import Draft, is_owned, resume
from .inputs import content_of, submit, withdraw
from .stopping import drop


def run_content(given: Any) -> Content:
    """What the input of a run says; ``()`` where it only names the run. Raises what ``content_of``
    raises."""
    content = given.content if isinstance(given, UserMessage) else given
    return () if content in ("", (), []) else content_of(given)


def goes_on(state: SessionState, command: Submit, stamp: Stamp) -> bool:
    """Whether anything follows from what is sent for a run: false where it has ended.

    Raises ``RunExists``, ``RunNotFound`` and ``InputConflict`` where the id does not name what it
    is to name, and ``SessionAwaitingApproval`` where a decision comes first.
    """
    known = state.run(command.run_id)
    _check(command, known)
    if known is not None and command.if_run_exists == "restart":
        if _is_open(state, command.run_id):
            _refuse_running(state, command, stamp)
            return True
    elif known is not None and known.ended is not None:
        return False
    refuse_while_paused(state, stamp)
    return True


def submit_run(draft: Draft, command: Submit) -> None:
    """Begin a run, or go on with it."""
    known = draft.state.run(command.run_id)
    if known is not None and command.if_run_exists == "restart":
        command = replace(command, content=command.content or known.content)
        _forget(draft, command.run_id, known)
        known = None
    if known is None:
        submit(draft, command)
    else:
        resume(draft)


def _check(command: Submit, known: KeyedInput | None) -> None:
    match command.if_run_exists:
        case "resume_only" if known is None:
            raise RunNotFound(command.run_id)
        case "fail" if known is not None:
            now = "has ended" if known.ended is not None else "is unfinished"
            instead = "choose another id, or have its result with if_run_exists='resume'"
            raise RunExists(command.run_id, now, instead)
        case "resume" | "resume_only" if known is not None:
            _refuse_other_content(command, known)
        case _ if known is None and not command.content:
            raise RunNotFound(command.run_id)


def _refuse_other_content(command: Submit, known: KeyedInput) -> None:
    if command.content and command.content != known.content:
        raise InputConflict(
            f"the run {command.run_id!r} began with another input: send this one with a run id of "
            "its own, or begin the run anew with if_run_exists='restart'; for what became of the "
            "run, send () in place of an input",
            run_id=command.run_id,
        )


def _refuse_running(state: SessionState, command: Submit, stamp: Stamp) -> None:
    """What runs is somebody's, who may have asked for this very restart."""
    turn = state.turn
    if turn is None or turn.is_paused:
        return
    if stamp.elsewhere or is_owned(state, stamp, adopted=stamp.adopted):
        instead = "wait for it with if_run_exists='resume', or abort it first"
        raise RunExists(command.run_id, "is running", instead)


def _forget(draft: Draft, run_id: str, known: KeyedInput) -> None:
    """Drop what is unfinished of a run: its turn, or its input, which waits."""
    if _is_open(draft.state, run_id):
        drop(draft)
    else:
        withdraw(draft, known.input_id)


def _is_open(state: SessionState, run_id: str) -> bool:
    return state.turn is not None and state.turn.run_id == run_id
