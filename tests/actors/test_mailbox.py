"""What a mailbox lets in, what it gives out, and in which order."""

from __future__ import annotations

from collections import deque
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pykka import ActorDeadError, ThreadingFuture

from turnstream.actors.dispatcher import Dispatcher
from turnstream.actors.mailbox import Envelope, Mailbox, Yielded
from turnstream.actors.pooled import Crashed, Ending, PooledActor, Stopped
from turnstream.events.errors import MailboxFull

SECONDS = 10


class ByHand:
    """A line whose only worker is the test."""

    def __init__(self) -> None:
        self.line: deque[PooledActor] = deque()
        self.execute = self.line.append

    def step(self, share: int = 1) -> None:
        self.line.popleft().run(share)

    def run(self) -> None:
        while self.line:
            self.step()


class Recorder(PooledActor):
    """Remembers what it handled. Told "hold", it holds its mailbox; told "crash", it crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.handled: list[Any] = []
        self.endings: list[Ending] = []
        self.on_ended = self.endings.append

    def on_receive(self, message: Any) -> Any:
        self.handled.append(message)
        match message:
            case "hold":
                self.actor_inbox.hold()
            case "hold and crash":
                self.actor_inbox.hold()
                raise ValueError
            case "hold and release":
                self.actor_inbox.hold()
                self.actor_inbox.release(Envelope("released"))
            case "crash":
                raise ValueError
        return message


def begun() -> tuple[Recorder, Mailbox, ByHand]:
    by_hand = ByHand()
    actor: Recorder = Recorder.on(by_hand)  # type: ignore[arg-type]
    actor.begin()
    by_hand.run()
    return actor, actor.actor_inbox, by_hand


def user(message: object) -> Envelope:
    return Envelope(message, user=True)


def test_messages_are_handled_in_the_order_they_came() -> None:
    actor, inbox, line = begun()
    inbox.put(Envelope(1))
    inbox.offer(user(2))
    actor.actor_ref.tell(3)
    line.run()
    assert actor.handled == [1, 2, 3]


def test_an_actor_is_in_line_once_however_many_messages_wait() -> None:
    _, inbox, by_hand = begun()
    for number in range(5):
        inbox.put(Envelope(number))
    assert len(by_hand.line) == 1


def test_an_actor_with_nothing_to_do_is_not_in_line() -> None:
    _, inbox, by_hand = begun()
    inbox.put(Envelope(1))
    by_hand.run()
    assert not by_hand.line


def test_a_user_message_above_the_limit_is_refused_and_not_accepted() -> None:
    actor, inbox, line = begun()
    assert inbox.offer(user(1), limit=2)
    assert inbox.offer(user(2), limit=2)
    with pytest.raises(MailboxFull, match="2 messages"):
        inbox.offer(user(3), limit=2)
    line.run()
    assert actor.handled == [1, 2]


def test_a_full_mailbox_takes_user_messages_again_once_some_were_handled() -> None:
    actor, inbox, line = begun()
    for number in range(2):
        inbox.offer(user(number), limit=2)
    line.step()
    assert inbox.offer(user(2), limit=2)
    line.run()
    assert actor.handled == [0, 1, 2]


def test_completions_are_never_refused_and_do_not_count_against_the_limit() -> None:
    actor, inbox, line = begun()
    for number in range(10):
        inbox.put(Envelope(number))
    assert inbox.offer(user("user"), limit=1)
    inbox.put(Envelope("last"))
    line.run()
    assert actor.handled == [*range(10), "user", "last"]


def test_a_sealed_mailbox_takes_completions_but_no_user_messages() -> None:
    actor, inbox, line = begun()
    assert inbox.seal_if_empty()
    assert not inbox.offer(user("late"))
    inbox.put(Envelope("completion"))
    line.run()
    assert actor.handled == ["completion"]


def test_a_mailbox_with_a_message_inside_is_not_sealed() -> None:
    _, inbox, _ = begun()
    inbox.put(Envelope(1))
    assert not inbox.seal_if_empty()
    assert inbox.offer(user(2))


def test_only_one_seal_succeeds() -> None:
    _, inbox, _ = begun()
    assert [inbox.seal_if_empty(), inbox.seal_if_empty()] == [True, False]


def test_a_closed_mailbox_refuses_messages_and_answers_questions() -> None:
    actor, inbox, line = begun()
    actor.stop()
    line.run()
    question: ThreadingFuture[None] = ThreadingFuture()
    inbox.put(Envelope("question", reply_to=question))
    with pytest.raises(ActorDeadError):
        question.get(timeout=0)
    with pytest.raises(ActorDeadError):
        inbox.put(Envelope("message"))
    assert not inbox.offer(user("message"))


def test_user_messages_behind_a_stop_are_handed_back_in_order_and_others_end_with_it() -> None:
    actor, inbox, line = begun()
    actor.stop()
    question = actor.actor_ref.ask("question", block=False)
    inbox.put(Envelope("completion"))
    inbox.offer(user(1))
    inbox.offer(user(2))
    line.run()
    assert actor.endings == [Stopped([user(1), user(2)])]
    with pytest.raises(ActorDeadError):
        question.get(timeout=0)


def test_an_actor_that_crashes_hands_back_what_it_did_not_look_at_and_names_the_culprit() -> None:
    actor, inbox, line = begun()
    for message in ("fine", "crash", 1, 2):
        inbox.offer(user(message))
    line.run()
    assert actor.endings == [Crashed([user(1), user(2)], "crash")]


def test_a_held_mailbox_queues_messages_and_leaves_the_worker_alone() -> None:
    actor, inbox, by_hand = begun()
    inbox.put(Envelope("hold"))
    inbox.put(Envelope("completion"))
    by_hand.run()
    inbox.offer(user("sent while held"))
    assert not by_hand.line
    assert actor.handled == ["hold"]


def test_what_is_released_is_handled_before_everything_that_waits() -> None:
    actor, inbox, line = begun()
    inbox.put(Envelope("hold"))
    inbox.offer(user(1))
    line.run()
    inbox.put(Envelope(2))
    assert inbox.release(Envelope("released"))
    line.run()
    assert actor.handled == ["hold", "released", 1, 2]


def test_a_hold_may_end_before_the_handler_that_began_it_returns() -> None:
    actor, inbox, line = begun()
    inbox.put(Envelope("hold and release"))
    inbox.put(Envelope("behind"))
    line.run()
    assert actor.handled == ["hold and release", "released", "behind"]
    assert not inbox.held


def test_a_held_mailbox_is_not_sealed() -> None:
    _, inbox, line = begun()
    inbox.put(Envelope("hold"))
    line.run()
    assert inbox.empty()
    assert not inbox.seal_if_empty()
    inbox.release(Envelope("released"))
    line.run()
    assert inbox.seal_if_empty()


def test_a_stop_sent_while_held_is_obeyed_after_the_release() -> None:
    actor, inbox, line = begun()
    inbox.put(Envelope("hold"))
    line.run()
    stopped = actor.actor_ref.stop(block=False)
    inbox.release(Envelope("released"))
    line.run()
    assert stopped.get(timeout=0)
    assert actor.handled == ["hold", "released"]
    assert actor.endings == [Stopped([])]


def test_an_actor_that_crashes_while_it_holds_ends_and_a_release_finds_nobody() -> None:
    actor, inbox, line = begun()
    inbox.offer(user("hold and crash"))
    inbox.offer(user("behind"))
    question = actor.actor_ref.ask("question", block=False)
    line.run()
    with pytest.raises(ActorDeadError):
        question.get(timeout=0)
    assert actor.endings == [Crashed([user("behind")], "hold and crash")]
    assert not inbox.release(Envelope("released"))
    assert not line.line


def test_a_mailbox_is_held_once_at_a_time_and_released_once() -> None:
    _, inbox, line = begun()
    inbox.put(Envelope("hold"))
    line.run()
    with pytest.raises(AssertionError, match="held already"):
        inbox.hold()
    inbox.release(Envelope("released"))
    with pytest.raises(AssertionError, match="not held"):
        inbox.release(Envelope("again"))


def test_get_never_waits() -> None:
    inbox = Mailbox()
    inbox.allow(1)
    with pytest.raises(Yielded):
        inbox.get()


STEPS = st.lists(
    st.sampled_from(["put", "offer", "hold", "hold and release", "release", "step", "share"]),
    max_size=60,
)


@given(STEPS)
def test_whatever_is_sent_held_and_released_the_order_is_kept_and_nobody_is_forgotten(
    steps: list[str],
) -> None:
    actor, inbox, by_hand = begun()
    waiting: deque[Any] = deque()
    expected: list[Any] = []
    held = False

    def handle(share: int) -> None:
        nonlocal held
        while waiting and not held and share:
            share -= 1
            expected.append(waiting.popleft())
            if expected[-1] == "hold":
                held = True
            if expected[-1] == "hold and release":
                waiting.appendleft("released")

    for number, step in enumerate(steps):
        match step:
            case "put" | "hold" | "hold and release":
                message = number if step == "put" else step
                inbox.put(Envelope(message))
                waiting.append(message)
            case "offer":
                assert inbox.offer(user(number))
                waiting.append(number)
            case "release" if held:
                assert inbox.release(Envelope("released"))
                waiting.appendleft("released")
                held = False
            case "step" | "share" if by_hand.line:
                share = 1 if step == "step" else 5
                by_hand.step(share)
                handle(share)
        assert actor.handled == expected
        assert len(by_hand.line) == bool(waiting and not held)


class Appender(PooledActor):
    """Holds its mailbox for each message, as for a durable append, until it was written."""

    def __init__(self, store: SimpleQueue[Any], total: int) -> None:
        super().__init__()
        self.store, self.total = store, total
        self.handled: list[Any] = []
        self.done = Event()

    def on_receive(self, message: Any) -> None:
        self.handled.append(message)
        if message[0] == "written":
            if len(self.handled) == 2 * self.total:
                self.done.set()
        else:
            self.actor_inbox.hold()
            self.store.put((self.actor_inbox, message))


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_no_message_is_lost_or_seen_early_where_holds_race_with_senders_and_writers() -> None:
    dispatcher, store = Dispatcher(4, throughput=3), SimpleQueue[Any]()
    senders, each, actors = 4, 1000, []
    for _ in range(5):
        actors.append(Appender.on(dispatcher, store, senders * each))
        actors[-1].begin()

    def send(sender: int) -> None:
        for number in range(each):
            for actor in actors:
                actor.actor_inbox.offer(user((sender, number)))

    def write() -> None:
        while (job := store.get()) is not None:
            inbox, message = job
            assert inbox.release(Envelope(("written", message)))

    writers = [Thread(target=write) for _ in range(2)]
    threads = [Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in [*writers, *threads]:
        thread.start()
    assert all(actor.done.wait(SECONDS) for actor in actors)
    for _ in writers:
        store.put(None)
    for thread in [*writers, *threads]:
        thread.join(SECONDS)
    assert dispatcher.shutdown(SECONDS)
    for actor in actors:
        sent, written = actor.handled[::2], actor.handled[1::2]
        assert written == [("written", message) for message in sent]
        for sender in range(senders):
            assert [number for who, number in sent if who == sender] == list(range(each))
