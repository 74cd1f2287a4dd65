"""Records that somebody planted in the database: they run nothing, and are named."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent
from turnstream.actors.testing import ScriptedModel
from turnstream.events import TurnstreamError

WAIT = 20


class Touch:
    """Unpickling one makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def hostile(pwned: Path) -> dict[str, bytes]:
    touch = ["sh", "-c", f"mkdir {pwned}"]
    at = {"at": "2026-01-01T00:00:00Z"}
    return {
        "pickle": pickle.dumps(Touch(pwned)),
        "json that names a function": json.dumps({"type": "os.system", "args": touch}).encode(),
        "yaml": f"!!python/object/apply:os.mkdir ['{pwned}']".encode(),
        "a field that names a class": json.dumps(
            {**at, "value": {"py/object": "subprocess.Popen", "args": touch}}
        ).encode(),
        "hostile fields": json.dumps({**at, "__class__": "os.system", "self": 1}).encode(),
        "half a surrogate pair": b'{"at":"2026-01-01T00:00:00Z","value":"\\ud83d"}',
        "nothing": b"",
    }


TOPICS = ["state_changed", "turn_started", "os.system", "turnstream.events:eval", "state_changed@9"]

USES: dict[str, Callable[[ActorSystem], object]] = {
    "read": lambda system: list(system.session("s").messages),
    "view": lambda system: system.session("s").pending(),
    "history": lambda system: list(system.session("s").events()),
    "log": lambda system: list(system.events()),
    "send": lambda system: system.session("s").send("more").result(WAIT),
    "resume": lambda system: [turn.result(WAIT) for turn in system.resume_all()],
}


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOPICS)
def test_whatever_is_planted_runs_nothing_and_every_use_answers_or_names_it(
    tmp_path: Path, topic: str
) -> None:
    pwned = tmp_path / "pwned"
    for place, payload in enumerate(hostile(pwned).values()):
        file = tmp_path / f"{place}.db"
        with ActorSystem(agent(), store=f"sqlite:///{file}") as system:
            system.session("s").send("go").result(WAIT)
        plant(file, topic, payload)
        with ActorSystem(agent(), store=f"sqlite:///{file}") as system:
            for use in USES.values():
                with suppress(TurnstreamError):
                    use(system)
    assert not pwned.exists()
    pickle.loads(hostile(pwned)["pickle"])
    assert pwned.exists(), "the planted pickle would have shown"


def agent() -> Agent:
    return Agent("agent", model=ScriptedModel(["done", "done"]))


def plant(file: Path, topic: str, payload: bytes) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE sessions SET version = version + 1, status = 'running'")
        database.execute(
            "INSERT INTO stored_events (originator_id, originator_version, topic, state) "
            "SELECT id, version, ?, ? FROM sessions",
            (topic, payload),
        )


def test_a_session_with_a_planted_record_does_not_keep_others_from_their_work(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.db"
    with ActorSystem(agent(), store=f"sqlite:///{file}") as system:
        system.session("s").send("go").result(WAIT)
    plant(file, "turn_started", b"no JSON")
    with ActorSystem(agent(), store=f"sqlite:///{file}") as system:
        with pytest.raises(TurnstreamError, match="turn_started"):
            system.session("s").send("go").result(WAIT)
        assert system.session("t").send("go").result(WAIT).text == "done"
