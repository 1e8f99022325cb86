r"""Node signals: what a single node shows, without labels, of how far to trust its prediction.

A shift that hits only a part of the graph leaves its mark on the nodes it hit. The leading mark is
the disagreement of a node's two split views (see `split_views`),

.. math:: q_i = \frac1S \sum_s |u_{is} - v_{is}|^2,

in which signal cancels and noise stays. The others are what the neighbours say (of the prediction,
and without being asked), how far the node's features lie from the graph's mean and from the
neighbourhood's, the degree, and the logits themselves. Sizes are in units of the source's
temperature and of the source's column standard deviations, so that they mean the same on every
graph. Everything costs O(E K) and two splits of the columns.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.random_streams import stream
from graphtemper._core.threads import map_blocks
from graphtemper.graph.operators import multiply
from graphtemper.signals import pointwise as signals
from graphtemper.signals import split_views
from graphtemper.signals.evidence import Probe
from graphtemper.signals.observation import Observation

Float32 = NDArray[np.float32]
Classes = NDArray[np.intp]

LOGIT_SIGNALS = ("log margin", "entropy")
"""What the logits alone show: the paper's ablation."""
PLAIN_SIGNALS = (
    *LOGIT_SIGNALS,
    "soft agreement",
    "hard agreement",
    "log degree",
    "feature energy",
    "neighbours' energy",
    "feature deviation",
)
"""What shows without running the model again."""
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
"""Everything that shows of a node when the model can be run."""

# Splits of the columns; a node's disagreement is a rough number whatever they cost.
SPLITS = 2
# Random signed sums of the columns that stand for them in distances between nodes.
SKETCH = 16
# Sizes below these are not told apart: logarithms need an end.
_LEAST_SIZE, _LEAST_SQUARE = 1e-2, 1e-4


def readable(seen: Observation) -> tuple[str, ...]:
    """Return the names of the columns of `measure`: fewer where there are only logits."""
    return SIGNALS if seen.has_model else PLAIN_SIGNALS


def measure(seen: Observation, probe: Probe) -> Float32:
    """Return the signals of the observed nodes, (n, D), in the order of `readable`.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.card.card import SourceCard
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=40, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> probe = SourceCard.build(model, g, range(200, 400), compositions=0).probe
    >>> half = shifts.heterogeneous(3.0)(g, seed=2)
    >>> hit = (half.features != g.features).any(axis=1)
    >>> shown = measure(Observation(model, half, temperature=probe.temperature), probe)
    >>> shown.shape == (400, len(SIGNALS))
    True
    >>> noise = shown[:, SIGNALS.index("own disagreement")]
    >>> bool(noise[hit].mean() > noise[~hit].mean() + 1.0)
    True
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        columns = _plain(seen, probe)
        if seen.has_model:
            columns += _with_model(seen, probe)
    found = np.column_stack(columns)
    # Only views that overflow are not numbers; they say nothing.
    return np.asarray(np.nan_to_num(found, nan=0.0, posinf=1e6, neginf=-1e6), dtype=np.float32)


def _plain(seen: Observation, probe: Probe) -> list[FloatArray]:
    graph, nodes = seen.graph, seen.nodes
    degree = graph.degrees[nodes].astype(np.float64)
    all_p = temperatures.apply(seen.all_logits)
    energy = _energy(seen, probe)
    sketch = _sketch(seen, probe)
    around = _neighbour_mean(seen, all_p, energy[:, None], sketch)
    classes = all_p.shape[1]
    hard = signals.neighbour_agreement(seen.all_predictions, graph.edges)[nodes]
    soft = around[np.arange(nodes.size), seen.predictions]
    # Two independent rows differ by 1 + 1/d of the variance of one.
    shrink = np.where(degree > 0, degree / (degree + 1.0), 1.0)
    deviation = ((sketch[nodes] - around[:, classes + 1 :]) ** 2).mean(axis=1) * shrink
    return [
        _log(signals.margin(seen.logits), _LEAST_SIZE),
        signals.entropy(seen.probabilities, normalised=True),
        _agreement(soft, degree),
        _agreement(hard, degree),
        signals.log_degree(degree),
        _log(energy[nodes], _LEAST_SIZE),
        _log(np.where(degree > 0, around[:, classes], 1.0), _LEAST_SIZE),
        _log(deviation, _LEAST_SIZE),
    ]


def _with_model(seen: Observation, probe: Probe) -> list[FloatArray]:
    graph, nodes, predicted = seen.graph, seen.nodes, seen.predictions
    own = split_views.centred(seen.passes.own_view(graph)) / probe.temperature
    halves = split_views.column_halves(graph.num_features, SPLITS, probe.seed)
    square, lead, agree = (np.zeros(nodes.size) for _ in range(3))
    own_square = np.zeros(graph.num_nodes)
    for views in seen.passes.half_views(graph, halves, seen.column_moments[0]):
        first, second = (
            split_views.centred(view[nodes]) / probe.temperature
            for view in (views.first, views.second)
        )
        square += ((first - second) ** 2).sum(axis=1) / SPLITS
        lead += np.minimum(_lead(first, predicted), _lead(second, predicted)) / SPLITS
        for view in (first, second):
            agree += (view.argmax(axis=1) == predicted) / (2.0 * SPLITS)
        gap = split_views.centred(views.own_first - views.own_second) / probe.temperature
        own_square += (gap**2).sum(axis=1) / SPLITS
    around = _neighbour_mean(seen, own, own_square[:, None])
    beside = around[:, :-1]
    return [
        np.arcsinh(_lead(own[nodes], predicted)),
        np.arcsinh(_lead(beside, predicted)),
        0.5 * _log(((own[nodes] - beside) ** 2).sum(axis=1), _LEAST_SQUARE),
        _log(square, _LEAST_SQUARE),
        _log(own_square[nodes], _LEAST_SQUARE),
        _log(around[:, -1], _LEAST_SQUARE),
        agree,
        np.arcsinh(lead),
    ]


def _neighbour_mean(seen: Observation, *parts: FloatArray | Float32) -> FloatArray:
    """Return the mean of some columns over each observed node's neighbours; zero without any."""
    columns = np.hstack([part.astype(np.float32) for part in parts])
    sums = np.asarray(multiply(seen.neighbours, columns), dtype=np.float64)
    return np.asarray(sums / np.maximum(seen.graph.degrees[seen.nodes], 1)[:, None])


def _lead(values: FloatArray, predicted: Classes) -> FloatArray:
    """Return by how much a view prefers the prediction to its closest rival; negative if not."""
    rows = np.arange(len(values))
    others = values.copy()
    others[rows, predicted] = -np.inf
    return np.asarray(values[rows, predicted] - others.max(axis=1))


def _agreement(share: FloatArray, degree: FloatArray) -> FloatArray:
    """Return the log-odds of a share of d neighbours, with half a neighbour on either side."""
    for_it = np.where(degree > 0, share * degree, 0.0)
    against = np.maximum(degree - for_it, 0.0)
    return np.asarray(np.log((for_it + 0.5) / (against + 0.5)))


def _log(values: FloatArray, least: float) -> FloatArray:
    return np.asarray(np.log(np.maximum(values, 0.0) + least))


def _weights(std: FloatArray) -> FloatArray:
    """Return 1 / std of the source's columns; one that was constant there says nothing."""
    return np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)


def _energy(seen: Observation, probe: Probe) -> FloatArray:
    """Return each node's mean squared distance from the column means, in source variances, (N,)."""
    features, (mean, _) = seen.graph.features, seen.column_moments
    weights = _weights(probe.column_std) ** 2 / max(int((probe.column_std > 0).sum()), 1)
    if sp.issparse(features):
        wide = features.astype(np.float64)
        square = multiply(wide.multiply(wide), weights) - 2.0 * multiply(wide, weights * mean)
        return np.asarray(np.maximum(square + float((weights * mean**2).sum()), 0.0)).ravel()
    centre, scale = mean.astype(np.float32), weights.astype(np.float32)

    def part(rows: slice) -> Float32:
        gap = features[rows] - centre
        np.square(gap, out=gap)
        return np.asarray(gap @ scale)

    return np.concatenate(map_blocks(part, *features.shape)).astype(np.float64)


def _sketch(seen: Observation, probe: Probe) -> Float32:
    """Return random signed sums of standardised columns: distances between rows survive, (N, s)."""
    features, (mean, _) = seen.graph.features, seen.column_moments
    scale = _weights(probe.column_std) / np.sqrt(max(int((probe.column_std > 0).sum()), 1))
    signs = stream(probe.seed, "node sketch").choice([-1.0, 1.0], size=(scale.size, SKETCH))
    columns = (signs * scale[:, None]).astype(np.float32)
    return np.asarray(features @ columns - mean.astype(np.float32) @ columns, dtype=np.float32)
