"""Runs of a journal in runs: each takes its own steps, and they are found again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import recorded_run, steps

from turnstream import Journal, JournalRun


def test_equal_nested_runs_take_their_steps_each_for_themselves_and_replay_them() -> None:
    done: list[str] = []
    crash = [False, True]

    def member(run: JournalRun, task: str) -> str:
        run.step("act", done.append, task)
        run.step("act", done.append, task)
        return task

    def team(run: JournalRun) -> list[str]:
        told = [run.run("member", member, "a"), run.run("member", member, "a")]
        run.step("tell", done.append, "told")
        if crash.pop():
            raise ConnectionError
        return told

    with Journal("memory://") as journal:
        with pytest.raises(ConnectionError):
            journal.run("r", team)
        assert done == ["a", "a", "a", "a", "told"]
        assert journal.run("r", team) == ["a", "a"]
    assert done == ["a", "a", "a", "a", "told"]


def test_a_nested_run_that_raised_is_tried_again_with_the_steps_it_took() -> None:
    done: list[str] = []
    fails = [False, True]

    def member(run: JournalRun) -> str:
        run.step("act", done.append, "acted")
        if fails.pop():
            raise ConnectionError
        return "done"

    def team(run: JournalRun) -> Any:
        with pytest.raises(ConnectionError):
            run.run("member", member)
        return run.run("member", member)

    with Journal("memory://") as journal:
        assert journal.run("r", team) == "done"
    assert done == ["acted"]


names = st.text("ab/#1-", min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, st.booleans()), min_size=2, max_size=4))
def test_no_names_of_nested_runs_can_stand_for_each_other(plan: list[tuple[str, bool]]) -> None:
    scopes: list[str] = []

    def walk(run: JournalRun, left: list[Any]) -> None:
        run.step("s", lambda: 1)
        if left:
            (name, deeper), *rest = left
            run.run(name, walk, rest if deeper else [])
            if not deeper:
                walk(run, rest)

    records, _ = recorded_run(lambda run: walk(run, list(plan)))
    taken = [(each.scope, each.position, each.key) for each in steps(records)]
    scopes = [each.scope for each in steps(records)]
    assert len(taken) == len(set(taken))
    assert len(set(scopes)) == len(plan) + 1
