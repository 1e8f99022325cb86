"""Engines run tasks: one after the other in this process, or on a Dask cluster.

Work is a list of tasks, one per file, each with a small result. Results are returned in the order
of the tasks, so sums over them have the same bytes on any number of workers. Tasks read and write
files that every worker can access, and a task that runs twice writes the same bytes twice: a worker
that dies costs only the time of its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from graphtemper._core.reproducible import one_blas_thread
from graphtemper.errors import ClusterError, require

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds without any worker after which a run is given up."""


class Serial:
    """Runs one task after the other, in this process.

    Examples
    --------
    >>> Serial().map(abs, [-1, 2])
    [1, 2]
    """

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``."""
        return [_call(item, function=function) for item in items]


class OnDask:
    """Runs tasks on the workers of a Dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client`. Every worker needs graphtemper and the same file system.
    patience
        Seconds without any worker after which the run raises a `ClusterError`.
    """

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        self._client, self._patience = client, patience

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, in that order.

        The function, which may carry a large array, is sent to each worker once and not with every
        task. It is the result of a task, which is run again when its worker dies; scattered data
        would be lost.
        """
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        packed = import_module("distributed.protocol.pickle").dumps(function)
        sent = self._client.submit(_unpickle, packed, pure=False)
        futures = self._client.map(_call, items, function=sent, pure=False)
        try:
            while True:
                try:
                    import_module("distributed").wait(futures, timeout=self._patience)
                    break
                except TimeoutError:
                    if not self._client.nthreads():
                        raise ClusterError(
                            f"the cluster has no worker, after {self._patience:.0f} seconds; start "
                            "workers and run again."
                        ) from None
            return list(self._client.gather(futures))
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise ClusterError(
                "the scheduler has stopped, or a task lost its worker more than once; give workers "
                "more memory, or write the tables in smaller files, and run again."
            ) from error
        finally:
            futures.clear()  # cancels those that are left


def _unpickle(packed: bytes) -> Any:
    return import_module("distributed.protocol.pickle").loads(packed)


def _call(item: Any, *, function: Callable[[Any], Any]) -> Any:
    # Sums must not depend on the number of threads, which differs between workers.
    with one_blas_thread(also_openmp=False):
        return function(item)


Engine = Serial | OnDask
SERIAL = Serial()


def each(engine: Engine, table: Sized, function: Callable[..., Any], **given: Any) -> list[Any]:
    """Return what a function of the number of a part gives for all parts of a table.

    Examples
    --------
    >>> each(Serial(), "parts", lambda part, power: part**power, power=2)
    [0, 1, 4, 9, 16]
    """
    return engine.map(partial(function, **given), range(len(table)))


@contextmanager
def connected(scheduler: str | None, *, timeout: float = 10.0) -> Iterator[Engine]:
    """Return the engine of a scheduler such as ``tcp://host:8786``; None is this process.

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
        client = require("scale", "Dask", "distributed").Client(scheduler, timeout=timeout)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers at {scheduler}; start one with `dask scheduler`."
        ) from error
    with client:
        yield OnDask(client)
