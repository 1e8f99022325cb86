r"""Passes of a GCN on projected columns: its first layer reads the features through one matrix.

A GCN sees its features only as :math:`X W_1`. Noise E changes that by :math:`E W_1`, whose rows are
Gaussians of the hidden width; a half of the columns is :math:`X_{half} W_1`; and without some edges
it is what it was. So each pass works on the hidden columns, never on the F columns of X, and sparse
features are not made dense. `perturb`, `split_views` and `witness` do the same for linear models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import operator, project
from graphtemper.models.gcn import GCN
from graphtemper.models.predictor import Predictor, checked_logits

Hidden = NDArray[np.float32]


def has_first_layer(predictor: Predictor) -> TypeGuard[GCN]:
    """Whether the predictor is a GCN that can be run from its first layer's columns."""
    # A subclass that predicts in its own way must not be second-guessed.
    return isinstance(predictor, GCN) and type(predictor).__call__ is GCN.__call__


def noisy_passes(
    model: GCN,
    graph: Graph,
    factor: NDArray[np.float32],
    passes: int,
    rng: np.random.Generator,
) -> Iterator[FloatArray]:
    """Yield the logits (N, K) under noise whose projections are white rows times ``factor``."""
    matrix, clean = operator(graph), model.project(graph.features)
    shape = (graph.num_nodes, factor.shape[0])
    for _ in range(passes):
        change: Hidden = rng.standard_normal(shape, dtype=np.float32)
        noisy = np.asarray(clean + project(change, factor), dtype=np.float32)
        yield checked_logits(model.finish(noisy, matrix), graph.num_nodes)


def half_passes(
    model: GCN, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Yield the logits on one half of the columns and on the other, then the same without edges."""
    matrix = operator(graph)
    alone = sp.identity(graph.num_nodes, np.float32, format="csr")
    mean = column_mean.astype(np.float32)[None, :]
    # What the two halves read sums to what all columns read, and so do their means.
    whole = model.project(graph.features) + model.project(mean)
    for half in halves:
        seen = model.project(graph.features, half) + model.project(mean, ~half)
        parts = seen, whole - seen
        first, second, own_first, own_second = (
            checked_logits(model.finish(part, step), graph.num_nodes)
            for step in (matrix, alone)
            for part in parts
        )
        yield first, second, own_first, own_second


def edge_runner(
    model: GCN, graph: Graph, subset: Callable[[NDArray[np.bool_]], sp.csr_matrix]
) -> Callable[[NDArray[np.bool_]], FloatArray]:
    """Return a function from a choice of edges to logits; ``subset`` makes the operator of one."""
    projected = model.project(graph.features)
    return lambda keep: checked_logits(model.finish(projected, subset(keep)), graph.num_nodes)
