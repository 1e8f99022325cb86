"""Signals: one number per graph, or one per node, measured without labels.

Small pure functions on arrays. Probabilities p are (n, K) with rows that sum to 1, and votes v are
(n, K) counts from M perturbed passes. Predictions are class indices, of *all* nodes in functions
that take edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_matrix
from graphtemper._core.reproducible import map_blocks
from graphtemper.graph.checks import Features
from graphtemper.graph.operators import multiply

Edges = NDArray[np.integer[Any]]

# The agreement of a node without neighbours: as likely as not.
NO_NEIGHBOURS = 0.5


def confidence(probabilities: ArrayLike) -> FloatArray:
    r"""Return :math:`\max_k p_{ik}`, (n,).

    Examples
    --------
    >>> confidence([[0.2, 0.8], [0.6, 0.4]]).tolist()
    [0.8, 0.6]
    """
    return np.asarray(check_matrix(probabilities, "probabilities").max(axis=1), dtype=np.float64)


def entropy(probabilities: ArrayLike, *, normalised: bool = False) -> FloatArray:
    r"""Return :math:`-\sum_k p_{ik}\log p_{ik}`, (n,); divided by log K if ``normalised``.

    Examples
    --------
    >>> entropy([[0.5, 0.5], [1.0, 0.0]], normalised=True).tolist()
    [1.0, 0.0]
    """
    p = check_matrix(probabilities, "probabilities")
    nats = np.empty(len(p))

    def write(rows: slice) -> None:
        some = p[rows].astype(np.float64, copy=False)
        logs = np.log(some, out=np.zeros(some.shape), where=some > 0.0)
        nats[rows] = 0.0 - np.einsum("ik,ik->i", some, logs)  # no -0

    map_blocks(write, *p.shape)
    return nats / np.log(p.shape[1]) if normalised else nats


def margin(probabilities: ArrayLike) -> FloatArray:
    """Return the largest minus the second largest probability, (n,).

    Examples
    --------
    >>> margin([[0.7, 0.2, 0.1]]).round(6).tolist()
    [0.5]
    """
    return _top_gap(check_matrix(probabilities, "probabilities"))


def mean_margin(logits: ArrayLike) -> float:
    r"""Return :math:`E|\delta|`, the mean gap between the two largest logits.

    For K = 2 this is the mean of :math:`|z_1 - z_0|`, the quantity of the paper's severity bound.
    The paper gives no definition for K > 2; there the gap is the log-odds of the predicted class
    against the runner-up, which for K = 2 is the same.

    Examples
    --------
    >>> mean_margin([[0.0, 2.0], [0.0, -4.0]])
    3.0
    """
    return float(_top_gap(check_matrix(logits, "logits")).mean())


def _top_gap(values: NDArray[Any]) -> FloatArray:
    two = np.partition(values, values.shape[1] - 2, axis=1)[:, -2:].astype(np.float64)
    return np.asarray(two[:, 1] - two[:, 0])


def atc_threshold(scores: ArrayLike, accuracy: float) -> float:
    """Return the threshold above which a fraction ``accuracy`` of the source scores lies.

    This is the (1 - accuracy) quantile (linear interpolation), so that as many source nodes are
    below it as are wrong. A node at the threshold counts as above. If tied scores miss the
    accuracy, the threshold is just above the tied score, provided that this comes closer; the
    original scan, which stops where false positives balance false negatives, chooses the same.

    References
    ----------
    Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022.

    Examples
    --------
    >>> scores = [0.5, 0.6, 0.7, 0.8, 0.9]
    >>> atc_share(scores, atc_threshold(scores, 0.6))
    0.6
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise errors.not_finite("scores must be one finite number per node, for at least one node.")
    if not 0.0 <= accuracy <= 1.0:
        raise errors.range(f"accuracy must be in [0, 1], not {accuracy!r}.")
    at = float(np.quantile(values, 1.0 - accuracy))
    reached = values[values >= at].min()
    above = float(np.nextafter(reached, np.inf))
    return min(at, above, key=lambda cut: abs(atc_share(values, cut) - accuracy))


def atc_share(scores: ArrayLike, threshold: float) -> float:
    r"""Return the fraction of nodes with :math:`s_i \ge \tau`: the ATC estimate of the accuracy.

    Scores are `confidence`, or minus `entropy`.

    Examples
    --------
    >>> atc_share([0.9, 0.6, 0.4, 0.8], 0.6)
    0.75
    """
    return float((np.asarray(scores) >= threshold).mean())


def instability(votes: ArrayLike) -> FloatArray:
    r"""Return for each node the fraction of pairs of passes that disagree, (n,).

    .. math:: u_i = 1 - \sum_k \frac{v_{ik}(v_{ik} - 1)}{M(M - 1)}

    Examples
    --------
    >>> instability([[4, 0], [2, 2]]).round(4).tolist()
    [0.0, 0.6667]
    """
    v = np.asarray(votes)
    if v.ndim != 2 or v.size == 0 or v.dtype.kind not in "iu" or v.min() < 0:
        raise errors.shape("votes must be an (n, K) array of counts.")
    total = v.sum(axis=1)
    count = int(total[0])
    if (total != count).any() or count < 2:
        raise errors.shape("every node needs the same number of votes, from at least two passes.")
    agreeing = (v * (v - 1)).sum(axis=1)
    return np.asarray(1.0 - agreeing / (count * (count - 1)), dtype=np.float64)


def pairwise_disagreement(votes: ArrayLike) -> float:
    """Return how often two passes predict different classes, over nodes and pairs of passes.

    Vote counts give the same result as all M (M - 1) / 2 pairs of passes, in O(n K).

    Examples
    --------
    >>> round(pairwise_disagreement([[4, 0], [2, 2]]), 4)
    0.3333
    """
    return float(instability(votes).mean())


def neighbour_agreement(predictions: ArrayLike, edges: Edges) -> FloatArray:
    """Return for each node the fraction of its neighbours with the same predicted class, (N,).

    A node without neighbours gets 1/2.

    Examples
    --------
    >>> neighbour_agreement([0, 0, 1, 1], np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 0.5, 0.0, 0.5]
    """
    classes = np.asarray(predictions)
    first, second = edges[:, 0], edges[:, 1]
    agree = np.flatnonzero(classes[first] == classes[second])
    size = classes.size
    same = np.bincount(first[agree], minlength=size) + np.bincount(second[agree], minlength=size)
    degrees = np.bincount(edges.ravel(), minlength=size)
    share = np.full(size, NO_NEIGHBOURS)
    np.divide(same, degrees, out=share, where=degrees > 0)
    return share


def predicted_homophily(predictions: ArrayLike, edges: Edges) -> float:
    r"""Return the fraction of edges whose ends agree: the edge homophily of the predictions.

    From classes (N,) this is :math:`\frac1E\sum_{uv} 1[\hat y_u = \hat y_v]`; from probabilities
    (N, K) the soft version :math:`\frac1E\sum_{uv} \sum_k p_{uk} p_{vk}`. Wrong predictions move
    both towards chance agreement, unless smoothing makes the errors agree along edges.

    Examples
    --------
    >>> edges = np.array([[0, 1], [1, 2]])
    >>> predicted_homophily([0, 0, 1], edges)
    0.5
    >>> round(predicted_homophily([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]], edges), 6)
    0.5
    """
    if len(edges) == 0:
        raise errors.empty("the graph has no edges, so its homophily is undefined.")
    values = np.asarray(predictions)
    first, second = edges[:, 0], edges[:, 1]
    if values.ndim == 1 and values.dtype.kind in "iu" and values.size and values.min() >= 0:
        values = values.astype(np.min_scalar_type(values.max()))  # small, to stay in the cache

    def part(rows: slice) -> float:
        here, there = values[first[rows]], values[second[rows]]
        if values.ndim == 1:
            return int(np.count_nonzero(here == there))
        return float(np.einsum("ek,ek->", here, there))

    width = 1 if values.ndim == 1 else values.shape[1]
    return sum(map_blocks(part, len(edges), width)) / len(edges)


def log_degree(degrees: ArrayLike) -> FloatArray:
    """Return log(1 + degree), (n,).

    Examples
    --------
    >>> log_degree([0, 1]).round(4).tolist()
    [0.0, 0.6931]
    """
    return np.log1p(np.asarray(degrees, dtype=np.float64))


def snr_estimate(features: Features, predictions: ArrayLike) -> float:
    r"""Return between-class over within-class variance, the CSBM's :math:`\rho = r^2/\sigma^2`.

    With pseudo-labels of n nodes in K classes present, shares :math:`\pi_k`, class means
    :math:`m_k` and overall mean m,

    .. math:: \hat\sigma^2 = \frac{1}{F(n-K)} \sum_i \|x_i - m_{\hat y_i}\|^2, \qquad
              \hat r^2 = \sum_k \pi_k \|m_k - m\|^2 - \frac{(K-1) F}{n}\hat\sigma^2,

    where the last term removes the sampling error of the means from their distance. The estimate is
    unbiased to first order for true labels. Pseudo-labels bias it in both directions: wrong labels
    mix the classes (downwards), and labels predicted from the same features count part of the noise
    as signal (upwards: without any signal, two classes split along one direction of white noise
    give 2/pi = 0.64 among many columns and 1.75 if it is the only column). Columns of unequal noise
    are averaged. Negative values mean that no signal is visible.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(5000, degree=4, homophily=0.5, snr=0.5, num_features=8, seed=1)
    >>> print(f"{snr_estimate(g.features, g.labels):.2f}")
    0.53
    """
    classes = np.unique(np.asarray(predictions), return_inverse=True)[1]
    count = features.shape[0]
    if classes.shape != (count,):
        raise errors.shape(f"predictions must have shape ({count},), one per row of the features.")
    sizes = np.bincount(classes)
    # In float64 around the overall mean: large features may have small deviations from it.
    return snr_from_sums(sizes, *_class_deviations(features, classes, sizes))


def snr_from_sums(sizes: NDArray[np.integer[Any]], sums: FloatArray, square: float) -> float:
    """Return `snr_estimate` from sums, which can be added up over parts of a graph.

    ``sizes`` (K,) is the number of nodes of each class present, ``sums`` (K, F) the sum of their
    deviations from the mean row, and ``square`` the sum of all squared deviations.
    """
    count, width = int(sizes.sum()), sums.shape[1]
    if sizes.size < 2 or count <= sizes.size:
        raise errors.too_few(
            "the SNR needs at least two predicted classes and more nodes than that."
        )
    means = sums / sizes[:, None]
    between = float((sizes * (means**2).sum(axis=1)).sum())
    noise = (square - between) / (width * (count - sizes.size))
    if not noise > 0.0:
        raise errors.empty("the features do not vary within the predicted classes; no SNR exists.")
    return float(between / (count * noise) - (sizes.size - 1) * width / count)


def _class_deviations(
    features: Features, classes: NDArray[np.intp], sizes: NDArray[np.intp]
) -> tuple[FloatArray, float]:
    """Return the sums of deviations from the mean row per class, (K, F), and of all squares."""
    rows, width = features.shape
    members = sp.csr_matrix((np.ones(rows), (classes, np.arange(rows))), (sizes.size, rows))
    if not isinstance(features, np.ndarray):
        wide = features.astype(np.float64)
        centre = np.asarray(wide.mean(axis=0)).ravel()
        square = float((wide.data**2).sum()) - rows * float((centre**2).sum())
        sums = np.asarray(multiply(members, wide).toarray())
        return sums - sizes[:, None] * centre, square
    centre = np.asarray(features.mean(axis=0, dtype=np.float64))

    def part(block: slice) -> tuple[FloatArray, float]:
        deviation = features[block] - centre
        sums = np.asarray(multiply(members[:, block], deviation), dtype=np.float64)
        return sums, float(np.vdot(deviation, deviation))

    parts = map_blocks(part, rows, width)
    return np.sum([sums for sums, _ in parts], axis=0), sum(square for _, square in parts)


def kappa(pairs: NDArray[np.intp], num_classes: int, weights: FloatArray | None = None) -> float:
    """Return Cohen's kappa of the predictions at the two ends of edges, (E, 2).

    ``weights``, (E,), are those of a sample of edges that is not uniform.

    Examples
    --------
    >>> kappa(np.array([[0, 0], [1, 1]]), 2), kappa(np.array([[0, 1], [1, 0]]), 2)
    (1.0, -1.0)
    """
    weight = np.ones(len(pairs)) if weights is None else weights
    shares = np.bincount(pairs.ravel(), np.repeat(weight, 2), num_classes) / (2.0 * weight.sum())
    chance = float((shares**2).sum())
    agree = float(weight @ (pairs[:, 0] == pairs[:, 1]) / weight.sum())
    return (agree - chance) / max(1.0 - chance, 1e-3)
