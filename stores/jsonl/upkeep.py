"""A store looked over, and made small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...events.errors import SessionDeleted
from .files import NEW, TORN, replace_file
from .generations import read_generation
from .index import NOTHING, Index, Span
from .lines import Unfit, opened
from .names import SUFFIX, file_name, session_of
from .places import GENERATION, READ_MODELS, Files
from .round import Round
from .scanning import scan
from .snapshots import SnapshotLine, read_snapshots, write_snapshots
from .tables import TableFile


def examine(files: Files) -> Sequence[str]:
    """What is wrong with the files, in words: the file, the line, the version."""
    index = files.log.index
    return [*_sessions(files, index), *_others(files), *_snapshots(files, index)]


def make_small(into: Round, tables: TableFile) -> int:
    """Give back what is no longer used; how many bytes."""
    into.flush()
    files = into.files
    files.journal.empty()
    before = _bytes(files.place)
    replace_file(files.log.path, files.log.anew(files.log.index.changes()), sync=files.sync)
    files.log.refresh()
    tables.compact()
    for path in files.snapshots.glob(f"*{SUFFIX}"):
        _keep_latest(files.log.index, path)
    return max(before - _bytes(files.place), 0)


def _sessions(files: Files, index: Index) -> Iterator[str]:
    ends = {sid: index.head(sid).end for sid in index.session_ids()}
    names = {file_name(sid): sid for sid in (*ends, *index.deleted())}
    found = {path.name for path in files.sessions.iterdir()}
    for name in sorted(found | names.keys()):
        path, session_id = files.sessions / name, names.get(name)
        if name.endswith(TORN):
            yield f"{path} holds what was cut from a file's end; look at it, and delete it"
        elif name not in found:
            yield f"{path}, the file of session {session_id!r}, is missing"
        elif name.endswith(SUFFIX):
            yield from _session(path, session_id or session_of(name), ends.get(session_id or "", 0))


def _session(path: Path, session_id: str | None, end: int) -> Iterator[str]:
    found = scan(path, session_id, NOTHING)
    if found.fault is not None:
        line, version, what = found.fault
        yield f"{path}, line {line}, version {version} of session {session_id!r}: {what}"
    elif found.end < end:
        yield (
            f"{path}: session {session_id!r} ends at byte {found.end}, and had {end} bytes: what "
            f"comes after version {_last(found.spans)} is missing"
        )
    elif found.torn and not end:
        yield f"{path}: its last {found.torn} bytes are no whole append"


def _last(spans: Sequence[Span]) -> int:
    return spans[-1].version + spans[-1].events - 1 if spans else 0


def _others(files: Files) -> Iterator[str]:
    for path in sorted(files.place.glob(f"*{TORN}")):
        yield f"{path} holds what could not be used; look at it, and delete it"
    tables = TableFile(files.place / READ_MODELS)
    for path, read in (
        (files.place / GENERATION, lambda: read_generation(files.place / GENERATION)),
        (files.place / READ_MODELS, tables.refresh),
    ):
        try:
            read()
        except (Unfit, FileNotFoundError) as error:
            yield f"{path}: {error}"


def _snapshots(files: Files, index: Index) -> Iterator[str]:
    for path in sorted(files.snapshots.glob(f"*{SUFFIX}")):
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                kept = opened(line, SnapshotLine)
                version = index.head(kept.session).version
            except (Unfit, SessionDeleted) as error:
                yield f"{path}, line {number}: {error}"
            else:
                if version < kept.version:
                    yield f"{path}, line {number}: the session is not that long"


def _keep_latest(index: Index, path: Path) -> None:
    kept = read_snapshots(path)
    last = max((each.version for each in kept), default=0)
    latest = [each for each in kept if each.version == last and index.row(each.session_id)]
    write_snapshots(path, latest)


def _bytes(place: Path) -> int:
    files = [path for path in place.rglob("*") if path.is_file() and not path.name.endswith(NEW)]
    return sum(path.stat().st_size for path in files)
