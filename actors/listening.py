"""Telling hooks what happened, off the actors.

Each hook that listens has a thread of its own, so that a slow one delays itself alone, and nobody
waits for it. What it lags behind by more than a limit is kept as versions only, and read from
the store when its turn comes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from inspect import isawaitable
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import Any, TypeAlias

from msgspec import Struct

from ..events.codec import CODEC
from ..events.session import AnyEvent
from ..stores import EventStore
from .crossing import run_on_loop
from .effects import EffectLoop
from .hooks import Hooks, Rest, Stretch
from .logging_context import CallIds, current_call, whereabouts
from .watching import note_failure

log: logging.Logger = logging.getLogger("turnstream.hooks")

MOST_HELD = 10_000
"""How many events are kept for one hook; more are read from the store."""


class Happened(Struct, frozen=True):
    """An event to tell of."""

    session_id: str
    version: int
    event: AnyEvent


class Rested(Struct, frozen=True):
    """The end of a stretch to tell of."""

    stretch: Stretch
    rest: Rest


class Gap(Struct):
    """Events to tell of that are not kept here."""

    session_id: str
    first: int
    last: int


Letter: TypeAlias = Happened | Rested | Gap


class Listener:
    """One hook, and what it is yet to be told."""

    def __init__(self, hooks: Hooks, store: EventStore, loop: EffectLoop, most: int) -> None:
        self._hooks, self._store, self._loop, self._most = hooks, store, loop, most
        self._letters: deque[Letter] = deque()
        self._gaps: dict[str, Gap] = {}  # the last one of each session, where nothing came after
        self._held = 0
        self._closed = False
        self._changed = Condition()
        self._thread: Thread | None = None

    def put(self, letter: Happened | Rested) -> None:
        """Tell it soon. Does not wait."""
        with self._changed:
            if self._closed:
                return
            if isinstance(letter, Rested):
                self._gaps.pop(letter.stretch.session_id, None)
                self._letters.append(letter)
            elif self._held < self._most and letter.session_id not in self._gaps:
                self._held += 1
                self._letters.append(letter)
            else:
                self._skip(letter)
            self._begin()
            self._changed.notify()

    def close(self, timeout: float) -> bool:
        """Take nothing more, and return when it was told everything; False where that takes
        longer than ``timeout`` seconds. Called by the hook itself, it does not wait."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is None or self._thread is current_thread():
            return self._thread is None
        self._thread.join(timeout)
        if left := len(self._letters):
            name = type(self._hooks).__name__
            log.warning("hook %s was not told of %d things that are recorded", name, left)
        return not self._thread.is_alive()

    def _begin(self) -> None:
        if self._thread is not None:
            return
        thread = Thread(target=self._work, name="turnstream-hooks", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread for us: the next letter asks again
            log.warning("hooks are told later: %s", whereabouts(error))
        else:
            self._thread = thread

    def _skip(self, letter: Happened) -> None:
        gap = self._gaps.get(letter.session_id)
        if gap is not None and gap.last == letter.version - 1:
            gap.last = letter.version
            return
        gap = Gap(letter.session_id, letter.version, letter.version)
        self._gaps[letter.session_id] = gap
        self._letters.append(gap)

    def _work(self) -> None:
        while (letter := self._next()) is not None:
            try:
                self._tell(letter)
            except Exception as error:  # the store's: what a hook raises is dealt with
                log.warning("hooks were not told of some events: %s", whereabouts(error))

    def _next(self) -> Letter | None:
        with self._changed:
            while not self._letters and not self._closed:
                self._changed.wait()
            if not self._letters:
                return None
            letter = self._letters.popleft()
            if isinstance(letter, Gap) and self._gaps.get(letter.session_id) is letter:
                del self._gaps[letter.session_id]
            self._held -= isinstance(letter, Happened)
            return letter

    def _tell(self, letter: Letter) -> None:
        match letter:
            case Rested(stretch=stretch, rest=rest):
                ids = CallIds(stretch.session_id, stretch.turn_id)
                self._call(ids, self._hooks.on_rest, stretch, rest)
            case Happened(session_id=session_id, version=version, event=event):
                ids = CallIds(session_id, getattr(event, "turn_id", ""))
                self._call(ids, self._hooks.on_event, session_id, version, event)
            case Gap():
                for happened in self._read(letter):
                    self._tell(happened)

    def _read(self, gap: Gap) -> Iterator[Happened]:
        records = self._store.read(gap.session_id, after=gap.first - 1, upto=gap.last)
        for each in map(CODEC.recorded, records):
            yield Happened(gap.session_id, each.version, each.event)

    def _call(self, ids: CallIds, hook: Callable[..., Any], *args: Any) -> None:
        current_call.set(ids)
        try:
            found = hook(*args)
            if isawaitable(found):
                run_on_loop(self._loop, found)
        except BaseException as error:
            note_failure(hook, error)


class Listeners:
    """Those of one system, by hook."""

    def __init__(self, store: EventStore, loop: EffectLoop, most: int | None = None) -> None:
        self._store, self._loop = store, loop
        self._most = MOST_HELD if most is None else most
        self._by_hook: dict[int, Listener] = {}
        self._lock = Lock()

    def tell(self, hooks: Iterable[Hooks], letter: Happened | Rested) -> None:
        """Tell each of them soon. Does not wait."""
        for each in hooks:
            listener = self._by_hook.get(id(each)) or self._add(each)
            listener.put(letter)

    def close(self, timeout: float) -> bool:
        """Tell what is left to tell, for at most ``timeout`` seconds; false where that was not
        all."""
        deadline = monotonic() + timeout
        with self._lock:
            listeners = list(self._by_hook.values())
        told = [each.close(max(deadline - monotonic(), 0)) for each in listeners]
        return all(told)

    def _add(self, hooks: Hooks) -> Listener:
        with self._lock:
            if id(hooks) not in self._by_hook:  # an object with an equality may have no hash
                listener = Listener(hooks, self._store, self._loop, self._most)
                self._by_hook[id(hooks)] = listener
            return self._by_hook[id(hooks)]
