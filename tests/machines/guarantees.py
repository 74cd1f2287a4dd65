"""What holds for the stream of every session, however it was lived.

Each function takes the events of a stream from the first on, up to any event that was the last
of its append, and raises ``AssertionError`` where they break the guarantee. None of them looks
at anything else, so that they can judge a stream of whatever store, and of a dead process.
"""

from __future__ import annotations

from collections.abc import Sequence

from decisions import (
    decisions_are_taken_once_and_obeyed,
    nothing_happens_at_a_pause,
    the_inbox_is_what_was_asked,
)
from msgspec import Struct
from spending import budgets_are_kept
from streams import Recorded, ends, flaw, history, turns

from turnstream.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    Owner,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from turnstream.projections import (
    INITIAL,
    TRANSITIONS,
    Phase,
    evolve,
    fold,
)


def judge_stream(recorded: Recorded) -> None:
    """Everything that holds for a stream by itself, but for what takes time in its square."""
    turns_follow_one_another(recorded)
    every_call_has_one_result(recorded)
    every_step_is_recorded_once(recorded)
    inputs_are_used_once_in_order(recorded)
    inputs_join_at_the_first_safe_point(recorded)
    steers_are_taken_in_at_once(recorded)
    keys_name_one_input(recorded)
    transcripts_are_valid(recorded)
    turns_have_one_owner(recorded)
    budgets_are_kept(recorded)
    decisions_are_taken_once_and_obeyed(recorded)
    nothing_happens_at_a_pause(recorded)
    the_inbox_is_what_was_asked(recorded)


def turns_follow_one_another(recorded: Recorded) -> None:
    """One turn is open at a time, nothing happens in a turn that is not, and what happens is in
    the table of legal transitions."""
    used: set[str] = set()
    for before, event, _ in history(recorded):
        assert type(event) in TRANSITIONS[before.phase], f"{event} in {before.phase}"
        turn_id = getattr(event, "turn_id", "")
        match event:
            case TurnStarted():
                assert before.turn is None and turn_id not in used
                used.add(turn_id)
            case _ if turn_id:
                assert before.turn is not None and before.turn.turn_id == turn_id, event


def every_call_has_one_result(recorded: Recorded) -> None:
    """G1. A call has one result at most, and has it when the turn goes on or ends; it is started
    before it runs, once an attempt, and never again once it has its result."""
    for events in turns(recorded).values():
        open_calls: dict[str, int] = {}
        seen, running = set[str](), set[str]()
        for event in events:
            match event:
                case ModelTurnRecorded(tool_calls=calls):
                    assert not open_calls, "the model answered while calls lacked results"
                    open_calls = dict.fromkeys([call.id for call in calls], 0)
                    assert len(open_calls) == len(calls) and not seen & open_calls.keys()
                    seen |= open_calls.keys()
                case ToolCallStarted(call_id=call_id, attempt=attempt):
                    assert open_calls.get(call_id) == attempt - 1, event
                    open_calls[call_id] = attempt
                    running.add(call_id)
                case TurnResumed():
                    running.clear()
                case ToolResultRecorded(call_id=call_id, outcome=outcome):
                    assert call_id in open_calls, "a result without a call that lacks one"
                    attempt = open_calls.pop(call_id)
                    running.discard(call_id)
                    assert attempt or outcome != "cancelled", "it never ran"
                    assert not attempt or outcome != "skipped", "it ran"
                case InputApplied():
                    assert not open_calls, "an input came between a call and its result"
                case TurnAborted(kept=True):
                    assert not running, "a call runs on after the abort"
                case _ if ends(event):
                    assert not open_calls, "a turn ended with calls that lack results"


def every_step_is_recorded_once(recorded: Recorded) -> None:
    """G2. The model turns of a turn are its steps 1, 2, 3, ..."""
    for events in turns(recorded).values():
        steps = [event.step for event in events if isinstance(event, ModelTurnRecorded)]
        assert steps == list(range(1, len(steps) + 1))


def results_are_in_order_of_completion(
    recorded: Recorded, completed: Sequence[tuple[str, str]]
) -> None:
    """G3. The calls (turn and id) named in ``completed`` have their results in that order."""
    results = [(e.turn_id, e.call_id) for e in recorded if isinstance(e, ToolResultRecorded)]
    told = set(completed)
    assert [each for each in results if each in told] == list(completed)


class Waiting(Struct):
    """An input that was accepted, when, and the turn it may join ("": none)."""

    policy: str
    turn_id: str
    place: int


class Queue:
    """The inputs that wait, in order, by the rules for inputs alone; it knows no other state."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.known: set[str] = set()
        self.doomed: set[str] = set()
        self.turn_id = ""

    @property
    def joining(self) -> list[str]:
        """Those accepted for the open turn."""
        return [
            input_id
            for input_id, each in self.waiting.items()
            if self.turn_id and each.turn_id == self.turn_id and each.policy != "wait"
        ]

    @property
    def joinable(self) -> list[str]:
        """The same, and those that they would overtake otherwise."""
        last = self.waiting[self.joining[-1]].place if self.joining else -1
        policies = {i: each.policy for i, each in self.waiting.items() if each.place <= last}
        return [i for i, policy in policies.items() if policy != "wait"]

    def take(self, place: int, event: AnyEvent) -> None:
        match event:
            case InputQueued(input_id=input_id, policy=policy):
                assert input_id not in self.known, "an input was accepted twice"
                self.known.add(input_id)
                self.waiting[input_id] = Waiting(policy, self.turn_id, place)
            case InputWithdrawn(input_id=input_id):
                assert input_id in self.waiting, "an input was taken back that did not wait"
                del self.waiting[input_id]
                self.doomed.discard(input_id)
            case InputApplied(input_id=input_id, turn_id=turn_id):
                assert turn_id == self.turn_id
                assert input_id == next(iter(self.joinable), ""), "not the first that may join"
                del self.waiting[input_id]
            case TurnStarted(input_ids=input_ids):
                assert not self.doomed, "an input outlived the turn that it was dropped with"
                assert input_ids == (next(iter(self.waiting), ""),), "not the first that waits"
                del self.waiting[input_ids[0]]
                self.turn_id = event.turn_id
            case TurnFailed(kept=False):
                self.doomed, self.turn_id = set(self.joining), ""
            case _ if ends(event):
                self.turn_id = ""


def inputs_are_used_once_in_order(recorded: Recorded) -> None:
    """G4. Each accepted input starts a turn, joins one, is taken back, or waits; which comes next
    is a matter of the order of acceptance. A dropped failed turn takes along what would have
    joined it."""
    queue = Queue()
    for place, event in enumerate(recorded):
        queue.take(place, event)
    assert not queue.doomed, "an input outlived the turn that it was dropped with"


def inputs_join_at_the_first_safe_point(recorded: Recorded) -> None:
    """When the model answers, no input waits to join that was there when it was asked."""
    queue, asked_at = Queue(), 0
    for place, event in enumerate(recorded):
        match event:
            case TurnStarted() | TurnResumed() | ToolResultRecorded() | InputApplied():
                asked_at = place
            case ModelCallDiscarded(reason=reason) if reason != "aborted":
                asked_at = place
            case ModelTurnRecorded():
                late = [each for each in queue.joining if queue.waiting[each].place < asked_at]
                assert not late, "the model was asked without an input that was to join"
        queue.take(place, event)


def steers_are_taken_in_at_once(recorded: Recorded) -> None:
    """No call is begun while a steer waits to join, but for those that were approved; and a model
    call that was thrown away for one stands between its acceptance and its use."""
    queue, approved = Queue(), approved_calls(recorded)
    for place, event in enumerate(recorded):
        match event:
            case ToolCallStarted(attempt=1) if (event.turn_id, event.call_id) not in approved:
                steers = [i for i in queue.joining if queue.waiting[i].policy == "steer"]
                assert not steers, "a call was begun although a steer waited"
            case ModelCallDiscarded(reason="steered"):
                steer, applied = recorded[place - 1], recorded[place + 1 : place + 2]
                assert isinstance(steer, InputQueued) and steer.policy == "steer"
                assert applied and isinstance(applied[0], InputApplied)
            case ModelCallDiscarded(reason="aborted"):
                stopped = recorded[place + 1 : place + 2]
                assert stopped and isinstance(stopped[0], TurnAborted)
        queue.take(place, event)


def approved_calls(recorded: Recorded) -> set[tuple[str, str]]:
    """The calls (turn and id) that somebody approved."""
    asked = {e.approval_id: e for e in recorded if isinstance(e, ApprovalRequested)}
    decided = [e for e in recorded if isinstance(e, ApprovalResolved) and e.decision == "approved"]
    calls = [asked[each.approval_id] for each in decided if each.approval_id in asked]
    return {(each.turn_id, each.call_id) for each in calls}


def keyed(recorded: Recorded) -> dict[str, InputQueued]:
    """The input that each key names. Those of inputs that were taken back, and of turns that
    failed and were dropped, name none."""
    names: dict[str, InputQueued] = {}
    mine: list[str] = []
    for event in recorded:
        freed: list[str] = []
        match event:
            case InputQueued(key=key) if key:
                names[key] = event
            case InputWithdrawn(input_id=input_id):
                freed = [input_id]
            case TurnStarted(input_ids=input_ids):
                mine = list(input_ids)
            case InputApplied(input_id=input_id):
                mine.append(input_id)
            case TurnFailed(kept=False):
                freed = mine
        names = {key: each for key, each in names.items() if each.input_id not in freed}
    return names


def keys_name_one_input(recorded: Recorded) -> None:
    """A key is not given to a second input while it names one."""
    for place, event in enumerate(recorded):
        if isinstance(event, InputQueued) and event.key:
            assert event.key not in keyed(recorded[:place])


def transcripts_are_valid(recorded: Recorded) -> None:
    """G5. What a model may be asked with, and what has ended, is a conversation that providers
    accept; a turn that was dropped leaves the conversation as it was."""
    conversation = INITIAL.conversation
    for before, event, after in history(recorded):
        assert not after.unfolded, event
        if ends(event) or after.phase is Phase.MODEL is not before.phase:
            assert not flaw(after.transcript), flaw(after.transcript)
        if ends(event):
            if not isinstance(event, TurnFinished):
                assert after.transcript == conversation
            conversation = after.transcript


def turns_have_one_owner(recorded: Recorded) -> None:
    """G6. A turn that was neither halted nor paused goes over to younger nodes only."""
    owner: Owner | None = None
    for before, event, _ in history(recorded):
        match event:
            case TurnStarted() | TurnResumed():
                younger = owner is None or event.owner.generation >= owner.generation
                assert younger or before.phase is Phase.PAUSED
                owner = event.owner
            case TurnFinished() | TurnFailed() | TurnAborted():
                owner = None


def every_split_folds_alike(recorded: Recorded) -> None:
    """G7. In one go, or up to some event and on from there."""
    whole, state = fold(recorded), INITIAL
    for place, event in enumerate(recorded):
        assert fold(recorded[place:], state) == whole
        state = evolve(state, event)
    assert state == whole
