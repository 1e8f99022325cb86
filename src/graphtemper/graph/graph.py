"""The graph: features and edges; optional attributes and types, labels, splits and times."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import check_integer
from graphtemper._core.lazy import cached_property
from graphtemper.graph.attributes import (
    EDGE_FIELDS,
    NODE_FIELDS,
    check_types,
    checked_columns,
    checked_edge_values,
    link_numbers,
    merged_edges,
)
from graphtemper.graph.checks import (
    NUMBERED,
    Features,
    Nodes,
    check_labels_are_named,
    checked_edges,
    checked_features,
    checked_flag,
    checked_masks,
    checked_names,
    checked_numbers,
    checked_pairs,
    leave_out_unlabelled,
    names_of_columns,
    place_in,
    read_only,
    select_nodes,
    tidy_edges,
)
from graphtemper.graph.conversion import Conversions
from graphtemper.graph.display import as_html, as_string
from graphtemper.graph.pyg_conversion import read_pyg

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

__all__ = ["Graph", "Nodes", "select_labelled", "select_nodes"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Conversions):
    """An attributed graph with optional labels and splits; undirected unless it says otherwise.

    Everything is validated on construction, and the arrays are read-only afterwards.

    Parameters
    ----------
    features : (N, F) array or scipy sparse
        Node features; kept as float32, sparse input as CSR.
    edges : (E, 2) int array
        Undirected edges, each once, without self-loops; `from_edges` accepts any list. With
        ``directed``, ordered pairs (from, to), where self-loops and repeats are allowed.
    labels : (N,) int array, optional
        Class indices from 0; -1 means unlabelled.
    train_masks, val_masks, test_masks : (S, N) bool arrays, optional
        Splits, one per row.
    time, environment : (N,) int arrays, optional
        An order in time; the number of each node's place or period (-1 means unknown).
    name, class_names, feature_names : optional
        Names of the graph, its classes (every label must have one) and its columns (default:
        those of a DataFrame).
    directed : bool
        Whether edges have a direction. `neighbours` are linked in either direction.
    edge_weight : (E,) array, optional
        A weight per edge, for both directions of an undirected one.
    edge_features : (E,) or (E, D) array, optional
        Attributes of edges; real numbers as float32, integers as int64.
    edge_type, node_type : (E,) and (N,) int arrays, optional
        Types, numbered from 0.
    target_type : int, optional
        The node type that is classified; without it all nodes are.
    type_columns : (T, 2) int array, optional
        First and last + 1 column of each node type; entries of other columns are padding.
    node_type_names, edge_type_names : optional
        Names of the types; those of edges as in ``"author__writes__paper"`` for a ``HeteroData``.

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
    directed: bool = False
    edge_weight: NDArray[np.float32] | None = None
    edge_features: NDArray[Any] | None = None
    edge_type: NDArray[np.int64] | None = None
    node_type: NDArray[np.int64] | None = None
    target_type: int | None = None
    type_columns: NDArray[np.int64] | None = None
    node_type_names: tuple[str, ...] | None = None
    edge_type_names: tuple[str, ...] | None = None
    environment: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.feature_names is None:
            object.__setattr__(self, "feature_names", names_of_columns(self.features))
        object.__setattr__(self, "features", checked_features(self.features))
        for field in fields(self):
            if field.name != "features":
                object.__setattr__(self, field.name, self._checked(field.name))
        self._check_together()

    @classmethod
    def from_pyg(
        cls,
        data: Data | HeteroData,
        *,
        drop: str | Collection[str] = (),
        target: str | None = None,
    ) -> Graph:
        """Convert a ``torch_geometric`` ``Data`` or ``HeteroData``.

        Kept are ``x``, ``edge_index`` or ``adj_t``, ``edge_weight``, ``edge_attr``, ``edge_type``,
        ``node_type``, ``y`` and masks; a mask of shape (N,) becomes one split, (N, S) becomes S.
        The graph is undirected if every edge is listed once in each direction with the same
        attributes, and directed otherwise; then self-loops, repeated edges and their order are
        kept. Further fields per node or per edge, such as ``pos``, are refused, because a model
        that reads them would silently answer for another graph. A list ``feature_names`` names the
        columns.

        Parameters
        ----------
        data
            The data; its tensors may be on any device and are copied.
        drop
            What to drop: ``"direction"``, ``"self_loops"``, ``"multi_edges"``, names of fields, or
            ``"all"``. `graphtemper.pyg.Predictor.check` finds out whether a model reads it.
        target
            The node type of a ``HeteroData`` that is classified; by default the one with ``y``.
        """
        return cls(**read_pyg(data, drop, target))

    def _check_together(self) -> None:
        check_labels_are_named(self.labels, self.class_names)
        if any(getattr(self, key) is not None for key in _TYPE_FIELDS):
            check_types(self._fields())

    def _checked(self, field: str) -> Any:
        value = getattr(self, field)
        if field == "edges":
            if self.directed:
                return read_only(checked_pairs(value, self.num_nodes).astype(np.int32))
            return checked_edges(value, self.num_nodes)
        if field == "name":
            return str(value)
        if field == "directed":
            return checked_flag(value, field)
        if value is None:
            return None
        if field in NUMBERED:
            size = self.num_edges if field in EDGE_FIELDS else self.num_nodes
            return checked_numbers(value, field, size)
        if field in EDGE_FIELDS:
            return checked_edge_values(value, field, self.num_edges)
        if field in NODE_FIELDS:
            return checked_masks(value, field, self.num_nodes)
        if field == "type_columns":
            return checked_columns(value, self.num_features)
        if field == "target_type":
            return check_integer(value, field, 0)
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
        """Number of edges, E: undirected ones, or ordered pairs if directed."""
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
        """Number of neighbours of each node, (N,), see `links`."""
        ends, counts = self.links.ravel(), np.zeros(self.num_nodes, dtype=np.int64)
        for start in range(0, ends.size, _ENDS_AT_ONCE):  # bincount copies to 64 bits
            counts += np.bincount(ends[start : start + _ENDS_AT_ONCE], minlength=self.num_nodes)
        return counts

    @property
    def is_plain(self) -> bool:
        """Whether the graph is undirected and neither its edges nor its nodes have attributes."""
        attributes = (*EDGE_FIELDS, "node_type")
        return not self.directed and all(getattr(self, key) is None for key in attributes)

    @property
    def classified(self) -> NDArray[np.int64]:
        """Indices of the nodes that are classified: those of the target type, or all."""
        if self.target_type is None or self.node_type is None:
            return np.arange(self.num_nodes)
        return np.flatnonzero(self.node_type == self.target_type)

    @property
    def links(self) -> NDArray[np.int32]:
        """Pairs of neighbours, (L, 2), each once: the edges without direction, loops and repeats.

        In a graph with a target type only the pairs of two nodes of that type.

        Examples
        --------
        >>> arcs = [[1, 0], [0, 1], [1, 2], [2, 2]]
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=arcs, directed=True)
        >>> g.links.tolist(), g.degrees.tolist()
        ([[0, 1], [1, 2]], [1, 2, 1])
        """
        return self._links[0]

    @cached_property
    def _links(self) -> tuple[NDArray[np.int32], NDArray[np.int64] | None]:
        """The links, and the number of each edge's link (-1: none); None if edges are links."""
        if not self.directed and self.target_type is None:
            return self.edges, None
        links, number = link_numbers(self.edges, self.num_nodes)
        member = np.zeros(self.num_nodes, dtype=bool)
        member[self.classified] = True
        inside = member[links].all(axis=1)
        renumbered = np.append(np.where(inside, np.cumsum(inside) - 1, -1), -1)
        return read_only(links[inside]), renumbered[number]

    @property
    def link_of_edge(self) -> NDArray[np.int64]:
        """The number of each edge's link, (E,); -1 for an edge that belongs to none.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [0.0]], edges=[[1, 0], [0, 0]], directed=True)
        >>> g.link_of_edge.tolist()
        [0, -1]
        """
        number = self._links[1]
        return np.arange(self.num_edges) if number is None else number

    def keep_links(self, keep: NDArray[np.bool_]) -> Graph:
        """Return the graph without the edges of the links where ``keep`` is false, (L,) bool.

        Edges that belong to no link, such as self-loops, stay.

        Examples
        --------
        >>> arcs = [[1, 0], [0, 1], [1, 2], [2, 2]]
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=arcs, directed=True)
        >>> g.keep_links(np.array([False, True])).edges.tolist()
        [[1, 2], [2, 2]]
        """
        number = self._links[1]
        return self.keep_edges(keep if number is None else np.append(keep, True)[number])

    def without_neighbours(self) -> Graph:
        """Return the graph without its edges; self-loops stay, as they bring no neighbour.

        Examples
        --------
        >>> arcs = [[1, 0], [1, 1]]
        >>> Graph(features=[[1.0], [0.0]], edges=arcs, directed=True).without_neighbours().edges
        array([[1, 1]], dtype=int32)
        """
        return self.keep_edges(self.edges[:, 0] == self.edges[:, 1])

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
        >>> print(g.replace(labels=None).labels)
        None
        """
        unknown = set(changes) - {field.name for field in fields(self)}
        if unknown:
            raise errors.choice(f"a Graph has no field {sorted(unknown)[0]!r}.")
        if "features" in changes:
            changes["features"] = self._checked_columns(changes)
        new = Graph._from_valid(**self._fields() | changes)
        checked = {*changes} - {"features"}
        if "directed" in changes:
            checked.add("edges")
        if "edges" in changes:
            checked |= {key for key in EDGE_FIELDS if getattr(new, key) is not None}
        if "features" in changes and new.type_columns is not None:
            checked.add("type_columns")
        for name in sorted(checked, key=_CHECK_ORDER.index):
            object.__setattr__(new, name, new._checked(name))
        if checked:
            new._check_together()
        return new

    def _checked_columns(self, changes: dict[str, Any]) -> Features:
        """Return the new features of `replace`: a row per node, and no stale column names."""
        features = checked_features(changes["features"])
        rows, columns = (int(size) for size in features.shape)
        if rows != self.num_nodes:
            raise errors.too_few(
                f"features has {rows} rows but the graph has {self.num_nodes} nodes; build a new "
                "Graph to change the nodes."
            )
        named = self.feature_names is not None and "feature_names" not in changes
        if named and columns != self.num_features:
            raise errors.other_features(
                f"features has {columns} columns but the graph names {self.num_features}; "
                "replace feature_names too, or set it to None."
            )
        return features

    def keep_edges(self, keep: NDArray[Any]) -> Graph:
        """Return the graph with the edges where ``keep`` is true, without validating it again.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
        >>> g.keep_edges(np.array([False, True])).edges.tolist()
        [[1, 2]]
        """
        return Graph._from_valid(**self._fields() | self._edge_rows(keep))

    def _edge_rows(self, rows: NDArray[Any]) -> dict[str, Any]:
        """Return the edges of some rows with their attributes."""
        chosen = {"edges": self.edges[rows]}
        attributes = {key: getattr(self, key) for key in EDGE_FIELDS}
        return chosen | {key: x[rows] for key, x in attributes.items() if x is not None}

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
        ends = place_in(rows, self.num_nodes)[self.edges]
        inside = np.flatnonzero((ends >= 0).all(axis=1))
        part = self._edge_rows(inside) | {"edges": ends[inside]}
        if not self.directed:
            pairs = part.pop("edges")
            part = merged_edges(pairs, part, rows.size) if part else {"edges": pairs}
            part["edges"] = tidy_edges(part["edges"], rows.size)
        values = self._fields() | {"features": self.features[rows], **part}
        for key in NODE_FIELDS:
            if values[key] is not None:
                values[key] = values[key][..., rows]
        return Graph(**values)

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

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


_ENDS_AT_ONCE = 1 << 22
_TYPE_FIELDS = ("target_type", "type_columns", "node_type_names", "edge_type_names")
# `directed` decides how edges are checked, and their number how attributes are.
_CHECK_ORDER = ["directed", "edges", *(item.name for item in fields(Graph)[2:])]


def select_labelled(
    graph: Graph, nodes: Nodes = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the chosen nodes (default: all labelled ones) and their labels.

    Nodes of a mask that have no label are left out with a warning.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0]], edges=[[0, 1]], labels=[-1, 1])
    >>> nodes, labels = select_labelled(g)
    >>> nodes.tolist(), labels.tolist()
    ([1], [1])
    """
    if graph.labels is None or graph.labelled.size == 0:
        raise errors.no_labels("the graph has no labels; this needs labelled nodes.")
    if nodes is None:
        return graph.labelled, graph.labels[graph.labelled]
    rows = select_nodes(nodes, graph.num_nodes, graph.classified)
    rows = leave_out_unlabelled(nodes, rows, graph.labels)
    return rows, graph.labels[rows]
