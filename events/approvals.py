"""A call that waits for somebody's decision, as an inbox shows it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from .tagged import loads, restored, tree, written

OnExpiry: TypeAlias = Literal["reject", "keep"]


class Approval(Struct, frozen=True, gc=False, omit_defaults=True):
    """A question: may this call run? ``reason`` says why it is asked: the tool is gated, or the
    call may have run when its process was lost. ``expires_at`` (UTC) is when it is no longer
    waited for, or, to be kept, when it is overdue. ``path`` names the nested calls that lead to
    it, outermost first, where a sub-agent asks, and ``within`` the sessions that those are of."""

    id: str
    session_id: str
    turn_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    requested_at: datetime
    reason: Literal["gated", "in-doubt"] = "gated"
    expires_at: datetime | None = None
    on_expiry: OnExpiry = "reject"
    path: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    def is_over(self, at: datetime) -> bool:
        """Whether the call is to be rejected by that time, as no decision came."""
        return is_over(self.expires_at, self.on_expiry, at)


def is_over(expires_at: datetime | None, on_expiry: OnExpiry, at: datetime) -> bool:
    """Whether a decision is no longer waited for at that time."""
    return on_expiry == "reject" and expires_at is not None and expires_at <= at


def oldest_first(approvals: Iterable[Approval]) -> list[Approval]:
    """The approvals in the order of an inbox."""
    return sorted(approvals, key=lambda each: (each.requested_at, each.id))


def session_of(approval_id: str) -> str:
    """The session that an approval id belongs to, which is its beginning; empty where the id is
    none of ours."""
    return approval_id.rpartition("/")[0]


def dump_approvals(approvals: Iterable[Approval]) -> str:
    """Approvals as text, whatever the arguments are; empty where there are none."""
    trees = [tree(each) for each in approvals]
    return written(trees).decode() if trees else ""


def load_approvals(text: str) -> tuple[Approval, ...]:
    """The approvals that ``dump_approvals`` wrote."""
    if not text:
        return ()
    return tuple(restored(convert(each, Approval)) for each in loads(text.encode()))
