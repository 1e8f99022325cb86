"""The labelled source of a card, observed under a shift and scored with its labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.reproducible import stream
from graphtemper.card import node_response
from graphtemper.card.node_response import NodeRows
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import ball
from graphtemper.graph.operators import adjacency
from graphtemper.models import shifted_linear
from graphtemper.models.linear_passes import LinearPasses
from graphtemper.models.predictor import Predictor, passes_of
from graphtemper.models.shifted_linear import Readout
from graphtemper.shifts import Shift
from graphtemper.shifts.steps import draw
from graphtemper.signals.covariances import column_halves
from graphtemper.signals.evidence import Probe, Reference, measure, read
from graphtemper.signals.observation import KnownFeatures, Observation, unlabelled
from graphtemper.signals.passes import Keys, node_keys
from graphtemper.signals.shared_passes import OWN_VIEWS, OwnViews, run_clean

# Share of stored entries above which work on dense features is faster.
_FULL = 0.1


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
    nodes that are scored; it is a secret (`graphtemper.card.privacy`). ``own`` are the views
    without neighbours, which shifts of the edges leave as they are.
    """

    predictor: Predictor
    graph: Graph
    nodes: NDArray[np.int64]
    labels: NDArray[np.int64]
    probe: Probe
    reference: Reference
    seed: int
    signals: dict[str, float] | None = None
    own: OwnViews | None = None

    def observe(self, shift: Shift) -> Observation:
        """Return the observation of the model on the shifted source."""
        seed = shift_seed(self.seed, shift)
        if self.readout is not None:
            return self._read(self.readout, shift, seed)
        graph = shift(self.graph, seed)
        same = graph.features is self.graph.features and graph.is_plain
        if self.probe.shared_splits:
            graph = _dense_if_full(graph)
        observation = Observation(self.predictor, graph, self.nodes, seed=seed)
        if self.probe.shared_splits and self.probe.copies:
            run_clean(observation, self.probe)
        if self.own is not None and same:
            observation.memo[OWN_VIEWS] = self.own
        return observation.at(self.probe.temperature)

    @cached_property
    def readout(self) -> Readout | None:
        """The projections through which a linear model reads wide features; None for others."""
        passes, splits = passes_of(self.predictor), self.probe.splits
        if self.probe.shared_splits or not isinstance(passes, LinearPasses):
            return None
        if not shifted_linear.saves(passes, self.graph, splits):
            return None
        halves = column_halves(self.graph.num_features, splits, self.probe.seed)
        return Readout.of(passes, self.graph, halves)

    @cached_property
    def _unlabelled(self) -> Graph:
        return unlabelled(self.graph)

    @cached_property
    def _keys(self) -> Keys:
        return node_keys(self.graph)

    def _read(self, readout: Readout, shift: Shift, seed: int) -> Observation:
        """Observe a shift through projections, without its shifted features."""
        drawn = draw(shift, self.graph, seed)
        # Its features are not read, so one graph with one operator serves wherever edges stay.
        graph = self._unlabelled
        if drawn.graph.edges is not graph.edges or not graph.is_plain:
            graph = unlabelled(drawn.graph)
        nodes = self.nodes[node_response.drawn_rows(seed, self.nodes.size)]
        found = readout.shifted(drawn, ball(adjacency(graph), nodes, 1))
        known = KnownFeatures(found.moments, found.rows, found.features, self._keys)
        observation = Observation(
            found.passes, graph, self.nodes, seed=seed, logits=found.passes(graph), known=known
        )
        return observation.at(self.probe.temperature)

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
