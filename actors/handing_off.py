"""How one agent lets another go on with a turn: asked for by a call, done once all calls of its
model turn have their results. Pure.

What is asked for is an event of its own, so a process that is lost in between has not forgotten
it: whoever resumes the turn does the switch, and the model that asked for it is not asked again.
"""

from __future__ import annotations

from ..events.errors import InvalidAgent
from ..events.messages import ToolCall
from ..events.session import AgentHandedOff
from ..projections import Transfer
from .draft import Draft, configure
from .stopping import fail


def ask_to_go_on(draft: Draft, call: ToolCall, target: str) -> None:
    """Carry out a call that stands for a hand-off. The first of a model turn counts."""
    asked = draft.turn.handoff
    if asked is not None and asked.call_id != call.id:
        draft.settle(call.id, "skipped", f"Not done: {asked.agent} goes on already.")
        return
    if asked is None:
        draft.record(
            AgentHandedOff(
                at=draft.stamp.at,
                turn_id=draft.turn.turn_id,
                source=draft.turn.agent,
                target=target,
                applied=False,
                call_id=call.id,
            )
        )
    draft.settle(call.id, "ok", f"{target} goes on from here.")


def switch(draft: Draft, asked: Transfer) -> None:
    """Let the agent go on that was asked to. A turn for which it can't be made ready fails, and
    resumed it is tried again."""
    turn = draft.turn
    try:
        draft.choose(turn.turn_id, asked.agent)
    except InvalidAgent as error:
        fail(draft, error.code, str(error))
        return
    configure(draft)
    draft.record(
        AgentHandedOff(
            at=draft.stamp.at,
            turn_id=turn.turn_id,
            source=turn.agent,
            target=asked.agent,
            call_id=asked.call_id,
            fingerprint=draft.rules.configured.fingerprint,
            budget=draft.rules.budget,
        )
    )
