"""Edits of a conversation, decided: going back, shortening, beginning afresh. Pure.

An edit is an event. What it takes out stays in the stream, and an edit that goes back to before
it brings it again.
"""

from __future__ import annotations

from ..events.session import SessionCleared, SessionRewound, ToolResultsTrimmed
from ..projections import evolve
from ..projections.editing import trims
from .commands import Clear, Rewind, Trim
from .draft import Draft
from .stopping import drop


def edit(draft: Draft, command: Rewind | Trim | Clear) -> None:
    """Do what is asked for, if it changes anything."""
    match command:
        case Rewind():
            _rewind(draft, command)
        case Trim():
            _trim(draft, command)
        case Clear():
            _clear(draft, command)


def _rewind(draft: Draft, command: Rewind) -> None:
    """Go back. An open turn that is cut is dropped; where nothing is cut, nothing happens."""
    state = draft.state
    made = len(state.edits)
    undoes = 0 if command.edits is None else max(made - command.edits, 0)
    visible = len(state.transcript) + (len(state.turn.results) if state.turn is not None else 0)
    if not undoes and command.keep_entries >= visible:
        return
    drop(draft)
    rewound = SessionRewound(
        at=draft.stamp.at,
        keep_entries=command.keep_entries,
        by=command.by,
        undoes=undoes + len(draft.state.edits) - made,
    )
    if state.turn is not None or evolve(state, rewound).transcript != state.transcript:
        draft.record(rewound)


def _trim(draft: Draft, command: Trim) -> None:
    """Shorten old tool results, if that makes any of them shorter."""
    if trims(draft.state, command.keep_chars, command.keep_turns):
        draft.record(
            ToolResultsTrimmed(
                at=draft.stamp.at,
                keep_chars=command.keep_chars,
                keep_turns=command.keep_turns,
                by=command.by,
            )
        )


def _clear(draft: Draft, command: Clear) -> None:
    """Begin afresh: an open turn is dropped, and no message is left."""
    drop(draft)
    if draft.state.transcript:
        draft.record(SessionCleared(at=draft.stamp.at, by=command.by))
