"""The processes that are killed while much is asked of them at random.

It is a process for each part that is read from stdin, a fork of this one, as in ``child``. What it
does is drawn from the part's seed; what its model, its tools and its callers saw is logged.
"""

# The modules of the machines are found at run time.
# pyright: reportMissingImports=false

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import traceback
from contextlib import closing
from pathlib import Path
from random import Random
from threading import Condition
from typing import Literal, TypeAlias

import msgspec
from child import mortal
from msgspec import Struct
from plan import AtAppend, AtMoment, Log, die

sys.path.insert(0, str(Path(__file__).parents[1] / "machines"))

from audience import Audience, Caller
from lives import SESSION, USED, Life, Settings, improvised, version_of
from outfits import WHOLE
from puppets import Answer, Break, Order
from witnessed import Asked, Ran, Seen

from turnstream.actors import Turn
from turnstream.actors.commands import Resolve
from turnstream.events import ModelTurn, ToolCall
from turnstream.projections import fold

SECONDS = 40.0
Act: TypeAlias = Literal[
    "send",
    "join",
    "execute",
    "withdraw",
    "abort",
    "discard",
    "resume",
    "show",
    "model",
    "tool",
    "decide",
    "decide elsewhere",
]
ACTS: dict[Act, int] = {  # what is done, and how often
    "send": 4,
    "join": 3,
    "execute": 1,
    "withdraw": 1,
    "abort": 1,
    "discard": 1,
    "resume": 2,
    "show": 3,
    "model": 9,
    "tool": 8,
    "decide": 5,
    "decide elsewhere": 2,
}


class Part(Struct, frozen=True):
    """One process's part: so many ``acts``, and then, if it ``ends``, all that is unfinished."""

    folder: str
    store: str
    life: int
    seed: int
    settings: Settings
    acts: int
    ends: bool = False
    kill: AtAppend | AtMoment | None = None


class Noted(Struct, frozen=True):
    """A line of the log."""

    life: int
    seen: Seen


class Player:
    """Does at random what can be done with a session, and decides on its calls."""

    def __init__(self, part: Part, life: Life) -> None:
        self._random, self._life, self._part = Random(part.seed), life, part
        self._sent = 0

    def play(self) -> None:
        """All acts, some of them in a rush."""
        for _ in range(self._part.acts):
            (act,) = self._random.choices(list(ACTS), list(ACTS.values()))
            self._do(act)
            if self._random.random() < 0.7:
                self._life.settle()

    def _do(self, act: Act) -> None:
        random, life, caller = self._random, self._life, self._caller()
        match act:
            case "send":
                life.attend(self._send)
            case "join" if caller is not None:
                text = self._text()
                join = random.choice([caller.turn.steer, caller.turn.enqueue])
                life.attend(lambda: join(text))
            case "execute":
                text = self._text()
                life.attend(lambda: life.session.execute(text))
            case "withdraw" if caller is not None:
                life.ask(caller.turn.withdraw(), "withdraw", caller)
            case "abort" if caller is not None:
                keep = random.random() < 0.5
                life.ask(caller.turn.abort(keep=keep), "abort", caller)
            case "discard":
                life.ask(life.session.discard_pending(), "discard")
            case "resume":
                life.attend(life.session.resume)
            case _:
                self._pull(act)

    def _pull(self, act: Act) -> None:
        """Have the model, a tool, or whoever decides do something."""
        random, life = self._random, self._life
        match act:
            case "show":
                if (puppet := life.puppet(Asked)) is not None:
                    life.stage.show(puppet)
            case "model":
                life.pull(Asked, 0, self._answer())
            case "tool":
                life.pull(Ran, random.randrange(9), self._result())
            case "decide":
                if decision := self._decision():
                    life.attend(lambda: self._take(decision), goes_on=False)
            case "decide elsewhere":
                if decision := self._decision():
                    life.decide_elsewhere(decision)

    def _decision(self) -> Resolve | None:
        """On an open question, or, at times, on one that has its end."""
        state, random = fold(self._life.recorded), self._random
        ids = [each.id for each in state.approvals(SESSION)] or [*state.decided]
        if not ids:
            return None
        by = f"somebody in {self._part.life}"
        if random.random() < 0.3:
            return Resolve(random.choice(ids), "rejected", by)
        edited = {"text": self._text()} if random.random() < 0.3 else None
        return Resolve(random.choice(ids), "approved", by, arguments=edited)

    def _take(self, decision: Resolve) -> Turn:
        session, question = self._life.session, decision.approval_id
        if decision.decision == "rejected":
            return session.reject(question, by=decision.by)
        return session.approve(question, by=decision.by, arguments=decision.arguments)

    def _caller(self) -> Caller | None:
        callers = self._life.callers
        return self._random.choice(callers[-4:]) if callers else None

    def _text(self) -> str:
        self._sent += 1
        return f"input {self._part.life}.{self._sent}"

    def _send(self) -> Turn:
        policy = self._random.choice(["wait", "queue", "steer"])
        key = self._random.choice(["", "", "a", "b", "c"])
        text = f"keyed {key}" if key else self._text()
        return self._life.session.send(text, policy=policy, key=key or None)

    def _answer(self) -> Order:
        random = self._random
        if random.random() < 0.1:
            return Break(random.choice([None, ConnectionError("reset")]))
        names = random.choices(
            [*WHOLE.tools, "nowhere"], [5, 5, 2, 2, 2, 2, 2, 1], k=random.randrange(4)
        )
        calls = tuple(ToolCall(random.choice("ab"), name) for name in names)
        return Answer(ModelTurn("" if calls else "done", calls, USED))

    def _result(self) -> Order:
        return Break(ValueError("no")) if self._random.random() < 0.2 else Answer("done")


def live(part: Part) -> None:
    """Play the part, and come to the end if it is the last one."""
    log, moved = Log(Path(part.folder, "log")), Condition()

    def note(seen: Seen) -> None:
        log.write(Noted(part.life, seen))  # type: ignore[arg-type]

    with closing(mortal(part.store, _at_append(part))) as store:
        audience = Audience(moved, note, lambda: version_of(store))
        life = Life(store, part.settings, audience, moved, note, outfit=WHOLE)
        Player(part, life).play()
        life.settle()
        if part.ends:
            life.come_to_the_end()
        life.stage.let_all_go(improvised)
        life.system.close(SECONDS)
        audience.close()


def _at_append(part: Part) -> AtAppend | None:
    return part.kill if isinstance(part.kill, AtAppend) else None


def run(part: Part) -> None:
    """Live, or say where it hangs."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    if isinstance(part.kill, AtMoment):
        clock = threading.Timer(part.kill.seconds, die)
        clock.daemon = True
        clock.start()
    live(part)


def forked(part: Part) -> int:
    """Run in a fork, and return how it ended (see ``os.waitpid``)."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        run(part)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    decode = msgspec.json.Decoder(Part).decode
    for line in sys.stdin:
        print(forked(decode(line)), flush=True)


if __name__ == "__main__":
    main()
