"""The labelled source of a card, observed under a shift and scored with its labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.reproducible import stream
from graphtemper.card.node_response import NodeRows
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import project
from graphtemper.models.passes import Passes, passes_of
from graphtemper.models.predictor import Predictor
from graphtemper.shifts import Shift
from graphtemper.shifts.seen import Seen
from graphtemper.signals.covariances import column_halves
from graphtemper.signals.evidence import Probe, Reference, measure, read
from graphtemper.signals.node_signals import SKETCH, sketch_weights
from graphtemper.signals.observation import Observation, SeenFeatures
from graphtemper.signals.passes import Keys, node_keys
from graphtemper.signals.views import share_own_views

# Share of stored entries above which work on dense features is faster.
_FULL = 0.1
# Projections that are more than this share of the columns save too little.
_FEW = 0.5


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
        seed, seen = shift_seed(self.seed, shift), None
        if self._reader is None:
            graph = _dense_if_full(shift(self.graph, seed))
            moved = graph.features is not self.graph.features
        else:
            # Its features are not read, so one graph with one operator serves wherever edges stay.
            graph, features = shift.through(
                self.graph, self._reader.weights, seed, self._reader.columns
            )
            graph = self.graph if graph.edges is self.graph.edges else graph
            seen, moved = self._reader.of(features), features.columns is not self._reader.columns
        observation = Observation(
            self.predictor, graph, self.nodes, seed=seed, seen=seen, keys=self._keys
        )
        if self.own is not None and not moved:
            share_own_views(self.own, observation, self.probe.splits)
        return observation.at(self.probe.temperature)

    @cached_property
    def _reader(self) -> _Reader | None:
        """What the model reads of wide features; None if it needs the features themselves."""
        passes = passes_of(self.predictor)
        weights = passes.weights_for(self.graph)
        halves = column_halves(self.graph.num_features, self.probe.splits, self.probe.seed)
        if weights is None:
            return None
        parts = [weights, *(weights * half[:, None] for half in halves)]
        everything = np.hstack([*parts, sketch_weights(self.probe)])
        if everything.shape[1] > _FEW * self.graph.num_features:
            return None
        columns = project(self.graph.features, everything)
        return _Reader(passes, halves, everything, columns.astype(np.float32, copy=False))

    @cached_property
    def _keys(self) -> Keys:
        return node_keys(self.graph)

    def visit(self, shift: Shift) -> tuple[AtlasPoint, NodeRows]:
        """Return the row of the atlas for a shift, scored on secret two thirds of the nodes.

        The few labelled nodes with it are those that node temperatures are learned from.
        """
        observation, size = self.observe(shift), self.labels.size
        part = stream(observation.seed, "scored nodes").permutation(size)[: 2 * size // 3]
        labels = self.labels[part]
        point = AtlasPoint(
            shift=repr(shift),
            families=frozenset(shift.families),
            signals=self._signals(observation),
            accuracy=float((observation.predictions[part] == labels).mean()),
            temperature=temperature.solve(observation.logits[part], labels).temperature,
        )
        return point, NodeRows.draw(observation, self.labels, self.probe)

    def _signals(self, observation: Observation) -> dict[str, float]:
        """Return the signals, corrected for the splits that the atlas does not measure."""
        found = read(measure(observation, self.probe, with_snr=False), self.reference)
        start = self.reference.signals
        if self.signals is None or self.signals is start:
            return found
        return {name: value + self.signals[name] - start[name] for name, value in found.items()}


@dataclass(frozen=True, eq=False)
class _Reader:
    """All that a model and its node signals read of the source's features: X P, ``columns``.

    The ``weights`` P are those of the model, the same on each half of the columns, and a sketch.
    """

    passes: Passes
    halves: NDArray[np.bool_]
    weights: NDArray[np.float32]
    columns: NDArray[np.float32]

    def of(self, seen: Seen) -> SeenFeatures:
        """Return what is read of shifted features."""
        keys = [b"", *(half.tobytes() for half in self.halves)]
        columns, (mean, std, _) = np.asarray(seen.columns), seen.moments
        width = (columns.shape[1] - SKETCH) // len(keys)
        parts = np.split(columns, width * np.arange(1, len(keys) + 1), axis=1)
        projected = {
            key: np.ascontiguousarray(part) for key, part in zip(keys, parts, strict=False)
        }
        return SeenFeatures(self.passes.seeing(projected), (mean[0], std[0]), parts[-1])


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
