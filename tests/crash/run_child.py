"""One of several processes that ask for the same run, several times each.

``python run_child.py STORE DIRECTORY NAME TIMES LEASE`` writes what each of its callers was told, a
line of JSON for each. The tool holds its caller until there is a file ``go`` in the directory.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
from node_child import note

from turnstream.actors import ActorSystem, Agent, ModelRequest, Turn, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, Usage, UserMessage

WAIT = 60


def make_agent(directory: Path, name: str) -> Agent:
    """An agent whose model and tool leave a trace of each call, before they answer."""

    @tool(name="work")
    def work() -> str:
        note(directory, "ran", name)
        while not (directory / "go").exists():
            time.sleep(0.01)
        return f"done by {name}"

    def model(request: ModelRequest) -> ModelTurn:
        note(directory, "asked", f"{request.turn_id} {request.step}")
        if isinstance(request.messages[-1], UserMessage):
            return ModelTurn(tool_calls=(call("work"),), usage=Usage(3, 2))
        return ModelTurn(f"said by {name}", usage=Usage(3, 2))

    return Agent("agent", model=model, tools=[work])


def told(turn: Turn) -> str:
    """All that a caller is told, in a line of JSON."""
    result = turn.result(WAIT)
    said = {
        "turn_id": result.turn_id,
        "run_id": result.run_id,
        "finish_reason": result.finish_reason,
        "text": result.text,
        "steps": result.steps,
        "usage": result.usage,
        "messages": [*result.messages],
    }
    return msgspec.json.encode(said).decode()


def main() -> None:
    """Ask, wait, and say what was told."""
    store, directory, name, times, lease = sys.argv[1:]
    place = Path(directory)
    with ActorSystem(
        make_agent(place, name), store=store, on_failure="keep", lease=float(lease)
    ) as system:
        print("ready", flush=True)
        sys.stdin.readline()
        session = system.session("s")
        turns = [session.send("go", run_id="r") for _ in range(int(times))]
        note(place, "accepted", turns[-1].accepted().result(WAIT))
        for turn in turns:
            print(told(turn), flush=True)


if __name__ == "__main__":
    main()
