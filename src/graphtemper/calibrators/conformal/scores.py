"""Conformal scores of each class at each node: APS, RAPS and their diffusion over neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    check_integer,
    check_matrix,
    check_non_negative,
    check_unit,
    check_vector,
    probability_columns,
)
from graphtemper._core.reproducible import map_blocks
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import multiply, operator


def aps(probabilities: ArrayLike, uniforms: ArrayLike | None = None) -> FloatArray:
    r"""Return the adaptive score: the probability of more probable classes plus a part of its own.

    .. math:: s_{ik} = \sum_{j:\, r_{ij} < r_{ik}} p_{ij} + u_i\, p_{ik}

    with the rank r of a class in its row, 1 for the most probable; equal probabilities are ranked
    by class index. With u uniform on (0, 1), and p the true conditional probabilities, the score
    of the true class is uniform.

    Parameters
    ----------
    probabilities : (n, K) array
    uniforms : (n,) array, optional
        One u in [0, 1] per node. Default u = 1: no randomness, and larger sets.

    Returns
    -------
    (n, K) float64 array

    References
    ----------
    Romano, Sesia & Candès, "Classification with Valid and Adaptive Coverage", NeurIPS 2020.

    Examples
    --------
    >>> aps([[0.2, 0.5, 0.3]]).round(6).tolist()
    [[1.0, 0.5, 0.8]]
    >>> aps([[0.2, 0.5, 0.3]], [0.5]).round(6).tolist()
    [[0.9, 0.25, 0.65]]
    """
    return raps(probabilities, uniforms, lam=0.0)


def raps(
    probabilities: ArrayLike,
    uniforms: ArrayLike | None = None,
    *,
    lam: float = 0.1,
    k_reg: int = 1,
) -> FloatArray:
    r"""Return `aps` plus a penalty on ranks, which keeps sets small for long-tailed probabilities.

    .. math:: s_{ik} = \mathrm{aps}_{ik} + \lambda \max(0,\, r_{ik} - k_{reg})

    Parameters
    ----------
    probabilities, uniforms
        As in `aps`.
    lam : float
        At least 0; 0 is `aps`.
    k_reg : int
        Classes of this rank or better are not penalised.

    References
    ----------
    Angelopoulos, Bates, Malik & Jordan, "Uncertainty Sets for Image Classifiers using Conformal
    Prediction", ICLR 2021.

    Examples
    --------
    >>> raps([[0.2, 0.5, 0.3]], lam=0.1).round(6).tolist()
    [[1.2, 0.5, 0.9]]
    """
    p = check_matrix(probabilities, "probabilities")
    count, classes = p.shape
    u = np.ones(count) if uniforms is None else check_vector(uniforms, "uniforms")
    if u.shape != (count,):
        raise errors.shape(f"uniforms must have shape ({count},), one per row, not {u.shape}.")
    if count and not 0.0 <= u.min() <= u.max() <= 1.0:
        raise errors.range("uniforms must be numbers in [0, 1].")
    scores = np.empty(p.shape, dtype=np.float64)
    penalised = np.maximum(np.arange(1, classes + 1) - check_integer(k_reg, "k_reg", 0), 0)
    steps = check_non_negative(lam, "lam") * penalised

    def write(rows: slice) -> None:
        values = probability_columns(p, rows).T.astype(np.float64)
        order = np.argsort(-values, axis=1, kind="stable")
        sorted_values = np.take_along_axis(values, order, axis=1)
        above = np.cumsum(sorted_values, axis=1) - sorted_values
        ranked = above + u[rows, None] * sorted_values + steps
        block = np.empty_like(ranked)
        np.put_along_axis(block, order, ranked, axis=1)
        scores[rows] = block

    map_blocks(write, count, classes)
    return scores


def diffuse(scores: ArrayLike, graph: Graph, delta: float = 0.5) -> FloatArray:
    r"""Mix each node's scores with the mean of its neighbours' (DAPS, from the scores of `aps`).

    .. math:: \tilde s = (1 - \delta)\, s + \delta\, D^{-1} A\, s

    Where neighbours have the same class this removes noise from the scores; where they do not, it
    adds noise. A node without neighbours keeps its own scores. O(E K).

    Parameters
    ----------
    scores : (N, K) array
        Of every node of the graph.
    graph : Graph
    delta : float
        In [0, 1]; 0 changes nothing.

    References
    ----------
    Zargarbashi, Antonelli & Bojchevski, "Conformal Prediction Sets for Graph Neural Networks",
    ICML 2023.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1]])
    >>> diffuse([[0.2, 1.0], [0.6, 1.0], [0.4, 1.0]], g).round(6).tolist()
    [[0.4, 1.0], [0.4, 1.0], [0.4, 1.0]]
    """
    s = check_matrix(scores, "scores").astype(np.float64)
    if len(s) != graph.num_nodes:
        raise errors.too_few(
            f"there are {len(s)} rows but the graph has {graph.num_nodes} nodes; diffused scores "
            "need the probabilities of every node."
        )
    weight = check_unit(delta, "delta")
    neighbours = np.asarray(multiply(operator(graph, "mean"), s), dtype=np.float64)
    isolated = graph.degrees == 0
    neighbours[isolated] = s[isolated]
    return (1.0 - weight) * s + weight * neighbours
