"""Trimming makes old results shorter, and nothing else of the conversation different."""

from __future__ import annotations

import pytest
from histories import NOON, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.events import (
    AnyEvent,
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResultsTrimmed,
)
from turnstream.projections import check_transcript, fold
from turnstream.projections.trimming import shortened

marks = st.sampled_from(
    [
        "[7 more characters were trimmed]",
        f"[{'9' * 5000} more characters were trimmed]",
        "[٣ more characters were trimmed]",
        "[a.pdf (application/pdf, 9000 bytes) was trimmed]",
    ]
)
long_texts = st.builds(lambda text, times, mark: text * times + mark, st.text(max_size=9),
                       st.integers(0, 80), st.one_of(st.just(""), marks))  # fmt: skip
blobs = st.integers(1, 300).map(bytes)
parts = st.one_of(
    long_texts.map(TextPart),
    st.builds(lambda data: ImagePart(data=data), blobs),
    st.builds(lambda name, data: FilePart(name, data=data), long_texts, blobs),
    st.just(FilePart("a.pdf", url="https://example.org/a.pdf")),
)
contents: st.SearchStrategy[Content] = st.one_of(
    long_texts, st.lists(parts, min_size=1, max_size=4).map(tuple)
)
limits = st.one_of(st.integers(0, 60), st.integers(0))


def size(content: Content) -> int:
    """Characters and bytes of a result."""
    if isinstance(content, str):
        return len(content)
    return sum(len(each.text) if isinstance(each, TextPart) else len(each.data) for each in content)


@pytest.mark.slow
@given(contents, limits)
@settings(max_examples=500)
def test_a_result_gets_shorter_or_stays_the_very_same(content: Content, keep: int) -> None:
    message = ToolMessage("c1", "f", content, "error")
    short = shortened(message, keep)
    assert (short.call_id, short.name, short.outcome) == ("c1", "f", "error")
    assert short is message or size(short.content) < size(content)
    if not isinstance(content, str):
        assert isinstance(short.content, tuple) and len(short.content) == len(content)


@pytest.mark.slow
@given(contents, limits, limits)
@settings(max_examples=500)
def test_trimming_again_changes_nothing_unless_less_is_to_be_kept(
    content: Content, keep: int, other: int
) -> None:
    once = shortened(ToolMessage("c1", "f", content), keep)
    assert shortened(once, keep) is once
    assert shortened(once, max(keep, other)) is once


@given(st.text(min_size=100, max_size=400), st.integers(0, 40), st.integers(0, 40))
def test_what_is_trimmed_in_two_steps_says_how_much_is_missing_of_all(
    text: str, keep: int, fewer: int
) -> None:
    keep, fewer = max(keep, fewer), min(keep, fewer)
    twice = shortened(shortened(ToolMessage("c1", "f", text), keep), fewer)
    once = shortened(ToolMessage("c1", "f", text), fewer)
    assert once.content == f"{text[:fewer]}[{len(text) - fewer} more characters were trimmed]"
    if len(once.content) < len(f"{text[:keep]}[{len(text) - keep} more characters were trimmed]"):
        assert twice == once


def test_a_marker_is_never_longer_than_what_it_stands_for() -> None:
    for length in range(60):
        short = shortened(ToolMessage("c1", "f", "x" * length), 20)
        assert len(short.content) <= length
        assert (len(short.content) < length) == (length > 53)


def test_an_image_becomes_a_note_and_an_address_stays() -> None:
    content = (ImagePart(data=bytes(5000)), ImagePart(url="https://example.org/a.png"))
    short = shortened(ToolMessage("c1", "f", content), 100)
    assert short.content == (
        TextPart("[an image (image/png, 5000 bytes) was trimmed]"),
        ImagePart(url="https://example.org/a.png"),
    )


LENGTHS = (0, 1, 399, 400, 401, 430, 450, 1000, 4000, 5000)


def ten_turns() -> list[AnyEvent]:
    calls = (ToolCall("c1", "f"), ToolCall("c2", "f"))
    turns = [
        turn(n, *calls, results=["x" * length, "y" * length]) for n, length in enumerate(LENGTHS)
    ]
    return [each for events in turns for each in events]


@pytest.mark.parametrize("keep_turns", [0, 1, 3, 10, 11, 10**30])
def test_only_results_before_the_last_turns_are_shortened(keep_turns: int) -> None:
    before = fold(ten_turns())
    trim = ToolResultsTrimmed(at=NOON, keep_chars=400, keep_turns=keep_turns)
    after = fold([trim], before)
    check_transcript(after.transcript)
    assert len(after.transcript) == len(before.transcript)
    assert after.starts == before.starts and after.unfolded == ""
    upto = max(len(LENGTHS) - keep_turns, 0)
    for n, (old, new) in enumerate(zip(before.transcript, after.transcript, strict=True)):
        length = LENGTHS[n // 5]
        if isinstance(old, ToolMessage) and n // 5 < upto and length > 435:
            assert isinstance(new, ToolMessage)
            assert (
                new.content == f"{old.content[:400]}[{length - 400} more characters were trimmed]"
            )
        else:
            assert new is old
    assert fold([trim], after) == after


def test_the_open_turn_is_the_last_one_and_stays_whole() -> None:
    call = ToolCall("c1", "f")
    opened = turn(11, call, results=["z" * 2000], end=False)
    trim = ToolResultsTrimmed(at=NOON, keep_chars=10, keep_turns=1)
    state = fold([*ten_turns(), *opened, trim])
    assert state.transcript[-1] == ToolMessage("c1", "f", "z" * 2000)
    assert isinstance(state.transcript[48], ToolMessage)
    assert len(state.transcript[48].content) < 50
    none_kept = fold(
        [*ten_turns(), *opened, ToolResultsTrimmed(at=NOON, keep_chars=1, keep_turns=0)]
    )
    assert none_kept.transcript[-1] == ToolMessage("c1", "f", "z" * 2000)
    assert none_kept.turn == fold([*ten_turns(), *opened]).turn


def test_what_a_model_said_is_never_shortened() -> None:
    said = "long " * 500
    events = [*turn(1, said, ToolCall("c1", "f"), results=["r" * 900]), *turn(2)]
    trim = ToolResultsTrimmed(at=NOON, keep_chars=0, keep_turns=0)
    before = fold(events)
    after = fold([trim], before)
    for old, new in zip(before.transcript, after.transcript, strict=True):
        assert isinstance(old, ToolMessage) or new is old
    assert isinstance(after.transcript[1], AssistantMessage)
