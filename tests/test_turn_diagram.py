"""The drawing of a turn's states in the docs is the table in the code.

``python tests/test_turn_diagram.py`` draws it anew, between the two markers of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from turnstream.events import Event
from turnstream.projections import TRANSITIONS, Phase

PAGE = Path(__file__).resolve().parents[1] / "docs/explanation/turn-states.md"
BEGIN, END = "<!-- drawn from TRANSITIONS -->", "<!-- end of the drawing -->"
DRAWING = re.compile(rf"(?<={re.escape(BEGIN)}\n).*?(?=\n{re.escape(END)})", re.DOTALL)


def names(events: set[type[Event]]) -> list[str]:
    return sorted(event.__name__ for event in events)


def arrows() -> Iterator[tuple[Phase, Phase, list[str]]]:
    """Each way from a phase to a phase, and the events that take it."""
    for phase, events in TRANSITIONS.items():
        for to in Phase:
            if taken := {event for event, leads in events.items() if leads and to in leads}:
                yield phase, to, names(taken)


def staying(phase: Phase) -> set[type[Event]]:
    """The events that may happen in a phase and never lead out of it."""
    return {event for event, leads in TRANSITIONS[phase].items() if leads is None}


def drawing() -> str:
    everywhere = set[type[Event]].intersection(*map(staying, Phase))
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.IDLE.value}"]
    for phase, to, events in arrows():
        lines.append(f"    {phase.value} --> {to.value}: {'<br>'.join(events)}")
    lines += ["```", "", "| phase | may also happen, and changes no phase |", "|---|---|"]
    lines.append(f"| every phase | {', '.join(map(code, names(everywhere)))} |")
    for phase in TRANSITIONS:
        if others := staying(phase) - everywhere:
            lines.append(f"| `{phase.value}` | {', '.join(map(code, names(others)))} |")
    return "\n".join(lines)


def code(word: str) -> str:
    return f"`{word}`"


def test_the_drawing_in_the_docs_is_the_table_in_the_code() -> None:
    (drawn,) = DRAWING.findall(PAGE.read_text(encoding="utf-8"))
    assert drawn == drawing(), "draw it anew: python tests/test_turn_diagram.py"


def test_the_page_says_when_an_event_leads_one_way_and_when_another() -> None:
    prose = DRAWING.sub("", PAGE.read_text(encoding="utf-8"))
    forks = {
        event
        for events in TRANSITIONS.values()
        for event, leads in events.items()
        if leads and len(leads) > 1
    }
    assert {name for name in names(forks) if code(name) not in prose} == set()


def test_every_phase_can_be_reached_and_can_end() -> None:
    ways = {(phase, to) for phase, to, _ in arrows()}
    assert reached(Phase.IDLE, ways) == set(Phase)
    assert all(Phase.IDLE in reached(phase, ways) for phase in Phase)


def reached(start: Phase, ways: set[tuple[Phase, Phase]]) -> set[Phase]:
    found = {start}
    while more := {to for phase, to in ways if phase in found} - found:
        found |= more
    return found


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(DRAWING.sub(lambda _: drawing(), page), encoding="utf-8")
