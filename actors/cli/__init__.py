"""The command line: ``turnstream``, or ``python -m turnstream``.

Exit status: 0 done; 1 found something wrong; 2 used wrongly. As in any shell, 130 stands for an
interrupt by the keyboard and 141 for output that nobody reads any more.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from .boundary import INTERRUPTED


def main() -> None:
    """Run the command line on ``sys.argv``, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal with a small alphabet gets escapes; it is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        # Each adds its own to the app.
        from . import (  # noqa: F401
            commands,
            deciding,
            differing,
            exports,
            rebuilding,
            retaining,
            tailing,
            travelling,
            verifying,
            working,
        )
        from .app import app

        app(prog_name="turnstream")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
