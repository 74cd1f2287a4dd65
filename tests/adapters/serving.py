"""An HTTP server on a port of its own, whose answers come in pieces that a test leads."""

from __future__ import annotations

import json
import select
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, TypeAlias, cast

WAIT = 20


class Hold:
    """A place in an answer where the server waits until it is let go, or the client hangs up."""

    def __init__(self) -> None:
        self._reached, self._go, self._left = Event(), Event(), Event()

    def reached(self) -> None:
        """Wait until the server has sent all that comes before."""
        assert self._reached.wait(WAIT), "the answer was not asked for"

    def go(self) -> None:
        self._go.set()

    def left(self) -> bool:
        """Wait until the client hung up."""
        return self._left.wait(WAIT)

    def serve(self, connection: socket.socket) -> bool:
        """False once the client hung up."""
        self._reached.set()
        while not self._go.is_set():
            readable, _, _ = select.select([connection], [], [], 0.01)
            if readable and _is_gone(connection):
                self._left.set()
                return False
        return True


def _is_gone(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:  # what the server had sent was not read any more
        return True


class Cut:
    """The place in an answer where the connection is cut."""


CUT = Cut()
Piece: TypeAlias = bytes | Hold | Cut


@dataclass(frozen=True)
class Reply:
    """An answer: its pieces are sent one by one."""

    pieces: tuple[Piece, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/plain"})


def streamed(*pieces: Piece) -> Reply:
    """Server-sent events."""
    return Reply(pieces, headers={"content-type": "text/event-stream; charset=utf-8"})


def refused(status: int, body: object, **headers: str) -> Reply:
    """A JSON body with the status of an error."""
    sent = {"content-type": "application/json", **headers}
    return Reply((json.dumps(body).encode(),), status, sent)


@dataclass(frozen=True)
class Request:
    """What a client asked: header names are lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    def json(self) -> Any:
        """The body, as a strict parser reads it."""
        return json.loads(self.body.decode("utf-8", "strict"), parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


class ModelServer:
    """Answers each POST with what ``reply`` gives for it. ``requests`` keeps what was asked,
    ``complaint`` the first exception of ``reply``."""

    def __init__(self, reply: Callable[[Request], Reply]) -> None:
        self.reply = reply
        self.requests: list[Request] = []
        self.complaint: BaseException | None = None
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, request: Request) -> Reply:
        """The reply to ``request``, which is kept."""
        self.requests.append(request)
        try:
            return self.reply(request)
        except BaseException as error:
            self.complaint = self.complaint or error
            return refused(400, {"error": {"message": f"the test's server: {error!r}"}})


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    owner: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none; the library would print it among the tests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body, self.client_address[1])
        try:
            self._send(cast(_Http, self.server).owner.answer(request))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            if isinstance(piece, bytes):
                self._chunk(piece)
            elif isinstance(piece, Cut) or not piece.serve(self.connection):
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass
