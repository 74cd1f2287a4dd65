"""The application's state, as a call that runs reads and changes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET

from ..events.errors import StateRefused
from ..events.session import ToolCallStarted
from ..events.values import plain
from .changing import Stated
from .commands import ChangeState
from .step_recorder import AskSession
from .waiting import Promise


class ChangingCall(NamedTuple):
    """A call that runs, and whom it asks to change the state of its session."""

    session_id: str
    event: ToolCallStarted
    ask: AskSession


class CallState:
    """The state as the call knows it. ``call`` is None for code that is asked about a call and
    does not carry it out."""

    __slots__ = ("_call", "value")

    def __init__(self, value: Any, call: ChangingCall | None = None) -> None:
        self.value: Any = value
        self._call = call

    def change(self, wanted: Any) -> Any:
        """Block until the state has the wanted value, and return it as it was stored."""
        while not self._learn(self._asked(wanted).result()):
            pass
        return self.value

    async def change_async(self, wanted: Any) -> Any:
        """The same, without blocking."""
        while not self._learn(await self._asked(wanted)):
            pass
        return self.value

    def _asked(self, wanted: Any) -> Promise[Stated]:
        if (call := self._call) is None:
            raise StateRefused(
                "the state can be changed by a tool while its call runs, and not by what decides "
                "on the call",
            )
        derived = callable(wanted)
        value = plain(wanted(self.value) if derived else wanted, "state")
        promise: Promise[Stated] = Promise(call.session_id)
        expected = self.value if derived else UNSET
        call.ask(ChangeState(value, call=call.event, expected=expected), promise)
        return promise

    def _learn(self, stated: Stated) -> bool:
        self.value = stated.value
        return stated.changed
