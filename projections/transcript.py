"""A conversation as an immutable sequence that grows at its end in constant time.

A transcript of thousands of messages is extended several times a turn. Copying it each time
would make a turn dearer the longer the conversation is, so a transcript shares one list with
the transcript it was extended from: each sees only its own length of it. The first extension of
a transcript may write on in the shared list; any other one copies. Which is first is settled by
taking a token out of a one-element list, which is atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, overload

from ..events.errors import InvalidTranscript
from ..events.messages import AssistantMessage, Message, ToolMessage


class Transcript(Sequence[Message]):
    """Messages in order. Equal to any sequence of equal messages."""

    __slots__ = ("_length", "_messages", "_token")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._length = len(self._messages)
        self._token = [True]

    def extended(self, messages: Iterable[Message]) -> Transcript:
        """This transcript with ``messages`` after it."""
        grown = Transcript.__new__(Transcript)
        grown._messages = self._writable()
        grown._messages.extend(messages)
        grown._length = len(grown._messages)
        grown._token = [True]
        return grown

    def first(self, count: int) -> Transcript:
        """The first ``count`` messages."""
        if count >= self._length:
            return self
        prefix = Transcript.__new__(Transcript)
        prefix._messages, prefix._length, prefix._token = self._messages, max(count, 0), []
        return prefix

    @property
    def last(self) -> Message | None:
        """The last message; None where there is none."""
        return self._messages[self._length - 1] if self._length else None

    def _writable(self) -> list[Message]:
        try:
            self._token.pop()
        except IndexError:
            return self._messages[: self._length]
        return self._messages

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._messages[i] for i in range(*index.indices(self._length)))
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"message {index} of a transcript of {self._length}")
        return self._messages[position]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._length)

    def __reversed__(self) -> Iterator[Message]:
        return (self._messages[i] for i in range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, (str, bytes)):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"


def check_transcript(messages: Iterable[Message]) -> None:
    """Raise ``InvalidTranscript`` unless every turn with calls is followed directly by exactly
    one result for each call, in call order, and no other result exists."""
    owed: list[str] = []
    for place, message in enumerate(messages):
        match message:
            case ToolMessage(call_id=call_id):
                if not owed or owed.pop(0) != call_id:
                    raise InvalidTranscript(
                        f"message {place} is a result of call {call_id!r} out of its place: "
                        "results follow their calls directly, one for each, in call order",
                        call_id=call_id,
                    )
            case _ if owed:
                raise InvalidTranscript(
                    f"message {place} stands where the result of call {owed[0]!r} must be",
                    call_id=owed[0],
                )
            case AssistantMessage(tool_calls=calls):
                owed = [call.id for call in calls]
            case _:
                pass
    if owed:
        raise InvalidTranscript(f"call {owed[0]!r} has no result", call_id=owed[0])
