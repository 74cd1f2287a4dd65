"""The recorded conversation: what the customer asks, and what the model answered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import cache
from os import getpid
from pkgutil import get_data

from ...events.messages import Content, ModelTurn, UserMessage
from ...projections import SessionState, fold
from ..importing import transcript_events
from ..models import Delta, ModelRequest
from ..testing import RecordedModel
from .calls import CallLog, ModelAsked

AGENT = "order-desk"
HELD_CALL = "call_refund_lamp"
"""The call in whose middle the first worker is killed."""


@cache
def recording() -> SessionState:
    """The conversation that comes with this package, as the fold of its events."""
    chat = json.loads(get_data(__name__, "conversation.json") or b"[]")
    return fold(transcript_events(chat, agent=AGENT, at=datetime.fromtimestamp(0, UTC)))


def instructions() -> str:
    """What the agent is told before anything else."""
    configured = recording().configured
    assert configured is not None
    return configured.instructions


def question() -> Content:
    """What the customer asks."""
    asked = recording().transcript[0]
    assert isinstance(asked, UserMessage)
    return asked.content


class LoggedModel:
    """A recorded model that logs each time it is asked."""

    def __init__(self, log: CallLog) -> None:
        self._recorded = RecordedModel(recording().transcript)
        self._log = log

    @property
    def id(self) -> str:
        """The model's name in the stream."""
        return self._recorded.id

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        """The recorded answer."""
        self._log.write(ModelAsked(getpid(), request.turn_id, request.step))
        async for item in self._recorded.stream(request):
            yield item
