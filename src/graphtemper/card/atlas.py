"""The atlas: how label-free signals respond when the labelled source graph is shifted.

A point of the atlas is the source graph under one shift or a composition of several. For each the
atlas records the signals, measured without labels, and the accuracy and the temperature, computed
with them. `plan` chooses the shifts, `Source` observes and scores the source under one of them, and
`survey` does so for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors, temperature
from graphtemper import shifts as families
from graphtemper._core.checks import check_integer
from graphtemper._core.reproducible import num_cores, one_blas_thread, stream
from graphtemper.card import node_response
from graphtemper.card.node_response import KINDS, NodeResponse, NodeRows
from graphtemper.graph.graph import Graph
from graphtemper.models.passes import passes_of
from graphtemper.models.predictor import Predictor
from graphtemper.shifts import Shift
from graphtemper.signals.evidence import Probe, Reference, measure, read
from graphtemper.signals.observation import Observation, unlabelled
from graphtemper.signals.views import share_own_views

Progress = Callable[[int, int], None]
"""Called with the number of finished steps and the number of all."""
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
# Share of stored entries above which work on dense features is faster.
_FULL = 0.1


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
        raise errors.wrong_type(
            f"exclude must be a list of families, such as [{exclude!r}], not a string."
        )
    check_integer(compositions, "compositions", 0)
    every = _listed(LEVELS if shifts is None else shifts)
    present = sorted(frozenset().union(*(shift.families for shift in every)))
    for name in sorted(set(exclude)):
        if name not in present:
            raise errors.choice(f"unknown family {name!r}; the atlas has {', '.join(present)}.")
    planned = [shift for shift in every if shift.families.isdisjoint(exclude)]
    singles: dict[str, list[Shift]] = {}
    for shift in planned:
        if not shift.parts:
            singles.setdefault(shift.family, []).append(shift)
    left = [name for name in present if name not in exclude]
    if len(left) < _FEWEST_FAMILIES:
        raise errors.too_few(
            f"an atlas needs at least three families of shifts, but has {len(left)}; exclude "
            "fewer, or add shifts of other families."
        )
    if compositions and len(singles) < _FEWEST_FAMILIES:
        raise errors.range(
            "compositions need single shifts of at least three families; add some, or pass "
            "compositions=0."
        )
    rng = stream(seed, "atlas compositions")
    return planned + [_composition(singles, rng) for _ in range(compositions)]


def _listed(shifts: Shifts) -> list[Shift]:
    """Return shifts that a caller chose, or refuse them."""
    if isinstance(shifts, Mapping):
        for name, strengths in shifts.items():
            if name not in LEVELS:
                raise errors.choice(f"unknown family {name!r}; choose from {', '.join(LEVELS)}.")
            if not strengths:
                raise errors.empty(f"family {name!r} has no strengths; give at least one.")
        shifts = [getattr(families, name)(level) for name in shifts for level in shifts[name]]
    if isinstance(shifts, str) or not isinstance(shifts, Iterable):
        raise errors.wrong_type(
            f"shifts must be a mapping or a list of shifts, not {shifts!r:.60}."
        )
    listed = list(shifts)
    for shift in listed:
        if not isinstance(shift, Shift):
            raise errors.wrong_type(
                f"shifts must hold Shift objects, such as noise(0.5), not {shift!r:.60}."
            )
    names = [repr(shift) for shift in listed]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise errors.repeated(f"the shift {repeated} is listed twice; list it once.")
    return listed


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


def moves_edges_only(shift: Shift | AtlasPoint) -> bool:
    """Return whether a shift leaves the features as they are.

    Examples
    --------
    >>> [moves_edges_only(shift) for shift in (families.drop(0.5), families.noise(0.5))]
    [True, False]
    """
    return shift.families <= _OF_EDGES


@dataclass(frozen=True)
class AtlasPoint:
    """One row of the atlas: a shift of the source, its signals, and its true accuracy.

    ``temperature`` minimises the NLL of the labels, in units of the source temperature.
    """

    shift: str
    families: frozenset[str]
    signals: dict[str, float]
    accuracy: float
    temperature: float


@dataclass(frozen=True)
class Ends:
    """Accuracy of the source where links carry no signal, for two reasons.

    With all features ``shuffled`` among the nodes they belong to other nodes; with all edges
    ``rewired`` the neighbours do. No unlabelled signal tells one from the other. None where it was
    not measured.
    """

    shuffled: float | None = None
    rewired: float | None = None

    @property
    def known(self) -> tuple[float, ...]:
        """The accuracies that were measured."""
        return tuple(x for x in (self.shuffled, self.rewired) if x is not None)

    def without(self, family: str) -> Ends:
        """Return the ends that do not belong to a family of shifts."""
        return replace(self, **{k: None for k, end in _ENDS.items() if family in end.families})


UNKNOWN_ENDS = Ends()
_ENDS = {"shuffled": families.shuffle(1.0), "rewired": families.rewire(1.0)}


def ends_of(graph: Graph, exclude: Collection[str]) -> dict[str, Shift]:
    """Return the shifts whose accuracies are `Ends`, without families that are left out."""
    if not graph.num_edges:
        return {}
    return {name: shift for name, shift in _ENDS.items() if shift.families.isdisjoint(exclude)}


@dataclass(frozen=True, eq=False)
class Source:
    """The labelled source: a frozen model, a graph, labelled nodes, and how to measure them.

    ``probe`` and ``reference`` are those of the atlas; ``signals`` are the source's own, which
    may have been measured on more splits (default: the same). ``seed`` draws the shifts and the
    nodes that are scored; it is a secret (`graphtemper.card.privacy`). ``own`` is the unshifted
    source, whose views without neighbours shifts of the edges leave as they are.
    """

    predictor: Predictor
    graph: Graph
    nodes: NDArray[np.int64]
    labels: NDArray[np.int64]
    probe: Probe
    reference: Reference
    seed: int
    signals: dict[str, float] | None = None
    own: Observation | None = None

    def observe(self, shift: Shift) -> Observation:
        """Return the observation of the model on the shifted source."""
        seed = shift_seed(self.seed, shift)
        shifted = shift(self.graph, seed)
        graph, passes = unlabelled(_dense_if_full(shifted)), passes_of(self.predictor)
        # The clean pass too may be a fast one: a call reads all columns of what a shift has filled.
        logits = passes.run(graph)
        observation = Observation(
            self.predictor, graph, self.nodes, seed=seed, logits=logits, passes=passes
        )
        if self.own is not None and shifted.features is self.graph.features:
            share_own_views(self.own, observation)
        return observation

    def visit(self, shift: Shift) -> tuple[AtlasPoint, NodeRows]:
        """Return the row of the atlas for a shift, scored on secret two thirds of the nodes.

        The few labelled nodes with it are those that node temperatures are learned from.
        """
        observation = self.observe(shift)
        part = self._scored(observation)
        labels = self.labels[part]
        point = AtlasPoint(
            shift=repr(shift),
            families=frozenset(shift.families),
            signals=self._signals(observation),
            accuracy=float((observation.predictions[part] == labels).mean()),
            temperature=temperature.solve(observation.logits[part], labels).temperature
            / self.probe.temperature,
        )
        return point, NodeRows.draw(observation, self.labels, self.probe)

    def ends(self, shifts: Mapping[str, Shift]) -> Ends:
        """Return the accuracies under the shifts of `ends_of`, a pass of the model for each."""
        found = {}
        for name, shift in shifts.items():
            observation = self.observe(shift)
            part = self._scored(observation)
            found[name] = float((observation.predictions[part] == self.labels[part]).mean())
        return Ends(**found)

    def _scored(self, observation: Observation) -> NDArray[np.int64]:
        """Return the places of the secret two thirds of the nodes that a shift is scored on."""
        size = self.labels.size
        return stream(observation.seed, "scored nodes").permutation(size)[: 2 * size // 3]

    def _signals(self, observation: Observation) -> dict[str, float]:
        """Return the signals, corrected for the splits that the atlas does not measure."""
        found = read(measure(observation, self.probe, whole=False), self.reference)
        start = self.reference.signals
        if self.signals is None or self.signals is start:
            return found
        return {name: value + self.signals[name] - start[name] for name, value in found.items()}


def _dense_if_full(graph: Graph) -> Graph:
    """Return the graph with dense features if a shift has filled many zeros of sparse ones."""
    features = graph.features
    if isinstance(features, np.ndarray):
        return graph
    size = graph.num_nodes * graph.num_features
    return graph.replace(features=features.toarray()) if features.nnz > _FULL * size else graph


def shift_seed(seed: int, shift: Shift) -> int:
    """Return the seed of one shift: the same in every plan, and never a small number.

    Shifts draw from (seed, family), so an atlas that used ``seed``, ``seed + 1``, ... would repeat
    the draws of a target that was made with a small seed.
    """
    return int(stream(seed, f"atlas {shift!r}").integers(2**62))


def survey(
    source: Source, planned: Sequence[Shift], progress: Progress | None = None
) -> tuple[list[AtlasPoint], dict[str, NodeRows]]:
    """Run the model under every planned shift.

    Models of this package run on all cores and others one shift at a time, since they may not be
    safe to share. ``progress`` is called with (shifts finished, shifts in all).

    Returns
    -------
    points, rows
        In the order of the plan, and the node rows of each by the name of its shift.
    """
    points: list[AtlasPoint] = []
    rows: dict[str, NodeRows] = {}
    report = progress or (lambda done, total: None)
    report(0, len(planned))
    # A model that runs alone may use all cores.
    shared = passes_of(source.predictor).thread_safe
    pool = ThreadPoolExecutor(num_cores()) if shared else None
    try:
        with one_blas_thread(also_openmp=shared):
            for point, drawn in (pool.map if pool else map)(source.visit, planned):
                points.append(point)
                rows[point.shift] = drawn
                report(len(points), len(planned))
    finally:
        if pool is not None:  # not awaited after Ctrl-C, since a shift may take minutes
            pool.shutdown(wait=False, cancel_futures=True)
    return points, rows


@dataclass(frozen=True, eq=False)
class AtlasNodes:
    """A few labelled nodes under every shift of the atlas; never part of a card file.

    ``source`` are the nodes of the unshifted source, ``rows`` those under each shift by its name.
    """

    source: NodeRows
    rows: dict[str, NodeRows]

    def fit(self, atlas: Sequence[AtlasPoint], accuracy: float) -> dict[str, NodeResponse]:
        """Return the node responses over an atlas, for models and for logits alone."""
        return {kind: self.fit_to(atlas, accuracy, names) for kind, names in KINDS.items()}

    def fit_to(
        self, atlas: Sequence[AtlasPoint], accuracy: float, names: Sequence[str]
    ) -> NodeResponse:
        """Return the node response that reads only the named signals."""
        return node_response.fit(
            self.source,
            [self.rows[item.shift] for item in atlas],
            [item.families for item in atlas],
            [item.accuracy for item in atlas],
            accuracy,
            names,
        )
