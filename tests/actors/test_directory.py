"""Actors by id: one activation at a time, nothing lost between two, crashes bounded."""

from __future__ import annotations

import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, ClassVar

import pytest

from turnstream.actors.directory import Directory
from turnstream.actors.dispatcher import Dispatcher
from turnstream.actors.mailbox import Envelope
from turnstream.actors.pooled import PooledActor
from turnstream.events.errors import MailboxFull, SystemClosed

SECONDS = 10
LEAVE = object()


class Session(PooledActor):
    """Notes what it handles; a message that can be called is called with the actor. Told to
    leave, it does if it can."""

    def __init__(self, id: str, world: World) -> None:
        super().__init__()
        self.id, self.world = id, world
        self.world.activations.append(id)

    def on_start(self) -> None:
        self.world.on_start(self)

    def on_receive(self, message: Any) -> None:
        if message is LEAVE:
            self.world.directory.passivate(self)
        elif callable(message):
            message(self)
        else:
            self.world.handled.put((self.id, message))

    def on_stop(self) -> None:
        self.world.on_stop(self)


class World:
    """A directory of sessions and all that happened in it."""

    def __init__(self, dispatcher: Dispatcher, kind: type[Session] = Session, **options: Any):
        self.activations: list[str] = []
        self.handled: SimpleQueue[Any] = SimpleQueue()
        self.dead_letters: SimpleQueue[Any] = SimpleQueue()
        self.crashed_on: SimpleQueue[Any] = SimpleQueue()
        self.on_start: Callable[[Session], object] = lambda session: None
        self.on_stop: Callable[[Session], object] = lambda session: None
        reports = {
            "on_dead_letters": lambda *report: self.dead_letters.put(report),
            "on_crash": lambda *report: self.crashed_on.put(report),
        }
        self.directory: Directory[str] = Directory(
            lambda name: kind.on(dispatcher, name, self), **{**reports, **options}
        )
        self.tell = self.directory.tell

    def next(self) -> Any:
        return self.handled.get(timeout=SECONDS)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    dispatcher = Dispatcher(4, throughput=8)
    yield dispatcher
    assert dispatcher.shutdown(SECONDS)


@pytest.fixture
def world(dispatcher: Dispatcher) -> World:
    return World(dispatcher)


@pytest.fixture
def without_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def crash(session: Session) -> None:
    raise ValueError("crash")


def leave(session: Session) -> None:
    assert session.world.directory.passivate(session)


class Pause:
    """Holds an actor up in a handler or hook, until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go = Event(), Event()

    def __call__(self, session: Session) -> None:
        self.reached.set()
        assert self.go.wait(SECONDS)


def test_a_message_activates_the_actor_of_its_id_and_the_next_one_finds_it(world: World) -> None:
    for message in (1, 2):
        world.tell("a", message)
    assert [world.next(), world.next()] == [("a", 1), ("a", 2)]
    assert world.activations == ["a"]
    assert world.directory.live() == ["a"]


def test_an_actor_that_left_is_activated_again_by_the_next_message(world: World) -> None:
    for message in (1, 2):
        world.tell("a", message)
        world.tell("a", leave)
        assert world.next() == ("a", message)
        assert world.directory.join(SECONDS)
    assert world.activations == ["a", "a"]


def test_an_actor_with_a_message_waiting_can_not_leave(world: World) -> None:
    pause, left = Pause(), list[bool]()

    def try_to_leave(session: Session) -> None:
        pause(session)
        left.append(world.directory.passivate(session))

    world.tell("a", try_to_leave)
    assert pause.reached.wait(SECONDS)
    world.tell("a", "waiting")
    pause.go.set()
    assert world.next() == ("a", "waiting")
    assert left == [False]
    assert world.activations == ["a"]


def test_an_actor_that_waits_for_a_release_can_not_leave(world: World) -> None:
    def try_to_leave(session: Session) -> None:
        session.actor_inbox.hold()
        left = world.directory.passivate(session)
        session.actor_inbox.release(Envelope(("left", left)))

    world.tell("a", try_to_leave)
    assert world.next() == ("a", ("left", False))


def test_messages_for_an_actor_that_is_leaving_go_to_the_next_one_in_order(world: World) -> None:
    world.on_stop = pause = Pause()
    world.tell("a", leave)
    assert pause.reached.wait(SECONDS)
    for message in range(5):
        world.tell("a", message)
    assert world.activations == ["a"]
    pause.go.set()
    assert [world.next() for _ in range(5)] == [("a", message) for message in range(5)]
    assert world.activations == ["a", "a"]


def test_messages_for_an_actor_that_is_leaving_are_bounded_too(dispatcher: Dispatcher) -> None:
    world = World(dispatcher, limit=2)
    world.on_stop = pause = Pause()
    world.tell("a", leave)
    assert pause.reached.wait(SECONDS)
    world.tell("a", 1)
    world.tell("a", 2)
    with pytest.raises(MailboxFull):
        world.tell("a", 3)
    pause.go.set()
    assert [world.next(), world.next()] == [("a", 1), ("a", 2)]


def test_a_full_mailbox_refuses_user_messages_but_no_control_messages(
    dispatcher: Dispatcher,
) -> None:
    world, pause = World(dispatcher, limit=1), Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    world.tell("a", "last that fits")
    with pytest.raises(MailboxFull):
        world.tell("a", "too many")
    assert world.directory.put("a", "control")
    pause.go.set()
    assert [world.next(), world.next()] == [("a", "last that fits"), ("a", "control")]


def test_a_control_message_activates_nobody(world: World) -> None:
    assert not world.directory.put("a", "control")
    assert world.activations == []


def test_a_control_message_left_over_when_an_actor_leaves_is_no_crash(
    dispatcher: Dispatcher,
) -> None:
    world = World(dispatcher, max_restarts=0)

    def leave_with_a_control_message_behind(session: Session) -> None:
        leave(session)
        assert world.directory.put("a", "control")

    for _ in range(3):
        world.tell("a", leave_with_a_control_message_behind)
        assert world.directory.join(SECONDS)
    assert world.activations == ["a"] * 3
    assert world.dead_letters.empty()
    assert world.handled.empty()


def test_an_actor_may_be_gone_before_begin_returns(dispatcher: Dispatcher) -> None:
    class Quick(Session):
        def begin(self) -> None:
            super().begin()
            assert self.world.directory.join(SECONDS)

    world = World(dispatcher, Quick)
    for _ in range(3):
        world.tell("a", leave)
    assert world.directory.join(SECONDS)
    assert world.activations == ["a"] * 3
    assert world.dead_letters.empty()


def test_the_message_an_actor_crashes_on_is_dropped_and_reported_and_the_rest_is_handled(
    world: World,
) -> None:
    pause = Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    world.tell("a", 1)
    world.tell("a", crash)
    world.tell("a", 2)
    world.tell("a", 3)
    pause.go.set()
    assert [world.next() for _ in range(3)] == [("a", 1), ("a", 2), ("a", 3)]
    assert world.crashed_on.get(timeout=SECONDS) == ("a", crash)
    assert world.activations == ["a", "a"]


def test_what_is_sent_between_a_crash_and_the_restart_comes_after_what_waited(
    dispatcher: Dispatcher,
) -> None:
    world, pause = World(dispatcher, on_crash=lambda *report: world.tell("a", 2)), Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    world.tell("a", crash)
    world.tell("a", 1)
    pause.go.set()
    assert [world.next(), world.next()] == [("a", 1), ("a", 2)]


def test_an_actor_that_crashes_with_nothing_waiting_is_not_started_again(world: World) -> None:
    world.tell("a", crash)
    assert world.directory.join(SECONDS)
    assert world.activations == ["a"]
    world.tell("a", 1)
    assert world.next() == ("a", 1)


def test_after_a_few_restarts_what_waits_becomes_dead_letters(world: World) -> None:
    pause = Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    for _ in range(4):
        world.tell("a", crash)
    world.tell("a", 1)
    world.tell("a", 2)
    pause.go.set()
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [1, 2])
    assert world.directory.join(SECONDS)
    assert world.activations == ["a"] * 4


def test_an_actor_that_can_not_start_is_tried_a_few_times(world: World) -> None:
    world.on_start = crash
    world.tell("a", 1)
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [1])
    assert world.directory.join(SECONDS)
    assert world.activations == ["a"] * 4
    assert world.crashed_on.empty()


def test_an_id_given_up_is_tried_once_for_each_new_message_and_others_are_not_concerned(
    world: World,
) -> None:
    world.on_start = lambda session: session.id == "a" and crash(session)
    world.tell("a", 1)
    world.dead_letters.get(timeout=SECONDS)
    world.tell("a", 2)
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [2])
    assert world.activations == ["a"] * 5
    world.tell("b", 3)
    assert world.next() == ("b", 3)


def test_restarts_are_bounded_in_frequency_not_in_number(dispatcher: Dispatcher) -> None:
    world, pause = World(dispatcher, within_seconds=0), Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    for _ in range(10):
        world.tell("a", crash)
    world.tell("a", 1)
    pause.go.set()
    assert world.next() == ("a", 1)
    assert world.dead_letters.empty()


def test_an_actor_that_can_not_be_made_fails_the_one_who_wanted_it_and_leaves_no_trace(
    dispatcher: Dispatcher,
) -> None:
    class Unmakeable(Session):
        def __init__(self, id: str, world: World) -> None:
            raise OSError("no")

    world = World(dispatcher, Unmakeable)
    with pytest.raises(OSError, match="no"):
        world.tell("a", 1)
    assert world.directory.live() == []


def test_an_actor_that_can_not_be_made_again_turns_what_waits_into_dead_letters(
    dispatcher: Dispatcher,
) -> None:
    class Once(Session):
        def __init__(self, id: str, world: World) -> None:
            if world.activations:
                raise OSError("no")
            super().__init__(id, world)

    world, pause = World(dispatcher, Once), Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    world.tell("a", crash)
    world.tell("a", 1)
    pause.go.set()
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [1])
    assert world.directory.join(SECONDS)


def test_a_callback_that_raises_does_not_block_the_id(dispatcher: Dispatcher) -> None:
    def fail(id: str, what: object) -> None:
        raise RuntimeError

    world = World(dispatcher, on_crash=fail, on_dead_letters=fail, max_restarts=0)
    pause = Pause()
    world.tell("a", pause)
    assert pause.reached.wait(SECONDS)
    world.tell("a", crash)
    world.tell("a", "dead letter")
    pause.go.set()
    assert world.directory.join(SECONDS)
    world.tell("a", 1)
    assert world.next() == ("a", 1)


def test_a_sweep_speaks_to_idle_actors_only(world: World) -> None:
    pause, held, left = Pause(), SimpleQueue[Session](), SimpleQueue[str]()
    world.on_stop = lambda session: left.put(session.id)

    def hold(session: Session) -> None:
        session.actor_inbox.hold()
        held.put(session)

    world.tell("busy", pause)
    world.tell("held", hold)
    world.tell("idle", 1)
    assert pause.reached.wait(SECONDS)
    world.tell("busy", "waiting")
    holding = held.get(timeout=SECONDS)
    assert world.next() == ("idle", 1)
    assert world.directory.sweep(3600, LEAVE) == 0
    assert world.directory.sweep(0, LEAVE) == 1
    assert left.get(timeout=SECONDS) == "idle"
    pause.go.set()
    holding.actor_inbox.release(Envelope("released"))
    assert sorted([world.next(), world.next()]) == [("busy", "waiting"), ("held", "released")]
    assert left.empty()


def test_a_sweep_passes_by_an_actor_that_has_just_ended(dispatcher: Dispatcher) -> None:
    swept: SimpleQueue[object] = SimpleQueue()

    def look(id: str, message: object) -> None:
        swept.put((world.directory.live(), world.directory.sweep(0, LEAVE)))

    world = World(dispatcher, on_crash=look)
    world.tell("a", crash)
    assert swept.get(timeout=SECONDS) == (["a"], 0)
    assert world.directory.join(SECONDS)


def test_a_closing_directory_starts_nobody_but_serves_who_is_there(world: World) -> None:
    world.tell("a", 1)
    assert world.next() == ("a", 1)
    world.directory.closing = True
    with pytest.raises(SystemClosed):
        world.tell("b", 1)
    world.tell("a", 2)
    assert world.next() == ("a", 2)
    assert world.activations == ["a"]


def test_messages_a_closing_directory_can_not_hand_on_become_dead_letters(world: World) -> None:
    world.on_stop = pause = Pause()
    world.tell("a", leave)
    assert pause.reached.wait(SECONDS)
    world.tell("a", 1)
    world.directory.closing = True
    pause.go.set()
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [1])
    assert world.directory.join(SECONDS)


def test_once_a_directory_is_closing_its_live_actors_are_all_there_will_be(
    dispatcher: Dispatcher,
) -> None:
    pause = Pause()

    class Slow(Session):
        def __init__(self, id: str, world: World) -> None:
            super().__init__(id, world)
            pause(self)

    world = World(dispatcher, Slow)
    telling = Thread(target=world.tell, args=("a", 1))
    telling.start()
    assert pause.reached.wait(SECONDS)
    live: SimpleQueue[list[str]] = SimpleQueue()

    def close() -> None:
        world.directory.closing = True
        live.put(world.directory.live())

    closing = Thread(target=close)
    closing.start()
    pause.go.set()
    assert live.get(timeout=SECONDS) == ["a"]
    for thread in (telling, closing):
        thread.join(SECONDS)


def test_join_gives_up_after_its_time(world: World) -> None:
    world.tell("a", 1)
    assert world.next() == ("a", 1)
    assert not world.directory.join(0.01)


def test_nobody_waits_for_an_answer_of_a_directory_whose_dispatcher_was_shut_down() -> None:
    dispatcher = Dispatcher(1)
    world = World(dispatcher)
    assert dispatcher.shutdown(SECONDS)
    world.tell("a", 1)
    assert world.dead_letters.get(timeout=SECONDS) == ("a", [1])
    assert world.directory.live() == []


SENDERS, IDS, MESSAGES = 8, 40, 100_000
MOST_SECONDS = 40
IN_FLIGHT = 40  # so few that mailboxes are mostly empty, and actors find the time to leave


class Witness(Session):
    """Leaves at random, and notes whether it ever was not alone."""

    active: ClassVar[dict[str, Session | None]] = {}
    allowed: ClassVar[SimpleQueue[None]] = SimpleQueue()
    overlapping = left = 0
    lock = Lock()

    def on_start(self) -> None:
        with self.lock:
            Witness.overlapping += self.active.get(self.id) is not None
            self.active[self.id] = self
        super().on_start()

    def on_receive(self, message: Any) -> None:
        super().on_receive(message)
        if message is not LEAVE:
            self.allowed.put(None)
        if random.random() < 0.2 and self.world.directory.passivate(self):
            with self.lock:
                Witness.left += 1

    def on_stop(self) -> None:
        self.gone()

    def on_failure(self, *exception: Any, **named: Any) -> None:
        self.gone()

    def gone(self) -> None:
        with self.lock:
            Witness.overlapping += self.active.get(self.id) is not self
            self.active[self.id] = None


def storm(world: World) -> None:
    """Send from all sides while actors come and go, until all have left."""
    Witness.active, Witness.overlapping, Witness.left = {}, 0, 0
    Witness.allowed = SimpleQueue()
    for _ in range(IN_FLIGHT):
        Witness.allowed.put(None)

    def send(sender: int) -> None:
        for number in range(MESSAGES // SENDERS):
            Witness.allowed.get(timeout=MOST_SECONDS)  # in vain where a message was lost
            world.tell(f"s{(number * 7 + sender) % IDS}", (sender, number))

    senders = [Thread(target=send, args=(sender,), daemon=True) for sender in range(SENDERS)]
    for each in senders:
        each.start()
    while any(each.is_alive() for each in senders) or not world.directory.join(0.001):
        world.directory.sweep(0, LEAVE)


def received(world: World) -> dict[tuple[str, int], list[int]]:
    """The numbers that came, by id and sender."""
    numbers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    while not world.handled.empty():
        name, (sender, number) = world.handled.get()
        numbers[name, sender].append(number)
    return numbers


def sent(*, but_for: Callable[[int], bool] = lambda number: False) -> dict[Any, list[int]]:
    numbers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for sender in range(SENDERS):
        for number in range(MESSAGES // SENDERS):
            if not but_for(number):
                numbers[f"s{(number * 7 + sender) % IDS}", sender].append(number)
    return numbers


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_no_message_is_lost_doubled_or_out_of_order_where_passivation_races_with_senders(
    dispatcher: Dispatcher,
) -> None:
    world = World(dispatcher, Witness)
    storm(world)
    assert received(world) == sent()
    assert Witness.overlapping == 0
    assert Witness.left > 1000
    assert world.dead_letters.empty()


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often", "without_logs")
def test_only_the_messages_that_crash_their_handler_are_missing_and_they_are_reported(
    dispatcher: Dispatcher,
) -> None:
    def crashes(number: int) -> bool:
        return number % 100 == 0

    class Fragile(Witness):
        def on_receive(self, message: Any) -> None:
            if message is not LEAVE and crashes(message[1]):
                self.allowed.put(None)
                raise ValueError
            super().on_receive(message)

    world = World(dispatcher, Fragile, max_restarts=MESSAGES)
    storm(world)
    assert received(world) == sent(but_for=crashes)
    assert Witness.overlapping == 0
    assert world.dead_letters.empty()
    reported = Counter()
    while not world.crashed_on.empty():
        reported[world.crashed_on.get()[1]] += 1
    assert set(reported.values()) == {1}
    assert len(reported) == MESSAGES // 100
