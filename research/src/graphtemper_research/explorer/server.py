"""The explorer's server: one page and its simulations, for this machine only.

It listens on the loopback address. Requests that name another host or come from another site's page
are refused, so no web page can send requests through the browser of a user of the explorer. It
serves no files, reads bodies of a few kilobytes at most, and draws one graph at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RD
from threading import Lock, Timer
from typing import Any

from graphtemper import errors
from graphtemper._core.checks import check_integer
from graphtemper.errors import FileError, GraphTemperError
from graphtemper_research.explorer.readings import State, readings
from graphtemper_research.explorer.simulate import simulate

ADDRESS = "127.0.0.1"
LARGEST_BODY = 4096
_STATE = {field.name for field in fields(State)}
_SIZES = {"num_nodes", "seed"}


class ExplorerServer(ThreadingHTTPServer):
    """Serves a page at / and simulations at /simulate; port 0 takes a free one."""

    daemon_threads = True
    # A page that is opened in many tabs must not find the queue full.
    request_queue_size = 256

    def __init__(self, page: str, port: int = 0) -> None:
        check_integer(port, "port", 0, 65_535)
        self.page = page.encode("utf-8")
        self.simulating = Lock()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise FileError(
                f"port {port} cannot be used ({error.strerror}); choose another with --port."
            ) from error
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    server_version, sys_version = "graphtemper", ""
    # A client that stops in the middle of a request holds a thread no longer than this.
    timeout = 10
    # So does one that sends byte after byte: seconds for the whole of a request.
    deadline = 20.0

    def setup(self) -> None:
        """Drop the client after the deadline, however slowly it sends."""
        super().setup()
        self._drop = Timer(self.deadline, self._close)
        self._drop.daemon = True
        self._drop.start()

    def _close(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(SHUT_RD)

    def finish(self) -> None:
        """Stop the clock."""
        self._drop.cancel()
        super().finish()

    def do_GET(self) -> None:
        self._answer({"/": self._page})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self._answer({"/simulate": self._simulation})

    def _answer(self, routes: dict[str, Callable[[], tuple[str, bytes]]]) -> None:
        try:
            self._check_origin()
            route = routes.get(self.path)
            if route is None:
                known = self.path in ("/", "/simulate")
                raise _Refusal(
                    HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND,
                    "use GET / for the page and POST /simulate for a simulation.",
                )
            self._send(HTTPStatus.OK, *route())
        except _Refusal as refusal:
            # The rest of a refused body must not be read as the next request.
            self.close_connection = True
            self._send(refusal.status, "application/json", _json({"error": str(refusal)}))
        except ConnectionError:
            self.close_connection = True

    def _check_origin(self) -> None:
        origin = self.headers.get("Origin")
        own = {f"http://{host}" for host in self.server.hosts}
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            raise _Refusal(HTTPStatus.FORBIDDEN, f"open {self.server.url} instead.")
        if origin is not None and origin not in own:
            raise _Refusal(HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused.")

    def _page(self) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", self.server.page

    def _simulation(self) -> tuple[str, bytes]:
        question = _question(self._body())
        if not self.server.simulating.acquire(blocking=False):
            raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "a simulation is running; wait for it.")
        try:
            state = State(**{name: question[name] for name in _STATE & question.keys()})
            sizes = {name: question[name] for name in _SIZES & question.keys()}
            measured = simulate(state, **sizes)
            return "application/json", _json({"measured": measured, "theory": readings(state)})
        except GraphTemperError as error:
            raise _Refusal(HTTPStatus.BAD_REQUEST, str(error)) from error
        finally:
            self.server.simulating.release()

    def _body(self) -> bytes:
        if self.headers.get_content_type() != "application/json":
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json.")
        length = self.headers.get("Content-Length")
        if length is None:
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length.")
        if not (length.isascii() and length.isdigit()):
            raise _Refusal(HTTPStatus.BAD_REQUEST, "Content-Length must be an integer.")
        if len(length) > 9 or int(length) > LARGEST_BODY:
            raise _Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {LARGEST_BODY} bytes."
            )
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Refusal(HTTPStatus.BAD_REQUEST, "the body ended early.")
        return body

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", "frame-ancestors 'none'"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the program that started the server."""


def _question(body: bytes) -> dict[str, Any]:
    try:
        question = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _Refusal(HTTPStatus.BAD_REQUEST, "the body is not JSON.") from error
    if not isinstance(question, dict) or not question.keys() <= _STATE | _SIZES:
        names = ", ".join(sorted(_STATE | _SIZES))
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"send an object with only these names: {names}.")
    return question


def _no_constant(name: str) -> float:
    raise errors.wrong_type(f"{name} is not a number.")


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode("utf-8")
