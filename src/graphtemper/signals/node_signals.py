r"""Node signals: measurements per node, without labels, of how reliable its prediction is.

A shift that affects a part of the graph changes the signals of the nodes in that part. The leading
signal is the disagreement of a node's two split views (see `covariances`),

.. math:: q_i = \frac1S \sum_s |u_{is} - v_{is}|^2,

in which the signal cancels and the noise remains. The others are the agreement of the neighbours
with the prediction, the neighbours' own views, the distance of the node's features from the mean of
the graph and from that of the neighbourhood, the degree, and the logits themselves. Sizes are in
units of the source temperature and of the source's column standard deviations, so that they are
comparable between graphs. The cost is O(E K); views are those that
`views.measure` has already taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper.graph.operators import adjacency, multiply
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import centred, leads
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe
from graphtemper.signals.second_opinion import Float32, sketch_weights
from graphtemper.signals.views import measure as measure_views

Classes = NDArray[np.intp]

LOGIT_SIGNALS = ("log margin", "entropy")
"""The signals of the logits alone: the paper's ablation."""
PLAIN_SIGNALS = (
    *LOGIT_SIGNALS,
    "soft agreement",
    "hard agreement",
    "log degree",
    "feature energy",
    "neighbours' energy",
    "feature deviation",
)
"""The signals that need no further run of the model."""
SIGNALS = (
    *PLAIN_SIGNALS,
    "own lead",
    "neighbours' lead",
    "own deviation",
    "disagreement",
    "own disagreement",
    "neighbours' disagreement",
    "half agreement",
    "half lead",
)
"""All signals; the further ones need the model."""

# Added to sizes and squared sizes before the logarithm, which would be unbounded at zero.
_LEAST_SIZE, _LEAST_SQUARE = 1e-2, 1e-4


def readable(observation: Observation) -> tuple[str, ...]:
    """Return the names of the columns of `measure`: fewer if there are only logits."""
    return SIGNALS if observation.has_model else PLAIN_SIGNALS


def measure(
    observation: Observation, probe: Probe, rows: NDArray[np.int64] | None = None
) -> Float32:
    """Return the signals of the observed nodes, (n, D), in the order of `readable`.

    ``rows`` selects some of the observed nodes by their positions; only these and their neighbours
    are then measured.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.card.card import SourceCard
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=40, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> probe = SourceCard.build(model, g, range(200, 400), compositions=0).probe
    >>> shifted = shifts.heterogeneous(3.0)(g, seed=2)
    >>> hit = (shifted.features != g.features).any(axis=1)
    >>> values = measure(Observation(model, shifted), probe)
    >>> values.shape == (400, len(SIGNALS))
    True
    >>> noise = values[:, SIGNALS.index("own disagreement")]
    >>> bool(noise[hit].mean() > noise[~hit].mean() + 1.0)
    True
    """
    scope = _Scope(observation, rows)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        columns = _plain(scope, probe)
        if observation.has_model:
            columns += _with_model(scope, probe)
    values = np.column_stack(columns)
    # Values are NaN or infinite only if a view overflows; such a view carries no information.
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=1e6, neginf=-1e6), dtype=np.float32)


class _Scope:
    """The nodes to measure, and the nodes ``near``: these and their neighbours.

    ``near`` is None for all nodes of the graph. ``at`` are the places of the measured nodes in it.
    """

    def __init__(self, observation: Observation, rows: NDArray[np.int64] | None) -> None:
        self.observation, self.graph = observation, observation.graph
        self.near: NDArray[np.int64] | None = None
        self._rows = slice(None) if rows is None else rows
        self.nodes = self.at = observation.nodes
        self.logits, self.predicted = observation.logits, observation.predictions
        if rows is None:
            self._neighbours = observation.neighbours
        else:
            self.nodes = observation.nodes[rows]
            self.logits, self.predicted = self.logits[rows], self.predicted[rows]
            matrix = adjacency(self.graph)[self.nodes]
            self.near = np.union1d(self.nodes, matrix.indices).astype(np.int64)
            places = np.searchsorted(self.near, matrix.indices).astype(matrix.indices.dtype)
            shape = (self.nodes.size, self.near.size)
            self._neighbours = sp.csr_matrix((matrix.data, places, matrix.indptr), shape=shape)
            self.at = np.searchsorted(self.near, self.nodes)
        self.degree = self.graph.degrees[self.nodes].astype(np.float64)

    def of(self, values: Any) -> Any:
        """Return the rows ``near`` of values per node of the graph."""
        return values if self.near is None else values[self.near]

    def at_nodes(self, values: FloatArray) -> FloatArray:
        """Return the measured nodes' values out of those of all observed nodes."""
        return values[self._rows]

    def neighbour_mean(self, *parts: FloatArray | Float32) -> FloatArray:
        """Return the mean of columns at ``near`` over each node's neighbours; zero without any."""
        columns = np.hstack([part.astype(np.float32) for part in parts])
        sums = np.asarray(multiply(self._neighbours, columns), dtype=np.float64)
        return np.asarray(sums / np.maximum(self.degree, 1.0)[:, None])

    def hard_agreement(self) -> FloatArray:
        """Return the share of each node's neighbours with its predicted class."""
        everywhere = self.observation.all_predictions
        if self.near is None:
            return signals.neighbour_agreement(everywhere, self.graph.links)[self.nodes]
        predicted, sizes = everywhere[self.near], np.diff(self._neighbours.indptr)
        row = np.repeat(np.arange(sizes.size), sizes)
        same = predicted[self._neighbours.indices] == self.predicted[row]
        return np.bincount(row, same, minlength=sizes.size) / np.maximum(self.degree, 1.0)


def _plain(scope: _Scope, probe: Probe) -> list[FloatArray]:
    degree = scope.degree
    all_p = temperatures.apply(scope.of(scope.observation.all_logits), probe.temperature)
    sketch = _sketch(scope, probe)
    energy = (sketch.astype(np.float64) ** 2).mean(axis=1)
    around = scope.neighbour_mean(all_p, energy[:, None], sketch)
    classes = all_p.shape[1]
    soft = around[np.arange(degree.size), scope.predicted]
    # A row and the mean of d independent rows differ by 1 + 1/d times the variance of a row.
    shrink = np.where(degree > 0, degree / (degree + 1.0), 1.0)
    deviation = ((sketch[scope.at] - around[:, classes + 1 :]) ** 2).mean(axis=1) * shrink
    return [
        _log(signals.margin(scope.logits / probe.temperature), _LEAST_SIZE),
        signals.entropy(all_p[scope.at], normalised=True),
        _agreement(soft, degree),
        _agreement(scope.hard_agreement(), degree),
        signals.log_degree(degree),
        _log(energy[scope.at], _LEAST_SIZE),
        _log(np.where(degree > 0, around[:, classes], 1.0), _LEAST_SIZE),
        _log(deviation, _LEAST_SIZE),
    ]


def _with_model(scope: _Scope, probe: Probe) -> list[FloatArray]:
    views, predicted, at = measure_views(scope.observation, probe), scope.predicted, scope.at
    own, own_square = centred(scope.of(views.own)), scope.of(views.own_square)
    square, lead, agree = map(scope.at_nodes, (views.square, views.lead, views.agree))
    around = scope.neighbour_mean(own, own_square[:, None])
    around_own, around_square = around[:, :-1], around[:, -1]
    return [
        np.arcsinh(leads(own[at], predicted)),
        np.arcsinh(leads(around_own, predicted)),
        0.5 * _log(((own[at] - around_own) ** 2).sum(axis=1), _LEAST_SQUARE),
        _log(square, _LEAST_SQUARE),
        _log(own_square[at], _LEAST_SQUARE),
        _log(around_square, _LEAST_SQUARE),
        agree,
        np.arcsinh(lead),
    ]


def _agreement(share: FloatArray, degree: FloatArray) -> FloatArray:
    """Return the log-odds of an agreeing share of d neighbours, plus half a neighbour each."""
    agreeing = np.where(degree > 0, share * degree, 0.0)
    against = np.maximum(degree - agreeing, 0.0)
    return np.asarray(np.log((agreeing + 0.5) / (against + 0.5)))


def _log(values: FloatArray, least: float) -> FloatArray:
    return np.asarray(np.log(np.maximum(values, 0.0) + least))


def _sketch(scope: _Scope, probe: Probe) -> Float32:
    """Return the sketches of the nodes ``near``, relative to that of the column means."""
    observation = scope.observation
    weights = sketch_weights(probe.column_std, probe.seed)
    centre = observation.column_moments[0].astype(np.float32) @ weights
    return np.asarray(scope.of(observation.graph.features) @ weights - centre, dtype=np.float32)
