"""Folds kept in files of their own, beside the streams. Any of them may be lost at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ...events.errors import SessionDeleted
from ...events.identifiers import check_session_id
from ..port import Snapshot
from .files import disk_errors, replace_file
from .lines import Unfit, opened, sealed
from .round import Round

if TYPE_CHECKING:
    from .directory import StoreDirectory


class SnapshotLine(Struct, frozen=True, gc=False):
    """A snapshot as it stands in a line; the payload in base64."""

    session: str
    version: int
    fold: int
    payload: bytes


class FileSnapshots:
    """The snapshots of a store, whose directory ``opened`` gives, or it raises."""

    def __init__(self, opened: Callable[[], StoreDirectory]) -> None:
        self._opened = opened

    def latest(self, session_id: str, *, fold: int, upto: int | None = None) -> Snapshot | None:
        check_session_id(session_id)
        directory = self._opened()
        row = directory.row(session_id)
        if row is None:
            return None
        last = row.version if upto is None else min(upto, row.version)
        with disk_errors(directory.place):
            kept = read_snapshots(directory.files.snapshots_of(session_id))
        found = [each for each in kept if _fits(each, session_id, fold, last)]
        return max(found, key=attrgetter("version"), default=None)

    def keep(self, snapshot: Snapshot) -> bool:
        check_session_id(snapshot.session_id)
        return self._opened().writes.write(partial(_keep, snapshot=snapshot))

    def drop(self, session_id: str) -> None:
        check_session_id(session_id)
        self._opened().writes.write(partial(_drop, session_id=session_id))


def read_snapshots(path: Path) -> Sequence[Snapshot]:
    """What can be read of the snapshots in a file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    found: list[Snapshot] = []
    for line in content.split(b"\n")[:-1]:
        try:
            kept = opened(line, SnapshotLine)
        except Unfit:
            continue
        found.append(Snapshot(kept.session, kept.version, kept.fold, kept.payload))
    return found


def write_snapshots(path: Path, snapshots: Sequence[Snapshot]) -> None:
    """Have these in a file, and no others."""
    if not snapshots:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    # They may be lost, so nobody waits for the disk.
    replace_file(path, b"".join([sealed(SnapshotLine(*each)) for each in snapshots]), sync=False)


def _fits(snapshot: Snapshot, session_id: str, fold: int, last: int) -> bool:
    return snapshot[0] == session_id and snapshot.fold == fold and snapshot.version <= last


def _keep(into: Round, snapshot: Snapshot) -> bool:
    sid = snapshot.session_id
    try:
        if into.head(sid).version < snapshot.version:
            return False
    except SessionDeleted:
        return False
    path = into.files.snapshots_of(sid)
    others = [
        each
        for each in read_snapshots(path)
        if each.fold >= snapshot.fold and each[1:3] != snapshot[1:3]
    ]
    write_snapshots(path, [*others, snapshot])
    return True


def _drop(into: Round, session_id: str) -> None:
    into.files.drop_snapshots(session_id)
