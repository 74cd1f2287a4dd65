"""What events speak of: where a session comes from, and who runs what within which limits."""

from __future__ import annotations

from msgspec import Struct


class ForkOrigin(Struct, frozen=True, gc=False):
    """The session a fork was copied from, and the last version it shares with it."""

    session_id: str
    version: int


class Budget(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a turn may use: model calls, tokens, tool calls and seconds of activity, and the tokens
    of the session when it may begin (0: no limit)."""

    max_steps: int
    tokens: int = 0
    tool_calls: int = 0
    seconds: float = 0
    session_tokens: int = 0


class Owner(Struct, frozen=True, gc=False, order=True):
    """The node that runs a turn. Of two, the one with the higher generation is the younger."""

    generation: int
    node: str


class ParentCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """The call that a sub-agent's session serves: the call of its parent. ``path`` names the calls
    that lead to it, the outermost first and that one last, and ``within`` their sessions.
    ``budget`` is what the parent's turn had left when it began."""

    session_id: str
    turn_id: str
    call_id: str
    path: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    budget: Budget | None = None


class Teammate(Struct, frozen=True, gc=False, omit_defaults=True):
    """An agent that another one reaches by hand-offs: its model and digests of the rest, empty
    where there is none or a function chooses it. ``handoffs`` are the names of those that it hands
    off to."""

    name: str
    model: str = ""
    instructions: str = ""
    tools: dict[str, str] = {}
    handoffs: tuple[str, ...] = ()
    output: str = ""
