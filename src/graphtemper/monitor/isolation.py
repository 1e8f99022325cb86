"""A child process for work that may crash, as the reading of damaged Parquet files can."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from graphtemper.errors import FileError, GraphTemperError

Result = TypeVar("Result")


class ChildProcess:
    """Runs functions in a child process, which is replaced after it has died.

    Functions and results must be picklable. The child is started with the first call.

    Examples
    --------
    >>> with ChildProcess() as child:
    ...     child.run(int)
    0
    """

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, function: Callable[[], Result]) -> Result:
        """Return what a function returns, or raise its error; a crash is a `FileError`."""
        if self._connection is None:
            self._start()
        assert self._connection is not None
        try:
            self._connection.send(function)
            succeeded, outcome = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            code = self._process.exitcode
            self.close()
            raise FileError(f"reading it crashed the process (exit code {code}).") from error
        if not succeeded:
            raise outcome
        result: Result = outcome
        return result

    def close(self) -> None:
        """Stop the child."""
        if self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the child is the end of the connection


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the child
    while True:
        try:
            function = connection.recv()
        except EOFError:
            return
        outcome: Any
        try:
            succeeded, outcome = True, function()
        except GraphTemperError as error:
            succeeded, outcome = False, error
        except Exception as error:  # it may not be picklable
            succeeded, outcome = False, RuntimeError(f"{type(error).__name__}: {error}")
        connection.send((succeeded, outcome))
