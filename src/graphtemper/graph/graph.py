"""The graph: features, undirected edges, optional labels and masks; nothing else."""

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
    CSR_KEYS,
    Features,
    check_labels_are_named,
    checked_edges,
    checked_features,
    checked_integers,
    checked_labels,
    checked_masks,
    checked_names,
    checked_pairs,
    features_from_arrays,
    names,
    read_only,
    required,
    text,
)

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

Nodes = ArrayLike | None


@dataclass(frozen=True, eq=False)
class Graph:
    """An attributed, undirected graph with optional labels and splits.

    Everything is validated on construction, and the arrays are read-only afterwards: a shift
    makes a new graph, it never edits one.

    Parameters
    ----------
    features : (N, F) array or scipy sparse
        Node features; kept as float32, sparse input as CSR.
    edges : (E, 2) int array
        Undirected edges, each once, no self-loops. `from_edges` cleans an untidy list.
    labels : (N,) int array, optional
        Class indices from 0; -1 means unlabelled.
    train_masks, val_masks, test_masks : (S, N) bool arrays, optional
        The data set's own splits, one a row.
    time : (N,) int array, optional
        An order in time, where the data set has one.
    name, class_names, feature_names : optional
        What people call the graph, its classes and its columns. Class names cover every label.

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
        new = object.__new__(Graph)
        for field in fields(self):
            object.__setattr__(new, field.name, changes.get(field.name, getattr(self, field.name)))
        for name in changes:
            if name != "features":
                object.__setattr__(new, name, new._checked(name))
        if "labels" in changes or "class_names" in changes:
            check_labels_are_named(new.labels, new.class_names)
        return new

    def _checked_columns(self, changes: dict[str, Any]) -> Features:
        """Return the new features of `replace`: one row a node, and no stale column names."""
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
        """Return the graph with the edges where ``keep`` is true; nothing needs checking again.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
        >>> g.keep_edges(np.array([False, True])).edges.tolist()
        [[1, 2]]
        """
        new = object.__new__(Graph)
        for field in fields(self):
            object.__setattr__(new, field.name, getattr(self, field.name))
        object.__setattr__(new, "edges", read_only(self.edges[keep]))
        return new

    @classmethod
    def from_edges(cls, features: ArrayLike | sp.spmatrix, edges: ArrayLike, **other: Any) -> Graph:
        """Build a graph from any edge list: both directions, duplicates and self-loops allowed.

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
        """Build from arrays that are right by construction, skipping the checks."""
        new = object.__new__(cls)
        for field in fields(cls):
            value = values.get(field.name, field.default)
            value = read_only(value) if isinstance(value, np.ndarray) else value
            object.__setattr__(new, field.name, value)
        return new

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Read a graph from the ``.npz`` format (no pickles; every array is validated).

        Unknown keys are ignored. Raises `FileError` naming the key and the first bad entry.
        """
        arrays = read_npz(path)
        try:
            return cls(
                features=features_from_arrays(arrays),
                edges=required(arrays, "edges"),
                name=text(arrays, "name") or Path(path).stem,
                class_names=names(arrays, "class_names"),
                feature_names=names(arrays, "feature_names"),
                **{key: arrays.get(key) for key in ("labels", "time")},
                **{key: arrays.get(key) for key in ("train_masks", "val_masks", "test_masks")},
            )
        except InputError as error:
            raise FileError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as ``.npz``, atomically; `load` gives it back."""
        arrays: dict[str, NDArray[Any]] = {"edges": self.edges, "name": np.array(self.name)}
        if isinstance(self.features, np.ndarray):
            arrays["features"] = self.features
        else:
            values = (
                self.features.data,
                self.features.indices,
                self.features.indptr,
                np.array(self.features.shape),
            )
            arrays.update(zip(CSR_KEYS, values, strict=True))
        for key in ("labels", "train_masks", "val_masks", "test_masks", "time"):
            if getattr(self, key) is not None:
                arrays[key] = getattr(self, key)
        for key in ("class_names", "feature_names"):
            if getattr(self, key) is not None:
                arrays[key] = np.array(getattr(self, key), dtype=np.str_)
        write_npz(path, arrays)

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
            What to lose knowingly: ``"direction"``, ``"self_loops"``, ``"multi_edges"``, names of
            fields, or ``"all"``. `graphtemper.pyg.Predictor.check` says whether a model minds.

        Examples
        --------
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
        >>> Graph.from_pyg(data)
        Traceback (most recent call last):
        graphtemper.errors.InputError: the PyG data has edges in one direction only, which ...
        >>> Graph.from_pyg(data, drop=("direction",)).edges.tolist()
        [[0, 1]]
        """
        graph = cls.from_edges(**conversion.read_pyg(data))
        conversion.check_losses(data, drop)
        return graph

    def to_pyg(self) -> Data:
        """Convert to a ``torch_geometric`` ``Data`` with both directions of each edge."""
        return conversion.write_pyg(self)

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, features: str | ArrayLike, labels: str | None = None, **other: Any
    ) -> Graph:
        """Convert a ``networkx`` graph, directed or not; node i is the i-th of ``graph.nodes``.

        Parameters
        ----------
        graph
            Directions are merged, self-loops and parallel edges dropped.
        features
            The node attribute that holds a node's numbers, or an (N, F) array in the nodes' order.
        labels
            The node attribute that holds a node's class, if any; nodes without it are unlabelled.
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
        """Convert a SciPy adjacency matrix (N, N): an entry that is not zero is an edge.

        Directions are merged and the diagonal is dropped; weights are not kept.

        Examples
        --------
        >>> matrix = sp.csr_matrix(np.array([[1, 2, 0], [0, 0, 0], [0, 1, 0]]))
        >>> Graph.from_scipy(matrix, features=[[1.0], [2.0], [3.0]]).edges.tolist()
        [[0, 1], [1, 2]]
        """
        checked = checked_features(features)
        pairs = conversion.read_scipy(adjacency, int(checked.shape[0]))
        return cls.from_edges(checked, pairs, **other)


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


def tidy_edges(pairs: NDArray[np.integer[Any]], num_nodes: int) -> NDArray[np.int32]:
    """Sort each pair, drop self-loops and duplicates; the result is in lexicographic order."""
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keep = low != high
    keys = np.unique(low[keep].astype(np.int64) * num_nodes + high[keep])
    return np.column_stack(np.divmod(keys, max(num_nodes, 1))).astype(np.int32)
