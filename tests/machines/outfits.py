"""What agents of a session are like, from one process to the next."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from puppets import Stage

from turnstream.actors import Tool, ToolContext, tool

SOON = 0.01
GATED = frozenset({"gate", "guarded", "timed", "overdue"})
ASKS = frozenset({"risky", "guarded", "timed"})
"""The tools that ask before they are run again."""


class Outfit(Struct, frozen=True):
    """What an agent can do and is told, and what happens where a turn was begun by another. It
    ``shares`` its conversations with another one, or does not."""

    tools: tuple[str, ...] = ("work", "fetch")
    instructions: str = ""
    on_drift: Literal["warn", "error", "ignore"] = "warn"
    shares: bool = False

    def lacks(self, instructions: str, tools: set[str]) -> bool:
        """Whether a turn begun like that would miss something."""
        return instructions != self.instructions or bool(tools - set(self.tools))


PLAIN = Outfit(shares=True)
WHOLE = Outfit(("work", "fetch", "gate", "guarded", "timed", "overdue", "risky"))


def tools_of(stage: Stage, outfit: Outfit) -> list[Tool]:
    """The tools of an agent, all of them puppets."""

    @tool
    def work(context: ToolContext) -> str:
        return stage.run(context, "")

    @tool(on_crash="fail")
    async def fetch(context: ToolContext) -> str:
        return await stage.run_async(context, "")

    @tool(needs_approval=True)
    def gate(context: ToolContext, text: str = "") -> str:
        return stage.run(context, text)

    @tool(needs_approval=True, on_crash="ask")
    async def guarded(context: ToolContext, text: str = "") -> str:
        return await stage.run_async(context, text)

    @tool(needs_approval=True, approval_timeout=SOON, on_crash="ask")
    async def timed(context: ToolContext, text: str = "") -> str:
        return await stage.run_async(context, text)

    @tool(needs_approval=lambda context, given: True, approval_timeout=SOON, on_expiry="keep")
    def overdue(context: ToolContext, text: str = "") -> str:
        return stage.run(context, text)

    @tool(on_crash="ask")
    def risky(context: ToolContext, text: str = "") -> str:
        return stage.run(context, text)

    @tool
    def added(context: ToolContext) -> str:
        return stage.run(context, "")

    every = [work, fetch, gate, guarded, timed, overdue, risky, added]
    return [each for each in every if each.name in outfit.tools]
