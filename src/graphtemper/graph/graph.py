"""The graph: features, undirected edges, optional labels, splits and times."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.arrays import as_array
from graphtemper._core.files import read_npz, write_npz
from graphtemper.errors import FileError, InputError
from graphtemper.graph import conversion
from graphtemper.graph.checks import (
    Features,
    check_labels_are_named,
    checked_edges,
    checked_features,
    checked_integers,
    checked_labels,
    checked_masks,
    checked_names,
    checked_pairs,
    read_only,
    tidy_edges,
)
from graphtemper.graph.display import as_html, as_string
from graphtemper.graph.format import from_arrays, to_arrays

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

Nodes = ArrayLike | None


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed, undirected graph with optional labels and splits.

    Everything is validated on construction, and the arrays are read-only afterwards.

    Parameters
    ----------
    features : (N, F) array or scipy sparse
        Node features; kept as float32, sparse input as CSR.
    edges : (E, 2) int array
        Undirected edges, each once, without self-loops; `from_edges` accepts any list.
    labels : (N,) int array, optional
        Class indices from 0; -1 means unlabelled.
    train_masks, val_masks, test_masks : (S, N) bool arrays, optional
        Splits, one per row.
    time : (N,) int array, optional
        An order in time.
    name, class_names, feature_names : optional
        Names of the graph, its classes (every label must have one) and its columns.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]], labels=[0, 1, -1])
    >>> g.num_nodes, g.num_edges, g.num_features, g.num_classes
    (3, 2, 1, 2)
    >>> g.degrees.tolist()
    [1, 2, 1]
    """

    features: Features
    edges: NDArray[np.int32]
    labels: NDArray[np.int64] | None = None
    train_masks: NDArray[np.bool_] | None = None
    val_masks: NDArray[np.bool_] | None = None
    test_masks: NDArray[np.bool_] | None = None
    time: NDArray[np.int64] | None = None
    name: str = ""
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", checked_features(self.features))
        for field in fields(self):
            if field.name != "features":
                object.__setattr__(self, field.name, self._checked(field.name))
        check_labels_are_named(self.labels, self.class_names)

    def _checked(self, field: str) -> Any:
        value = getattr(self, field)
        if field == "edges":
            return checked_edges(value, self.num_nodes)
        if field == "name":
            return str(value)
        if value is None:
            return None
        if field == "labels":
            return checked_labels(value, self.num_nodes)
        if field == "time":
            return read_only(checked_integers(value, "time", (self.num_nodes,)))
        if field.endswith("_masks"):
            return checked_masks(value, field, self.num_nodes)
        return checked_names(value, field, self.num_features)

    def __repr__(self) -> str:
        return as_string(self._fields())

    def _repr_html_(self) -> str:
        return as_html(self._fields())

    @property
    def num_nodes(self) -> int:
        """Number of nodes, N."""
        return int(self.features.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, E."""
        return int(self.edges.shape[0])

    @property
    def num_features(self) -> int:
        """Number of feature columns, F."""
        return int(self.features.shape[1])

    @cached_property
    def num_classes(self) -> int:
        """Number of classes, K: from the class names, else the largest label + 1, else 0."""
        if self.class_names is not None:
            return len(self.class_names)
        if self.labels is None or self.labels.size == 0:
            return 0
        return int(self.labels.max()) + 1

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node, (N,)."""
        return np.bincount(self.edges.ravel(), minlength=self.num_nodes)

    @property
    def labelled(self) -> NDArray[np.int64]:
        """Indices of the nodes that have a label."""
        if self.labels is None:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.labels >= 0)

    def replace(self, **changes: Any) -> Graph:
        """Return a graph with some fields replaced; only what changed is validated again.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [0.0]], edges=[[0, 1]], labels=[0, 1])
        >>> g.replace(labels=None).labels is None
        True
        """
        unknown = set(changes) - {field.name for field in fields(self)}
        if unknown:
            raise InputError(f"a Graph has no field {sorted(unknown)[0]!r}.")
        if "features" in changes:
            changes["features"] = self._checked_columns(changes)
        new = Graph._from_valid(**self._fields() | changes)
        for name in changes:
            if name != "features":
                object.__setattr__(new, name, new._checked(name))
        if "labels" in changes or "class_names" in changes:
            check_labels_are_named(new.labels, new.class_names)
        return new

    def _checked_columns(self, changes: dict[str, Any]) -> Features:
        """Return the new features of `replace`: a row per node, and no stale column names."""
        features = checked_features(changes["features"])
        rows, columns = (int(size) for size in features.shape)
        if rows != self.num_nodes:
            raise InputError(
                f"features has {rows} rows but the graph has {self.num_nodes} nodes; build a new "
                "Graph to change the nodes."
            )
        named = self.feature_names is not None and "feature_names" not in changes
        if named and columns != self.num_features:
            raise InputError(
                f"features has {columns} columns but the graph names {self.num_features}; "
                "replace feature_names too, or set it to None."
            )
        return features

    def keep_edges(self, keep: NDArray[np.bool_]) -> Graph:
        """Return the graph with the edges where ``keep`` is true, without validating it again.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
        >>> g.keep_edges(np.array([False, True])).edges.tolist()
        [[1, 2]]
        """
        return Graph._from_valid(**self._fields() | {"edges": self.edges[keep]})

    def subgraph(self, nodes: Nodes) -> Graph:
        """Return the graph of some nodes, in their order, and the edges between them.

        Parameters
        ----------
        nodes
            A boolean mask, or indices without repeats.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[[0, 1], [1, 2]], labels=[0, 1, 1])
        >>> part = g.subgraph([2, 1])
        >>> part.features.ravel().tolist(), part.edges.tolist(), part.labels.tolist()
        ([3.0, 2.0], [[0, 1]], [1, 1])
        """
        rows = select_nodes(nodes, self.num_nodes)
        place = np.full(self.num_nodes, -1, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        repeats = rows[place[rows] != np.arange(rows.size)]
        if repeats.size:
            raise InputError(f"node {repeats[0]} is selected twice; select each node once.")
        ends = place[self.edges]
        values = self._fields() | {
            "features": self.features[rows],
            "edges": tidy_edges(ends[(ends >= 0).all(axis=1)], rows.size),
        }
        for key in ("labels", "time", "train_masks", "val_masks", "test_masks"):
            if values[key] is not None:
                values[key] = values[key][..., rows]
        return Graph(**values)

    @classmethod
    def from_edges(cls, features: ArrayLike | sp.spmatrix, edges: ArrayLike, **other: Any) -> Graph:
        """Build a graph from any edge list: directions are merged, duplicates and loops dropped.

        Examples
        --------
        >>> Graph.from_edges([[1.0], [2.0]], [[0, 1], [1, 0], [1, 1]]).edges.tolist()
        [[0, 1]]
        """
        checked = checked_features(features)
        pairs = checked_pairs(edges, checked.shape[0])
        return cls(features=checked, edges=tidy_edges(pairs, checked.shape[0]), **other)

    @classmethod
    def _from_valid(cls, **values: Any) -> Graph:
        """Build from arrays that are valid by construction, without checks."""
        new = object.__new__(cls)
        for field in fields(cls):
            value = values.get(field.name, field.default)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value = read_only(value)
            object.__setattr__(new, field.name, value)
        return new

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Read a graph from the ``.npz`` format (no pickles; every array is validated).

        Unknown keys are ignored. Raises `FileError` naming the key and the first bad entry.
        """
        try:
            values = from_arrays(read_npz(path))
            return cls(**values | {"name": values["name"] or Path(path).stem})
        except InputError as error:
            raise FileError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as ``.npz``, atomically; `load` reads it back."""
        write_npz(path, to_arrays(self._fields()))

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_pyg(cls, data: Data, *, drop: str | Collection[str] = ()) -> Graph:
        """Convert a ``torch_geometric`` ``Data`` (``x``, ``edge_index``, ``y``, masks).

        A mask of shape (N,) becomes one split, (N, S) becomes S splits. What else the data holds
        that a model could read is refused, because the model would silently answer for another
        graph: edges in one direction only, self-loops, repeated edges, and further fields per node
        or per edge such as ``edge_weight``, ``edge_attr`` or ``pos``.

        Parameters
        ----------
        data
            The data; its tensors may be on any device and are copied.
        drop
            What to drop: ``"direction"``, ``"self_loops"``, ``"multi_edges"``, names of fields, or
            ``"all"``. `graphtemper.pyg.Predictor.check` finds out whether a model reads it.
        """
        graph = cls.from_edges(**conversion.read_pyg(data))
        conversion.check_losses(data, drop)
        return graph

    def to_pyg(self) -> Data:
        """Convert to a ``torch_geometric`` ``Data`` with both directions of each edge."""
        return conversion.write_pyg(self._fields())

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, features: str | ArrayLike, labels: str | None = None, **other: Any
    ) -> Graph:
        """Convert a ``networkx`` graph; node i is the i-th of ``graph.nodes``.

        Parameters
        ----------
        graph
            Directions are merged, self-loops and parallel edges dropped.
        features
            Name of the node attribute with the features, or an (N, F) array.
        labels
            Name of the node attribute with the class, if any; nodes without it are unlabelled.
        other
            Further fields of the `Graph`.

        Examples
        --------
        >>> import networkx as nx
        >>> g = nx.Graph([("a", "b"), ("b", "c")])
        >>> nx.set_node_attributes(g, {"a": [1.0], "b": [2.0], "c": [3.0]}, "x")
        >>> nx.set_node_attributes(g, {"a": 0, "c": 1}, "y")
        >>> converted = Graph.from_networkx(g, features="x", labels="y")
        >>> converted.edges.tolist(), converted.labels.tolist()
        ([[0, 1], [1, 2]], [0, -1, 1])
        """
        return cls.from_edges(**conversion.read_networkx(graph, features, labels), **other)

    @classmethod
    def from_scipy(
        cls, adjacency: sp.spmatrix, features: ArrayLike | sp.spmatrix, **other: Any
    ) -> Graph:
        """Convert a SciPy adjacency matrix (N, N): each non-zero entry is an edge.

        Directions are merged; the diagonal and weights are dropped.

        Examples
        --------
        >>> matrix = sp.csr_matrix(np.array([[1, 2, 0], [0, 0, 0], [0, 1, 0]]))
        >>> Graph.from_scipy(matrix, features=[[1.0], [2.0], [3.0]]).edges.tolist()
        [[0, 1], [1, 2]]
        """
        checked = checked_features(features)
        return cls.from_edges(checked, conversion.read_scipy(adjacency, checked.shape[0]), **other)


def select_nodes(nodes: Nodes, num_nodes: int) -> NDArray[np.int64]:
    """Turn a boolean mask, an index array or None (all nodes) into an index array.

    Examples
    --------
    >>> select_nodes([True, False, True], 3).tolist()
    [0, 2]
    >>> select_nodes([2, 0], 3).tolist()
    [2, 0]
    """
    if nodes is None:
        return np.arange(num_nodes)
    array = as_array(nodes, "nodes")
    if array.ndim != 1:
        raise InputError(f"nodes must be one-dimensional, but has shape {array.shape}.")
    if array.dtype == bool:
        if array.size != num_nodes:
            raise InputError(
                f"the node mask has {array.size} entries but the graph has {num_nodes} nodes."
            )
        array = np.flatnonzero(array)
    elif array.size == 0:
        array = array.astype(np.int64)
    elif not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"nodes must be a boolean mask or integer indices, not {array.dtype}.")
    if array.size == 0:
        raise InputError("no node is selected; pass at least one.")
    bad = np.flatnonzero((array < 0) | (array >= num_nodes))
    if bad.size:
        raise InputError(
            f"nodes[{bad[0]}] is {array[bad[0]]}, outside 0..{num_nodes - 1}; use valid indices."
        )
    return array.astype(np.int64)


def select_labelled(
    graph: Graph, nodes: Nodes = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the chosen nodes (default: all labelled ones) and their labels.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0]], edges=[[0, 1]], labels=[-1, 1])
    >>> nodes, labels = select_labelled(g)
    >>> nodes.tolist(), labels.tolist()
    ([1], [1])
    """
    if graph.labels is None or graph.labelled.size == 0:
        raise InputError("the graph has no labels; this needs labelled nodes.")
    rows = graph.labelled if nodes is None else select_nodes(nodes, graph.num_nodes)
    labels = graph.labels[rows]
    unlabelled = rows[labels < 0]
    if unlabelled.size:
        raise InputError(f"node {unlabelled[0]} has no label; choose labelled nodes only.")
    return rows, labels
