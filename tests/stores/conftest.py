"""Other processes, and the SQLite stores that tests open."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

Child: TypeAlias = "subprocess.Popen[str]"
StartChild: TypeAlias = Callable[..., Child]
Mount: TypeAlias = Callable[[str], Path]


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """Run a Python program in a process of its own; it does not outlive the test."""
    children: list[Child] = []

    def start(program: str, *args: object) -> Child:
        command = [sys.executable, "-c", program, *map(str, args)]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store's file may be."""
    return tmp_path / "streams.db"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mount a file system of its own, with options such as ``size=1m``."""
    place = tmp_path / "medium"
    place.mkdir()

    def mounted(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this user can't mount a file system")
        return place

    yield mounted
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
