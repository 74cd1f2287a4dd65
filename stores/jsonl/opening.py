"""A directory opened as a store: new, old, newer, damaged, somebody else's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...events.errors import CorruptEvent, NotAStore, StoreTooNew, StoreUnavailable
from .files import NEW, replace_file, sync_directory
from .generations import write_generation
from .healing import heal_all, rebuild
from .lines import Unfit, opened, sealed
from .places import GENERATION, IDENTITY, LOCK, SESSIONS, Files

FORMAT = 1


class Identity(Struct, frozen=True, gc=False):
    """The line that says what the directory is."""

    turnstream_store: int


def identify(place: Path) -> bool:
    """Whether there is a store of this format; not so where there is nothing. Raises
    ``NotAStore``, ``StoreTooNew`` or ``StoreUnavailable``, and has changed nothing then."""
    if place.exists() and not place.is_dir():
        raise NotAStore(f"{place} is no directory; give the path of one, old or new")
    try:
        line = (place / IDENTITY).read_bytes()
    except FileNotFoundError:
        try:
            _check_free(place)
        except (NotAStore, StoreUnavailable):
            if (place / IDENTITY).exists():  # another process has made the store meanwhile
                return identify(place)
            raise
        return False
    try:
        found = opened(line, Identity).turnstream_store
    except Unfit as error:
        raise StoreUnavailable(
            f"{place / IDENTITY} is damaged; put it back from a copy, or from another store"
        ) from error
    if found > FORMAT:
        raise StoreTooNew(f"{place} was written by a newer version; upgrade turnstream")
    return True


def create(files: Files) -> None:
    """Make the directory a store, unless another process just did. Needs the lock."""
    place = files.place
    if identify(place):
        return
    files.sessions.mkdir(exist_ok=True)
    log = files.log
    replace_file(log.path, log.anew(()), sync=files.sync)
    write_generation(place / GENERATION, 0, sync=files.sync)
    # Last, so that what is half made is made again.
    replace_file(place / IDENTITY, sealed(Identity(FORMAT)), sync=files.sync)
    if files.sync:
        sync_directory(place.parent)


def heal(files: Files) -> Mapping[str, CorruptEvent]:
    """Finish what was interrupted, and bring files and log to agree; what is damaged, by the
    names of the files. Needs the lock."""
    files.journal.recover()
    files.lock.note(under_way=False)
    for left in files.place.glob(f"*{NEW}"):
        left.unlink()
    try:
        files.log.refresh()
    except (Unfit, FileNotFoundError):
        rebuild(files.log, files.sessions, sync=files.sync)
    return heal_all(files.log, files.sessions)


def can_be_written(place: Path) -> bool:
    """Whether this user may write there."""
    lock = place / LOCK
    return _may_write(place) and (_may_write(lock) or not lock.exists())


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _check_free(place: Path) -> None:
    ours = {LOCK, SESSIONS, "log.jsonl", GENERATION, "journal"}
    with suppress(FileNotFoundError):
        others = {each.name for each in place.iterdir() if not each.name.endswith(NEW)} - ours
        if others:
            raise NotAStore(
                f"{place} holds other files, such as {min(others)!r}; give the path of an empty "
                "directory, or of one that is to be made"
            )
        if any((place / SESSIONS).glob("*")):
            raise StoreUnavailable(
                f"{place / IDENTITY} is missing; put it back from a copy, or from another store"
            )
