"""The callers of a session, and all they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Condition, Thread
from typing import Any

from witnessed import Accepted, Answered, Ended, Failed, Paused, Seen, Shown, digest

from turnstream.actors import Reply, Turn, TurnResult
from turnstream.events import TurnstreamError


class Caller:
    """Holds a turn, and notes what it is told, and when."""

    def __init__(self, turn: Turn, asked_at: int) -> None:
        self.turn = turn
        self.input_id: str | None = None
        self.asked_at, self.accepted_at = asked_at, -1
        self.outcome: TurnResult | BaseException | None = None
        self.items: list[Any] = []

    @property
    def id(self) -> str:
        """The input's id as far as it is known."""
        return self.turn.input_id if self.input_id is None else self.input_id

    @property
    def code(self) -> str:
        """The code of its error; "" where it has none."""
        return str(getattr(self.outcome, "code", ""))


class Audience:
    """An event loop on which callers wait. ``moved`` is notified of all they learn."""

    def __init__(
        self, moved: Condition, witness: Callable[[Seen], None], seen: Callable[[], int]
    ) -> None:
        self._moved, self._witness, self._seen = moved, witness, seen
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def attend(self, turn: Turn, asked_at: int) -> Caller:
        """Wait for all that comes of a turn, asked for when the stream was at ``asked_at``."""
        caller = Caller(turn, asked_at)
        self._spawn(self._wait(caller))
        return caller

    def ask(
        self, reply: Reply[bool], request: Any, input_id: Callable[[], str]
    ) -> list[bool | TurnstreamError]:
        """Wait for a reply, which the list holds when it has come."""
        answers: list[bool | TurnstreamError] = []
        self._spawn(self._reply(reply, request, input_id, answers))
        return answers

    def settle(self) -> None:
        """Let everybody learn what there is to learn."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(10)

    def close(self) -> None:
        """Let nobody wait any more."""
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _spawn(self, wait: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(wait, self._loop)

    def _tell(self, told: Seen) -> None:
        self._witness(told)
        with self._moved:
            self._moved.notify_all()

    async def _wait(self, caller: Caller) -> None:
        shown = asyncio.create_task(self._items(caller))
        await self._accepted(caller)
        try:
            ended = await caller.turn
        except Exception as error:
            await self._end(caller, error, _failed(self._seen(), caller, error), shown)
        else:
            await self._end(caller, ended, _ended(self._seen(), caller, ended), shown)

    async def _accepted(self, caller: Caller) -> None:
        try:
            input_id = await caller.turn.accepted()
        except Exception:
            return
        caller.accepted_at, caller.input_id = self._seen(), input_id
        self._tell(Accepted(caller.accepted_at, input_id))

    async def _items(self, caller: Caller) -> None:
        async for item in caller.turn.stream():
            caller.items.append(item)
            if version := getattr(item, "version", 0):
                self._tell(Shown(self._seen(), version, item.type))

    async def _end(
        self,
        caller: Caller,
        outcome: TurnResult | BaseException,
        told: Seen,
        shown: asyncio.Task[None],
    ) -> None:
        await shown
        caller.outcome = outcome
        self._tell(told)

    async def _reply(
        self,
        reply: Reply[bool],
        request: Any,
        input_id: Callable[[], str],
        answers: list[bool | TurnstreamError],
    ) -> None:
        try:
            answer: bool | TurnstreamError = await reply
        except TurnstreamError as error:
            answer = error
        if answer is True:
            self._witness(Answered(self._seen(), request, input_id()))
        answers.append(answer)
        with self._moved:
            self._moved.notify_all()


def _failed(seen: int, caller: Caller, error: BaseException) -> Failed:
    turn_id, code = getattr(error, "turn_id", ""), getattr(error, "code", "")
    return Failed(seen, caller.id, turn_id, code)


def _ended(seen: int, caller: Caller, ended: TurnResult) -> Ended | Paused:
    said, input_id, turn_id = digest(ended.messages), caller.id, ended.turn_id
    if ended.finish_reason == "awaiting-approval":
        waits = tuple(each.id for each in ended.approvals)
        return Paused(seen, input_id, turn_id, said, ended.steps, ended.usage, waits)
    return Ended(seen, input_id, turn_id, ended.finish_reason, said, ended.steps, ended.usage)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
