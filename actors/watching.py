"""The contexts that hooks put around one call. They look on: what they raise is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .logging_context import current_call, log_failure

log: logging.Logger = logging.getLogger("turnstream.hooks")


class Watch:
    """The contexts around one call, and those in them who want to know how it ended."""

    def __init__(self) -> None:
        self._contexts: list[AbstractContextManager[Any]] = []
        self._told: list[Callable[..., object]] = []

    def enter(self, hook: Callable[..., AbstractContextManager[Any] | None], *args: Any) -> None:
        """Enter the context that a hook gives, if it gives one."""
        try:
            context = hook(*args)
            if context is None:
                return
            entered = context.__enter__()
        except BaseException as error:
            note_failure(hook, error)
            return
        self._contexts.append(context)
        if callable(entered):
            self._told.append(entered)

    def tell(self, *outcome: Any) -> None:
        """Say what will be recorded."""
        for each in self._told:
            try:
                each(*outcome)
            except BaseException as error:
                note_failure(each, error)

    def leave(self, raised: BaseException | None) -> None:
        """Leave them all, the last first. What was raised goes on, whatever they make of it."""
        kind, trace = type(raised) if raised else None, raised.__traceback__ if raised else None
        while self._contexts:
            context = self._contexts.pop()
            try:
                context.__exit__(kind, raised, trace)
            except BaseException as error:
                if error is not raised:
                    note_failure(context.__exit__, error)


def note_failure(hook: object, error: BaseException) -> None:
    """Log that a hook raised which only looks on."""
    name = getattr(hook, "__qualname__", type(hook).__name__)
    log_failure(log, error, current_call.get()._asdict(), "hook %s raised", name)
