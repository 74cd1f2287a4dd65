"""What a provider's error means, and what of it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.actors.adapters.faults import refusal, seconds_to_wait
from turnstream.events import ContextTooLong, ModelFailed, ModelRefused, ModelUnavailable

TOO_LONG = [
    (400, "context_length_exceeded", ""),
    (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    (413, None, "Input is too long for requested model."),
    (400, None, "This model's maximum context length is 8192 tokens"),
    (400, None, "the request exceeds the available context size"),
    (422, None, "too many input tokens"),
    (None, "context_length_exceeded", ""),
    (500, "context_length_exceeded", ""),
]


@pytest.mark.parametrize(("status", "code", "text"), TOO_LONG)
def test_a_context_that_is_too_long_is_known_however_it_is_said(
    status: int | None, code: str | None, text: str
) -> None:
    assert type(refusal("m", status, code, text)) is ContextTooLong


def test_a_limit_of_tokens_a_minute_is_no_context_that_is_too_long() -> None:
    said = "Request too large: too many tokens per minute"
    assert type(refusal("m", 429, "rate_limit_exceeded", said)) is ModelUnavailable


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_what_passes_may_be_asked_again(status: int) -> None:
    error = refusal("m", status, retry_after=3)
    assert isinstance(error, ModelUnavailable) and error.retry_after == 3


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 451])
def test_what_does_not_pass_is_not_asked_again(status: int) -> None:
    assert type(refusal("m", status)) is ModelRefused


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_not_active"])
def test_an_account_that_is_used_up_is_not_asked_again(code: str) -> None:
    assert type(refusal("m", 429, code)) is ModelRefused


@given(
    st.none() | st.integers(100, 599),
    st.none() | st.text() | st.integers() | st.just("invalid_api_key"),
    st.text(min_size=12),
)
def test_what_the_provider_writes_is_never_repeated(
    status: int | None, code: object, text: str
) -> None:
    error = refusal("openai:m", status, code, f"{text} a-secret-of-somebody")
    assert isinstance(error, ModelFailed)
    assert "a-secret-of-somebody" not in str(error)
    assert status is None or str(status) in str(error)


@given(st.text().map(lambda text: f"key {text}"))
def test_a_code_that_is_no_word_is_not_told(code: str) -> None:
    assert code.strip() not in str(refusal("m", 400, code))


@pytest.mark.parametrize("code", ["model_not_found", "invalid_request_error", "E-12.3"])
def test_a_code_is_told(code: str) -> None:
    assert code in str(refusal("m", 400, code))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()))
def test_no_header_is_too_odd(headers: dict[str, str]) -> None:
    seconds = seconds_to_wait(headers)
    assert seconds is None or seconds >= 0
