"""What the machine of sessions chooses from. Nothing depends on what a session came to, so that
one run can be repeated whatever its threads do."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st
from lives import Settings

from turnstream.events import Policy

Calls: TypeAlias = list[tuple[str, str]]
Work: TypeAlias = list[tuple[int, Calls]]

POLICIES: st.SearchStrategy[Policy] = st.sampled_from(["wait", "queue", "steer"])
KEYS = st.sampled_from(["", "", "k", "l"])
WHICH = st.integers(0, 5)
TOOLS = st.sampled_from(["work", "fetch", "work", "fetch", "nowhere"])
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
                *("withdraw", "abort", "stop", "discard", "resume"),
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
