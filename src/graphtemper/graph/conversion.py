"""Reading and writing graphs: files, edge lists, PyTorch Geometric, networkx and SciPy.

Reading objects of other libraries does not import them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import as_array
from graphtemper._core.files import read_npz, write_npz
from graphtemper.errors import InputError
from graphtemper.graph import pyg_writing
from graphtemper.graph.attributes import (
    EDGE_FIELDS,
    checked_edge_values,
    merged_edges,
    reduced_edges,
)
from graphtemper.graph.checks import (
    checked_features,
    checked_numbers,
    checked_pairs,
    tidy_edges,
)
from graphtemper.graph.format import from_arrays, to_arrays

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, HeteroData

G = TypeVar("G", bound="Conversions")


class Conversions:
    """What `graphtemper.Graph` is read from and written to."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...
        def _fields(self) -> dict[str, Any]: ...

    @classmethod
    def from_edges(
        cls: type[G],
        features: ArrayLike | sp.spmatrix,
        edges: ArrayLike,
        *,
        directed: bool = False,
        **other: Any,
    ) -> G:
        """Build a graph from any edge list: directions are merged, duplicates and loops dropped.

        With ``directed`` the list is kept as it is. Attributes of edges have one row per row of the
        list; rows that are merged must have the same ones.

        Examples
        --------
        >>> from graphtemper import Graph
        >>> Graph.from_edges([[1.0], [2.0]], [[0, 1], [1, 0], [1, 1]]).edges.tolist()
        [[0, 1]]
        """
        checked = checked_features(features)
        pairs = checked_pairs(edges, checked.shape[0])
        if directed:
            return cls(features=checked, edges=pairs, directed=True, **other)
        attributes = {}
        for key in EDGE_FIELDS:
            if other.get(key) is not None:
                check = checked_numbers if key == "edge_type" else checked_edge_values
                attributes[key] = check(other.pop(key), key, len(pairs))
        if attributes:
            return cls(features=checked, **merged_edges(pairs, attributes, len(checked)), **other)
        return cls(features=checked, edges=tidy_edges(pairs, checked.shape[0]), **other)

    @classmethod
    def load(cls: type[G], path: str | os.PathLike[str]) -> G:
        """Read a graph from the ``.npz`` format (no pickles; every array is validated).

        Unknown keys are ignored. Raises `FileError` naming the key and the first bad entry.
        """
        try:
            values = from_arrays(read_npz(path))
            return cls(**values | {"name": values["name"] or Path(path).stem})
        except InputError as error:
            raise errors.damaged(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as ``.npz``, atomically; `load` reads it back."""
        write_npz(path, to_arrays(self._fields()))

    def to_pyg(self) -> Data | HeteroData:
        """Convert to a ``Data`` with both directions of each undirected edge.

        A graph whose node and edge types have names becomes a ``HeteroData``.
        """
        return pyg_writing.write_pyg(self)

    @classmethod
    def from_networkx(
        cls: type[G],
        graph: nx.Graph,
        features: str | ArrayLike,
        labels: str | None = None,
        *,
        edge_weight: str | None = None,
        edge_features: str | Sequence[str] | None = None,
        edge_type: str | None = None,
        drop: str | Collection[str] = (),
        **other: Any,
    ) -> G:
        """Convert a ``networkx`` graph; node i is the i-th of ``graph.nodes``.

        Parameters
        ----------
        graph
            A directed graph, and one with self-loops or parallel edges, becomes a directed `Graph`.
        features
            Name of the node attribute with the features, or an (N, F) array.
        labels
            Name of the node attribute with the class, if any; nodes without it are unlabelled.
        edge_weight, edge_features, edge_type
            Names of edge attributes. An edge attribute that is not named is refused.
        drop
            What to drop: ``"direction"``, ``"self_loops"``, ``"multi_edges"``, names of edge
            attributes, or ``"all"``.
        other
            Further fields of the `Graph`.

        Examples
        --------
        >>> import networkx as nx
        >>> from graphtemper import Graph
        >>> g = nx.Graph([("a", "b"), ("b", "c")])
        >>> nx.set_node_attributes(g, {"a": [1.0], "b": [2.0], "c": [3.0]}, "x")
        >>> nx.set_node_attributes(g, {"a": 0, "c": 1}, "y")
        >>> converted = Graph.from_networkx(g, features="x", labels="y")
        >>> converted.edges.tolist(), converted.labels.tolist()
        ([[0, 1], [1, 2]], [0, -1, 1])
        """
        given = {"edge_weight": edge_weight, "edge_features": edge_features, "edge_type": edge_type}
        named = {key: names for key, names in given.items() if names is not None}
        index = {node: number for number, node in enumerate(graph.nodes)}
        if isinstance(features, str):
            values = _column(graph.nodes(data=features), features, "node")
            features = values[:, None] if values.ndim == 1 else values
        if labels is not None:
            other["labels"] = as_array([x for _, x in graph.nodes(data=labels, default=-1)], labels)
        left_out = {drop} if isinstance(drop, str) else set(drop)
        _check_edge_attributes(graph, named, left_out)
        attributes = {key: _edge_attribute(graph, names) for key, names in named.items()}
        listed = [(index[edge[0]], index[edge[1]]) for edge in graph.edges]
        pairs = np.array(listed, dtype=np.int64).reshape(-1, 2)
        if not graph.is_directed():  # every edge once, whereas a self-loop has no other direction
            back = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
            pairs = np.concatenate([pairs, pairs[back][:, ::-1]])
            attributes = {key: np.concatenate([x, x[back]]) for key, x in attributes.items()}
        edges = reduced_edges(pairs, attributes, len(index), left_out)
        return cls(features=features, **edges, **other)

    @classmethod
    def from_scipy(
        cls: type[G],
        adjacency: sp.spmatrix,
        features: ArrayLike | sp.spmatrix,
        *,
        drop: str | Collection[str] = (),
        **other: Any,
    ) -> G:
        """Convert a SciPy adjacency matrix (N, N): each non-zero entry (i, j) is an edge i to j.

        The graph is directed if the matrix is not symmetric or has entries on its diagonal, and
        has weights if an entry is not one; ``drop`` leaves out ``"direction"``, ``"self_loops"``,
        ``"edge_weight"`` or ``"all"`` of them.

        Examples
        --------
        >>> import numpy as np
        >>> from graphtemper import Graph
        >>> matrix = sp.csr_matrix(np.array([[0, 2, 0], [0, 0, 0], [0, 1, 0]]))
        >>> g = Graph.from_scipy(matrix, features=[[1.0], [2.0], [3.0]])
        >>> g.edges.tolist(), g.directed, g.edge_weight.tolist()
        ([[0, 1], [2, 1]], True, [2.0, 1.0])
        >>> Graph.from_scipy(matrix, features=[[1.0], [2.0], [3.0]], drop="all").edges.tolist()
        [[0, 1], [1, 2]]
        """
        checked = checked_features(features)
        return cls(features=checked, **read_scipy(adjacency, checked.shape[0], drop), **other)


EdgeNames = Mapping[str, str | Sequence[str]]
"""The edge attributes that fill a field of a `Graph`."""


def _check_edge_attributes(graph: nx.Graph, used: EdgeNames, drop: set[str]) -> None:
    """Refuse edge attributes that would be lost."""
    named = {name for names in used.values() for name in _listed(names)}
    present = {key for *_, values in graph.edges(data=True) for key in values}
    lost = sorted(str(key) for key in present - named - drop)
    if lost and "all" not in drop:
        raise errors.other_types(
            f"the edges have the attribute {lost[0]!r}, which is not used; name it as edge_weight, "
            f"edge_features or edge_type, or pass drop={tuple(lost)!r}."
        )


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _edge_attribute(graph: nx.Graph, names: str | Sequence[str]) -> NDArray[Any]:
    columns = [_column(graph.edges(data=name), name, "edge") for name in _listed(names)]
    return columns[0] if isinstance(names, str) else np.column_stack(columns)


def _column(items: Iterable[tuple[Any, ...]], name: str, what: str) -> NDArray[Any]:
    """Return an attribute of nodes or edges, which end with their value of it."""
    values = []
    for *place, value in items:
        if value is None:
            where = "-".join(map(repr, place))
            raise errors.missing(
                f"{what} {where} has no attribute {name!r}; every {what} needs it."
            )
        values.append(value)
    return as_array(values, f"the attribute {name!r}")


def read_scipy(
    adjacency: sp.spmatrix, num_nodes: int, drop: str | Collection[str] = ()
) -> dict[str, Any]:
    """Return edges, direction and weights of an adjacency matrix (see `Graph.from_scipy`).

    Examples
    --------
    >>> matrix = sp.coo_matrix(([1.0, 1.0, 0.0], ([0, 1, 1], [1, 0, 1])), shape=(2, 2))
    >>> read_scipy(matrix, 2)["edges"].tolist()
    [[0, 1]]
    """
    if not sp.issparse(adjacency):
        kind = type(adjacency).__name__
        raise errors.wrong_type(f"the adjacency must be a SciPy sparse matrix, not {kind}.")
    rows, columns = adjacency.shape
    if rows != columns:
        raise errors.shape(f"an adjacency matrix is square, but this one is {rows} x {columns}.")
    if rows != num_nodes:
        raise errors.shape(
            f"the adjacency has {rows} rows but the features have {num_nodes}; pass one row of "
            "features per node."
        )
    untyped: Any = adjacency  # the stubs give spmatrix no conversions
    matrix = untyped.tocsr().tocoo()  # repeated entries are summed
    if matrix.data.dtype.kind == "f" and not np.isfinite(matrix.data).all():
        raise errors.not_finite(
            "the adjacency holds a number that is not finite; replace it first."
        )
    stored = matrix.data != 0
    pairs = np.column_stack([matrix.row[stored], matrix.col[stored]]).astype(np.int64)
    left_out = {drop} if isinstance(drop, str) else set(drop)
    weight = matrix.data[stored].astype(np.float32)
    weighted = not {"edge_weight", "all"} & left_out and bool((weight != 1).any())
    attributes = {"edge_weight": weight} if weighted else {}
    return reduced_edges(pairs, attributes, num_nodes, left_out)
