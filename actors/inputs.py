"""What becomes of an input: accepted, joined to the running turn, taken back. Pure.

An input joins the turn during which it was accepted, at the next moment at which the model is
to be asked. One that missed its turn runs as a turn of its own, in the order of acceptance.
"""

from __future__ import annotations

from ..events.errors import InputConflict, InvalidTranscript
from ..events.messages import Content, Message, Part, UserMessage
from ..events.session import (
    InputApplied,
    InputQueued,
    InputWithdrawn,
)
from ..events.values import PARTS, plain
from ..projections import INITIAL, SessionState
from ..projections.phases import Phase
from ..projections.transcript import Transcript
from .commands import Continue, Stamp, Submit
from .draft import Draft, begin, is_owned, resume


def content_of(given: object) -> Content:
    """What an input says, as it is recorded.

    Raises ``InvalidTranscript`` where that is no text and no sequence of parts, ``Unstorable``
    where a part can't be read back.
    """
    match given.content if isinstance(given, UserMessage) else given:
        case str() as text:
            return str(plain(text))
        case [_, *_] as parts:
            return tuple(
                _part(part, f"part {place} of the input") for place, part in enumerate(parts)
            )
        case []:
            shown = "an empty one"
        case other:
            shown = type(other).__name__
    raise InvalidTranscript(f"an input is text, a UserMessage, or a sequence of parts, not {shown}")


def _part(given: object, name: str) -> Part:
    if not isinstance(given, PARTS):
        raise InvalidTranscript(
            f"{name} is a TextPart, an ImagePart or a FilePart, not {type(given).__name__}"
        )
    part: Part = plain(given, name)
    return part


def submit(draft: Draft, command: Submit) -> None:
    """Accept an input, unless it was accepted before, and finish what is unfinished."""
    if draft.state == INITIAL:
        begin(draft)
    if is_new(draft.state, command, draft.stamp):
        draft.record(
            InputQueued(
                at=draft.stamp.at,
                input_id=command.input_id,
                content=command.content,
                policy=command.policy,
                key=command.key,
                run_id=command.run_id,
            )
        )
    resume(draft)


def go_on_from(draft: Draft, command: Continue) -> None:
    """Accept what follows the conversation in ``messages``, and finish what is unfinished.

    Raises ``InputConflict`` where they are another conversation, ``InvalidTranscript`` where
    more than a message of the user follows.
    """
    match _unsaid(draft.state.transcript, command.messages):
        case ():
            resume(draft)
        case (UserMessage(content=content),):
            submit(draft, Submit(command.input_id, content_of(content), "queue", command.key))
        case _:
            raise InvalidTranscript(
                "after what the conversation has already, one message of the user may follow"
            )


def _unsaid(transcript: Transcript, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    for place, (said, given) in enumerate(zip(transcript, messages, strict=False)):
        if said != given:
            raise InputConflict(
                f"message {place} is not what the conversation has there: send only what is new, "
                "or the conversation as it is with one message after it"
            )
    return messages[len(transcript) :]


def is_new(state: SessionState, command: Submit, stamp: Stamp) -> bool:
    """Whether the input was not accepted before, under its key or as what an interrupted turn
    began with. Raises ``InputConflict`` where the key was used with another input."""
    known = state.keyed.get(command.key) if command.key else None
    if known is None:
        return not _is_retry(state, command, stamp)
    if known.content != command.content:
        raise InputConflict(
            f"the key {command.key!r} was used before, with another input: send this one with a "
            "key of its own"
        )
    return False


def _is_retry(state: SessionState, command: Submit, stamp: Stamp) -> bool:
    turn = state.turn
    if turn is None or command.key or command.run_id:
        return False
    if is_owned(state, stamp, adopted=stamp.adopted):
        return False
    if len(state.queued) > len(state.joinable):  # it may be one of those that wait
        return False
    return bool(turn.inputs) and turn.inputs[0].content == command.content


def steers(state: SessionState, command: Submit, stamp: Stamp) -> bool:
    """Whether the input wants the model call under way cancelled, if that has shown nothing."""
    return (
        command.policy == "steer"
        and state.phase is Phase.MODEL
        and is_owned(state, stamp, adopted=stamp.adopted)
        and is_new(state, command, stamp)
    )


def apply_joinable(draft: Draft) -> None:
    """Let the inputs that wait for it join the open turn."""
    for each in draft.state.joinable:
        draft.record(
            InputApplied(at=draft.stamp.at, turn_id=draft.turn.turn_id, input_id=each.input_id)
        )


def withdraw(draft: Draft, input_id: str) -> bool:
    """Take an input back; false where it does not wait (any more)."""
    waits = any(each.input_id == input_id for each in draft.state.queued)
    if waits:
        draft.record(InputWithdrawn(at=draft.stamp.at, input_id=input_id))
    return waits
