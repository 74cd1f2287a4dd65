"""A session lived by several processes, one after the other, and what they left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from plan import SESSION, Asked, KillPoint, Line, Plan, Ran, Talks, lines

from turnstream.events import CODEC, AnyEvent, InputQueued, Message, StoredRecord
from turnstream.projections import SessionState, fold
from turnstream.stores import open_store

PROGRAM = Path(__file__).with_name("child.py")


class Nursery:
    """Starts processes: forks of one that has everything imported, or fresh interpreters."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def killed(self, plan: Plan | Talks) -> bool:
        """Run a plan to its end; whether it was killed. What ends otherwise is a failure."""
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None and stdout is not None
        stdin.write(msgspec.json.encode(plan) + b"\n")
        stdin.flush()
        return _was_killed(os.waitstatus_to_exitcode(int(stdout.readline())), plan)

    def killed_fresh(self, plan: Plan | Talks) -> bool:
        """The same, in a fresh interpreter."""
        command = [sys.executable, str(PROGRAM), msgspec.json.encode(plan).decode()]
        return _was_killed(subprocess.run(command, check=False, timeout=50).returncode, plan)

    def close(self) -> None:
        """End the process that forks."""
        self._server.communicate(timeout=10)


def _was_killed(code: int, plan: Plan | Talks) -> bool:
    assert code in (0, -signal.SIGKILL), f"process {plan.life} failed with {code}: {plan}"
    return code != 0


class Life(NamedTuple):
    """One process: what was in the stream and in the log at its birth, what at its death, and
    whether it was killed."""

    records: Sequence[StoredRecord]
    known: int
    lines: Sequence[Line]
    killed: bool

    @property
    def inherited(self) -> list[AnyEvent]:
        """The events that were there before it."""
        return events(self.records[: self.known])

    @property
    def asked(self) -> list[Asked]:
        """The model calls it made."""
        return [each for each in self.lines if isinstance(each, Asked)]

    @property
    def ran(self) -> list[Ran]:
        """The tool calls it ran."""
        return [each for each in self.lines if isinstance(each, Ran)]


class Story:
    """A session whose processes share one plan, but for what each is told otherwise."""

    def __init__(self, nursery: Nursery, plan: Plan) -> None:
        self._nursery, self.plan = nursery, plan
        self.lives: list[Life] = []

    def live(self, kill: KillPoint | None = None, *, fresh: bool = False, **changes: Any) -> Life:
        """A process: it resumes, and sends what was not accepted yet."""
        known = self.records if self.lives else ()
        left = self.plan.inputs[len(self.accepted) :]
        told = {"inputs": left, "resumes": bool(known), **changes}
        plan = replace(self.plan, life=len(self.lives) + 1, kill=kill, **told)
        killed = (self._nursery.killed_fresh if fresh else self._nursery.killed)(plan)
        own = [each for each in lines(Path(self.plan.folder, "log")) if each.life == plan.life]
        life = Life(self.records, len(known), own, killed)
        self.lives.append(life)
        return life

    @property
    def records(self) -> Sequence[StoredRecord]:
        """The stream as it is now."""
        return stream(self.plan.store)

    @property
    def events(self) -> list[AnyEvent]:
        """The same, decoded."""
        return events(self.records)

    @property
    def state(self) -> SessionState:
        """The same, folded."""
        return fold(self.events)

    @property
    def messages(self) -> list[Message]:
        """The conversation, with the unfinished turn's part of it."""
        return list(self.state.transcript)

    @property
    def accepted(self) -> list[object]:
        """The inputs in the stream."""
        return [each.content for each in self.events if isinstance(each, InputQueued)]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Turn and step of all model calls, in the order they were made."""
        return [(each.turn_id, each.step) for life in self.lives for each in life.asked]

    @property
    def ran(self) -> list[str]:
        """The texts of all tool calls, in the order they began."""
        return [each.text for life in self.lives for each in life.ran]


def stream(address: str, session_id: str = SESSION) -> Sequence[StoredRecord]:
    """A session's stream."""
    with closing(open_store(address)) as store:
        return store.read(session_id)


def events(records: Sequence[StoredRecord]) -> list[AnyEvent]:
    """Records, decoded."""
    return [CODEC.decode(each.topic, each.payload) for each in records]
