"""Actors on a few shared threads: who runs when, what a failure reaches, how it all ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pykka
import pytest

from turnstream.actors.dispatcher import Dispatcher, on_worker
from turnstream.actors.mailbox import Envelope
from turnstream.actors.pooled import Crashed, Ending, PooledActor, Unrunnable
from turnstream.events.errors import ActorError

SECONDS = 10
BASE_EXCEPTIONS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


class Caller(PooledActor):
    """Calls what it is sent, and answers with what that returns."""

    def __init__(self) -> None:
        super().__init__()
        self.endings: SimpleQueue[Ending] = SimpleQueue()
        self.on_ended = self.endings.put

    def on_receive(self, message: Callable[[], Any]) -> Any:
        return message()


def raiser(error: BaseException | type[BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    dispatcher = Dispatcher(2)
    yield dispatcher
    assert dispatcher.shutdown(SECONDS)


def begin(dispatcher: Dispatcher, kind: type[Caller] = Caller) -> Caller:
    actor = kind.on(dispatcher)
    actor.begin()
    return actor


def ask(actor: PooledActor, message: Callable[[], Any]) -> Any:
    return actor.actor_ref.ask(message, timeout=SECONDS)


def workers() -> set[Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("turnstream-worker")}


def test_a_question_is_answered(dispatcher: Dispatcher) -> None:
    assert ask(begin(dispatcher), lambda: 42) == 42


def test_idle_actors_take_no_threads(dispatcher: Dispatcher) -> None:
    before = threading.active_count()
    actors = [begin(dispatcher) for _ in range(1000)]
    assert all(ask(actor, lambda: True) for actor in actors)
    assert threading.active_count() == before


def test_an_actor_with_many_messages_lets_others_have_their_turn() -> None:
    dispatcher, order = Dispatcher(1, throughput=4), list[str]()
    blocked, go = Event(), Event()
    hot, cold, gatekeeper = (begin(dispatcher) for _ in range(3))
    gatekeeper.actor_ref.tell(lambda: (blocked.set(), go.wait(SECONDS)))
    assert blocked.wait(SECONDS)
    for _ in range(100):
        hot.actor_ref.tell(lambda: order.append("hot"))
    answered = cold.actor_ref.ask(lambda: order.append("cold"), block=False)
    go.set()
    answered.get(timeout=SECONDS)
    assert dispatcher.shutdown(SECONDS)
    assert order.index("cold") == 4
    assert len(order) == 101


def test_a_handler_that_waits_holds_up_its_worker_only(dispatcher: Dispatcher) -> None:
    go = Event()
    waiting = begin(dispatcher).actor_ref.ask(lambda: go.wait(SECONDS), block=False)
    assert ask(begin(dispatcher), lambda: "handled") == "handled"
    go.set()
    assert waiting.get(timeout=SECONDS)


def test_handlers_can_tell_that_they_run_on_a_worker(dispatcher: Dispatcher) -> None:
    assert ask(begin(dispatcher), on_worker) is True
    assert on_worker() is False


def test_an_actor_nobody_refers_to_still_handles_its_messages(dispatcher: Dispatcher) -> None:
    answers: SimpleQueue[str] = SimpleQueue()
    reference = begin(dispatcher).actor_ref
    gc.collect()
    reference.tell(lambda: answers.put("handled"))
    assert answers.get(timeout=SECONDS) == "handled"


def test_nothing_keeps_an_ended_actor_alive(dispatcher: Dispatcher) -> None:
    gone = Event()
    actor = begin(dispatcher)
    reference = actor.actor_ref
    weakref.finalize(actor, gone.set)
    del actor
    assert reference.stop(timeout=SECONDS)
    assert gone.wait(SECONDS)


def test_only_started_actors_are_in_pykkas_registry(dispatcher: Dispatcher) -> None:
    unregistered = begin(dispatcher)

    class Registered(Caller):
        pass

    Registered.dispatcher = dispatcher
    registered = Registered.start()
    known = pykka.ActorRegistry.get_all()
    assert registered in known
    assert unregistered.actor_ref not in known
    registered.stop(timeout=SECONDS)
    assert registered not in pykka.ActorRegistry.get_all()


@pytest.mark.parametrize("error", BASE_EXCEPTIONS)
def test_a_base_exception_ends_the_actor_that_raised_it_and_no_other(
    dispatcher: Dispatcher, error: type[BaseException]
) -> None:
    class Bystander(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message

    bystander, other, failing = Bystander.start(), begin(dispatcher), begin(dispatcher)
    message = raiser(error)
    failing.actor_ref.tell(message)
    assert failing.endings.get(timeout=SECONDS) == Crashed([], message)
    assert bystander.ask("alive", timeout=SECONDS) == "alive"
    assert all(ask(actor, lambda: True) for actor in (other, begin(dispatcher)))
    bystander.stop(timeout=SECONDS)


@pytest.mark.parametrize("error", BASE_EXCEPTIONS)
def test_who_asked_is_told_of_a_base_exception_and_the_actor_goes_on(
    dispatcher: Dispatcher, error: type[BaseException]
) -> None:
    actor = begin(dispatcher)
    with pytest.raises(ActorError, match=error.__name__) as caught:
        ask(actor, raiser(error))
    assert isinstance(caught.value.__cause__, error)
    assert ask(actor, lambda: True)


@pytest.mark.parametrize("error", [ValueError, *BASE_EXCEPTIONS])
@pytest.mark.parametrize("hook", ["on_start", "on_stop", "on_failure"])
def test_an_error_in_a_hook_ends_that_actor_only(
    dispatcher: Dispatcher, hook: str, error: type[BaseException]
) -> None:
    class Failing(Caller):
        pass

    def fail(self: Caller, *args: object) -> None:
        raise error

    setattr(Failing, hook, fail)
    failing = Failing.on(dispatcher)
    failing.begin()
    match hook:
        case "on_stop":
            failing.stop()
        case "on_failure":
            failing.actor_ref.tell(raiser(RuntimeError))
    ending = failing.endings.get(timeout=SECONDS)
    assert isinstance(ending, Crashed)
    assert not failing.actor_ref.is_alive()
    assert all(ask(begin(dispatcher), lambda: True) for _ in range(4))


def test_what_fails_in_on_stop_is_not_blamed_on_an_earlier_message(
    dispatcher: Dispatcher,
) -> None:
    class Failing(Caller):
        def on_stop(self) -> None:
            raise RuntimeError

    failing = begin(dispatcher, Failing)
    with pytest.raises(ValueError, match="asked"):
        ask(failing, raiser(ValueError("asked")))
    failing.stop()
    assert failing.endings.get(timeout=SECONDS) == Crashed([], None)


def test_a_worker_survives_whatever_is_in_line(dispatcher: Dispatcher) -> None:
    class Wild:
        def run(self, share: int) -> None:
            raise SystemExit

        def refuse(self) -> None: ...

    for _ in range(4):
        dispatcher.execute(Wild())
    assert ask(begin(dispatcher), lambda: True)


def test_shutdown_handles_what_is_in_line_and_ends_the_workers() -> None:
    before, dispatcher, handled = workers(), Dispatcher(2), list[int]()
    actors = [begin(dispatcher) for _ in range(50)]
    for number, actor in enumerate(actors):
        actor.actor_ref.tell(lambda number=number: handled.append(number))
    assert dispatcher.shutdown(SECONDS)
    assert sorted(handled) == list(range(50))
    assert workers() == before


def test_shutdown_waits_for_an_actor_that_has_more_messages_than_its_share() -> None:
    dispatcher, handled = Dispatcher(2, throughput=2), list[int]()
    actor = begin(dispatcher)
    for number in range(100):
        actor.actor_ref.tell(lambda number=number: handled.append(number))
    assert dispatcher.shutdown(SECONDS)
    assert handled == list(range(100))


def test_shutdown_does_not_wait_for_ever_for_an_actor_that_never_ends() -> None:
    dispatcher = Dispatcher(2)
    actor = begin(dispatcher)

    def again() -> None:
        actor.actor_ref.tell(again)

    again()
    dispatcher.shutdown(0.05)
    assert isinstance(actor.endings.get(timeout=SECONDS), Unrunnable)
    assert dispatcher.shutdown(SECONDS)


def test_dispatchers_may_be_shut_down_by_several_at_once() -> None:
    dispatcher, results = Dispatcher(2), SimpleQueue[bool]()
    threads = [Thread(target=lambda: results.put(dispatcher.shutdown(SECONDS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert all(results.get(timeout=SECONDS) for _ in threads)


def test_shutdown_says_that_a_handler_did_not_return_and_its_worker_ends_after_it() -> None:
    dispatcher, entered, go = Dispatcher(2), Event(), Event()
    worker: SimpleQueue[Thread] = SimpleQueue()
    stuck = begin(dispatcher)
    stuck.actor_ref.tell(
        lambda: (worker.put(threading.current_thread()), entered.set(), go.wait(SECONDS))
    )
    assert entered.wait(SECONDS)
    assert not dispatcher.shutdown(0.05)
    for _ in range(3):
        with pytest.raises(pykka.ActorDeadError):
            ask(begin(dispatcher), lambda: True)
    go.set()
    thread = worker.get(timeout=SECONDS)
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_handler_that_shuts_its_dispatcher_down_does_not_wait_for_itself() -> None:
    dispatcher = Dispatcher(2)
    assert ask(begin(dispatcher), lambda: dispatcher.shutdown(SECONDS)) is False
    assert dispatcher.shutdown(SECONDS)


def test_after_shutdown_a_question_is_answered_with_an_error_and_nothing_hangs() -> None:
    dispatcher = Dispatcher(1)
    actor = begin(dispatcher)
    assert ask(actor, lambda: True)
    assert dispatcher.shutdown(SECONDS)
    with pytest.raises(pykka.ActorDeadError):
        ask(actor, lambda: True)
    assert not actor.actor_ref.is_alive()


def test_messages_sent_after_shutdown_are_handed_back() -> None:
    dispatcher = Dispatcher(1)
    actor = begin(dispatcher)
    assert ask(actor, lambda: True)
    assert dispatcher.shutdown(SECONDS)
    letter = Envelope("late", user=True)
    assert actor.actor_inbox.offer(letter)
    assert actor.endings.get(timeout=SECONDS) == Unrunnable([letter])


def test_an_actor_held_over_a_shutdown_ends_when_it_is_released() -> None:
    dispatcher = Dispatcher(1)
    actor = begin(dispatcher)
    ask(actor, actor.actor_inbox.hold)
    letter = Envelope("queued while held", user=True)
    assert actor.actor_inbox.offer(letter)
    assert dispatcher.shutdown(SECONDS)
    assert actor.actor_inbox.release(Envelope("written"))
    assert actor.endings.get(timeout=SECONDS) == Unrunnable([letter])


@pytest.mark.parametrize("_", range(50))
def test_no_question_hangs_where_shutdown_races_with_senders(_: int) -> None:
    dispatcher = Dispatcher(2)
    actors = [begin(dispatcher) for _ in range(4)]
    answers: SimpleQueue[pykka.Future[Any]] = SimpleQueue()

    def send() -> None:
        for number in range(100):
            actor = actors[number % 4]
            answers.put(actor.actor_ref.ask(lambda: True, block=False))

    senders = [Thread(target=send) for _ in range(2)]
    for sender in senders:
        sender.start()
    assert dispatcher.shutdown(SECONDS)
    for sender in senders:
        sender.join(SECONDS)
    for _ in range(200):
        with suppress(pykka.ActorDeadError):
            assert answers.get(timeout=SECONDS).get(timeout=SECONDS)
