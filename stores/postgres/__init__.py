"""Streams in a PostgreSQL database, which processes on many machines share.

``address`` says where, ``schema`` and ``functions`` are what is there, ``datastore`` is the
connections to it, and ``store`` is the ``EventStore``.
"""

from __future__ import annotations

from .store import PostgresStore

__all__ = ["PostgresStore"]
