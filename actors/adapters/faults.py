"""What a provider's refusal means, and what of it may be told.

Errors name the status and the provider's code, which is a word. What the provider writes besides
may repeat the request or a key, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time

from ...events.errors import (
    ContextTooLong,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelUnavailable,
)

_WORD = re.compile(r"[A-Za-z][\w.-]{0,63}")
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|prompt is too long|too many (input )?tokens"
    r"|maximum (number of )?(input )?tokens|input is too long",
    re.IGNORECASE,
)
_USED_UP = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
}
_REFUSALS = re.compile(
    r"invalid|not_found|unsupported|content|policy|permission|authentication|image"
)
_AWAY = {408, 409, 425, 429}


def refusal(
    model: str,
    status: int | None,
    code: object = None,
    text: str = "",
    retry_after: float | None = None,
) -> ModelFailed:
    """The error for a provider's own error. ``status`` is that of HTTP, None for an error within
    a stream; ``text`` is what the provider wrote, which is looked at and not repeated;
    ``retry_after`` is in seconds."""
    word = code if isinstance(code, str) and _WORD.fullmatch(code) else ""
    what = " ".join(filter(None, [f"status {status}" if status else "an error", word]))
    if _is_too_long(status, word, text):
        return ContextTooLong(f"the conversation is too long for {model} ({what}): trim or fork it")
    if word in _USED_UP:
        return ModelRefused(f"the account of {model} is used up ({what}): see to its billing")
    if _is_away(status, word):
        return ModelUnavailable(f"{model} can't answer now ({what})", retry_after=retry_after)
    return ModelRefused(f"{model} refused the request ({what}){_advice(status)}")


def unreachable(model: str, *, timed_out: bool) -> ModelUnavailable:
    """The error for a provider that gives no answer at all."""
    why = "did not answer in time" if timed_out else "could not be reached"
    return ModelUnavailable(f"{model} {why}")


def cut_off(model: str, why: str = "ended before its end") -> ModelStreamEnded:
    """The error for an answer that is not whole."""
    return ModelStreamEnded(f"the answer of {model} {why}")


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """What ``Retry-After``, or its cousin in milliseconds, asks for, in seconds. ``headers`` know
    no case."""
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers[header]) / unit
        except (KeyError, ValueError):
            continue
        return seconds if isfinite(seconds) and seconds >= 0 else None
    try:
        return max(parsedate_to_datetime(headers["retry-after"]).timestamp() - time(), 0)
    except (KeyError, ValueError, OverflowError):
        return None


def _is_too_long(status: int | None, code: str, text: str) -> bool:
    if "context_length" in code or "context_window" in code or code == "request_too_large":
        return True
    return (
        (status is None or 400 <= status < 500) and status != 429 and bool(_TOO_LONG.search(text))
    )


def _is_away(status: int | None, code: str) -> bool:
    """Whether asking again may help. Within a stream that is so unless the code says otherwise:
    the request was taken."""
    if status is None:
        return not _REFUSALS.search(code)
    return status in _AWAY or status >= 500


def _advice(status: int | None) -> str:
    match status:
        case 401 | 403:
            return ": is the key right, and may it use the model?"
        case 404:
            return ": is there such a model at this address?"
        case _:
            return ""
