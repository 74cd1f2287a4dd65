"""Warnings that what is to outlast the process is kept in its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .agent import Agent

log: logging.Logger = logging.getLogger("turnstream")


def warn_of_lost_questions(agents: Iterable[Agent]) -> None:
    """Warn where tools may wait for decisions, and the store is one in memory."""
    waiting = [
        f"{tool.name!r} of {agent.name!r}"
        for agent in agents
        if not callable(agent.tools)
        for tool in agent.tools
        if tool.options.needs_approval is not False or tool.options.on_crash == "ask"
    ]
    if waiting:
        log.warning(
            "the store is in memory: calls that wait for a decision are lost with the process; "
            "give the system a store such as 'sqlite:///sessions.db' (tool %s)",
            ", ".join(waiting),
        )


def warn_that_nothing_was_kept() -> None:
    """Warn where sessions of earlier processes are asked for, and the store is one in memory."""
    log.warning(
        "the store is in memory: there is nothing in it to be resumed after a restart; give the "
        "system a store such as 'sqlite:///sessions.db'"
    )
