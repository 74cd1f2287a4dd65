"""A process that has a journal's run, and may be killed or stopped on its way.

``python runs_child.py STORE DIRECTORY KIND WAIT LEASE MOMENT [SIGNAL]`` where the moment is
``before-2``, ``in-2`` (the second step has acted, and is not recorded yet), ``after-2``,
``ended`` (the result is recorded, and nobody was told) or ``never``. It prints the result, or the
name of the error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from turnstream import Journal, JournalRun, TurnstreamError

STEPS = ("fetch", "charge", "ship", "tell")


class Work:
    """What is done leaves a line that outlives the process."""

    def __init__(self, directory: Path, moment: str, strike: int) -> None:
        self._directory, self._moment, self._strike = directory, moment, strike

    def reach(self, moment: str) -> None:
        if moment == self._moment:
            os.kill(os.getpid(), self._strike)

    def act(self, number: int) -> str:
        descriptor = os.open(self._directory / "done", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{STEPS[number - 1]}\n".encode())
        os.close(descriptor)
        self.reach(f"in-{number}")
        return STEPS[number - 1]

    async def act_async(self, number: int) -> str:
        return await asyncio.to_thread(self.act, number)

    def plain(self, run: JournalRun) -> list[str]:
        return [self.step(run, number) for number in (1, 2, 3, 4)]

    def nested(self, run: JournalRun) -> list[str]:
        return [self.step(run, 1), *run.run("inner", self.inner), self.step(run, 4)]

    def inner(self, run: JournalRun) -> list[str]:
        return [self.step(run, 2), self.step(run, 3)]

    def step(self, run: JournalRun, number: int) -> str:
        self.reach(f"before-{number}")
        value: str = run.step(STEPS[number - 1], self.act, number)
        self.reach(f"after-{number}")
        return value

    async def parallel(self, run: JournalRun) -> list[str]:
        values: list[str] = []
        for number in (1, 2, 3, 4):
            self.reach(f"before-{number}")
            values.append(await run.step(STEPS[number - 1], self.act_async, number))
            self.reach(f"after-{number}")
        return values


def carried_out(journal: Journal, work: Work, kind: str) -> Any:
    match kind:
        case "plain":
            return journal.resume("order", work.plain)
        case "nested":
            return journal.resume("order", work.nested)
        case _:
            return asyncio.run(journal.resume("order", work.parallel))


def main(store: str, directory: str, kind: str, *rest: str) -> None:
    wait, lease, moment, *strike = rest
    work = Work(Path(directory), moment, int(strike[0]) if strike else signal.SIGKILL)
    with Journal(store, wait=float(wait), lease=float(lease)) as journal:
        try:
            told = " ".join(carried_out(journal, work, kind))
        except TurnstreamError as error:
            told = type(error).__name__
        work.reach("ended")
    print(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
