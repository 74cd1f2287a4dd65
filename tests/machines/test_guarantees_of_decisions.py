"""What judges decisions, budgets and changed agents can tell a broken stream from a sound one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from decisions import (
    decisions_are_taken_once_and_obeyed,
    drifts_are_noted,
    gated_calls_run_when_approved,
    nothing_happens_at_a_pause,
    the_inbox_is_what_was_asked,
)
from guarantees import judge_stream, steers_are_taken_in_at_once, turns_have_one_owner
from msgspec.structs import replace
from spending import budgets_are_kept
from witnessed import Asked, Failed, Paused, Ran, Shown, digest, judge_witnesses, openings

from turnstream.events import (
    AgentConfigured,
    AgentDriftDetected,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    Budget,
    InputApplied,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    Usage,
)
from turnstream.projections import fold

START = datetime(2026, 1, 1, tzinfo=UTC)
AT = [START + timedelta(seconds=seconds) for seconds in range(20)]
TURN, OLD, YOUNG = "turn-1", Owner(2, "old"), Owner(3, "young")
FIRST, SECOND, THIRD, FOURTH = (f"s/{TURN}.1.{slot}" for slot in (1, 2, 3, 4))
DOUBT = f"{FIRST}.2"
CALLS = tuple(ToolCall(name, "gate", {"text": name}) for name in "abcd")
USED = Usage(1, 1)
SOUND: tuple[AnyEvent, ...] = (
    SessionStarted(at=AT[0], agent="agent"),
    InputQueued(at=AT[0], input_id="i1", content="one"),
    AgentConfigured(at=AT[0], name="agent", model="m", fingerprint="x"),
    TurnStarted(
        at=AT[0],
        turn_id=TURN,
        input_ids=("i1",),
        agent="agent",
        budget=Budget(4, tool_calls=4, session_tokens=9),
        owner=OLD,
        fingerprint="x",
    ),
    ModelTurnRecorded(at=AT[1], turn_id=TURN, step=1, tool_calls=CALLS, usage=USED),
    ApprovalRequested(at=AT[1], approval_id=FIRST, turn_id=TURN, call_id="a"),
    ApprovalRequested(at=AT[1], approval_id=SECOND, turn_id=TURN, call_id="b"),
    ApprovalRequested(
        at=AT[1], approval_id=THIRD, turn_id=TURN, call_id="c", expires_at=AT[3], on_expiry="reject"
    ),
    ApprovalRequested(at=AT[1], approval_id=FOURTH, turn_id=TURN, call_id="d"),
    ApprovalResolved(at=AT[2], approval_id=FIRST, decision="approved", arguments={"text": "e"}),
    ToolCallStarted(at=AT[2], turn_id=TURN, call_id="a"),
    ApprovalWithdrawn(at=AT[3], approval_id=THIRD, reason="expired"),
    ToolResultRecorded(at=AT[3], turn_id=TURN, call_id="c", outcome="rejected"),
    AgentDriftDetected(
        at=AT[4], turn_id=TURN, recorded="x", current="y", changes=("tool added: t",)
    ),
    AgentConfigured(at=AT[4], name="agent", model="m", fingerprint="y"),
    TurnResumed(at=AT[4], turn_id=TURN, owner=YOUNG, fingerprint="y"),
    ApprovalRequested(at=AT[4], approval_id=DOUBT, turn_id=TURN, call_id="a", reason="in-doubt"),
    ApprovalResolved(at=AT[5], approval_id=SECOND, decision="rejected"),
    ToolResultRecorded(at=AT[5], turn_id=TURN, call_id="b", outcome="rejected"),
    ApprovalResolved(at=AT[6], approval_id=DOUBT, decision="approved"),
    ToolCallStarted(at=AT[6], turn_id=TURN, call_id="a", attempt=2),
    ToolResultRecorded(at=AT[7], turn_id=TURN, call_id="a"),
    ApprovalResolved(at=AT[8], approval_id=FOURTH, decision="approved"),
    ToolCallStarted(at=AT[8], turn_id=TURN, call_id="d"),
    ToolResultRecorded(at=AT[9], turn_id=TURN, call_id="d"),
    ModelTurnRecorded(at=AT[9], turn_id=TURN, step=2, text="done", usage=USED),
    TurnFinished(at=AT[9], turn_id=TURN),
)
(BEGAN, ANSWER, ASKED, BATCH, YES, RUN, EXPIRED, DRIFT, RESUMED, DOUBTED, NO, NO_RESULT, AGAIN) = (
    *(3, 4, 5, 8, 9, 10, 11, 13, 15, 16, 17, 18, 19),
)
RERUN, LAST_RUN, END = 20, 23, 26
MODES = {2: "warn", 3: "error"}
Judge = Callable[[list[AnyEvent]], None]


def without(*places: int) -> list[AnyEvent]:
    return [each for place, each in enumerate(SOUND) if place not in places]


def with_event(place: int, *events: AnyEvent) -> list[AnyEvent]:
    return [*SOUND[:place], *events, *SOUND[place:]]


def changed(place: int, **changes: object) -> list[AnyEvent]:
    return [*SOUND[:place], replace(SOUND[place], **changes), *SOUND[place + 1 :]]  # type: ignore[type-var]


def gated(recorded: list[AnyEvent]) -> None:
    gated_calls_run_when_approved(recorded, {"gate"}, {"gate"})


def drifts(recorded: list[AnyEvent]) -> None:
    drifts_are_noted(recorded, MODES)


def budgeted(**limits: int) -> list[AnyEvent]:
    return changed(BEGAN, budget=Budget(4, **limits))


once, paused = decisions_are_taken_once_and_obeyed, nothing_happens_at_a_pause
STEER = InputQueued(at=AT[1], input_id="i2", content="two", policy="steer")
BROKEN: dict[str, tuple[Judge, list[AnyEvent]]] = {
    "a start before the decision": (once, without(YES)),
    "a gated call that nobody asked about": (gated, without(ASKED, YES)),
    "a start after a rejection": (once, changed(YES, decision="rejected")),
    "a second start for one approval": (once, with_event(RUN, SOUND[RUN])),
    "a run in doubt that nobody approved": (gated, without(DOUBTED, AGAIN)),
    "a start while a question in doubt waits": (once, without(AGAIN)),
    "a decision on nothing": (once, without(ASKED)),
    "a second decision": (once, with_event(YES, SOUND[YES])),
    "a decision after the end of the question": (
        once,
        with_event(DRIFT, ApprovalResolved(at=AT[3], approval_id=THIRD, decision="approved")),
    ),
    "a question that ends twice": (once, with_event(DRIFT, SOUND[EXPIRED])),
    "two questions with one id": (once, changed(DOUBTED, approval_id=FIRST)),
    "an id of another call": (once, changed(ASKED, approval_id=f"s/{TURN}.1.9")),
    "a question in doubt about a call that was not lost": (
        once,
        changed(ASKED, reason="in-doubt"),
    ),
    "a rejected call without its result": (once, without(NO_RESULT)),
    "a rejected call that went well": (once, changed(NO_RESULT, outcome="ok")),
    "an approved call that was rejected": (once, changed(24, outcome="rejected")),
    "a result while a question waits": (
        once,
        with_event(YES, ToolResultRecorded(at=AT[1], turn_id=TURN, call_id="a", outcome="skipped")),
    ),
    "an expiry before its time": (once, changed(EXPIRED, at=AT[2])),
    "an expiry of what is to be kept": (once, changed(7, on_expiry="keep")),
    "a question that outlives its turn": (
        once,
        [*SOUND[:YES], TurnAborted(at=AT[2], turn_id=TURN, kept=True)],
    ),
    "a start without a decision after a stop": (
        once,
        [
            *SOUND[:YES],
            *[ApprovalWithdrawn(at=AT[2], approval_id=i) for i in (FIRST, SECOND, THIRD, FOURTH)],
            SOUND[RUN],
        ],
    ),
    "an input at a pause": (paused, with_event(YES, replace(STEER, at=AT[2]))),
    "a result at a pause": (
        paused,
        with_event(YES, ToolResultRecorded(at=AT[2], turn_id=TURN, call_id="d")),
    ),
    "a model that answers at a pause": (paused, with_event(YES, replace(SOUND[25], at=AT[2]))),
    "a pause resumed for nothing": (
        paused,
        [*SOUND[:YES], TurnResumed(at=AT[2], turn_id=TURN, owner=YOUNG)],
    ),
    "a pause resumed for something else": (
        paused,
        with_event(YES, TurnResumed(at=AT[2], turn_id=TURN, owner=YOUNG), SOUND[RUN]),
    ),
    "a call begun at a pause": (
        paused,
        [
            *SOUND[:ASKED],
            SOUND[ASKED],
            ToolCallStarted(at=AT[2], turn_id=TURN, call_id="d"),
        ],
    ),
    "a drift that was not noted": (drifts, without(DRIFT)),
    "a drift that was none": (drifts, changed(RESUMED, fingerprint="x")),
    "a drift of another agent": (drifts, changed(DRIFT, current="z")),
    "a drift without a change": (drifts, changed(DRIFT, changes=())),
    "a breaking drift that is an error": (drifts, changed(DRIFT, changes=("model",))),
    "a drift, and nobody goes on": (drifts, without(RESUMED)),
    "a call run beyond the budget": (budgets_are_kept, budgeted(tool_calls=3)),
    "the model asked with too many calls": (
        budgets_are_kept,
        [*SOUND[:BEGAN], *budgeted(tool_calls=3)[BEGAN:ASKED], SOUND[25]],
    ),
    "the model asked beyond the session's tokens": (budgets_are_kept, budgeted(session_tokens=2)),
    "an input that joins beyond them": (
        budgets_are_kept,
        [
            *budgeted(session_tokens=2)[:ASKED],
            InputApplied(at=AT[2], turn_id=TURN, input_id="i2"),
        ],
    ),
    "an end for a budget that is not used up": (
        budgets_are_kept,
        changed(END, finish_reason="budget"),
    ),
    "an end for a time that did not pass": (
        budgets_are_kept,
        [*budgeted(seconds=10)[:END], replace(SOUND[END], finish_reason="budget")],
    ),
    "an older owner of what is not paused": (
        turns_have_one_owner,
        with_event(LAST_RUN + 1, TurnResumed(at=AT[8], turn_id=TURN, owner=OLD)),
    ),
    "a call begun unapproved although steered": (
        steers_are_taken_in_at_once,
        [
            *SOUND[:ASKED],
            STEER,
            ToolCallStarted(at=AT[1], turn_id=TURN, call_id="a"),
        ],
    ),
}


def test_a_sound_stream_is_sound_at_the_end_of_every_append() -> None:
    ends = [place for place, each in enumerate(SOUND, 1) if SOUND[place : place + 1]]
    for length in [n for n in ends if SOUND[n - 1].at != SOUND[n].at] + [len(SOUND)]:
        judge_stream(SOUND[:length])
        gated(list(SOUND[:length]))
        drifts(list(SOUND[:length]))


def test_a_paused_turn_may_go_on_at_an_older_node() -> None:
    paused_at = NO_RESULT + 1
    resumed = TurnResumed(at=AT[6], turn_id=TURN, owner=OLD)
    turns_have_one_owner(with_event(paused_at, resumed))
    turns_have_one_owner(SOUND)


def test_an_approved_call_may_begin_although_steered() -> None:
    steers_are_taken_in_at_once([*SOUND[:YES], STEER, *SOUND[YES : RUN + 1]])


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_stream_is_found_out(what: str) -> None:
    judge, stream = BROKEN[what]
    with pytest.raises(AssertionError):
        judge(stream)


def test_an_inbox_that_is_not_what_was_asked_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    the_inbox_is_what_was_asked(SOUND[:YES])
    monkeypatch.setattr("decisions.fold", lambda recorded: fold(recorded[:-1]))
    with pytest.raises(AssertionError):
        the_inbox_is_what_was_asked(SOUND[:YES])


FIRST_ASKED, SECOND_ASKED = (
    Asked(each.generation, each.version, TURN, each.step, each.request, "", calls)
    for each, calls in zip(
        [openings(SOUND)[0], openings(SOUND)[-1]],
        [(), (("a", "e"), ("b", "b"), ("c", "c"), ("d", "d"))],
        strict=True,
    )
)
FIRST_RUN = Ran(2, RUN + 1, TURN, "a", 1, "key-a", "e")
SECOND_RUN = Ran(3, RERUN + 1, TURN, "a", 2, "key-a", "e")
OTHER_RUN = Ran(3, LAST_RUN + 1, TURN, "d", 1, "key-d", "d")
AT_THE_PAUSE = fold(SOUND[:YES])
SHOWN = Paused(
    YES, "i1", TURN, digest(AT_THE_PAUSE.transcript), 1, USED, (FIRST, SECOND, THIRD, FOURTH)
)
LIES = {
    "a tool that got what was proposed": [replace(FIRST_RUN, text="a")],
    "a tool that got another's edit": [replace(OTHER_RUN, text="e")],
    "a model shown what was proposed": [
        replace(SECOND_ASKED, calls=(("a", "a"), *SECOND_ASKED.calls[1:]))
    ],
    "a key that changes": [FIRST_RUN, replace(SECOND_RUN, key="key-b")],
    "a key for two calls": [FIRST_RUN, replace(OTHER_RUN, key="key-a")],
    "a pause told too early": [replace(SHOWN, seen=BATCH)],
    "a pause for other decisions": [replace(SHOWN, approvals=(FIRST,))],
    "a pause with another conversation": [replace(SHOWN, conversation="other")],
    "a pause of another's turn": [replace(SHOWN, input_id="i9")],
    "a question shown too early": [Shown(ASKED, ASKED + 1, "approval.requested")],
    "a refusal for a question that was not asked": [
        Failed(ASKED, "i1", "", "session-awaiting-approval")
    ],
}


def test_what_was_seen_and_is_so_is_believed() -> None:
    judge_witnesses(SOUND, [FIRST_ASKED, SECOND_ASKED, FIRST_RUN, SECOND_RUN, OTHER_RUN])
    judge_witnesses(SOUND, [SHOWN, Shown(ASKED + 1, ASKED + 1, "approval.requested")])
    judge_witnesses(SOUND, [Failed(ASKED + 1, "i1", "", "session-awaiting-approval")])


@pytest.mark.parametrize("lie", LIES)
def test_what_nobody_can_have_seen_is_found_out(lie: str) -> None:
    with pytest.raises(AssertionError):
        judge_witnesses(SOUND, LIES[lie])
