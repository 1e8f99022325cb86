"""Where tasks run: one after the other here, or on the workers of a Dask cluster.

All work is a list of tasks, one a shard, with a small result each. Results come back in the order
of the tasks whichever worker made them, so sums over them have the same bytes on any number of
workers. Tasks read and write files that every worker sees, and a task that runs twice writes the
same bytes twice: a worker that dies costs the time of its tasks and nothing else.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar

from graphtemper._core.threads import one_blas_thread
from graphtemper.errors import ClusterError, MissingExtraError

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds that a cluster may be without any worker before the run is given up."""
_ASK_EVERY = 1.0
# Bytes of a function beyond which it is sent once a worker in place of once a task.
_LARGE = 100_000


class Engine(Protocol):
    """Anything that can run a function on a list of items and give the results in order."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``."""


class Serial:
    """One task after the other, in this process.

    Examples
    --------
    >>> Serial().map(abs, [-1, 2])
    [1, 2]
    """

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``."""
        return [_call(item, function=function) for item in items]


class OnDask:
    """Tasks on the workers of a Dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client`. Every worker needs graphtemper and the same file system.
    patience
        Seconds without any worker after which the run is given up with a `ClusterError`.
    """

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        self._client, self._patience = client, patience
        self._held: tuple[str, Any] = ("", None)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, in that order.

        A function that carries much, as a whole graph, travels to each worker once and not with
        every task; the last one is remembered for the next list of tasks.
        """
        futures = self._client.map(_call, items, function=self._sent(function), pure=False)
        try:
            return self._results(futures)
        except BaseException:
            # The other tasks are of no use any more.
            if self._client.status == "running":
                self._client.cancel(futures, force=True)
            raise

    def _sent(self, function: Callable[..., Any]) -> Any:
        """Return the function, or the future of one that is too large to go along with tasks.

        It is the result of a task of its own and not scattered: scattered data are lost with the
        worker that holds them, and a task is run again.
        """
        packed = import_module("distributed.protocol.pickle").dumps(function)
        if len(packed) < _LARGE:
            return function
        name, (known, future) = hashlib.sha256(packed).hexdigest(), self._held
        if name != known or future.status not in ("pending", "finished"):
            future = self._client.submit(_unpacked, packed, pure=False)
            self._held = (name, future)
        return future

    def _results(self, futures: list[Any]) -> list[Any]:
        from distributed.client import FutureCancelledError, FuturesCancelledError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        distributed: Any = import_module("distributed")
        empty_since: float | None = None
        while True:
            try:
                distributed.wait(futures, timeout=_ASK_EVERY)
                gather = partial(self._client.gather, futures, asynchronous=True)
                return list(self._client.sync(gather, callback_timeout=self._patience))
            except KilledWorker as error:
                raise ClusterError(
                    "one task lost its worker again and again, most likely for lack of memory; "
                    "give workers more memory, or convert the graph with fewer rows a shard."
                ) from error
            except (FutureCancelledError, FuturesCancelledError, CommClosedError) as error:
                raise ClusterError(
                    "the scheduler dropped the run or is gone; look at its log and run again."
                ) from error
            except TimeoutError:
                now = time.monotonic()
                if self._has_workers():
                    empty_since = None
                elif empty_since is None:
                    empty_since = now
                elif now - empty_since > self._patience:
                    raise ClusterError(
                        f"the cluster has had no worker for {self._patience:.0f} seconds; start "
                        "workers and run again."
                    ) from None

    def _has_workers(self) -> bool:
        try:
            return self._client.status == "running" and bool(self._client.nthreads())
        except (OSError, TimeoutError):
            return False


def _unpacked(packed: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(packed)


def _call(item: Any, *, function: Callable[[Any], Any]) -> Any:
    # A worker has fewer threads than this process, and sums must not depend on how many there are.
    with one_blas_thread(also_openmp=False):
        return function(item)


@contextmanager
def connected(scheduler: str | None, *, timeout: float = 10.0) -> Iterator[Engine]:
    """Give the engine at a scheduler's address, as in ``tcp://host:8786``; None is this process.

    Examples
    --------
    >>> with connected(None) as engine:
    ...     engine.map(len, ["one", "three"])
    [3, 5]
    """
    if scheduler is None:
        yield Serial()
        return
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "a scheduler needs Dask; run pip install 'graphtemper[scale]'."
        ) from error
    try:
        client = distributed.Client(scheduler, timeout=timeout)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {scheduler} within {timeout:.0f} seconds; start one "
            "with `dask scheduler`, and workers with `dask worker ADDRESS`."
        ) from error
    try:
        yield OnDask(client)
    finally:
        client.close()
