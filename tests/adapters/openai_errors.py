"""The errors of OpenAI's servers."""

from __future__ import annotations

from typing import Any

from saying import Kind


def _error(kind: str, code: str | None, message: str) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": None, "code": code}


_INVALID = "invalid_request_error"
ERRORS: dict[Kind, tuple[int, dict[str, Any]]] = {
    "rate-limited": (429, _error("requests", "rate_limit_exceeded", "Rate limit reached")),
    "overloaded": (503, _error("server_error", None, "The engine is currently overloaded")),
    "broken": (500, _error("server_error", "server_error", "The server had an error")),
    "too-long": (
        400,
        _error(
            _INVALID,
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9001 tokens. Please reduce the length of the messages.",
        ),
    ),
    "wrong-key": (401, _error(_INVALID, "invalid_api_key", "Incorrect API key provided: KEY.")),
    "unknown-model": (404, _error(_INVALID, "model_not_found", "There is no such model.")),
    "invalid": (400, _error(_INVALID, None, "Invalid value: 'tool'. KEY")),
    "used-up": (429, _error("insufficient_quota", "insufficient_quota", "You exceeded your quota")),
}


def openai_fault(kind: Kind, key: str) -> tuple[int, dict[str, Any]]:
    status, error = ERRORS[kind]
    return status, {"error": {**error, "message": error["message"].replace("KEY", key)}}
