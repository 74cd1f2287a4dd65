"""The built-in read models, rebuilt from the whole log."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from rounds import Cost, Row, alternate, cost, ratios, spread
from workload import address, agent, run_turns

from turnstream.actors import ActorSystem, Projector, restore_rows
from turnstream.actors.recording import row_after
from turnstream.events import EncodedEvent, StoredRecord, TurnFinished, digest, topic_of
from turnstream.events.codec import CODEC
from turnstream.projections import INITIAL, UsageByDay, fold
from turnstream.stores import Append, EventStore, MemoryStore, open_store

EVENTS, TURNS = 100_000, 20


def rebuild_read_models(rounds: int) -> Sequence[Row]:
    """Rows and usage made anew from 100,000 events of some hundred sessions whose turns alternate,
    against nothing but reading, decoding and folding the same streams."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        path = Path(directory)
        events = _build(path)
        with closing(open_store(address(path))) as store:
            usage = Projector(store, UsageByDay())
            folding, counting, restoring = alternate(
                rounds,
                lambda: cost(lambda: _fold_all(store)),
                lambda: cost(usage.rebuild),
                lambda: cost(partial(restore_rows, store)),
            )
            assert restore_rows(store).differed == 0
    both = [
        Cost(one.wall + other.wall, one.cpu + other.cpu)
        for one, other in zip(counting, restoring, strict=True)
    ]
    name = f"rebuild of the built-in read models from {events:,} events"
    return [
        Row(f"{name}: events a second", _speeds(events, both), "20,000"),
        Row("usage alone, events a second", _speeds(events, counting)),
        Row("rows beside the streams alone, events a second", _speeds(events, restoring)),
        Row("both against reading and folding the streams, time", spread(ratios(both, folding))),
    ]


def _speeds(events: int, costs: Sequence[Cost]) -> str:
    return spread([events / each.wall for each in costs], 0)


def _fold_all(store: EventStore) -> None:
    after = ""
    while page := store.stream_ids(after=after):
        for after in page:
            state = INITIAL
            with closing(store.replay(after)) as replay:
                for some in replay:
                    state = fold(CODEC.replayed(some), state)


def _build(path: Path) -> int:
    """Sessions of 20 turns each, as one really ran, whose turns lie side by side in the log."""
    with closing(MemoryStore()) as memory, ActorSystem(agent(), store=memory) as system:
        asyncio.run(run_turns(system, "s", TURNS))
        recorded = memory.read("s")
    turns: list[list[StoredRecord]] = [[]]
    for each in recorded:
        turns[-1].append(each)
        if each.topic == topic_of(TurnFinished):
            turns.append([])
    sessions = EVENTS // len(recorded) + 1
    with closing(open_store(address(path, "normal"))) as store:
        state = INITIAL
        for turn in filter(None, turns):
            said = [CODEC.decode(each.topic, each.payload) for each in turn]
            state, last = fold(said, state), turn[-1]
            at = CODEC.recorded(last).at
            assert at is not None
            head = digest(last.topic, last.version, last.payload)
            events = tuple(EncodedEvent(each.topic, each.payload) for each in turn)
            for number in range(sessions):
                sid = f"session-{number}"
                row = row_after(state, sid, at, head)
                append = Append(sid, turn[0].version - 1, events, row)
                store.submit(append, lambda outcome: None)
    return sessions * len(recorded)
