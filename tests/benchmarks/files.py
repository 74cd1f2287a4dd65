"""Appends to sessions in files, against a bare write and fsync of the same bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Thread

from rounds import Cost, Row, alternate, cost, in_directory, ratios, spread

from turnstream.events.envelope import EncodedEvent
from turnstream.stores import Append, JSONLStore, RowChange
from turnstream.stores.specimens import NOON

APPENDS = 500
CROWD, EACH = 50, 10
OPENED = 10_000
EVENTS = (EncodedEvent("tool_result_recorded", b'{"text":"%s"}' % (b"x" * 500)),) * 2
ROW = RowChange("idle", "benchmark", NOON, head="x" * 43)


def appends_to_files(rounds: int) -> Sequence[Row]:
    """One session, and many at once; and how long a large store takes to open."""
    sizes = in_directory(_sizes)
    rows: list[Row] = []
    for name, work, count in (
        ("one session", _alone, APPENDS),
        (f"{CROWD} sessions at once", _crowd, CROWD * EACH),
    ):
        bare, product = alternate(
            rounds,
            partial(in_directory, partial(_bare, [*sizes, *sizes][:count])),
            partial(in_directory, work),
        )
        a_second = spread([count / each.wall for each in product], 0, " appends a second")
        share = spread([1 / each for each in ratios(product, bare)])
        rows.append(Row(f"files, {name}, against a bare write and fsync", f"{share}; {a_second}"))
    opening = [in_directory(_opening).wall for _ in range(min(rounds, 3))]
    rows.append(Row(f"opening {OPENED:,} sessions in files", f"{median(opening):.2f} s"))
    return rows


def _sizes(directory: Path) -> list[int]:
    """How many bytes each append adds to the session's file."""
    ends: list[int] = [0]
    with closing(JSONLStore(directory, sync=False)) as store:
        for n in range(APPENDS):
            store.append(Append("s", 2 * n, EVENTS, ROW))
            ends.append((directory / "sessions" / "s.jsonl").stat().st_size)
    return [end - begun for begun, end in pairwise(ends)]


def _bare(sizes: Sequence[int], directory: Path) -> Cost:
    contents = [b"x" * size for size in sizes]

    def write() -> None:
        for content in contents:
            os.write(file.fileno(), content)
            os.fsync(file.fileno())

    with (directory / "bare").open("ab", buffering=0) as file:
        return cost(write)


def _alone(directory: Path) -> Cost:
    with closing(JSONLStore(directory)) as store:

        def write() -> None:
            for n in range(APPENDS):
                store.append(Append("s", 2 * n, EVENTS, ROW))

        return cost(write)


def _crowd(directory: Path) -> Cost:
    with closing(JSONLStore(directory, timeout=60)) as store:

        def write(sid: str) -> None:
            for n in range(EACH):
                store.append(Append(sid, 2 * n, EVENTS, ROW))

        def together() -> None:
            threads = [Thread(target=write, args=(f"s{n}",)) for n in range(CROWD)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return cost(together)


def _opening(directory: Path) -> Cost:
    with closing(JSONLStore(directory, sync=False)) as store:
        for n in range(OPENED):
            store.submit(Append(f"s{n}", 0, EVENTS, ROW), lambda _: None)
    return cost(lambda: JSONLStore(directory).close())
