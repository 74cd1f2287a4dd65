"""How edits fold: a fork's beginning, and changes of the conversation that are no growth.

An edit never forgets: what it takes out of the conversation is kept in the state, so that a
later one can go back to before it. Each rule says whether the event has a place where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from ..events.errors import InvalidTranscript
from ..events.frozen import frozen
from ..events.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..events.rendering import render
from ..events.session import ForkPatched, SessionCleared, SessionRewound, ToolResultsTrimmed
from ..events.terms import Owner
from .folding import Folding
from .open_turn import (
    FORKED,
    Halt,
    OpenCall,
    OpenTurn,
    Requested,
    Settled,
)
from .state import (
    SessionState,
    Switch,
)
from .transcript import check_transcript
from .trimming import shortened

_NOBODY = Owner(0, "")
_COPIED = Halt(FORKED, "the turn was copied, and goes on when it is resumed")


def forked(folding: Folding) -> None:
    """What comes before is another session's. Its results are facts; what it was about to do, it
    does: here a call without a result was neither decided on nor begun. No time passed for the
    turn between its last event and the fork."""
    folding.decided, folding.redecided = {}, None
    if (turn := folding.turn) is None:
        return
    folding.turn = replace(
        turn,
        owner=_NOBODY,
        halt=_COPIED,
        recoveries=0,
        clock=None,
        calls=tuple([_undecided(each) for each in turn.calls]),
    )


def _undecided(each: OpenCall) -> OpenCall:
    return each if isinstance(each.stage, Settled) else OpenCall(each.call, Requested())


def patched(folding: Folding, event: ForkPatched) -> bool:
    """The conversation, the application's state and one result, in this order."""
    if "messages" in event.changed and not _say_instead(folding, event.messages):
        return False
    if "state" in event.changed:
        folding.application = frozen(event.state)
    return "tool_result" not in event.changed or _give_result(folding, event)


def _say_instead(folding: Folding, given: Any) -> bool:
    if not _are_messages(given):
        return False
    messages, turn = tuple([_frozen(each) for each in given]), folding.turn
    if not is_conversation(messages, unfinished=turn is not None):
        return False
    before, starts = folding.written()
    kept = next(
        (n for n, (a, b) in enumerate(zip(before, messages, strict=False)) if a != b),
        min(len(before), len(messages)),
    )
    upto = len(messages)
    if turn is not None:
        folding.turn = _rebased(turn, before, messages)
        upto = folding.turn.base
        if upto != turn.base:
            kept = min(kept, upto, turn.base)
    later = [each for each in starts if kept <= each < upto]
    later += [upto] if turn is not None and upto >= kept else []
    folding.forget_ended(kept)
    folding.edit(kept, messages[kept:], later, _switches(folding, kept, upto=len(messages)))
    return True


def _rebased(turn: OpenTurn, before: Sequence[Message], messages: Sequence[Message]) -> OpenTurn:
    """The open turn in another conversation: its messages are the last ones there, if they are
    as before, and else what follows its beginning, or the last input where nothing does."""
    own = before[turn.base :]
    start = len(messages) - len(own)
    as_before = start >= 0 and tuple(messages[start:]) == tuple(own)
    if not as_before:
        start = min(turn.base, len(messages))
    if start == len(messages):
        inputs = [n for n, each in enumerate(messages) if isinstance(each, UserMessage)]
        start = inputs[-1] if inputs else 0
    known = {each.call.id: each.stage for each in turn.calls}
    last = messages[-1] if len(messages) > start else None
    calls = last.tool_calls if isinstance(last, AssistantMessage) else ()
    stages = [OpenCall(call, known.get(call.id, Requested())) for call in calls]
    same = {each.call.id: each.call for each in turn.calls}
    others = [each.call_id for each in turn.taken if same.get(each.call_id) not in calls]
    same_calls = bool(calls) and calls == tuple([each.call for each in turn.calls])
    handoff = turn.handoff if as_before or same_calls else None
    return replace(turn.without_taken(*others), base=start, calls=tuple(stages), handoff=handoff)


def _give_result(folding: Folding, event: ForkPatched) -> bool:
    turn, content = folding.turn, render(event.result)
    calls = turn.calls if turn is not None else ()
    for place, each in enumerate(calls):
        if turn is not None and each.call.id == event.call_id:
            message = ToolMessage(each.call.id, each.call.name, content)
            settled = [*calls[:place], OpenCall(each.call, Settled(message)), *calls[place + 1 :]]
            results = [one.stage.message for one in settled if isinstance(one.stage, Settled)]
            if len(results) == len(settled):
                folding.said += results
                settled = []
            folding.turn = replace(turn.without_taken(event.call_id), calls=tuple(settled))
            return True
    messages, starts = folding.written()
    known = last_result(messages, event.call_id)
    if known is None:
        return False
    at, message = known
    message = replace(message, content=content, outcome="ok")
    later = [each for each in starts if each >= at]
    folding.edit(at, (message, *messages[at + 1 :]), later, _switches(folding, at))
    return True


def rewound(folding: Folding, event: SessionRewound) -> bool:
    """Messages of before, as many of the first as are to be kept."""
    if folding.turn is not None or not 0 <= event.undoes <= len(folding.edits):
        return False
    transcript, starts = folding.written()
    messages, places, kept = [*transcript], [*starts], len(transcript)
    switches = [*folding.switches]
    for edit in reversed(folding.edits[len(folding.edits) - event.undoes :]):
        kept = min(kept, edit.kept)
        messages[edit.kept :] = edit.removed
        places = [*(each for each in places if each < edit.kept), *edit.starts]
        switches = [*(each for each in switches if each.place <= edit.kept), *edit.switches]
    keep = whole(messages, event.keep_entries)
    kept = min(kept, keep)
    folding.forget_ended(kept)
    later = [each for each in places if kept <= each < keep]
    switched = [each for each in switches if kept < each.place <= keep]
    folding.edit(kept, messages[kept:keep], later, switched)
    return True


def _switches(folding: Folding, kept: int, upto: int | None = None) -> list[Switch]:
    """Those after the first ``kept`` messages, which an edit of messages alone leaves."""
    later = [each for each in folding.switches if each.place > kept]
    return later if upto is None else [each for each in later if each.place <= upto]


def cleared(folding: Folding, event: SessionCleared) -> bool:
    """No messages."""
    if folding.turn is not None:
        return False
    folding.forget_ended(0)
    folding.edit(0)
    return True


def trimmed(folding: Folding, event: ToolResultsTrimmed) -> bool:
    """The same messages, of which the older results are shorter."""
    if event.keep_chars < 0 or event.keep_turns < 0:
        return False
    messages, starts = folding.written()
    changed = trims(folding, event.keep_chars, event.keep_turns)
    if changed:
        first = min(changed)
        tail = [changed.get(n, messages[n]) for n in range(first, len(messages))]
        later = [each for each in starts if each >= first]
        folding.edit(first, tail, later, _switches(folding, first))
    return True


def trims(
    state: SessionState | Folding, keep_chars: int, keep_turns: int
) -> dict[int, ToolMessage]:
    """The results that become shorter, by their places; those of the last ``keep_turns`` turns
    do not, and none of the open turn."""
    messages, starts, turn = state.transcript, state.starts, state.turn
    if keep_turns > len(starts):
        return {}
    upto = len(messages) if turn is None else turn.base
    if keep_turns:
        upto = min(upto, starts[-keep_turns])
    return {
        place: short
        for place, message in enumerate(messages[:upto])
        if isinstance(message, ToolMessage)
        and (short := shortened(message, keep_chars)) is not message
    }


def whole(messages: Sequence[Message], count: int) -> int:
    """How many of the first ``count`` messages make a conversation: calls and results stay
    together."""
    count = max(min(count, len(messages)), 0)
    place = count - 1
    while place >= 0 and isinstance(messages[place], ToolMessage):
        place -= 1
    match messages[place] if place >= 0 else None:
        case AssistantMessage(tool_calls=calls) if len(calls) > count - 1 - place:
            return place
        case _:
            return count


def last_result(messages: Sequence[Message], call_id: str) -> tuple[int, ToolMessage] | None:
    """The last result of a call with this id, and its place; None where there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, ToolMessage) and message.call_id == call_id:
            return place, message
    return None


def is_conversation(messages: Sequence[Message], *, unfinished: bool) -> bool:
    """Whether providers would accept the messages; the last turn's calls may lack results where
    it is ``unfinished``."""
    match messages[-1:]:
        case (AssistantMessage(tool_calls=[_, *_]),) if unfinished:
            messages = messages[:-1]
    try:
        check_transcript(messages)
    except InvalidTranscript:
        return False
    return True


def _are_messages(given: Any) -> TypeGuard[Sequence[Message]]:
    kinds = (UserMessage, AssistantMessage, ToolMessage)
    return isinstance(given, (list, tuple)) and all(isinstance(each, kinds) for each in given)


def _frozen(message: Message) -> Message:
    match message:
        case AssistantMessage(text=text, tool_calls=calls, parts=parts):
            kept = [ToolCall(c.id, c.name, frozen(c.arguments), c.malformed) for c in calls]
            return AssistantMessage(text, tuple(kept), frozen(parts))
        case _:
            return message
