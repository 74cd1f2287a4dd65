"""What the machine of sessions chooses from. Nothing depends on what a session came to, so that
one run can be repeated whatever its threads do."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st
from lives import Settings
from outfits import WHOLE, Outfit

from turnstream.events import Policy

Calls: TypeAlias = list[tuple[str, str]]
Work: TypeAlias = list[tuple[int, Calls]]

POLICIES: st.SearchStrategy[Policy] = st.sampled_from(["wait", "queue", "steer"])
STATES = st.none() | st.integers(0, 9) | st.lists(st.sampled_from("ab"), max_size=2)
KEYS = st.sampled_from(["", "", "k", "l"])
WHICH = st.integers(0, 5)
TOOLS = st.sampled_from(
    ["work", "fetch", "work", "fetch", "nowhere", "transfer_to_other", "transfer_to_agent"]
)
CALLS = st.lists(st.tuples(TOOLS, st.sampled_from("ab")), max_size=4)
WORK = st.lists(st.tuples(WHICH, CALLS), min_size=1, max_size=5)
SETTINGS = st.builds(
    Settings,
    st.sampled_from(["stream", "stream", "async", "sync"]),
    st.sampled_from([2, 4, 32]),
    st.sampled_from([None, None, 12]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["keep", "keep", "drop"]),
)
BURSTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("wait", "queue", "steer", "go on", "go on", "go on"),
                *("withdraw", "abort", "stop", "discard", "resume", "change"),
            ]
        ),
        WHICH,
    ),
    min_size=2,
    max_size=6,
)
WRITING = st.sampled_from(["goes on", "goes on", "is held up", "is lost", "is done unseen"])
ENDS = st.sampled_from(["dies", "is drained", "is closed at once", "is taken over"])
# What a caller of a live process may be told; any other error is one too many.
ERRORS = {
    "",
    "input-conflict",
    "model-failed",
    "model-stream-ended",
    "nothing-unfinished",
    "turn-withdrawn",
}

# What may be decided, by whom, and on what.
HOWS = st.sampled_from(["approve", "approve", "approve", "reject", "edit", "misfit"])
DOORS = st.sampled_from(["session", "system", "elsewhere"])
DECISIONS = st.lists(st.tuples(HOWS, DOORS), min_size=2, max_size=3)
GATED_TOOLS = st.sampled_from(["gate", "guarded", "timed", "overdue", "risky", "gate", "work"])
GATED_CALLS = st.lists(
    st.tuples(st.one_of(GATED_TOOLS, GATED_TOOLS, TOOLS), st.sampled_from("ab")),
    min_size=1,
    max_size=4,
)
QUESTIONS = st.lists(st.tuples(GATED_CALLS, HOWS, DOORS, WHICH), min_size=1, max_size=3)
DECIDING_SETTINGS = st.builds(
    Settings,
    st.sampled_from(["stream", "async", "sync"]),
    st.sampled_from([4, 32]),
    st.none(),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["keep", "keep", "drop"]),
    st.sampled_from([None, None, None, 3]),
    st.sampled_from([None, None, None, 40]),
)
DECIDING_BURSTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("wait", "queue", "steer", "go on", "go on", "ask", "ask", "resume"),
                *("approve", "approve", "reject", "edit", "elsewhere", "abort", "stop", "discard"),
            ]
        ),
        WHICH,
    ),
    min_size=2,
    max_size=6,
)
OUTFITS = st.builds(
    Outfit,
    st.one_of(
        st.just(WHOLE.tools),
        st.just((*WHOLE.tools, "added")),
        st.sampled_from(WHOLE.tools).map(lambda gone: tuple(t for t in WHOLE.tools if t != gone)),
    ),
    st.sampled_from(["", "", "Be brief."]),
    st.sampled_from(["warn", "error", "ignore"]),
)
NO_IDS = st.sampled_from(
    ["s/turn-99.1.1", "nowhere/turn-1.1.1", "s/", "nonsense", "", "s/turn-1.1.1.99"]
)
DECIDING_ERRORS = ERRORS | {
    "agent-drifted",
    "approval-decided",
    "approval-not-found",
    "arguments-refused",
    "session-awaiting-approval",
}
