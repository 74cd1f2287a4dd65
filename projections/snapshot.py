"""A fold that is kept, so that a long stream need not be folded from its start again.

A snapshot is a cache: it says nothing the events do not say, and whoever can't use one folds the
stream. ``FOLD`` is raised with every change of what events fold to, and a snapshot of another
fold is not used. A state that JSON alone does not give back equal has no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, get_origin

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from ..events.frozen import frozen, thawed
from ..events.messages import AssistantMessage, Message, ToolCall
from ..events.values import is_json
from .growing import Growing
from .open_turn import (
    OpenCall,
)
from .state import (
    Edit,
    SessionState,
    Switch,
)
from .transcript import Transcript
from .usage import SessionUsage

FOLD = 2
_DIGEST = 32


class Folded(Struct, frozen=True, gc=False):
    """What a stream says up to a version; ``prev`` is the digest of the event there."""

    version: int
    prev: str
    state: SessionState
    usage: SessionUsage


class _Kept(Struct, frozen=True, gc=False):
    """The same, with what grows as plain lists. The state is without them."""

    version: int
    prev: str
    state: SessionState
    usage: SessionUsage
    transcript: list[Message]
    starts: list[int]
    edits: list[Edit]
    switches: list[Switch]


def dump_snapshot(folded: Folded) -> bytes | None:
    """The fold as bytes; None where it has no snapshot."""
    state = folded.state
    transcript, edits = [*state.transcript], [*state.edits]
    if state.unfolded or not all(map(_is_json, _open_values(state))):
        return None
    bare = replace(
        state, transcript=Transcript(), starts=Growing(), edits=Growing(), switches=Growing()
    )
    kept = _Kept(
        folded.version,
        folded.prev,
        bare,
        folded.usage,
        transcript,
        [*state.starts],
        edits,
        [*state.switches],
    )
    try:
        payload = _write(kept)
    except (MsgspecError, UnicodeEncodeError, OverflowError, TypeError, RecursionError):
        return None
    return sha256(payload).digest() + payload


def load_snapshot(snapshot: bytes) -> Folded | None:
    """The fold that was kept; None where the bytes are not as they were written."""
    digest, payload = snapshot[:_DIGEST], snapshot[_DIGEST:]
    if sha256(payload).digest() != digest:
        return None
    try:
        kept = _read(payload)
    except (MsgspecError, ValueError, TypeError, RecursionError):
        return None
    state = replace(
        kept.state,
        transcript=Transcript(map(_frozen, kept.transcript)),
        starts=Growing(kept.starts),
        edits=Growing([_frozen_edit(each) for each in kept.edits]),
        switches=Growing(kept.switches),
        application=frozen(kept.state.application),
    )
    if state.carried is not None:
        state = replace(state, carried=replace(state.carried, value=frozen(state.carried.value)))
    if (turn := state.turn) is not None and (turn.calls or turn.taken):
        calls = [OpenCall(_frozen_call(each.call), each.stage) for each in turn.calls]
        taken = [replace(each, value=frozen(each.value)) for each in turn.taken]
        state = replace(state, turn=replace(turn, calls=tuple(calls), taken=tuple(taken)))
    return Folded(kept.version, kept.prev, state, kept.usage)


def _open_values(state: SessionState) -> Iterable[Any]:
    """Every value in the state that may be of any type."""
    yield state.application
    if state.carried is not None:
        yield state.carried.value
    if state.ended is not None:
        yield state.ended.output
    for known in (*state.keyed.values(), *state.runs.values()):
        if known.ended is not None:
            yield known.ended.output
    if state.configured is not None:
        yield state.configured.output
        yield from (tool.schema for tool in state.configured.tools)
    if state.turn is not None:
        yield from (each.call.arguments for each in state.turn.calls)
        yield from (each.value for each in state.turn.taken)
    for messages in (state.transcript, *(edit.removed for edit in state.edits)):
        for message in messages:
            if isinstance(message, AssistantMessage):
                yield from (call.arguments for call in message.tool_calls)
                yield from message.parts


def _is_json(value: Any) -> bool:
    return is_json(thawed(value))


def _frozen_edit(edit: Edit) -> Edit:
    return replace(edit, removed=tuple(map(_frozen, edit.removed)))


def _frozen(message: Message) -> Message:
    if isinstance(message, AssistantMessage) and (message.tool_calls or message.parts):
        calls = tuple(map(_frozen_call, message.tool_calls))
        return AssistantMessage(message.text, calls, frozen(message.parts))
    return message


def _frozen_call(call: ToolCall) -> ToolCall:
    if not call.arguments:
        return call
    return ToolCall(call.id, call.name, frozen(call.arguments), call.malformed)


def _nothing(value: Any) -> None:
    if not isinstance(value, Growing):
        raise TypeError(f"a snapshot has no {type(value).__name__}")


def _empty(kind: Any, _: Any) -> Any:
    return (get_origin(kind) or kind)()


_write = Encoder(enc_hook=_nothing).encode
_read = Decoder(_Kept, dec_hook=_empty).decode
