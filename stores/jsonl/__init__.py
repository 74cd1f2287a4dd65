"""Streams in files that anybody can read: one of JSON lines for each session.

``lines`` is what stands in the files, ``journal`` how several files are written at once, ``index``
what is kept in memory, and ``directory`` what puts them together.
"""

from .store import JSONLStore

__all__ = ["JSONLStore"]
