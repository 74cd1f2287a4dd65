"""Files, and what can go wrong with them, as turnstream's errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import MsgspecError

from ...events.errors import StoreError, StoreUnavailable
from .lines import Unfit

NEW = ".new"
"""How the name of a file ends that is to take another's place."""
TORN = ".torn"
"""How the name of a file ends that holds what was cut from another's end."""

_BINARY = getattr(os, "O_BINARY", 0)
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_GONE = (errno.ENOENT, errno.ENOTDIR, getattr(errno, "ESTALE", errno.ENOENT))


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Whatever the system raises within is raised as a ``StoreError`` that names the place."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, place) from error
    except Unfit as error:
        raise StoreUnavailable(f"{place} is damaged ({error}); try again, and check it") from error
    except (MsgspecError, UnicodeError) as error:
        raise StoreError(
            f"{place}: this can't be written as JSON: {type(error).__name__}"
        ) from error


def disk_error(error: OSError, place: Path) -> StoreUnavailable:
    """What an error of the system means for the store at ``place``."""
    if error.errno in _FULL:
        told = "the disk is full; free some space and try again"
    elif error.errno in _REFUSED:
        told = "this user needs read and write permission on the directory, and on all in it"
    elif error.errno in _TOO_MANY:
        told = "this process has too many open files; close some, or raise the limit"
    elif error.errno in _GONE:
        told = "the directory is gone, or a file of it; put it back, or open another"
    else:
        told = f"the disk failed ({error.strerror}); check its health, and try again"
    return StoreUnavailable(f"{place}: {told}")


@contextmanager
def opened_file(path: Path, *, write: bool = False, create: bool = False) -> Iterator[int]:
    """The descriptor of an open file."""
    flags = os.O_RDWR if write else os.O_RDONLY
    descriptor = os.open(path, flags | _BINARY | (os.O_CREAT if create else 0), 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """So many bytes, or what there is of them."""
    pieces, pread = [], getattr(os, "pread", _seek_and_read)
    while length > 0 and (piece := pread(descriptor, length, offset)):
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_at(descriptor: int, offset: int, content: bytes | memoryview) -> None:
    """All of the bytes."""
    pwrite, view = getattr(os, "pwrite", _seek_and_write), memoryview(content)
    while view:
        count = pwrite(descriptor, view, offset)
        offset, view = offset + count, view[count:]


def write_new(path: Path, content: bytes, *, sync: bool) -> None:
    """Put a whole file there, to take another's place later."""
    try:
        with opened_file(path, write=True, create=True) as descriptor:
            os.ftruncate(descriptor, 0)
            write_at(descriptor, 0, content)
            if sync:
                os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Put a whole file in the place of another, all or nothing."""
    new = path.with_name(path.name + NEW)
    write_new(new, content, sync=sync)
    new.replace(path)
    if sync:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory outlive a power cut, where the system knows how."""
    if os.name != "nt":
        with opened_file(path) as descriptor:
            os.fsync(descriptor)


def _seek_and_read(descriptor: int, length: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, length)


def _seek_and_write(descriptor: int, content: memoryview, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, content)
