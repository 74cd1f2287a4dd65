"""Time travel told as plainly as can be: a conversation is a list, and every version's is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnstream.events import (
    AssistantMessage,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    InvalidTranscript,
    Message,
    ModelTurnRecorded,
    SessionCleared,
    SessionRewound,
    SessionStarted,
    ToolMessage,
    ToolResultRecorded,
    ToolResultsTrimmed,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    UserMessage,
    render,
)
from turnstream.projections import check_transcript

MARK = "[{} more characters were trimmed]"


@dataclass(frozen=True)
class Then:
    """A session at one version. ``begins`` are the places at which turns begin; ``is_open`` says
    whether the last of them has not ended; ``edits`` counts nothing: there are only lists."""

    said: tuple[Message, ...] = ()
    begins: tuple[int, ...] = ()
    is_open: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    results: dict[str, ToolMessage] = field(default_factory=dict)
    waiting: dict[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> list[Message]:
        """What a user sees."""
        return [*self.said, *(self.results[each] for each, _ in self.calls if each in self.results)]

    @property
    def conversation(self) -> list[Message]:
        """What was said in turns that ended."""
        return list(self.said[: self.begins[-1]] if self.is_open else self.said)

    def grown(self, event: Any) -> Then:
        """What it is after an event that is no edit."""
        match event:
            case InputQueued():
                return replace(self, waiting={**self.waiting, event.input_id: event.content})
            case InputWithdrawn():
                return self._without([event.input_id])
            case TurnStarted():
                begun = replace(self, begins=(*self.begins, len(self.said)), is_open=True)
                return begun._heard(event.input_ids)
            case InputApplied():
                return self._heard([event.input_id])
            case ModelTurnRecorded():
                answer = AssistantMessage(event.text, event.tool_calls, event.parts)
                asked = tuple((each.id, each.name) for each in event.tool_calls)
                return replace(self, said=(*self.said, answer), calls=asked, results={})
            case ToolResultRecorded():
                return self._settled(event)
            case TurnFinished():
                return replace(self, is_open=False)
            case TurnAborted(kept=False) | TurnFailed(kept=False):
                return self.cut_to(self.conversation, self.begins[:-1])
            case _:
                return self

    def _without(self, ids: Iterable[str]) -> Then:
        return replace(self, waiting={k: v for k, v in self.waiting.items() if k not in ids})

    def _heard(self, ids: Sequence[str]) -> Then:
        heard = tuple(UserMessage(self.waiting[each]) for each in ids)
        return replace(self._without(ids), said=(*self.said, *heard))

    def _settled(self, event: ToolResultRecorded) -> Then:
        names = dict(self.calls)
        message = ToolMessage(
            event.call_id, names[event.call_id], render(event.content), event.outcome
        )
        results = {**self.results, event.call_id: message}
        if len(results) < len(self.calls):
            return replace(self, results=results)
        in_order = tuple(results[each] for each, _ in self.calls)
        return replace(self, said=(*self.said, *in_order), calls=(), results={})

    def cut_to(self, messages: Sequence[Message], begins: Sequence[int]) -> Then:
        """The most of these messages that is a conversation, and nothing unfinished."""
        count = next(n for n in range(len(messages), -1, -1) if is_conversation(messages[:n]))
        kept = tuple(each for each in begins if each < count)
        return Then(tuple(messages[:count]), kept, waiting=self.waiting)

    def trimmed(self, keep_chars: int, keep_turns: int) -> Then:
        """The results before the last turns, cut to so many characters."""
        upto = len(self.said)
        if self.is_open:
            upto = self.begins[-1]
        if keep_turns:
            upto = min(upto, ([0] * keep_turns + list(self.begins))[-keep_turns])
        return replace(
            self, said=(*(short(each, keep_chars) for each in self.said[:upto]), *self.said[upto:])
        )


def is_conversation(messages: Sequence[Message]) -> bool:
    try:
        check_transcript(messages)
    except InvalidTranscript:
        return False
    return True


def short(message: Message, keep: int) -> Message:
    """A result that is all one letter, cut."""
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    text, _, mark = message.content.partition("[")
    missing = len(text) - keep + (int(mark.split()[0]) if mark else 0)
    cut = text[:keep] + MARK.format(missing)
    shorter = len(text) > keep and len(cut) < len(message.content)
    return ToolMessage(message.call_id, message.name, cut, message.outcome) if shorter else message


EDITS = (SessionRewound, SessionCleared, ToolResultsTrimmed)


class Plainly:
    """A session at every version it had; the first is none."""

    def __init__(self, versions: Sequence[Then] = (Then(),)) -> None:
        self.versions = list(versions)

    @property
    def now(self) -> Then:
        return self.versions[-1]

    def follow(self, events: Sequence[Any], edited: Then | None = None) -> None:
        """Take in what was recorded since; an edit leads to ``edited``, and there is one at
        most."""
        for event in events[len(self.versions) - 1 :]:
            if isinstance(event, EDITS):
                assert edited is not None, "nobody asked for an edit"
                self.versions.append(replace(edited, waiting=self.now.waiting))
                edited = None
            elif isinstance(event, SessionStarted):
                self.versions.append(replace(self.now))
            else:
                self.versions.append(self.now.grown(event))
