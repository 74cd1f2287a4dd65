"""A worker process: it runs the session, or goes on with it where another one was killed.

    python -m turnstream.actors.demo.worker STORE SESSION_ID FOLDER [--hold CALL_ID]

With ``--hold``, that call says on stdout when it has written to the data set, and then never
returns. The worker lives no longer than the other end of its stdin.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from decimal import Decimal
from pathlib import Path

from ..agent import Agent
from ..system import ActorSystem
from ..tool_context import ToolContext
from ..tools import Tool, tool
from .calls import CallLog, ToolRan
from .desk import OrderDesk
from .recording import AGENT, LoggedModel, instructions, question

TURN_SECONDS = 30.0


def desk_tools(desk: OrderDesk, log: CallLog, hold: str) -> list[Tool]:
    """The agent's two tools, on a real data set."""

    def ran(context: ToolContext) -> None:
        key, attempt = context.idempotency_key, context.attempt
        log.write(ToolRan(os.getpid(), context.call_id, key, attempt))

    @tool
    def find_orders(context: ToolContext, customer: str) -> list[dict[str, str]]:
        """The orders of a customer, by full name."""
        ran(context)
        return desk.orders(customer)

    @tool
    def refund(context: ToolContext, order_id: str, amount: Decimal) -> str:
        """Pay back an amount for an order."""
        ran(context)
        desk.refund(order_id, amount, context.idempotency_key, context.attempt)
        if context.call_id == hold:
            _hold(hold)
        return f"Refunded {amount} for order {order_id}."

    return [find_orders, refund]


def _hold(call_id: str) -> None:
    print(call_id, flush=True)
    sys.stdin.read()
    os._exit(1)


def work(store: str, session_id: str, folder: Path, hold: str) -> None:
    """Finish the session's turn, or begin it."""
    log = CallLog(folder / "calls.jsonl")
    tools = desk_tools(OrderDesk(folder / "orders.db"), log, hold)
    agent = Agent(AGENT, model=LoggedModel(log), instructions=instructions(), tools=tools)
    with ActorSystem(agent, store=store) as system:
        session = system.session(session_id)
        turn = session.resume() or session.send(question())
        turn.result(timeout=TURN_SECONDS)


def main() -> None:
    """Read the command line and work."""
    parser = ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("session_id")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hold", default="")
    given = parser.parse_args()
    work(given.store, given.session_id, given.folder, given.hold)


if __name__ == "__main__":
    main()
