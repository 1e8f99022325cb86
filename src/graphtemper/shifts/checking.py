"""A check of shifts, as scikit-learn's ``check_estimator`` is one of estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.reproducible import stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.shifts.base import Shift

_NODES, _LINKS, _COLUMNS, _CLASSES = 240, 480, 40, 3
# Share of sparse features that is stored in the drawn graph, and below which a result is sparse.
_STORED, _FULL = 0.01, 0.05
# How much larger the change at half the level may be by chance.
_SLACK = 1.2
_KEPT = ("labels", "train_masks", "val_masks", "test_masks", "node_type", "environment")


def check(shift: Shift, graph: Graph | None = None, *, neutral: float | None = 0.0) -> None:
    r"""Raise an error that says what a shift does wrong; return None if it does nothing wrong.

    Tried are dense and sparse features: labels, masks, types and the number of nodes and columns
    stay; the graph that is given is not written to; one seed gives the same bytes, and a generator
    is accepted; features are finite, the same for sparse and dense ones, and sparse where nearly
    all of them are zero. At the neutral level nothing changes, at the shift's own level something
    does, and half way no more than at its own. The parts of a composition are checked one by one.

    Parameters
    ----------
    shift : Shift
        The shift, at a level that is not the neutral one.
    graph : Graph, optional
        A labelled graph to try it on, if it needs one of a kind (default: a random one).
    neutral : float, optional
        The level at which the shift changes nothing; None if there is no such level.

    Examples
    --------
    >>> from graphtemper import shifts
    >>> def doubled(graph, level, rng):
    ...     return graph.replace(features=graph.features * (1.0 + level))
    >>> shifts.check(shifts.Shift("doubled", 1.0, doubled))
    >>> def relabelled(graph, level, rng):
    ...     return graph.replace(labels=rng.permutation(graph.labels))
    >>> shifts.check(shifts.Shift("relabelled", 1.0, relabelled))
    Traceback (most recent call last):
    graphtemper.errors.InputError: the shift relabelled(1) changes labels; shifts leave it as it is.
    """
    if not isinstance(shift, Shift):
        raise InputError(f"check takes a Shift, such as noise(0.5), not {shift!r:.60}.")
    dense = _drawn() if graph is None else graph.replace(features=_array(graph))
    sparse = dense.replace(features=sp.csr_matrix(_array(dense)))
    for given in (dense, sparse):
        _check_one(shift, given)
    _check_alike(shift, dense, sparse)
    for part in shift.parts or (shift,):
        _check_level(part, dense, neutral)


def _drawn() -> Graph:
    """Return a labelled graph with a few columns' entries different from zero."""
    rng = stream(0, "check of a shift")
    shape = (_NODES, _COLUMNS)
    values = np.where(rng.random(shape) < _STORED, 1.0 + rng.random(shape), 0.0)
    ends = rng.integers(_NODES, size=(_LINKS, 2))
    labels = rng.integers(_CLASSES, size=_NODES)
    return Graph.from_edges(values, ends, labels=labels, test_masks=labels[None] == 0)


def _array(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()


def _contents(graph: Graph) -> dict[str, bytes | None]:
    """Return the bytes of what a graph holds, by name."""
    features = graph.features
    held: dict[str, Any] = {"edges": graph.edges}
    if isinstance(features, np.ndarray):
        held["features"] = features
    else:
        held |= {name: getattr(features, name) for name in ("data", "indices", "indptr")}
    held |= {name: getattr(graph, name) for name in (*_KEPT, "edge_weight", "edge_features")}
    return {name: None if value is None else value.tobytes() for name, value in held.items()}


def _check_one(shift: Shift, graph: Graph) -> None:
    before = _contents(graph)
    shifted = shift(graph, 5)
    if not isinstance(shifted, Graph):
        raise _wrong(shift, f"returns a {type(shifted).__name__}; shifts return a Graph")
    if _contents(graph) != before:
        raise _wrong(shift, "writes to the graph that it is given; shifts return another one")
    if shifted.num_nodes != graph.num_nodes or shifted.num_features != graph.num_features:
        raise _wrong(shift, "changes the number of nodes or of columns; shifts keep both")
    after = _contents(shifted)
    for name in _KEPT:
        if after[name] != before[name]:
            raise _wrong(shift, f"changes {name}; shifts leave it as it is")
    if not np.isfinite(_array(shifted)).all():
        raise _wrong(shift, "gives features that are not finite")
    if _contents(shift(graph, 5)) != after:
        raise _wrong(shift, "gives other bytes for the same seed; draw from rng alone")
    if _contents(shift(graph, np.random.default_rng(5))) != _contents(
        shift(graph, np.random.default_rng(5))
    ):
        raise _wrong(shift, "gives other bytes for the same generator; draw from rng alone")


def _check_alike(shift: Shift, dense: Graph, sparse: Graph) -> None:
    one, other = shift(dense, 3), shift(sparse, 3)
    found, expected = _array(other), _array(one)
    if not np.allclose(found, expected, atol=1e-5 * max(float(np.abs(expected).max()), 1.0)):
        raise _wrong(shift, "gives other features if they are sparse")
    if not np.array_equal(one.edges, other.edges):
        raise _wrong(shift, "gives other edges if the features are sparse")
    full = np.count_nonzero(expected) / max(expected.size, 1)
    if isinstance(other.features, np.ndarray) and full < min(_FULL, _filled(sparse) * 2.0):
        raise _wrong(shift, "makes sparse features dense, though nearly all are zero")


def _filled(graph: Graph) -> float:
    return float(np.count_nonzero(_array(graph))) / max(graph.num_nodes * graph.num_features, 1)


def _check_level(shift: Shift, graph: Graph, neutral: float | None) -> None:
    assert isinstance(shift.level, float | int)
    whole = _size(shift, graph)
    if not whole > 0.0:
        raise _wrong(shift, "changes nothing; check it at a level that does")
    if neutral is None:
        return
    if _size(replace(shift, level=float(neutral)), graph) > 0.0:
        raise _wrong(shift, f"changes the graph at its neutral level {neutral:g}; see neutral=")
    half = _size(replace(shift, level=0.5 * (neutral + shift.level)), graph)
    if half > _SLACK * whole:
        raise _wrong(shift, "changes more at half its level than at its level")


def _size(shift: Shift, graph: Graph) -> float:
    """Return how far a shift moves a graph: its features, and the share of its edges."""
    shifted = shift(graph, 2)
    start = _array(graph)
    moved = np.linalg.norm(_array(shifted) - start) / max(float(np.linalg.norm(start)), 1e-12)
    before, after = ({tuple(row) for row in item.edges.tolist()} for item in (graph, shifted))
    return float(moved) + len(before ^ after) / max(len(before), 1)


def _wrong(shift: Shift, what: str) -> InputError:
    return InputError(f"the shift {shift!r} {what}.")
