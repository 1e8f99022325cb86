"""The atlas: how label-free signals answer when the labelled source graph is shifted in known ways.

An environment is the source graph under one shift or a composition of several. For each one the
atlas keeps what was seen without labels and what the labels then said: accuracy and temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphtemper import shifts as families
from graphtemper import temperature
from graphtemper._core.checks import check_whole
from graphtemper._core.random_streams import stream
from graphtemper._core.threads import num_cores, one_blas_thread
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.models.fast_passes import passes_of
from graphtemper.models.predictor import Predictor
from graphtemper.shifts import Shift
from graphtemper.signals.evidence import Probe, Reference, measure, read
from graphtemper.signals.observation import Observation

Progress = Callable[[int, int], None]
# Shown every environment as it is observed, wherever that is; what it returns is handed to `Keep`.
Watch = Callable[[Observation], Any]
Keep = Callable[[Shift, Any], None]
# Environments that a cluster is given at a time, so that finished ones are kept on the way.
_AT_ONCE = 32


class Workers(Protocol):
    """Where environments may run in place of this process; `graphtemper.scale.OnDask` is one."""

    def map(self, function: Callable[[Shift], Any], items: Sequence[Shift]) -> list[Any]:
        """Return the function's value of every item, in their order."""


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


@dataclass(frozen=True)
class Environment:
    """One row of the atlas: a shift of the source, what was seen, and what was true."""

    shift: str
    families: frozenset[str]
    signals: dict[str, float]
    accuracy: float
    temperature: float


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
    check_whole(compositions, "compositions", 0)
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


def survey(
    predictor: Predictor,
    graph: Graph,
    nodes: NDArray[np.int64],
    probe: Probe,
    reference: Reference,
    planned: Sequence[Shift],
    *,
    seed: int = 0,
    known: Iterable[Environment] = (),
    done: Callable[[Environment], None] | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    keep: Keep | None = None,
    workers: Workers | None = None,
) -> list[Environment]:
    """Run the predictor in every planned environment.

    Environments in ``known`` (by the name of their shift) are not run again, and ``done`` is called
    with each new one, so an interrupted survey can be taken up where it stopped. ``watch`` is shown
    every environment, the known ones too, which costs those a shift and what the watcher measures;
    ``keep`` is called here with what it returned. Models of this package run on all cores; others
    one environment at a time, as they may not be safe to share. With ``workers`` environments run
    there instead, to the same bytes.
    """
    finished = {item.shift: item for item in known}
    todo = [shift for shift in planned if repr(shift) not in finished]
    count = len(planned) - len(todo)
    if progress is not None:
        progress(count, len(planned))

    show = _Show(predictor, graph, nodes, probe, seed, watch)
    visit = _Visit(show, reference)
    with one_blas_thread(), _threads_of(predictor) as pool:

        def run(function: Callable[[Shift], Any], shifts: Sequence[Shift]) -> Iterator[Any]:
            if workers is None:
                yield from pool.map(function, shifts)
                return
            for start in range(0, len(shifts), _AT_ONCE):
                some = shifts[start : start + _AT_ONCE]
                yield from workers.map(partial(_elsewhere, function=function), some)

        if keep is not None:
            again = [shift for shift in planned if repr(shift) in finished]
            for shift, kept in zip(again, run(show, again), strict=True):
                keep(shift, kept)
        for shift, (found, kept) in zip(todo, run(visit, todo), strict=True):
            finished[found.shift] = found
            if keep is not None:
                keep(shift, kept)
            count += 1
            if done is not None:
                done(found)
            if progress is not None:
                progress(count, len(planned))
    return [finished[repr(shift)] for shift in planned]


@contextmanager
def _threads_of(predictor: Predictor) -> Iterator[ThreadPoolExecutor]:
    """Give a pool that is not waited for after Ctrl-C: an environment may take minutes."""
    pool = ThreadPoolExecutor(num_cores() if passes_of(predictor).thread_safe else 1)
    waits = True
    try:
        yield pool
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)


@dataclass(frozen=True, eq=False)
class _Show:
    """Shows one environment to a watcher; plain data, so that it can travel to a worker."""

    predictor: Predictor
    graph: Graph
    nodes: NDArray[np.int64]
    probe: Probe
    seed: int
    watch: Watch | None

    def __call__(self, shift: Shift) -> Any:
        return self.watched(self.observe(shift))

    def observe(self, shift: Shift) -> Observation:
        seed = environment_seed(self.seed, shift)
        shifted = shift(self.graph, seed)
        temperature = self.probe.temperature
        return Observation(self.predictor, shifted, self.nodes, temperature=temperature, seed=seed)

    def watched(self, seen: Observation) -> Any:
        return None if self.watch is None else self.watch(seen)


@dataclass(frozen=True, eq=False)
class _Visit:
    """Measures one environment and shows it to the watcher."""

    show: _Show
    reference: Reference

    def __call__(self, shift: Shift) -> tuple[Environment, Any]:
        seen = self.show.observe(shift)
        kept = self.show.watched(seen)
        return _record(shift, seen, self.show.graph, self.show.probe, self.reference), kept


def _elsewhere(shift: Shift, *, function: Callable[[Shift], Any]) -> Any:
    """Run on a worker as it would run here."""
    with one_blas_thread():
        return function(shift)


def environment_seed(seed: int, shift: Shift) -> int:
    """Return the seed of one environment: the same in every plan, and no small number.

    Shifts draw from (seed, family), so an atlas that counted its seeds from ``seed`` would hold the
    very draws of a target that was made with a small seed.
    """
    return int(stream(seed, f"atlas {shift!r}").integers(2**62))


def _record(
    shift: Shift, seen: Observation, graph: Graph, probe: Probe, reference: Reference
) -> Environment:
    assert graph.labels is not None
    labels = graph.labels[seen.nodes]
    return Environment(
        shift=repr(shift),
        families=frozenset(shift.families),
        signals=read(measure(seen, probe), reference),
        accuracy=float((seen.predictions == labels).mean()),
        temperature=temperature.solve(seen.logits, labels).temperature,
    )
