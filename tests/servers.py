"""A real PostgreSQL server for tests, run by an ordinary user on a port of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg

USERS = ("postgres", "nobody")
NUMBERS = count(1)
SUPERUSER = "owner"
PASSWORD = "a secret/word@of:mine"


def programs() -> Path | None:
    """Where the programs of the newest PostgreSQL on this machine are."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).resolve()]
    directories = [path.parent for path in found]
    return max(directories, key=_version, default=None)


def _version(directory: Path) -> int:
    found = re.search(r"/(\d+)/bin$", str(directory))
    return int(found[1]) if found else 0


class Server:
    """A server that keeps what it acknowledges, in a directory of its own."""

    def __init__(self, bin_directory: Path) -> None:
        self._bin = bin_directory
        # A socket's path is short, and its user must reach it.
        self.directory = Path(tempfile.mkdtemp(prefix="turnstream-pg-"))
        self._cluster = self.directory / "cluster"
        self._as = _ordinary_user()
        if self._as:
            shutil.chown(self.directory, self._as, None)
        password = self.directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            *("initdb", "-D", str(self._cluster), "-E", "UTF8", "--locale=C", "--no-sync"),
            *("-U", SUPERUSER, "-A", "scram-sha-256", f"--pwfile={password}", "--data-checksums"),
        )
        self.port = _free_port()
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-p {self.port} -k {self.directory} -c listen_addresses=127.0.0.1"
        self._control("start", "-o", options, "-l", str(self.directory / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop it; ``immediate`` is a crash."""
        self._control("stop", "-m", mode)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs meanwhile, and all their sockets stay open."""
        main = int((self._cluster / "postmaster.pid").read_text().split()[0])
        os.kill(main, signal.SIGSTOP)  # first: then it starts no others
        stopped = [*_children(main), main]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def crash_and_start(self) -> None:
        """Crash it, and start it again."""
        self.stop("immediate")
        self.start()

    def close(self) -> None:
        """Stop it for good, and remove what it kept."""
        self._control("stop", "-m", "immediate", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = "postgres", options: str = "", user: str = SUPERUSER) -> str:
        """The address of a database on it."""
        secret = PASSWORD.replace("/", "%2F").replace("@", "%40").replace(" ", "%20")
        place = f"{user}:{secret.replace(':', '%3A')}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{place}{options}"

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"test_{next(NUMBERS)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Do something as the superuser; the rows that come of it."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def damage(self, relation: str, database: str) -> None:
        """Overwrite a part of a table while the server is stopped."""
        ((path,),) = self.execute(f"SELECT pg_relation_filepath('{relation}')", database)
        self.stop()
        with (self._cluster / str(path)).open("r+b") as file:
            file.seek(4000)
            file.write(bytes(512))
        self.start()

    def cut_connections(self) -> int:
        """End all connections but this one; how many."""
        ended = self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return len(ended)

    def _control(self, *words: str, check: bool = True) -> None:
        self._run("pg_ctl", "-D", str(self._cluster), "-w", *words, check=check)

    def _run(self, program: str, *words: str, check: bool = True) -> None:
        command: Sequence[str] = [str(self._bin / program), *words]
        with (self.directory / "said").open("ab") as said:
            done = subprocess.run(
                command, stdout=said, stderr=said, check=False, cwd="/", user=self._as, timeout=60
            )
        if check and done.returncode:
            raise AssertionError((self.directory / "said").read_text(errors="replace"))


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may be gone by now
            # The name in parentheses may hold anything.
            if int(each.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(each.parent.name))
    return found


def _ordinary_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return None
    import pwd

    known = {each.pw_name for each in pwd.getpwall()}
    return next(user for user in USERS if user in known)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
