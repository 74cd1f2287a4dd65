"""Logs of many sessions and their forks, made up, with what was really used in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, get_args

from hypothesis import strategies as st

from turnstream.events import (
    AnyEvent,
    EncodedEvent,
    ForkOrigin,
    ModelCallDiscarded,
    ModelTurnRecorded,
    Outcome,
    RecordedEvent,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    UnknownEvent,
    Usage,
)
from turnstream.events.codec import CODEC
from turnstream.projections import DiscardedUsage, ModelUsage, ToolUsage
from turnstream.stores import Append, EventStore, RowChange

MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)
MODELS = ("small", "large/2", "")
TOOLS = ("search", "remove", "a/b", "\ud83d")
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

Step = tuple[str, int, int, int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(("model", "model", "result", "result", "fork", "fork", "discard", "note")),
        st.integers(0, 5),
        st.integers(0, 11),
        st.integers(0, 3),
    ),
    max_size=40,
)


class Appended(NamedTuple):
    """Events for one session, after a copied beginning perhaps."""

    session_id: str
    version: int
    events: tuple[AnyEvent, ...]
    copied: ForkOrigin | None = None


class Happenings:
    """A log in the making, and what it comes to if every event is counted where it happened."""

    def __init__(self, happened: Iterable[Step] = ()) -> None:
        self.appends: list[Appended] = []
        self.streams: dict[str, list[AnyEvent]] = {}
        self.used: dict[str, Any] = {}
        self._open: dict[str, list[Mapping[str, str]]] = {}
        for step in happened:
            self.take(step)

    def take(self, step: Step) -> None:
        """What happens next: to one of six sessions, or to the fork made last of it."""
        kind, number, detail, more = step
        sid = self._latest(f"s{number}")
        if sid not in self.streams:
            self._append(sid, SessionStarted(at=MIDNIGHT, agent="a"), {})
        at = MIDNIGHT + timedelta(hours=13 * more)
        match kind:
            case "model":
                self._model(sid, at, detail)
            case "result":
                self._result(sid, at, detail)
            case "discard":
                self._discard(sid, at, detail)
            case "fork":
                self._fork(f"s{number}", sid, detail, at)
            case _:
                note = UnknownEvent("noted@7", b"{}")
                self._append(sid, note, self._open[sid][-1])

    @property
    def records(self) -> Sequence[RecordedEvent]:
        """The log."""
        said: list[tuple[str, int, AnyEvent]] = []
        streams: dict[str, list[AnyEvent]] = defaultdict(list)
        for sid, version, events, copied in self.appends:
            prefix = streams[copied.session_id][: copied.version] if copied else []
            streams[sid] += [*prefix, *events]
            first = version - len(prefix) + 1
            said += [(sid, v, event) for v, event in enumerate([*prefix, *events], first)]
        return [RecordedEvent(n, s, v, "", event) for n, (s, v, event) in enumerate(said, 1)]

    def write(self, store: EventStore, *, after: int = 0) -> None:
        """Append it all, but for the first so many appends."""
        for sid, version, events, copied in self.appends[after:]:
            encoded = tuple(
                EncodedEvent(each.topic, each.raw)
                if isinstance(each, UnknownEvent)
                else CODEC.encode(each)
                for each in events
            )
            store.append(Append(sid, version, encoded, RowChange("idle", "a", MIDNIGHT), copied))

    def _latest(self, name: str) -> str:
        forks = [sid for sid in self.streams if sid.startswith(f"{name}-")]
        return forks[-1] if forks else name

    def _append(self, sid: str, event: AnyEvent, open_calls: Mapping[str, str]) -> None:
        stream = self.streams.setdefault(sid, [])
        self.appends.append(Appended(sid, len(stream), (event,)))
        stream.append(event)
        self._open.setdefault(sid, []).append(open_calls)

    def _model(self, sid: str, at: datetime, detail: int) -> None:
        model, usage = MODELS[detail % 3], Usage(detail, 1, detail // 2, 0)
        tools = {f"c{len(self.streams[sid])}.{n}": TOOLS[n] for n in range(detail % 5)}
        calls = tuple(ToolCall(call_id, tool, {}) for call_id, tool in tools.items())
        turn = ModelTurnRecorded(
            at=at, turn_id="t", step=1, tool_calls=calls, usage=usage, model=model
        )
        self._append(sid, turn, tools or self._open[sid][-1])
        day = at.date().isoformat()
        before = self.used.get(f"model/{day}/{model}", ModelUsage(day, model))
        self.used[f"model/{day}/{model}"] = ModelUsage(
            day, model, before.calls + 1, before.usage + usage
        )
        for tool in tools.values():
            self._count(day, tool, "calls")

    def _result(self, sid: str, at: datetime, detail: int) -> None:
        left = dict(self._open[sid][-1])
        if not left:
            return
        call_id = sorted(left)[detail % len(left)]
        tool, outcome = left.pop(call_id), OUTCOMES[detail % 5]
        self._append(sid, ToolCallStarted(at=at, turn_id="t", call_id=call_id), {**left})
        self._open[sid][-1] = {**left, call_id: tool}
        result = ToolResultRecorded(at=at, turn_id="t", call_id=call_id, outcome=outcome)
        self._append(sid, result, left)
        self._count(at.date().isoformat(), tool, outcome)

    def _discard(self, sid: str, at: datetime, detail: int) -> None:
        wasted = Usage(detail, 2) if detail % 2 else None
        discarded = ModelCallDiscarded(at=at, turn_id="t", step=1, reason="steered", usage=wasted)
        self._append(sid, discarded, self._open[sid][-1])
        day = at.date().isoformat()
        before = self.used.get(f"discarded/{day}", DiscardedUsage(day))
        after = DiscardedUsage(day, before.calls + 1, before.usage + (wasted or Usage()))
        self.used[f"discarded/{day}"] = after

    def _fork(self, name: str, sid: str, detail: int, at: datetime) -> None:
        version = 1 + detail % len(self.streams[sid])
        fork = f"{name}-{len(self.streams)}"
        origin = ForkOrigin(sid, version)
        mark = SessionStarted(at=at, agent="a", forked_from=origin)
        self.appends.append(Appended(fork, version, (mark,), origin))
        self.streams[fork] = [*self.streams[sid][:version], mark]
        opened = self._open[sid][:version]
        self._open[fork] = [*opened, opened[-1]]

    def _count(self, day: str, tool: str, what: str) -> None:
        key = f"tool/{day}/{tool}"
        before = self.used.get(key, ToolUsage(day, tool))
        changed = {each: getattr(before, each) for each in ("calls", *OUTCOMES)}
        self.used[key] = ToolUsage(day, tool, **{**changed, what: changed[what] + 1})


def counted(rows: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """What rows of ``UsageByDay`` say was used."""
    return {key: row for key, row in rows if key.startswith(("model/", "discarded/", "tool/"))}
