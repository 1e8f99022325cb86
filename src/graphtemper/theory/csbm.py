"""The contextual stochastic block model of the paper's Assumption 1, in O(N + E).

Labels are i.i.d. uniform on K classes, features are class mean plus Gaussian noise, and every
pair of nodes is joined independently with probability p (same class) or q (different classes).
The number of edges of each block is drawn first (it is Binomial), then that many distinct pairs
uniformly from the block: the same distribution as N^2 coin tosses, without the N^2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import (
    check_integer,
    check_non_negative,
    check_positive,
    check_unit,
)
from graphtemper._core.reproducible import generator
from graphtemper.graph.graph import Graph

# Features are float32: noise and class means between these bounds neither vanish nor overflow.
SMALLEST, LARGEST = 1e-37, 1e37
# Edges hold node numbers as int32.
MAX_NODES = 2**31 - 1


def sample(
    num_nodes: int,
    degree: float,
    homophily: float,
    snr: float,
    num_classes: int = 2,
    num_features: int | None = None,
    seed: int | np.random.Generator = 0,
    *,
    noise: float = 1.0,
) -> Graph:
    r"""Draw a graph with the given expected degree, edge homophily and signal-to-noise ratio.

    The contextual block model (``as:csbm``): features are :math:`x_i=\mu_{y_i}+\xi_i`,
    :math:`\xi_i\sim N(0,\sigma^2I)`, with simplex means of norm :math:`r=\sigma\sqrt{\rho}` that
    sum to zero. Source and target graphs drawn with different seeds share their class means
    (`simplex_means` is deterministic).

    Parameters
    ----------
    num_nodes, degree, homophily, snr
        N, the expected degree d, the edge homophily h in [0, 1] and :math:`\rho=r^2/\sigma^2`.
    num_classes, num_features
        K >= 2 and F >= K - 1 (default K - 1). The graph has K class names, "0" to "K - 1", so
        ``num_classes`` is K also where a class happens to get no node.
    seed
        An integer or a generator; the same integer gives the same graph.
    noise
        The standard deviation sigma of the features around their class mean.

    Examples
    --------
    >>> g = sample(2000, degree=10, homophily=0.8, snr=1.0, seed=1)
    >>> print(f"{2 * g.num_edges / g.num_nodes:.1f}")
    10.0
    >>> same = g.labels[g.edges[:, 0]] == g.labels[g.edges[:, 1]]
    >>> print(f"{same.mean():.2f}")
    0.80
    """
    rng = generator(seed)
    same, different = block_probabilities(num_nodes, degree, homophily, num_classes)
    means = simplex_means(num_classes, num_features, radius=_radius(snr, noise))
    labels = rng.integers(num_classes, size=num_nodes)
    edges = sample_edges(labels, same, different, rng)
    return Graph._from_valid(
        features=sample_features(labels, means, noise, rng),
        edges=edges,
        labels=labels,
        name="csbm",
        class_names=tuple(str(label) for label in range(num_classes)),
    )


def _radius(snr: float, noise: float) -> float:
    """Return the norm of the class means, after checking that features will fit float32."""
    ratio, sigma = check_positive(snr, "snr"), check_positive(noise, "noise")
    if not SMALLEST <= sigma <= LARGEST:
        raise errors.range(
            f"noise must lie between {SMALLEST:g} and {LARGEST:g}, because features are float32, "
            f"not {sigma:g}."
        )
    radius = sigma * math.sqrt(ratio)
    if radius > LARGEST:
        raise errors.range(
            f"snr {ratio:g} at noise {sigma:g} puts class means at {radius:g}, beyond the "
            f"{LARGEST:g} that float32 features allow; lower the snr or the noise."
        )
    return radius


def block_probabilities(
    num_nodes: int, degree: float, homophily: float, num_classes: int = 2
) -> tuple[float, float]:
    r"""Return (p, q), the edge probabilities within and between classes.

    Solves :math:`h=p/(p+q(K-1))` and :math:`d=p(N/K-1)+qN(K-1)/K` (Assumptions 1 and 2).

    Examples
    --------
    >>> p, q = block_probabilities(1000, degree=20, homophily=0.75, num_classes=2)
    >>> round(p / (p + q), 6), round(p * 499 + q * 500, 6)
    (0.75, 20.0)
    """
    _check_classes(num_classes)
    check_integer(num_nodes, "num_nodes", 1, MAX_NODES)
    if num_nodes < num_classes:
        raise errors.range(
            f"num_nodes must be at least the {num_classes} classes, not {num_nodes}."
        )
    check_unit(homophily, "homophily")
    check_non_negative(degree, "degree")
    per_class = num_nodes / num_classes
    # p = h s and q = (1 - h) s / (K - 1) share the homophily; s sets the degree.
    scale = degree / (per_class - homophily) if per_class > homophily else math.inf
    same, different = homophily * scale, (1 - homophily) * scale / (num_classes - 1)
    if max(same, different) > 1:
        raise errors.range(
            f"degree {degree} at homophily {homophily} needs an edge probability above 1 for "
            f"{num_nodes} nodes; lower the degree or add nodes."
        )
    return same, different


def simplex_means(
    num_classes: int, num_features: int | None = None, radius: float = 1.0
) -> NDArray[np.float64]:
    """Return (K, F) class means: the corners of a regular simplex, norm ``radius``, sum zero.

    For two classes they are -radius and +radius on the first axis.

    Examples
    --------
    >>> simplex_means(2).tolist()
    [[-1.0], [1.0]]
    >>> means = simplex_means(4, 5, radius=2.0)
    >>> bool(np.allclose(means.sum(axis=0), 0)), bool(np.allclose((means**2).sum(axis=1), 4))
    (True, True)
    """
    _check_classes(num_classes)
    width = (
        num_classes - 1 if num_features is None else check_integer(num_features, "num_features", 1)
    )
    if width < num_classes - 1:
        raise errors.range(
            f"num_features must be at least num_classes - 1 = {num_classes - 1}, not {width}."
        )
    means = np.zeros((num_classes, width))
    # Corner by corner: each new axis separates one class from those that are left.
    for axis in range(num_classes - 1):
        rest = num_classes - 1 - axis
        height = math.sqrt(1.0 - float((means[axis] ** 2).sum()))
        means[axis, axis] = -height
        means[axis + 1 :, axis] = height / rest
    return means * radius


def _check_classes(num_classes: int) -> None:
    if check_integer(num_classes, "num_classes", 1) < 2:
        raise errors.range(f"num_classes must be at least 2, not {num_classes}.")


def sample_features(
    labels: NDArray[np.integer], means: ArrayLike, noise: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return class mean plus Gaussian noise for each node, (N, F) float32."""
    centres = np.asarray(means, dtype=np.float32)
    features = rng.standard_normal((labels.size, centres.shape[1]), dtype=np.float32)
    features *= np.float32(noise)
    features += centres[labels]
    return features


def sample_edges(
    labels: NDArray[np.integer],
    same: float,
    different: float,
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    """Join each pair of nodes independently: probability ``same`` or ``different`` by class.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> edges = sample_edges(np.array([0, 0, 1]), 1.0, 0.0, rng)
    >>> edges.tolist()
    [[0, 1]]
    """
    num_classes = int(labels.max()) + 1 if labels.size else 0
    order = np.argsort(labels, kind="stable").astype(np.int32)
    sizes = np.bincount(labels, minlength=num_classes)
    members = np.split(order, np.cumsum(sizes)[:-1])
    blocks = [_pairs_within(members[k], same, rng) for k in range(num_classes)]
    blocks += [
        _pairs_between(members[j], members[k], different, rng)
        for j in range(num_classes)
        for k in range(j + 1, num_classes)
    ]
    edges = np.empty((sum(low.size for low, _ in blocks), 2), np.int32)
    start = 0
    for low, high in blocks:
        stop = start + low.size
        edges[start:stop, 0], edges[start:stop, 1] = low, high
        start = stop
    return edges


def _distinct(total: int, probability: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose each of ``total`` items independently; the count is Binomial, the set uniform."""
    count = int(rng.binomial(total, probability)) if total else 0
    if 2 * count > total:  # dense blocks: drawing what to leave out is cheaper
        keep = np.ones(total, dtype=bool)
        keep[rng.choice(total, total - count, replace=False, shuffle=False)] = False
        return np.flatnonzero(keep)
    return rng.choice(total, count, replace=False, shuffle=False)


def _pairs_between(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    probability: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    chosen = _distinct(rows.size * columns.size, probability, rng)
    first, second = np.divmod(chosen, max(columns.size, 1))
    one, other = rows[first], columns[second]
    return np.minimum(one, other), np.maximum(one, other)


def _pairs_within(
    members: NDArray[np.int32], probability: float, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    size = members.size
    first, second = _pair_of(_distinct(size * (size - 1) // 2, probability, rng))
    return members[first], members[second]  # members ascend, so the first node is the lower one


def _pair_of(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs first < second with number = second (second - 1) / 2 + first."""
    # The inverse of a triangle number, which floating point may miss by one for large numbers.
    second = ((1.0 + np.sqrt(1.0 + 8.0 * number)) / 2.0).astype(np.int64)
    first = number - second * (second - 1) // 2
    for missed, step in ((first < 0, -1), (first >= second, 1)):
        if missed.any():
            second[missed] += step
            first[missed] = number[missed] - second[missed] * (second[missed] - 1) // 2
    return first, second
