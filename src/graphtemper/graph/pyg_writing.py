"""Writing graphs as ``Data`` or ``HeteroData`` of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.errors import require
from graphtemper.graph.attributes import both_directions
from graphtemper.graph.pyg_conversion import EDGE_ATTRIBUTES, SPLITS

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


def write_pyg(graph: Any, *, targets: bool = True) -> Data | HeteroData:
    """Return a graph as ``Data`` or ``HeteroData``, with labels and masks if ``targets``.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> write_pyg(Graph(features=np.eye(2), edges=[[0, 1]])).edge_index.tolist()
    [[0, 1], [1, 0]]
    """
    require("pyg", "Graph.to_pyg", "torch", "torch_geometric.data")
    import torch
    from torch_geometric.data import Data

    if graph.node_type_names is not None and graph.edge_type_names is not None:
        return hetero_data(graph, targets=targets)
    pairs, rows = both_directions(graph.edges, graph.directed)
    data = Data(x=_tensor(_dense(graph.features)), edge_index=_edge_index(pairs))
    for key, field in EDGE_ATTRIBUTES.items():
        if getattr(graph, field) is not None:
            data[key] = torch.from_numpy(getattr(graph, field)[rows])
    if graph.node_type is not None:
        data.node_type = _tensor(graph.node_type)
    if graph.environment is not None:
        data.environment = _tensor(graph.environment)
    if targets:
        for key, value in _targets(graph, slice(None)):
            data[key] = value
    return data


def _targets(graph: Any, rows: Any) -> Iterator[tuple[str, Any]]:
    """Yield labels and masks of some nodes under their names in PyG."""
    if graph.labels is not None:
        yield "y", _tensor(graph.labels[rows])
    for split in SPLITS:
        masks = getattr(graph, f"{split}_masks")
        if masks is not None:
            yield f"{split}_mask", _tensor((masks[0] if len(masks) == 1 else masks.T)[rows])


def hetero_data(graph: Any, *, targets: bool = False) -> HeteroData:
    """Return a graph with node types as a ``HeteroData``; types without a name have their number.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> arcs, kinds = [[0, 1], [1, 0]], {"node_type": [0, 1], "edge_type": [0, 1]}
    >>> g = Graph(features=np.eye(2), edges=arcs, directed=True, **kinds)
    >>> hetero_data(g).edge_types
    [('0', '0', '1'), ('1', '1', '0')]
    """
    import torch
    from torch_geometric.data import HeteroData

    if graph.node_type is None:
        raise errors.predictor(
            "the model reads node types (x_dict), but the graph has no node_type."
        )
    data, node_type = HeteroData(), graph.node_type
    names = graph.node_type_names or tuple(map(str, range(int(node_type.max()) + 1)))
    place = np.empty(graph.num_nodes, dtype=np.int64)
    for number, name in enumerate(names):
        rows = np.flatnonzero(node_type == number)
        place[rows] = np.arange(rows.size)
        columns = slice(*((0, None) if graph.type_columns is None else graph.type_columns[number]))
        data[name].x = _tensor(_dense(graph.features[rows][:, columns]))
        if targets and graph.target_type in (None, number):
            for key, value in _targets(graph, rows):
                data[name][key] = value
    pairs, edge = both_directions(graph.edges, graph.directed)
    for kind, rows in _edge_kinds(graph, names, pairs, edge):
        data[kind].edge_index = _edge_index(place[pairs[rows]])
        for key, field in (("edge_weight", "edge_weight"), ("edge_attr", "edge_features")):
            if getattr(graph, field) is not None:
                data[kind][key] = torch.from_numpy(getattr(graph, field)[edge[rows]])
    return data


def _edge_kinds(
    graph: Any, names: tuple[str, ...], pairs: NDArray[np.int64], edge: NDArray[np.int64]
) -> Iterator[tuple[tuple[str, str, str], NDArray[np.int64]]]:
    """Yield each kind of edge (from, relation, to) with its ordered pairs."""
    types = np.zeros(len(pairs), np.int64) if graph.edge_type is None else graph.edge_type[edge]
    if graph.edge_type_names is not None:
        for number, name in enumerate(graph.edge_type_names):
            kind = tuple(name.split("__"))
            if len(kind) != 3:
                raise errors.other_types(
                    f"the edge type {name!r} must be named as in 'author__writes__paper'."
                )
            yield (kind[0], kind[1], kind[2]), np.flatnonzero(types == number)
        return
    assert graph.node_type is not None
    kinds = np.column_stack([graph.node_type[pairs[:, 0]], types, graph.node_type[pairs[:, 1]]])
    for kind in np.unique(kinds, axis=0):
        rows = np.flatnonzero((kinds == kind).all(axis=1))
        yield (names[kind[0]], str(kind[1]), names[kind[2]]), rows


def _dense(features: Any) -> NDArray[np.float32]:
    return features if isinstance(features, np.ndarray) else features.toarray()


def _tensor(values: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(np.array(values))


def _edge_index(pairs: NDArray[np.int64]) -> Any:
    return _tensor(np.ascontiguousarray(pairs.T))
