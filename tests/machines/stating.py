"""A session whose application's state is changed meanwhile."""

from __future__ import annotations

from typing import Any

from choices import STATES
from hypothesis.stateful import rule
from sessions import SessionMachine

from turnstream.events import SessionStarted, StateChanged


class StatingMachine(SessionMachine):
    """The session, and one who changes its state."""

    @rule(value=STATES)
    def change_the_state(self, value: Any) -> None:
        """It is one event, which begins and disturbs nothing, whatever the session does."""
        self.life.settle()
        before, stands_still = self.recorded, not self.ticks()
        answer = self.life.ask(self.life.session.set_state(value), "change")
        self.life.settle()
        assert answer == [True] and self.state.application == value
        added = self.recorded[len(before) :]
        changes = [each for each in added if isinstance(each, StateChanged)]
        assert len(changes) == 1
        if stands_still:
            begun = [] if before else [SessionStarted]
            assert [type(each) for each in added] == [*begun, StateChanged]
