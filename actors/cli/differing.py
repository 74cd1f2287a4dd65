"""The command that shows two sessions side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated, Any

import typer
from msgspec import UNSET
from rich.table import Table
from rich.text import Text

from ...events.envelope import StoredRecord
from ...events.errors import InvalidSessionId, SessionNotFound
from ...events.messages import ToolCall
from ...projections import (
    ArgumentDrift,
    Comparison,
    Drift,
    FinishReasonDrift,
    StepCountDrift,
    ToolOrderDrift,
    TrajectoryCall,
    TrajectoryStep,
)
from ...projections.comparing import Leniency
from ...stores import EventStore
from ..comparing import compare_runs, run_of
from ..exporting import read_stream
from .app import AsJson, StoreUrl, app, encodable
from .boundary import WRONG
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import screen, write_line
from .summaries import call_text, content_text
from .text import json_line, printable, printable_lines, quoted, shortened

_POINT = re.compile(r"(?P<id>.+)@(?P<step>step:)?(?P<number>\d{1,18})", re.DOTALL)
_ANSWER = "model_turn_recorded"
_MISSING = "(none)"

MOST_COLUMNS = 160

SessionPoint = Annotated[
    str,
    typer.Argument(
        callback=encodable, metavar="ID", help="A session; ID@VERSION, ID@step:N: as of then."
    ),
]


@app.command()
def diff(
    a: SessionPoint,
    b: SessionPoint,
    *,
    store: StoreUrl = DEFAULT_STORE,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL.ARGUMENT", help="An argument that may differ; repeatable."),
    ] = None,
    ignore_text: Annotated[
        bool, typer.Option("--ignore-text", help="Compare calls and results only.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where two sessions part. Exit status: 0 they do not; 1 they do; 2 used wrongly."""
    leniency = Leniency.of(_ignored(ignore or []), text=ignore_text)
    with store_to_read(store) as opened:
        found = compare_runs(run_of(_records(opened, a)), run_of(_records(opened, b)), leniency)
    if as_json:
        write_line(json_line(_fields(found)))
    else:
        lines = screen()
        for line in _summary(found):
            lines.print(line)
        if not found.equal:
            lines.print(_table(found, a, b), soft_wrap=False, width=min(lines.width, MOST_COLUMNS))
    if not found.equal:
        raise typer.Exit(WRONG)


def _ignored(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in names:
        tool, dot, argument = each.partition(".")
        if not (tool and dot and argument):
            raise typer.BadParameter(f"{each!r} is not TOOL.ARGUMENT")
        found.setdefault(tool, []).append(argument)
    return found


def _records(store: EventStore, named: str) -> Sequence[StoredRecord]:
    """The stream that is named, up to the point that is named; an id may have an @ itself."""
    try:
        return read_stream(store, existing_session(store, named))
    except (SessionNotFound, InvalidSessionId):
        if (point := _POINT.fullmatch(named)) is None:
            raise
    records = read_stream(store, existing_session(store, point["id"]))
    number = int(point["number"])
    upto = _upto_step(records, number) if point["step"] else number
    if upto is None or not 0 < upto <= len(records):
        raise typer.BadParameter(
            f"session {point['id']!r} has {len(records)} versions and "
            f"{sum(map(_is_answer, records))} steps"
        )
    return records[:upto]


def _upto_step(records: Sequence[StoredRecord], step: int) -> int | None:
    """The version before the next answer after ``step`` of them; None where there are fewer."""
    answers = [record.version for record in records if _is_answer(record)]
    if step > len(answers):
        return None
    return answers[step] - 1 if step < len(answers) else len(records)


def _is_answer(record: StoredRecord) -> bool:
    return record.topic.partition("@")[0] == _ANSWER


def _summary(found: Comparison) -> Iterator[Text]:
    if found.shared:
        yield Text(f"the first {_counted(found.shared, 'event')} are the same, to the byte", "dim")
    if found.equal:
        yield Text(f"no difference in {_counted(len(found.a), 'step')}")
    elif found.diverged_at is None:
        yield Text("the steps are the same", "bold")
    else:
        yield Text(f"they part at step {found.diverged_at}", "bold")
    yield from map(_told, found.drift)


def _told(drift: Drift) -> Text:
    line = Text(f"  step {drift.step}: ", "yellow")
    match drift:
        case ToolOrderDrift(a=a, b=b):
            return line.append(f"tools {_named(a)} | {_named(b)}")
        case ArgumentDrift(tool=tool, argument=argument, a=a, b=b):
            name = printable(f"{tool}.{argument}" if argument else tool)
            return line.append(f"{name} {_value(a)} | {_value(b)}")
        case StepCountDrift(a=a, b=b):
            return line.append(f"{_counted(a, 'step')} | {b}")
        case FinishReasonDrift(a=a, b=b):
            return line.append(f"the turn {_ending(a)} | {_ending(b)}")


def _table(found: Comparison, a: str, b: str) -> Table:
    """The steps from the first that differs."""
    first = min((each.step for each in found.drift), default=found.diverged_at or 0)
    if found.diverged_at is not None:
        first = min(first, found.diverged_at)
    table = Table(show_lines=True)
    for heading in ("step", printable(a), printable(b)):
        table.add_column(Text(heading), overflow="fold")
    pairs = zip_longest(found.a[first:], found.b[first:])
    for number, (one, other) in enumerate(pairs, first):
        table.add_row(str(number), _step(one), _step(other))
    return table


def _step(step: TrajectoryStep | None) -> Text:
    if step is None:
        return Text(_MISSING, "dim")
    lines = [*(printable_lines(step.text) if step.text else [])]
    for each in step.calls:
        lines += [printable(_call(each)), *_result(each)]
    if step.ended:
        lines.append(f"({_ending(step.ended)})")
    return Text("\n".join(lines))


def _call(call: TrajectoryCall) -> str:
    return call_text(ToolCall("", call.name, dict(call.arguments), call.malformed))


def _result(call: TrajectoryCall) -> list[str]:
    if call.result is None:
        return ["  no result yet"]
    return [f"  {call.outcome}: {shortened(content_text(call.result), 200)}"]


def _value(value: Any) -> str:
    return _MISSING if value is UNSET else shortened(quoted(value))


def _named(tools: tuple[str, ...]) -> str:
    return printable(", ".join(tools)) or _MISSING


def _ending(ended: str) -> str:
    return f"ended: {ended}" if ended else "went on"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _fields(found: Comparison) -> dict[str, Any]:
    return {
        "equal": found.equal,
        "diverged_at": found.diverged_at,
        "shared": found.shared,
        "drift": list(found.drift),
        "usage": {"a": found.usage_a, "b": found.usage_b},
        "a": list(found.a),
        "b": list(found.b),
    }
