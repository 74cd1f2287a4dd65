"""The order desk: its data set, and what may be done with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from pkgutil import get_data
from typing import NamedTuple


class Refund(NamedTuple):
    """A refund as it stands in the data set; ``attempt`` is the run of the tool that wrote it."""

    idempotency_key: str
    order_id: str
    cents: int
    attempt: int


class OrderDesk:
    """The data set in the database at ``path``. Any number of processes may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set_up(self) -> None:
        """Fill a new database with the data set that comes with this package."""
        script = get_data(__name__, "orders.sql") or b""
        with closing(sqlite3.connect(self._path)) as desk:
            desk.executescript(script.decode())

    def orders(self, customer: str) -> list[dict[str, str]]:
        """The orders of a customer."""
        with self._transaction() as desk:
            found = desk.execute(
                "SELECT id, item, status, cents FROM orders WHERE customer = ? ORDER BY id",
                (customer,),
            ).fetchall()
        return [
            {"id": order_id, "item": item, "status": status, "paid": _amount(cents)}
            for order_id, item, status, cents in found
        ]

    def refund(self, order_id: str, amount: Decimal, idempotency_key: str, attempt: int) -> None:
        """Pay back an amount, once for each key.

        Raises ``ValueError`` for an order that is not there, more than was paid, and less than
        a cent.
        """
        cents = int(amount * 100)
        with self._transaction() as desk:
            if _is_known(desk, idempotency_key):
                return
            left = _refundable(desk, order_id)
            if cents != amount * 100 or not 0 < cents <= left:
                raise ValueError(f"{_amount(left)} can be refunded for order {order_id}")
            desk.execute(
                "INSERT INTO refunds (idempotency_key, order_id, cents, attempt) "
                "VALUES (?, ?, ?, ?)",
                (idempotency_key, order_id, cents, attempt),
            )

    def refunds(self) -> Sequence[Refund]:
        """All refunds."""
        with self._transaction() as desk:
            found = desk.execute("SELECT idempotency_key, order_id, cents, attempt FROM refunds")
            return [Refund(*row) for row in found]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=10, isolation_level=None)) as desk:
            desk.execute("BEGIN IMMEDIATE")
            yield desk
            desk.execute("COMMIT")


def _is_known(desk: sqlite3.Connection, idempotency_key: str) -> bool:
    known = desk.execute("SELECT 1 FROM refunds WHERE idempotency_key = ?", (idempotency_key,))
    return known.fetchone() is not None


def _refundable(desk: sqlite3.Connection, order_id: str) -> int:
    found = desk.execute(
        "SELECT cents - (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id) "
        "FROM orders WHERE id = ?",
        (order_id,),
    ).fetchone()
    if found is None:
        raise ValueError(f"there is no order {order_id}")
    return int(found[0])


def _amount(cents: int) -> str:
    return f"{Decimal(cents) / 100:.2f}"
