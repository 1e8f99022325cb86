"""The atlas: how label-free signals respond when the labelled source graph is shifted.

An environment is the source graph under one shift or a composition of several. For each one the
atlas records the signals, measured without labels, and the accuracy and the temperature, computed
with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from graphtemper import shifts as families
from graphtemper._core.checks import check_integer
from graphtemper._core.reproducible import num_cores, one_blas_thread, stream
from graphtemper.card import node_response
from graphtemper.card.node_response import KINDS, NodeResponse, NodeRows
from graphtemper.card.progress import Progress as Progress
from graphtemper.card.source import Environment, Kept, Source
from graphtemper.errors import InputError
from graphtemper.models.passes import passes_of
from graphtemper.models.predictor import Predictor
from graphtemper.shifts import Shift

# Environments that a cluster receives in one batch, so that finished ones are saved on the way.
_BATCH = 32
Result = TypeVar("Result")


class Workers(Protocol):
    """Workers that run environments in place of this process; `graphtemper.scale.OnDask` is one."""

    def map(self, function: Callable[[Shift], Any], items: Sequence[Shift]) -> list[Any]:
        """Return the value of the function for every item, in order."""


LEVELS: dict[str, tuple[float, ...]] = {
    "noise": (0.2, 0.4, 0.6, 0.9, 1.3, 1.8, 2.2, 3.0),
    "heterogeneous": (0.5, 1.0, 2.0, 3.0),
    "mask": (0.15, 0.3, 0.4, 0.6, 0.7, 0.8, 0.95),
    "drop_columns": (0.2, 0.5, 0.8),
    "shuffle": (0.15, 0.3, 0.4, 0.6, 0.8),
    "blend": (0.2, 0.4, 0.6, 0.8),
    "smooth": (0.3, 0.7),
    "scale": (0.25, 0.55, 0.75, 1.4, 1.8, 3.0),
    "offset": (0.3, 0.8),
    "rewire": (0.1, 0.2, 0.35, 0.6, 0.85),
    "drop": (0.2, 0.35, 0.65, 0.8, 0.95),
    "add": (0.3, 0.7, 1.0, 2.0, 3.0),
    "drop_hubs": (0.3, 0.7),
    "homophily": (-0.6, -0.3, 0.3, 0.6),
}
"""Strengths of the default atlas, by family."""
COMPOSITIONS = 70
Shifts = Mapping[str, Sequence[float]] | Iterable[Shift]
"""Shifts that a caller chooses for an atlas: strengths by family, or the shifts themselves."""
_FEWEST_FAMILIES = 3
_TWO_SIDED = ("scale", "homophily")
_OF_EDGES = frozenset(("rewire", "drop", "add", "drop_hubs", "homophily"))


def plan(
    seed: int = 0,
    exclude: Collection[str] = (),
    compositions: int = COMPOSITIONS,
    shifts: Shifts | None = None,
) -> list[Shift]:
    """Return the shifts of an atlas: every family at several strengths, then random compositions.

    Parameters
    ----------
    seed
        Seed of the compositions.
    exclude
        Families to leave out, also from compositions.
    compositions
        Number of random compositions. Each joins two or three families at up to medium strength,
        because that is where the unshifted ends of single families meet.
    shifts
        A mapping of family to strengths, or `Shift` objects; `LEVELS` by default.

    Examples
    --------
    >>> families = set().union(*(s.families for s in plan(exclude=("noise",))))
    >>> "noise" in families, "rewire" in families
    (False, True)
    >>> plan(compositions=0, shifts={"noise": (0.5, 1.0), "drop": (0.5,), "add": (1.0,)})
    [noise(0.5), noise(1), drop(0.5), add(1)]
    """
    if isinstance(exclude, str):
        raise InputError(
            f"exclude must be a list of families, such as [{exclude!r}], not a string."
        )
    check_integer(compositions, "compositions", 0)
    every = _singles(LEVELS) if shifts is None else _listed(shifts)
    present = sorted(frozenset().union(*(shift.families for shift in every)))
    for name in sorted(set(exclude)):
        if name not in present:
            raise InputError(f"unknown family {name!r}; the atlas has {', '.join(present)}.")
    planned = [shift for shift in every if shift.families.isdisjoint(exclude)]
    singles: dict[str, list[Shift]] = {}
    for shift in planned:
        if not shift.parts:
            singles.setdefault(shift.family, []).append(shift)
    left = [name for name in present if name not in exclude]
    if len(left) < _FEWEST_FAMILIES:
        raise InputError(
            f"an atlas needs at least three families of shifts, but has {len(left)}; exclude "
            "fewer, or add shifts of other families."
        )
    if compositions and len(singles) < _FEWEST_FAMILIES:
        raise InputError(
            "compositions need single shifts of at least three families; add some, or pass "
            "compositions=0."
        )
    rng = stream(seed, "atlas compositions")
    return planned + [_composition(singles, rng) for _ in range(compositions)]


def _listed(shifts: Shifts) -> list[Shift]:
    """Check shifts that a caller chose and return them as a list."""
    if isinstance(shifts, Mapping):
        return _singles(shifts)
    if isinstance(shifts, str) or not isinstance(shifts, Iterable):
        raise InputError(f"shifts must be a mapping or a list of shifts, not {shifts!r:.60}.")
    listed = list(shifts)
    for shift in listed:
        if not isinstance(shift, Shift):
            raise InputError(
                f"shifts must hold Shift objects, such as noise(0.5), not {shift!r:.60}."
            )
    names = [repr(shift) for shift in listed]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"the shift {repeated} is listed twice; list it once.")
    return listed


def _singles(levels: Mapping[str, Sequence[float]]) -> list[Shift]:
    for name, strengths in levels.items():
        if name not in LEVELS:
            raise InputError(f"unknown family {name!r}; choose from {', '.join(LEVELS)}.")
        if not strengths:
            raise InputError(f"family {name!r} has no strengths; give at least one.")
        if len(set(strengths)) < len(strengths):
            raise InputError(f"family {name!r} has a strength twice; list it once.")
    return [_make(name, level) for name in levels for level in levels[name]]


def _make(name: str, level: float) -> Shift:
    made: Shift = getattr(families, name)(level)
    return made


def _composition(singles: Mapping[str, Sequence[Shift]], rng: np.random.Generator) -> Shift:
    chosen = rng.choice(list(singles), size=int(rng.integers(2, 4)), replace=False)
    return families.compose(*(_medium(singles[str(name)], rng) for name in chosen))


def _medium(shifts: Sequence[Shift], rng: np.random.Generator) -> Shift:
    """Draw a shift of one family at up to the middle of its strengths."""
    levels = [float(np.mean(shift.level)) for shift in shifts]
    if shifts[0].family in _TWO_SIDED:  # there is no middle between the sides
        return replace(shifts[0], level=float(rng.choice(levels)))
    low, high = min(levels), max(levels)
    return replace(shifts[0], level=float(rng.uniform(low, 0.5 * (low + high))))


def moves_edges_only(shift: Shift) -> bool:
    """Return whether a shift leaves the features as they are.

    Examples
    --------
    >>> [moves_edges_only(shift) for shift in (families.drop(0.5), families.noise(0.5))]
    [True, False]
    """
    return shift.families <= _OF_EDGES


def survey(
    source: Source,
    planned: Sequence[Shift],
    *,
    known: Iterable[Kept] = (),
    done: Callable[[Environment, NodeRows], None] | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> tuple[list[Environment], dict[str, NodeRows]]:
    """Run the model in every planned environment.

    Parameters
    ----------
    source
        The source and how to measure it.
    planned
        The shifts, from `plan`.
    known
        Environments of an interrupted survey with their node rows, packed.
    done
        Called with each new environment and its node rows.
    progress
        Called with (environments finished, environments in all).
    workers
        Where environments run in place of this process. The bytes do not depend on it. Without
        workers, models of this package run on all cores and others one environment at a time, since
        they may not be safe to share.

    Returns
    -------
    environments, rows
        In the order of the plan, and the node rows of each by the name of its shift.
    """
    finished, rows = _restored(source, planned, known)
    new = [shift for shift in planned if repr(shift) not in finished]
    count = len(finished)
    if progress is not None:
        progress(count, len(planned))
    # A model that runs alone may use all cores.
    alone = source.probe.shared_splits > 0 and not passes_of(source.predictor).thread_safe
    with one_blas_thread(also_openmp=not alone), _threads_for(source.predictor) as pool:

        def run(task: Callable[[Shift], Result], shifts: Sequence[Shift]) -> Iterator[Result]:
            if workers is None:
                yield from map(task, shifts) if pool is None else pool.map(task, shifts)
                return
            for start in range(0, len(shifts), _BATCH):
                batch = shifts[start : start + _BATCH]
                yield from workers.map(partial(_on_worker, task=task), batch)

        for environment, drawn in run(partial(_visit, source), new):
            finished[environment.shift], rows[environment.shift] = environment, drawn
            count += 1
            if done is not None:
                done(environment, drawn)
            if progress is not None:
                progress(count, len(planned))
    return [finished[repr(shift)] for shift in planned], rows


def _visit(source: Source, shift: Shift) -> tuple[Environment, NodeRows]:
    observation = source.observe(shift)
    return source.environment(shift, observation), source.node_rows(observation)


def _restored(
    source: Source, planned: Sequence[Shift], known: Iterable[Kept]
) -> tuple[dict[str, Environment], dict[str, NodeRows]]:
    """Return the environments of a plan that an interrupted survey has kept, and their rows."""
    by_name = {repr(shift): shift for shift in planned}
    finished, rows = {}, {}
    for item, packed in known:
        shift = by_name.get(item.shift)
        drawn = None if shift is None else source.restored(shift, packed)
        if drawn is not None:
            finished[item.shift], rows[item.shift] = item, drawn
    return finished, rows


def _on_worker(shift: Shift, *, task: Callable[[Shift], Result]) -> Result:
    """Run on a worker with the threads that a task has in this process."""
    with one_blas_thread():
        return task(shift)


@contextmanager
def _threads_for(predictor: Predictor) -> Iterator[ThreadPoolExecutor | None]:
    """Yield a pool that is not awaited after Ctrl-C, since an environment may take minutes.

    None for a model that may not be safe to share: it runs where it was called, as the memory of
    its arrays is reused there (`graphtemper._core.heap`).
    """
    if not passes_of(predictor).thread_safe:
        yield None
        return
    pool = ThreadPoolExecutor(num_cores())
    wait = True
    try:
        yield pool
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


@dataclass(frozen=True, eq=False)
class AtlasNodes:
    """A few labelled nodes of every environment; never part of a card file.

    ``source`` are the nodes of the unshifted source, ``rows`` those of each environment by the name
    of its shift, ``secret`` the seed of the noise on what is fitted to them.
    """

    source: NodeRows
    rows: dict[str, NodeRows]
    secret: int = 0

    def fit(self, environments: Sequence[Environment], accuracy: float) -> dict[str, NodeResponse]:
        """Return the node responses to some environments, for models and for logits alone."""
        return {kind: self.fit_to(environments, accuracy, names) for kind, names in KINDS.items()}

    def fit_to(
        self, environments: Sequence[Environment], accuracy: float, names: Sequence[str]
    ) -> NodeResponse:
        """Return the node response that reads only the named signals."""
        return node_response.fit(
            self.source,
            [self.rows[item.shift] for item in environments],
            [item.families for item in environments],
            [item.accuracy for item in environments],
            accuracy,
            names,
        )
