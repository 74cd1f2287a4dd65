"""Files and log brought to agree again, by one rule: what stands in a session's file was
appended, and the log follows it.

A file that is longer than the log knows holds units that the log lost, which are taken in; what
then is left at its end is an append that was told to nobody, and is put aside. A file that is
shorter than the log knows lost what was acknowledged: it stays as it is, and reading it says so.
All of this needs the store's lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ...events.errors import CorruptEvent, SessionDeleted
from .files import NEW, TORN, opened_file, read_at, replace_file, write_at
from .index import NOTHING, Change, Head
from .lines import Header, Unfit, opened, sealed
from .log import Log
from .names import SUFFIX, file_name, session_of
from .reading import Damage
from .scanning import Scan, scan

_LONGEST_HEADER = 8192

_log = logging.getLogger(__name__)


def heal_file(log: Log, path: Path, session_id: str | None) -> None:
    """Bring one file and the log to agree. Raises ``OSError``, or ``CorruptEvent`` where the
    file is damaged."""
    try:
        known = _known(log, path, session_id)
        found = None if known is None else scan(path, session_id, known)
    except (FileNotFoundError, SessionDeleted):
        return
    if found is None:
        return
    if found.fault is not None:
        raise damage(path, session_id, found)
    if found.session is not None and (found.spans or found.row or found.deleted):
        log.extend(sealed(change_of(found)))
    if found.torn:
        _cut(path, found.end if found.session and log.index.head(found.session).end else 0)


def heal_all(log: Log, sessions: Path) -> Mapping[str, CorruptEvent]:
    """Bring all files and the log to agree; what is damaged, by the names of the files."""
    ends = {file_name(sid): (sid, log.index.head(sid).end) for sid in log.index.session_ids()}
    buried = {file_name(sid) for sid in log.index.deleted()}
    damaged: dict[str, CorruptEvent] = {}
    with os.scandir(sessions) as found:
        sizes = {each.name: each.stat().st_size for each in found if each.name not in buried}
    for name, size in sizes.items():
        if name.endswith(NEW):
            (sessions / name).unlink()
        elif name.endswith(SUFFIX):
            session_id, end = ends.get(name, (session_of(name), 0))
            if size != end:
                try:
                    heal_file(log, sessions / name, session_id)
                except CorruptEvent as error:
                    _log.warning("%s", error)
                    damaged[name] = error
    for name in ends.keys() - sizes.keys():
        _log.warning("%s is missing; put it back from a copy", sessions / name)
    return damaged


def rebuild(log: Log, sessions: Path, *, sync: bool) -> None:
    """Make the log again from the files."""
    _log.warning("%s is missing or damaged: it is made again from the files", log.path)
    with suppress(FileNotFoundError):
        log.path.replace(log.path.with_name(log.path.name + TORN))
    with log.index.lock:
        log.index.clear()
        for found in _whole(sessions):
            log.index.apply(change_of(found))
            log.index.reach(found.position)
        changes = log.index.changes()
        content = log.anew(changes)
    replace_file(log.path, content, sync=sync)
    log.forget()
    log.refresh()


def change_of(found: Scan) -> Change:
    """What the log says of a file."""
    return Change(
        found.session or "",
        found.end,
        found.edition,
        list(found.spans),
        found.row,
        deleted=found.deleted,
    )


def damage(path: Path, session_id: str | None, found: Scan) -> CorruptEvent:
    """The error for a file in which the scan found a fault."""
    assert found.fault is not None
    line, version, what = found.fault
    sid = found.session or session_id or session_of(path.name) or ""
    return Damage(path, sid, version, f"line {line}: {what}").told()


def _whole(sessions: Path) -> Iterator[Scan]:
    """The files that hold something, and are whole."""
    for path in sorted(sessions.glob(f"*{SUFFIX}")):
        found = scan(path, None, NOTHING)
        if found.session is None or file_name(found.session) != path.name or found.fault:
            continue
        if found.spans or found.deleted:
            yield found


def _known(log: Log, path: Path, session_id: str | None) -> Head | None:
    """From where on the file is to be read: its beginning, if it is another than the log knows.
    None where it is to be left as it is."""
    if session_id is None:
        return NOTHING
    head = log.index.head(session_id)
    with opened_file(path) as descriptor:
        line = read_at(descriptor, 0, _LONGEST_HEADER).partition(b"\n")[0]
        size = os.fstat(descriptor).st_size
    try:
        edition = opened(line, Header).edition
    except Unfit:
        edition = head.edition
    if edition != head.edition:
        return NOTHING
    return head if size >= head.end else None


def _cut(path: Path, end: int) -> None:
    """Put aside what stands in a file from there on."""
    with opened_file(path, write=True) as descriptor:
        rest = read_at(descriptor, end, os.fstat(descriptor).st_size - end)
        aside = path.with_name(path.name + TORN)
        _log.warning(
            "%s: its last %d bytes are no whole append, told to nobody; they are in %s now",
            path,
            len(rest),
            aside.name,
        )
        with opened_file(aside, write=True, create=True) as torn:
            write_at(torn, os.fstat(torn).st_size, rest)
        os.ftruncate(descriptor, end)
    if not end:
        path.unlink()
