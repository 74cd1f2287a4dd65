"""What every store is held to: a model of streams in plain containers, and the rules."""

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from turnstream.events.envelope import EncodedEvent, StoredRecord
from turnstream.events.errors import SessionDeleted, StoreError, WrongExpectedVersion
from turnstream.events.session import Status
from turnstream.events.terms import ForkOrigin
from turnstream.stores import Append, Appended, RowChange, SessionRow, open_store
from turnstream.stores.specimens import NOON, take

IDS = st.sampled_from(["a", "A", "a%", "a_b", "é", "x" * 512])
EVENTS = st.lists(
    st.builds(EncodedEvent, st.sampled_from(["noted", "noted@2"]), st.binary(max_size=20)),
    min_size=1,
    max_size=5,
).map(tuple)
STATUSES: st.SearchStrategy[Status] = st.sampled_from(
    ["idle", "running", "failed", "awaiting-approval"]
)
WORDS = st.sampled_from(["", "p", "q"])
ROWS = st.builds(
    RowChange,
    STATUSES,
    WORDS,
    st.integers(0, 3).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    WORDS,
    head=st.sampled_from(["", "one digest", "another"]),
)


class StoreMachine(RuleBasedStateMachine):
    """The model: records by stream, rows, tombstones, in plain containers."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.store = open_store(address)
        self.log: list[StoredRecord] = []
        self.rows: dict[str, SessionRow] = {}
        self.deleted: set[str] = set()
        self.highest = self.generation = 0
        self.seen: list[int] = []
        self.last: tuple[Append, Appended] | None = None
        self.subscription = self.store.subscribe()

    def teardown(self) -> None:
        self.store.close()

    def stream(self, sid: str) -> list[StoredRecord]:
        return [record for record in self.log if record.session_id == sid]

    def outcome(self, append: Append) -> Appended | StoreError:
        try:
            return self.store.append(append)
        except StoreError as error:
            return error

    @rule(sid=IDS, events=EVENTS, row=ROWS)
    def append(self, sid: str, events: tuple[EncodedEvent, ...], row: RowChange) -> None:
        version = len(self.stream(sid))
        append = Append(sid, version, events, row)
        outcome = self.outcome(append)
        if sid in self.deleted:
            assert isinstance(outcome, SessionDeleted)
            return
        assert isinstance(outcome, Appended)
        self.record(append, outcome)

    @rule(appends=st.lists(st.tuples(IDS, EVENTS, ROWS), max_size=5))
    def submit_several(
        self, appends: list[tuple[str, tuple[EncodedEvent, ...], RowChange]]
    ) -> None:
        for sid, events, row in appends:
            if sid in self.deleted:
                continue
            answers: list[Appended | StoreError] = []
            append = Append(sid, len(self.stream(sid)), events, row)
            self.store.submit(append, answers.append)
            (answer,) = answers
            assert isinstance(answer, Appended)
            self.record(append, answer)

    @rule(sid=IDS, origin=IDS, upto=st.integers(1, 9), events=EVENTS, row=ROWS)
    def copy_a_prefix(
        self, sid: str, origin: str, upto: int, events: tuple[EncodedEvent, ...], row: RowChange
    ) -> None:
        append = Append(sid, upto, events, row, ForkOrigin(origin, upto))
        length, there = len(self.stream(origin)), self.stream(sid)
        outcome = self.outcome(append)
        if origin in self.deleted:
            assert (type(outcome), outcome.session_id) == (SessionDeleted, origin)
        elif length < upto:
            assert isinstance(outcome, WrongExpectedVersion)
            refusal = (outcome.session_id, outcome.expected, outcome.actual)
            assert refusal == (origin, upto, length)
        elif sid in self.deleted:
            assert (type(outcome), outcome.session_id) == (SessionDeleted, sid)
        elif [(r.topic, r.payload) for r in there[upto:][: len(events)]] == [*events]:
            assert isinstance(outcome, Appended)  # taken for a repetition
        elif there:
            assert isinstance(outcome, WrongExpectedVersion)
            refusal = (outcome.session_id, outcome.expected, outcome.actual)
            assert refusal == (sid, 0, len(there))
        else:
            assert isinstance(outcome, Appended)
            self.record(append, outcome)

    def record(self, append: Append, outcome: Appended) -> None:
        sid, row, copied = append.session_id, append.row, append.copied
        prefix = self.stream(copied.session_id)[: copied.version] if copied else []
        before = self.rows.get(sid)
        events = [*((each.topic, each.payload) for each in prefix), *append.events]
        version = append.expected_version - len(prefix)
        first = outcome.position - len(events) + 1
        assert first > self.highest
        for n, (topic, payload) in enumerate(events):
            self.log.append(StoredRecord(first + n, sid, version + n + 1, topic, payload))
        self.highest, self.last = outcome.position, (append, outcome)
        assert outcome.version == version + len(events)
        self.rows[sid] = SessionRow(
            sid,
            outcome.version,
            row.status,
            row.agent,
            row.tenant,
            before.created if before else row.at,
            row.at,
            head=row.head,
            size=sum(len(each.payload) for each in self.stream(sid)),
            forked_from=before.forked_from if before else copied,
        )

    @rule(sid=IDS, events=EVENTS, row=ROWS, off=st.integers(1, 3))
    def append_ahead(
        self, sid: str, events: tuple[EncodedEvent, ...], row: RowChange, off: int
    ) -> None:
        version = len(self.stream(sid))
        outcome = self.outcome(Append(sid, version + off, events, row))
        if sid in self.deleted:
            assert isinstance(outcome, SessionDeleted)
        else:
            assert isinstance(outcome, WrongExpectedVersion)
            assert (outcome.expected, outcome.actual) == (version + off, version)

    @rule(sid=IDS, events=EVENTS, row=ROWS, back=st.integers(1, 6))
    def append_behind(
        self, sid: str, events: tuple[EncodedEvent, ...], row: RowChange, back: int
    ) -> None:
        stream = self.stream(sid)
        expected = max(len(stream) - back, 0)
        there = [(r.topic, r.payload) for r in stream[expected : expected + len(events)]]
        if not stream or there == list(events):
            return
        outcome = self.outcome(Append(sid, expected, events, row))
        assert isinstance(outcome, WrongExpectedVersion)
        assert (outcome.expected, outcome.actual) == (expected, len(stream))

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat_the_last_append(self) -> None:
        assert self.last is not None
        append, outcome = self.last
        again = self.outcome(append)
        origin = append.copied.session_id if append.copied is not None else ""
        if {append.session_id, origin} & self.deleted:
            assert isinstance(again, SessionDeleted)
        else:
            assert again == outcome

    @rule(sid=IDS)
    def delete(self, sid: str) -> None:
        gone = len(self.stream(sid))
        assert self.store.delete(sid) == gone
        self.log = [record for record in self.log if record.session_id != sid]
        self.rows.pop(sid, None)
        if gone:
            self.deleted.add(sid)

    @rule(
        sid=IDS,
        events=EVENTS,
        row=ROWS,
        gone=st.dictionaries(st.integers(1, 8), EVENTS.map(lambda events: events[0]), max_size=3),
    )
    def erase(
        self,
        sid: str,
        events: tuple[EncodedEvent, ...],
        row: RowChange,
        gone: dict[int, EncodedEvent],
    ) -> None:
        stream = self.stream(sid)
        payloads = {version: each for version, each in gone.items() if version <= len(stream)}
        append = Append(sid, len(stream), events, row)
        if sid in self.deleted:
            with pytest.raises(SessionDeleted):
                self.store.erase(append, payloads)
            return
        outcome = self.store.erase(append, payloads)
        self.log = [
            record._replace(topic=each.topic, payload=each.payload)
            if record.session_id == sid and (each := payloads.get(record.version))
            else record
            for record in self.log
        ]
        self.record(append, outcome)

    @rule()
    def look_it_over(self) -> None:
        assert list(self.store.check()) == []

    @rule()
    def compact(self) -> None:
        assert self.store.compact() >= 0

    @rule(after=IDS | st.just(""), limit=st.integers(0, 7))
    def list_streams(self, after: str, limit: int) -> None:
        ids = sorted({record.session_id for record in self.log if record.session_id > after})
        assert list(self.store.stream_ids(after=after, limit=limit)) == ids[:limit]

    @rule(sid=IDS, off=st.integers(-2, 2))
    def delete_at_a_version(self, sid: str, off: int) -> None:
        stream = self.stream(sid)
        if sid in self.deleted:
            with pytest.raises(SessionDeleted):
                self.store.delete(sid, expected_version=len(stream) + off)
        elif off:
            with pytest.raises(WrongExpectedVersion):
                self.store.delete(sid, expected_version=len(stream) + off)
        else:
            self.delete(sid)

    @rule()
    def draw_a_generation(self) -> None:
        drawn = self.store.next_generation()
        assert drawn > self.generation
        self.generation = drawn

    @rule()
    def follow_to_the_end(self) -> None:
        after = self.seen[-1] if self.seen else 0
        due = [record for record in self.log if record.position > after]
        assert take(len(due), self.subscription) == due
        self.seen += [record.position for record in due]

    @precondition(lambda self: self.store.durable)
    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = open_store(self.address)
        self.subscription = self.store.subscribe(after=self.seen[-1] if self.seen else 0)

    @rule(sid=IDS, after=st.integers(0, 8), upto=st.none() | st.integers(0, 8))
    def read_a_range(self, sid: str, after: int, upto: int | None) -> None:
        expected = self.stream(sid)[after:upto]
        assert list(self.store.read(sid, after=after, upto=upto)) == expected

    @rule(after=st.integers(0, 30), limit=st.integers(0, 10))
    def read_a_page(self, after: int, limit: int) -> None:
        expected = [record for record in self.log if record.position > after][:limit]
        assert list(self.store.read_all(after=after, limit=limit)) == expected

    @rule(
        status=st.none() | STATUSES,
        agent=st.none() | WORDS,
        tenant=st.none() | WORDS,
        forked_from=st.none() | IDS,
        limit=st.none() | st.integers(0, 3),
    )
    def list_sessions(
        self,
        status: Status | None,
        agent: str | None,
        tenant: str | None,
        forked_from: str | None,
        limit: int | None,
    ) -> None:
        rows = sorted(self.rows.values(), key=lambda row: row.session_id)
        rows.sort(key=lambda row: row.updated, reverse=True)
        expected = [
            row
            for row in rows
            if (status is None or row.status == status)
            and (agent is None or row.agent == agent)
            and (tenant is None or row.tenant == tenant)
            and (
                forked_from is None
                or (row.forked_from is not None and row.forked_from.session_id == forked_from)
            )
        ]
        found = self.store.sessions(
            status=status, agent=agent, tenant=tenant, forked_from=forked_from, limit=limit
        )
        assert list(found) == expected[:limit]

    @invariant()
    def everything_is_there(self) -> None:
        assert list(self.store.read_all()) == self.log
        for sid in ("a", "A", "a%"):
            assert self.store.session(sid) == self.rows.get(sid)
