"""Calls whose process was lost while they ran: nobody knows how far they came."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import NOT_DONE, ActorSystem, Agent, Session, ToolContext, Turn, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    Approval,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    SessionAwaitingApproval,
    StoreError,
    StoreUnavailable,
    ToolMessage,
    ToolResultRecorded,
)
from turnstream.stores import Append, Appended, EventStore

WAIT = 20
CHARGE = call("charge", id="c", amount=7)


class Doomed:
    """A real store that takes so many results and then nothing more: what its process does after
    that is lost, and the calls it still runs are in doubt for the next one."""

    def __init__(self, store: Any, takes: int) -> None:
        self._store, self._takes, self._lost = store, takes, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        results = sum(each.topic == "tool_result_recorded" for each in append.events)
        self._lost = self._lost or results > self._takes
        self._takes -= results
        if self._lost:
            done(StoreUnavailable("the power is gone"))
        else:
            self._store.submit(append, done)


class Shop:
    """Takes money with a tool, and keeps a receipt of each time that it ran. Its processes come
    and go on one store."""

    def __init__(self, store: EventStore | str) -> None:
        self._store, self._systems = store, list[ActorSystem]()
        self.receipts: list[tuple[int, int]] = []
        self.keys: list[str] = []
        self.looked: list[int] = []
        self.concurrency = 8
        self.charging()

    def charging(self, **options: Any) -> None:
        """Charge with a tool of these options from now on."""
        self.tool = tool(name="charge", **options)(self.charge)

    def charge(self, context: ToolContext, amount: int) -> str:
        """Charge the customer."""
        self.receipts.append((amount, context.attempt))
        self.keys.append(context.idempotency_key)
        return f"charged {amount}"

    def look(self, context: ToolContext, amount: int) -> str:
        """Find the receipt."""
        self.looked.append(context.attempt)
        return "a receipt"

    def opened(self, *script: Any, takes: int | None = None, id: str = "s") -> Session:
        """A session in a new process."""
        model = ScriptedModel(script)
        agent = Agent("agent", model=model, tools=[self.tool], tool_concurrency=self.concurrency)
        store: Any = self._store if takes is None else Doomed(self._store, takes)
        self._systems.append(ActorSystem(agent, store=store, lease=0))
        return self._systems[-1].session(id)

    def lose(self, *script: Any, takes: int = 0) -> None:
        """Run or resume a turn in a process that is lost when the next result is to be kept."""
        session = self.opened(*script, takes=takes)
        with pytest.raises(StoreUnavailable):
            (session.resume() or session.send("go")).result(WAIT)
        self.close()

    def close(self) -> None:
        while self._systems:
            self._systems.pop().close()


@pytest.fixture
def shop(opened: EventStore) -> Iterator[Shop]:
    with closing(Shop(opened)) as shop:
        yield shop


def resumed(session: Session) -> Any:
    turn = session.resume()
    assert turn is not None
    return turn.result(WAIT)


def shown(session: Session) -> list[tuple[str, Any]]:
    """The results as the model reads them."""
    return [(m.outcome, m.content) for m in session.messages if isinstance(m, ToolMessage)]


def recorded(session: Session) -> Any:
    """What is kept of the one result."""
    events = [each.event for each in session.events()]
    (content,) = [each.content for each in events if isinstance(each, ToolResultRecorded)]
    return content


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_in_doubt_runs_again_until_it_has_a_result(shop: Shop, times: int) -> None:
    for script in [[[CHARGE]], [], []][:times]:
        shop.lose(*script)
    session = shop.opened("done")

    assert resumed(session).text == "done"
    assert shown(session) == [("ok", "charged 7")]
    assert shop.receipts == [(7, attempt) for attempt in range(1, times + 2)]
    assert len(set(shop.keys)) == 1


def test_only_the_call_without_a_result_is_in_doubt(shop: Shop) -> None:
    shop.concurrency = 1
    shop.lose([call("charge", amount=n) for n in (1, 2, 3)], takes=1)
    session = shop.opened("done")
    resumed(session)

    assert shown(session) == [("ok", f"charged {n}") for n in (1, 2, 3)]
    assert shop.receipts == [(1, 1), (2, 1), (2, 2), (3, 1)]


def test_a_call_that_must_not_run_twice_has_an_error_instead(shop: Shop) -> None:
    shop.charging(on_crash="fail", reconcile=shop.look)
    shop.concurrency = 1
    shop.lose([call("charge", amount=n) for n in (1, 2)])
    session = shop.opened("done")

    assert resumed(session).text == "done"
    (outcome, told), second = shown(session)
    assert outcome == "error" and "may not have taken effect" in told
    assert second == ("ok", "charged 2")
    assert (shop.receipts, shop.looked) == ([(1, 1), (2, 1)], [])


Doubt = tuple[Session, Turn, Approval]


@pytest.fixture
def doubt(shop: Shop) -> Doubt:
    """A session paused with a question about a charge in doubt."""
    shop.charging(on_crash="ask")
    shop.lose([CHARGE])
    session = shop.opened("done")
    turn = session.resume()
    assert turn is not None
    (approval,) = turn.result(WAIT).approvals
    return session, turn, approval


def test_a_call_in_doubt_that_asks_pauses_the_turn(shop: Shop, doubt: Doubt) -> None:
    session, _, approval = doubt

    assert session.status == "awaiting-approval"
    assert (approval.reason, approval.call_id) == ("in-doubt", "c")
    assert (approval.tool, approval.arguments) == ("charge", {"amount": 7})
    with pytest.raises(SessionAwaitingApproval):
        session.send("and now?").result(WAIT)
    assert shop.receipts == [(7, 1)]


@pytest.mark.parametrize(("edited", "amount"), [(None, 7), ({"amount": 3}, 3)])
def test_approved_it_runs_as_the_next_attempt_with_the_same_key(
    shop: Shop, doubt: Doubt, edited: dict[str, int] | None, amount: int
) -> None:
    session, _, approval = doubt

    assert session.approve(approval.id, arguments=edited).result(WAIT).text == "done"
    assert shown(session) == [("ok", f"charged {amount}")]
    assert shop.receipts == [(7, 1), (amount, 2)]
    assert len(set(shop.keys)) == 1


def test_rejected_the_model_reads_that_it_may_have_run(shop: Shop, doubt: Doubt) -> None:
    session, _, approval = doubt

    assert session.reject(approval.id, note="refund first").result(WAIT).text == "done"
    assert [outcome for outcome, _ in shown(session)] == ["rejected"]
    told = {"error": "rejected", "note": "refund first", "may_have_run": True}
    assert recorded(session) == told
    assert shop.receipts == [(7, 1)]


def test_stopped_and_kept_it_is_asked_about_again(shop: Shop, doubt: Doubt) -> None:
    session, turn, approval = doubt
    assert turn.abort(keep=True).result(WAIT) is True
    (again,) = resumed(session).approvals
    assert again.reason == "in-doubt" and again.id != approval.id
    session.reject(again.id).result(WAIT)

    assert recorded(session)["may_have_run"] is True
    assert shop.receipts == [(7, 1)]


def test_with_its_turn_dropped_nobody_is_asked_any_more(shop: Shop, doubt: Doubt) -> None:
    session, _, approval = doubt
    assert session.discard_pending().result(WAIT) is True

    assert session.pending() is None and session.status == "idle"
    events = [each.event for each in session.events()]
    withdrawn = [each.approval_id for each in events if isinstance(each, ApprovalWithdrawn)]
    assert withdrawn == [approval.id]
    with pytest.raises(ApprovalDecided):
        session.approve(approval.id).result(WAIT)
    assert shop.receipts == [(7, 1)]


def test_the_question_outlives_the_process_that_asked_it(shop: Shop, doubt: Doubt) -> None:
    *_, approval = doubt
    shop.close()
    session = shop.opened("done")
    pending = session.pending()

    assert pending is not None and pending.approvals == (approval,)
    assert session.approve(approval.id).result(WAIT).text == "done"
    assert shop.receipts == [(7, 1), (7, 2)]


def test_lost_again_once_approved_it_is_asked_about_again(shop: Shop, doubt: Doubt) -> None:
    *_, approval = doubt
    shop.close()
    with pytest.raises(StoreUnavailable):
        shop.opened(takes=0).approve(approval.id).result(WAIT)
    session = shop.opened("done")
    (again,) = resumed(session).approvals
    assert again.reason == "in-doubt" and again.id != approval.id
    session.approve(again.id).result(WAIT)

    assert shop.receipts == [(7, 1), (7, 2), (7, 3)]


def test_without_a_decision_in_time_the_model_reads_that_it_may_have_run(shop: Shop) -> None:
    shop.charging(on_crash="ask", approval_timeout=1e-6)
    shop.lose([CHARGE])
    session = shop.opened("done", "and on")
    resumed(session)
    session.send("well?").result(WAIT)

    assert (recorded(session)["error"], recorded(session)["may_have_run"]) == ("expired", True)
    assert shop.receipts == [(7, 1)]


def test_each_call_in_doubt_of_a_batch_has_its_own_decision(shop: Shop) -> None:
    shop.charging(on_crash="ask")
    shop.lose([call("charge", amount=n) for n in (1, 2)])
    shop.receipts.clear()
    session = shop.opened("done")
    one, two = resumed(session).approvals

    assert session.approve(two.id).result(WAIT).finish_reason == "awaiting-approval"
    assert session.reject(one.id).result(WAIT).text == "done"
    assert [outcome for outcome, _ in shown(session)] == ["rejected", "ok"]
    assert shop.receipts == [(2, 2)]


def test_a_call_that_was_approved_once_runs_again_without_another_question(shop: Shop) -> None:
    shop.charging(needs_approval=True)
    doomed = shop.opened([CHARGE], takes=0)
    (approval,) = doomed.send("go").result(WAIT).approvals
    with pytest.raises(StoreUnavailable):
        doomed.approve(approval.id).result(WAIT)
    session = shop.opened("done")

    assert resumed(session).text == "done"
    assert sum(isinstance(each.event, ApprovalRequested) for each in session.events()) == 1
    assert shop.receipts == [(7, 1), (7, 2)]


@pytest.mark.parametrize("found", ["a receipt", None, NOT_DONE])
@pytest.mark.parametrize("kind", ["sync", "async", "sync for an async tool"])
def test_what_reconcile_finds_is_the_result(shop: Shop, kind: str, found: Any) -> None:
    looked = []

    def look(context: ToolContext, amount: int) -> Any:
        looked.append((amount, context.attempt, context.idempotency_key))
        return found

    async def look_async(context: ToolContext, amount: int) -> Any:
        return look(context, amount)

    async def charge(context: ToolContext, amount: int) -> str:
        return shop.charge(context, amount)

    reconcile = look_async if kind == "async" else look
    runs = shop.charge if kind == "sync" else charge
    shop.tool = tool(name="charge", reconcile=reconcile)(runs)
    shop.lose([CHARGE])
    assert looked == []
    session = shop.opened("done")

    assert resumed(session).text == "done"
    assert recorded(session) == ("charged 7" if found is NOT_DONE else found)
    assert shop.receipts == ([(7, 1), (7, 2)] if found is NOT_DONE else [(7, 1)])
    assert looked == [(7, 2, shop.keys[0])]


def test_a_reconcile_that_raises_fails_its_call_and_the_tool_does_not_run(shop: Shop) -> None:
    def look(context: ToolContext, amount: int) -> str:
        raise ConnectionError("the bank is closed")

    shop.charging(reconcile=look)
    shop.lose([CHARGE])
    session = shop.opened("done")

    assert resumed(session).text == "done"
    assert shown(session) == [("error", "ConnectionError: the bank is closed")]
    assert shop.receipts == [(7, 1)]


def test_a_process_lost_while_it_reconciles_leaves_the_call_in_doubt(shop: Shop) -> None:
    shop.charging(reconcile=shop.look)
    shop.lose([CHARGE])
    shop.lose()
    session = shop.opened("done")
    resumed(session)

    assert shown(session) == [("ok", "a receipt")]
    assert (shop.receipts, shop.looked) == ([(7, 1)], [2, 3])


def test_an_approved_call_in_doubt_is_reconciled_before_it_runs(shop: Shop) -> None:
    shop.charging(on_crash="ask", reconcile=shop.look)
    shop.lose([CHARGE])
    session = shop.opened("done")
    (approval,) = resumed(session).approvals
    assert shop.looked == []
    session.approve(approval.id).result(WAIT)

    assert shown(session) == [("ok", "a receipt")]
    assert (shop.receipts, shop.looked) == ([(7, 1)], [2])


def test_no_two_calls_share_a_key_whatever_turn_or_session_they_are_of(shop: Shop) -> None:
    for session_id in ("s", "s", "t"):
        session = shop.opened([CHARGE, CHARGE], [CHARGE], "done", id=session_id)
        session.send("go").result(WAIT)

    assert len(shop.keys) == len(set(shop.keys)) == 9


CHARGE_AND_DIE = """
import os, signal, sys
from turnstream.actors import ActorSystem, Agent, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call

@tool
def charge(context: ToolContext, amount: int) -> str:
    print(context.attempt, context.idempotency_key, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

model = ScriptedModel([[call("charge", id="c", amount=7)]])
session = ActorSystem(Agent("agent", model=model, tools=[charge]), store=sys.argv[1]).session("s")
(session.resume() or session.send("go")).result(20)
"""


def charge_and_die(address: str) -> list[str]:
    """The attempt and the key of a charge in a process that is killed while it runs."""
    command = [sys.executable, "-c", CHARGE_AND_DIE, address]
    child = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    return child.stdout.split()


@pytest.mark.slow
@on_durable_stores
def test_a_killed_process_leaves_a_call_that_runs_again_with_its_key(address: str) -> None:
    killed = [charge_and_die(address) for _ in range(2)]
    with closing(Shop(address)) as shop:
        assert resumed(shop.opened("done")).text == "done"

    (key,) = shop.keys
    assert killed == [["1", key], ["2", key]]
    assert shop.receipts == [(7, 3)]
