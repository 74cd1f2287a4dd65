"""A transcript is a value, however it shares its memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import (
    AssistantMessage,
    InvalidTranscript,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from turnstream.projections import Transcript, check_transcript

said = st.builds(UserMessage, st.text(max_size=3))


@given(st.data())
def test_extending_or_cutting_a_transcript_never_changes_another_one(data: st.DataObject) -> None:
    family: list[tuple[Transcript, list[UserMessage]]] = [(Transcript(), [])]
    for _ in range(data.draw(st.integers(0, 20))):
        transcript, model = data.draw(st.sampled_from(family))
        if data.draw(st.booleans()):
            more = data.draw(st.lists(said, max_size=3))
            family.append((transcript.extended(more), model + more))
        else:
            count = data.draw(st.integers(0, 5))
            family.append((transcript.first(count), model[:count]))
    for transcript, model in family:
        assert list(transcript) == model
        assert list(reversed(transcript)) == model[::-1]
        assert transcript == model
        assert [transcript[i] for i in range(-len(model), len(model))] == model + model
        assert transcript[1:] == tuple(model[1:])


def test_a_place_outside_the_transcript_is_an_index_error() -> None:
    transcript = Transcript([UserMessage("a"), UserMessage("b")]).first(1)

    for place in (1, -2):
        with pytest.raises(IndexError):
            transcript[place]


CALLS = AssistantMessage("", (ToolCall("a", "f"), ToolCall("b", "f")))
A, B = ToolMessage("a", "f", "1"), ToolMessage("b", "f", "2")


def test_results_directly_after_their_calls_in_call_order_are_valid() -> None:
    check_transcript([UserMessage("u"), CALLS, A, B, AssistantMessage("done")])


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([CALLS, A], id="a call without result"),
        pytest.param([CALLS, B, A], id="results out of order"),
        pytest.param([CALLS, A, A, B], id="two results for a call"),
        pytest.param([CALLS, A, UserMessage("u"), B], id="input between results"),
        pytest.param([A], id="a result without call"),
        pytest.param([CALLS, AssistantMessage("note"), A, B], id="a note between call and result"),
    ],
)
def test_a_transcript_no_provider_accepts_is_refused(messages: list[object]) -> None:
    with pytest.raises(InvalidTranscript):
        check_transcript(messages)  # type: ignore[arg-type]
