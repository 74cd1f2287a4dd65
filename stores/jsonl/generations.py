"""The last generation that was drawn, in a file of its own.

Two nodes must not have one number, nor a younger node the lower one. Where the file is lost the
count goes on from the seconds since 1970, which is higher than anything that was counted.
"""

from __future__ import annotations

import logging
from pathlib import Path
from time import time

from msgspec import Struct

from .files import replace_file
from .lines import Unfit, opened, sealed
from .places import GENERATION
from .round import Round

_log = logging.getLogger(__name__)


class Generation(Struct, frozen=True, gc=False):
    """The line in the file."""

    generation: int


def draw_generation(into: Round) -> int:
    """The next generation; it is on the disk when it is told."""
    path = into.files.place / GENERATION
    drawn = _last(path) + 1
    write_generation(path, drawn, sync=into.files.sync)
    return drawn


def write_generation(path: Path, last: int, *, sync: bool) -> None:
    """Have this be the last one drawn."""
    replace_file(path, sealed(Generation(last)), sync=sync)


def read_generation(path: Path) -> int:
    """The last one drawn. Raises ``Unfit``, or ``FileNotFoundError``."""
    return opened(path.read_bytes(), Generation).generation


def _last(path: Path) -> int:
    try:
        return read_generation(path)
    except (Unfit, FileNotFoundError):
        _log.warning("%s is missing or damaged: generations go on far above the last", path)
        return int(time())
