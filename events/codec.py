"""From events to stored bytes and back.

The topic of an event is its tag; a changed shape is a new version of it (see ``upcast``). The
payload is JSON any tool can read; values JSON has no words for are stored in tagged form (see
``tagged``). A topic only ever selects one of the decoders made here, so stored bytes can name
nothing to be imported or called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from msgspec import MsgspecError, convert
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from .chain import digest
from .envelope import EncodedEvent, RecordedEvent, Replay, StoredRecord
from .errors import CorruptEvent, Unstorable
from .session import (
    AnyEvent,
    ModelTurnRecorded,
    SessionEvent,
    ToolResultRecorded,
    UnknownEvent,
)
from .tagged import MARK, dumps, is_plain_json, loads, open_fields, restored
from .upcast import UPCASTERS, Upcaster, Upcasters, steps, versioned
from .values import is_json

_KINDS: Mapping[str, type[SessionEvent]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(SessionEvent)
}
_MISTAKEN = (MsgspecError, TypeError, AttributeError, RecursionError)
_UNREADABLE = (
    MsgspecError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


class _Shape(NamedTuple):
    """One stored shape: a topic, the type it is decoded to, and the steps that lead there."""

    topic: str
    kind: type[SessionEvent]
    upcasters: tuple[Upcaster, ...]

    def read(self, payload: bytes) -> SessionEvent:
        stored = loads(payload)
        for upcast in self.upcasters:
            stored = upcast(stored)
        event = convert(stored, self.kind)
        return restored(event) if payload.startswith(MARK) else event


class Codec:
    """Encodes and decodes the events of ``SessionEvent``.

    ``upcasters`` lead from older stored shapes to the present ones; ``ValueError`` if there is a
    gap between them, or one is for a tag that does not exist. A codec serves any thread.
    """

    def __init__(self, upcasters: Upcasters = UPCASTERS) -> None:
        if strange := {tag for tag, _ in upcasters} - _KINDS.keys():
            raise ValueError(f"upcasters for tags that do not exist: {sorted(strange)}")
        self._shapes = {shape.topic: shape for shape in _shapes(upcasters)}
        self.topics: Mapping[str, type[SessionEvent]] = {
            shape.topic: shape.kind for shape in self._shapes.values() if not shape.upcasters
        }
        self._topic_of = {kind: topic for topic, kind in self.topics.items()}
        self._read = {topic: Decoder(kind).decode for topic, kind in self.topics.items()}
        self._tag_end = {kind: len(f'{{"type":"{tag}",') for tag, kind in _KINDS.items()}
        self._write = Encoder().encode

    def topic_of(self, kind: type[SessionEvent]) -> str:
        """The topic that events of this type are stored under."""
        return self._topic_of[kind]

    def encode(self, event: SessionEvent, prev: str = "") -> EncodedEvent:
        """The event as it is stored. ``prev`` is the digest of the event before it in its
        stream, empty for the first; it takes the place of the event's own.

        Raises ``Unstorable`` if the event holds what is no plain data, or could not be read
        back: nothing checks the types of fields when an event is made.
        """
        kind = type(event)
        topic = self._topic_of[kind]
        if event.prev != prev:
            event = replace(event, prev=prev)
        check = _IS_JSON.get(kind)
        try:
            if check is None or check(event):
                # Without the tag: it is the topic, which stands beside the payload.
                payload = b"{" + self._write(event)[self._tag_end[kind] :]
                self._read[topic](payload)
                return EncodedEvent(topic, payload)
        except (ValueError, ArithmeticError, *_MISTAKEN):
            pass
        return EncodedEvent(topic, _with_tags(self._shapes[topic], event))

    def chained(
        self, events: Iterable[SessionEvent], version: int = 0, prev: str = ""
    ) -> tuple[tuple[EncodedEvent, ...], str]:
        """The events as they are stored after ``version``, whose digest is ``prev``, each with
        the digest of the one before it; and the last one's digest."""
        encoded = []
        for event in events:
            version += 1
            stored = self.encode(event, prev)
            prev = digest(stored.topic, version, stored.payload)
            encoded.append(stored)
        return tuple(encoded), prev

    def recorded(self, record: StoredRecord) -> RecordedEvent:
        """A stored record with its event decoded. ``CorruptEvent`` names session and version."""
        position, session_id, version, topic, payload = record
        try:
            event = self.decode(topic, payload)
        except CorruptEvent as error:
            raise CorruptEvent(
                f"session {session_id!r}, version {version}: {error}",
                session_id=session_id,
                version=version,
            ) from None
        return RecordedEvent(position, session_id, version, topic, event)

    def replayed(self, replay: Replay) -> list[AnyEvent]:
        """The events of a replay. ``CorruptEvent`` names session and version."""
        _, _, topics, payloads = replay
        read = self._read
        if MARK not in b"".join(payloads):
            try:
                return [read[t](payload) for t, payload in zip(topics, payloads, strict=True)]
            except _UNREADABLE:
                pass  # an unknown topic, or bytes at fault: one by one then
        return [self.recorded(record).event for record in replay.records()]

    def decode(self, topic: str, payload: bytes) -> AnyEvent:
        """The event stored under this topic, in its present shape.

        A topic this version does not know, or a newer version of one that it knows, gives
        ``UnknownEvent``. Raises ``CorruptEvent`` if the topic is known and the bytes can't be
        read.
        """
        read = self._read.get(topic)
        try:
            if read is not None and not payload.startswith(MARK):
                return read(payload)
            shape = self._shapes.get(topic)
            return shape.read(payload) if shape else UnknownEvent(topic, payload)
        except _UNREADABLE as error:
            raise _corrupt(topic, error) from None


def _shapes(upcasters: Upcasters) -> Iterator[_Shape]:
    for tag, kind in _KINDS.items():
        way = steps(tag, upcasters)
        for version in range(1, len(way) + 2):
            yield _Shape(versioned(tag, version), kind, way[version - 1 :])


def _with_tags(shape: _Shape, event: SessionEvent) -> bytes:
    topic = shape.topic
    try:
        payload = dumps(event)
        shape.read(payload)
    except Unstorable as error:
        raise Unstorable(f"{topic}: {error}", path=topic) from None
    except RecursionError:
        raise Unstorable(f"{topic}: nested deeper than the stack allows here", path=topic) from None
    except (*_MISTAKEN, ValueError) as error:
        raise Unstorable(
            f"{topic}: {_field(error)} is not of its declared type ({type(error).__name__})",
            path=topic,
        ) from None
    return payload


def _field(error: Exception) -> str:
    """The path to the field at fault, as far as it is told. Without the rest of the text, which
    can quote the payload."""
    _, told, path = str(error).rpartition(" - at `$.")
    return path.removesuffix("`") if told else "a field"


def _corrupt(topic: str, error: Exception) -> CorruptEvent:
    """Without the cause, whose text can quote the payload."""
    return CorruptEvent(
        f"a stored {topic!r} event can't be read ({type(error).__name__}): its bytes are not as "
        "they were written; verify the session, or restore it from a backup"
    )


def _turn_is_json(event: ModelTurnRecorded) -> bool:
    for call in event.tool_calls:
        if not is_json(call.arguments):
            return False
    return not event.parts or all(map(is_json, event.parts))


def _result_is_json(event: ToolResultRecorded) -> bool:
    return is_json(event.content)


# The two that every turn writes are spelled out: that is twice as fast.
_IS_JSON: Mapping[type, Callable[[Any], bool]] = {
    **{kind: is_plain_json for kind in _KINDS.values() if open_fields(kind)},
    ModelTurnRecorded: _turn_is_json,
    ToolResultRecorded: _result_is_json,
}

CODEC = Codec()
TOPICS: Mapping[str, type[SessionEvent]] = CODEC.topics
topic_of: Callable[[type[SessionEvent]], str] = CODEC.topic_of
