"""Which session, turn and call a line of a log is about.

What turnstream logs says so by itself. Lines of user code, written inside a tool, a model or a
hook, are given the same by ``CallFilter``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class CallIds(NamedTuple):
    """What is being run: the step of a model call has no ``call_id``."""

    session_id: str = ""
    turn_id: str = ""
    call_id: str = ""


_NOTHING = CallIds()

current_call: ContextVar[CallIds] = ContextVar("current_call", default=_NOTHING)
"""What the code that is running was called for; empty ids outside of it."""


def within(ids: CallIds, fn: Callable[[], T]) -> T:
    """Call ``fn`` in a context of its own that says what for. What runs on in that context, such
    as a coroutine that ``fn`` makes and its task awaits, is included."""
    current_call.set(ids)
    return fn()


def about(session_id: str, turn_id: str = "", call_id: str = "") -> dict[str, str]:
    """The ``extra`` of a log record about a session."""
    return CallIds(session_id, turn_id, call_id)._asdict()


def whereabouts(error: BaseException) -> str:
    """What was raised and where, for a log: without the error's text, which may hold what users
    said."""
    frames = extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} in {last.name}"


def log_failure(
    log: logging.Logger, error: BaseException, extra: dict[str, str], text: str, *args: object
) -> None:
    """Log that something raised: what and where, see ``whereabouts``."""
    line = f"{text}: %s"
    log.error(line, *args, whereabouts(error), extra=extra, stacklevel=2)


class CallFilter(logging.Filter):
    """Gives each log record ``session_id``, ``turn_id`` and ``call_id``: those it has, or those of
    the tool, model or hook that wrote it; elsewhere they are empty.

    Add it to handlers: a filter of a logger does not see the records of the loggers below it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in current_call.get()._asdict().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
