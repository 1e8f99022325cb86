"""Graphs of other libraries: PyTorch Geometric, networkx and SciPy.

Nothing here imports these libraries to read their objects; only writing for PyG needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.arrays import as_array
from graphtemper.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

    from graphtemper.graph.graph import Graph


def read_pyg(data: Data) -> dict[str, Any]:
    """Return the fields of a ``torch_geometric`` ``Data``, brought to the CPU from any device.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> found = read_pyg(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]])))
    >>> found["edges"].tolist()
    [[0, 1], [1, 0]]
    """
    for name in ("x", "edge_index"):
        tensor = getattr(data, name, None)
        if tensor is None:
            raise InputError("the PyG data needs both x and edge_index; set them first.")
        if tensor.is_meta:
            raise InputError(f"{name} of the PyG data is on the device 'meta', without values.")
    x = data.x.detach().cpu()
    found: dict[str, Any] = {
        "features": sp.csr_matrix(x.to_dense().numpy()) if x.is_sparse else x.numpy(),
        "edges": data.edge_index.detach().cpu().numpy().T,
    }
    if getattr(data, "y", None) is not None:
        found["labels"] = data.y.detach().cpu().numpy().reshape(-1)
    for split in ("train", "val", "test"):
        mask = getattr(data, f"{split}_mask", None)
        if mask is not None:
            array = np.asarray(mask.detach().cpu().numpy(), dtype=bool)
            found[f"{split}_masks"] = np.atleast_2d(array.T)
    return found


def write_pyg(graph: Graph) -> Data:
    """Return the graph as a ``torch_geometric`` ``Data`` with both directions of each edge.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> write_pyg(csbm.sample(50, degree=4, homophily=0.8, snr=1.0)).is_undirected()
    True
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError(
            "Graph.to_pyg needs torch and torch_geometric; run pip install 'graphtemper[pyg]'."
        ) from error
    features = graph.features
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]]).T.astype(np.int64)
    data = Data(x=torch.from_numpy(np.array(dense)), edge_index=torch.from_numpy(both).contiguous())
    if graph.labels is not None:
        data.y = torch.from_numpy(np.array(graph.labels))
    for split in ("train", "val", "test"):
        masks = getattr(graph, f"{split}_masks")
        if masks is not None:
            mask = masks[0] if len(masks) == 1 else masks.T
            setattr(data, f"{split}_mask", torch.from_numpy(np.array(mask)))
    return data


def read_networkx(graph: nx.Graph, features: str | ArrayLike, labels: str | None) -> dict[str, Any]:
    """Return the fields of a ``networkx`` graph; `Graph.from_networkx` says how they are named.

    Examples
    --------
    >>> import networkx as nx
    >>> read_networkx(nx.path_graph(3), [[1.0], [2.0], [3.0]], None)["edges"].tolist()
    [[0, 1], [1, 2]]
    """
    place = {node: index for index, node in enumerate(graph.nodes)}
    pairs = [(place[edge[0]], place[edge[1]]) for edge in graph.edges]
    found: dict[str, Any] = {"edges": np.array(pairs, dtype=np.int64).reshape(-1, 2)}
    if isinstance(features, str):
        found["features"] = _attributes(graph, features)
    else:
        found["features"] = features
    if labels is not None:
        known = graph.nodes(data=labels, default=-1)
        found["labels"] = as_array([label for _, label in known], "labels")
    return found


def _attributes(graph: nx.Graph, name: str) -> NDArray[Any]:
    rows = []
    for node, value in graph.nodes(data=name):
        if value is None:
            raise InputError(f"node {node!r} has no attribute {name!r}; give every node its own.")
        rows.append(np.atleast_1d(value))
    return as_array(rows, f"the attribute {name!r}")


def read_scipy(adjacency: sp.spmatrix, num_nodes: int) -> NDArray[np.int64]:
    """Return the places (E, 2) of the entries of an adjacency matrix that are not zero.

    Examples
    --------
    >>> read_scipy(sp.coo_matrix(([1.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2)), 2).tolist()
    [[0, 1]]
    """
    if not sp.issparse(adjacency):
        kind = type(adjacency).__name__
        raise InputError(f"the adjacency must be a SciPy sparse matrix, not {kind}.")
    rows, columns = adjacency.shape
    if rows != columns:
        raise InputError(f"an adjacency matrix is square, but this one is {rows} x {columns}.")
    if rows != num_nodes:
        raise InputError(
            f"the adjacency has {rows} rows but the features have {num_nodes}; pass one row of "
            "features a node."
        )
    given: Any = adjacency  # the stubs give spmatrix no conversions
    matrix = given.tocsr().tocoo()  # entries at one place are summed
    if matrix.data.dtype.kind == "f" and not np.isfinite(matrix.data).all():
        raise InputError("the adjacency holds a number that is not finite; repair it first.")
    kept = matrix.data != 0
    return np.column_stack([matrix.row[kept], matrix.col[kept]]).astype(np.int64)
