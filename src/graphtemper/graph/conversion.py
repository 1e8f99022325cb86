"""Conversion of graphs of PyTorch Geometric, networkx and SciPy.

Reading their objects does not import these libraries; only writing for PyG needs torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.arrays import as_array
from graphtemper.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data


# Names for what `Graph.from_pyg` loses of the edges themselves, next to the names of fields.
EDGE_LOSSES = {
    "direction": "edges in one direction only",
    "self_loops": "self-loops in edge_index",
    "multi_edges": "edges that are listed more than once",
}
# A Graph keeps these; masks under other names are no input of a model.
_KEPT_FIELDS = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")


def read_pyg(data: Data) -> dict[str, Any]:
    """Return the fields of a ``torch_geometric`` ``Data`` as copies on the CPU.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> fields = read_pyg(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]])))
    >>> fields["edges"].tolist()
    [[0, 1], [1, 0]]
    """
    _check_homogeneous(data)
    for name in ("x", "edge_index"):
        tensor = getattr(data, name, None)
        if tensor is None:
            raise InputError("the PyG data needs both x and edge_index; set them first.")
        if not hasattr(tensor, "is_meta"):
            kind = type(tensor).__name__
            raise InputError(f"{name} of the PyG data must be a torch tensor, not {kind}.")
        if tensor.is_meta:
            raise InputError(f"{name} of the PyG data is on the device 'meta', without values.")
    fields: dict[str, Any] = {
        "features": _feature_array(data.x.detach().cpu()),
        "edges": data.edge_index.detach().cpu().numpy().T,
    }
    if getattr(data, "y", None) is not None:
        fields["labels"] = data.y.detach().cpu().numpy().reshape(-1)
    for split in ("train", "val", "test"):
        mask = getattr(data, f"{split}_mask", None)
        if mask is not None:
            array = np.array(mask.detach().cpu().numpy(), dtype=bool)
            fields[f"{split}_masks"] = np.atleast_2d(array.T)
    return fields


def _check_homogeneous(data: Data) -> None:
    if any(base.__name__ == "HeteroData" for base in type(data).__mro__):
        raise InputError(
            "a HeteroData has several types of nodes or edges and a Graph has one; convert it with "
            "data.to_homogeneous() if your model runs on that."
        )
    if getattr(data, "edge_index", None) is None and getattr(data, "adj_t", None) is not None:
        raise InputError(
            "the PyG data has its edges in adj_t, without edge_index; make it with "
            "ToSparseTensor(remove_edge_index=False)."
        )


def _feature_array(x: Any) -> NDArray[Any] | sp.csr_matrix:
    """Return the features of a tensor as an array that shares no memory with it."""
    if x.is_floating_point() and x.element_size() < 4:
        x = x.float()  # NumPy has no bfloat16, and float32 holds every half-precision number
    if str(x.layout) != "torch.strided":
        return sp.csr_matrix(x.to_dense().numpy())
    # A module that works in place on data.x must not change the graph.
    return np.array(x.numpy())


def pyg_losses(data: Data) -> tuple[str, ...]:
    """Return the names of what a `Graph` cannot hold of a ``Data`` and a model could read.

    These are the keys of `EDGE_LOSSES`, and every field with one entry per node or per edge that is
    not a feature, a label or a mask. Edge weights that are all one are no loss.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges, weight = torch.tensor([[0, 1, 1], [1, 0, 1]]), torch.tensor([0.5, 0.5, 1.0])
    >>> pyg_losses(Data(x=torch.ones(2, 1), edge_index=edges, edge_weight=weight))
    ('self_loops', 'edge_weight')
    """
    num_nodes, num_edges = int(data.x.shape[0]), int(data.edge_index.shape[1])
    source, target = data.edge_index.detach().cpu().numpy().astype(np.int64)
    forward, inner = np.unique(source * num_nodes + target), source != target
    backward = np.unique((target * num_nodes + source)[inner])
    names = []
    if not np.array_equal(np.unique((source * num_nodes + target)[inner]), backward):
        names.append("direction")
    if not inner.all():
        names.append("self_loops")
    if forward.size < num_edges:
        names.append("multi_edges")
    for key in sorted(data.keys()):  # PyG lists them in any order
        shape = tuple(getattr(data[key], "shape", ()))
        per_item = bool(shape) and shape[0] > 0 and shape[0] in (num_nodes, num_edges)
        if key in _KEPT_FIELDS or key.endswith("_mask") or not (per_item or key == "adj_t"):
            continue
        if key == "edge_weight" and bool((data.edge_weight == 1).all()):
            continue
        names.append(str(key))
    return tuple(names)


def check_losses(data: Data, drop: str | Collection[str]) -> None:
    """Refuse a ``Data`` that would lose something which ``drop`` does not name.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    >>> check_losses(data, drop=())
    Traceback (most recent call last):
    graphtemper.errors.InputError: the PyG data has edges in one direction only, which ...
    >>> check_losses(data, drop=("direction",))
    """
    allowed = {drop} if isinstance(drop, str) else set(drop)
    losses = [name for name in pyg_losses(data) if name not in allowed]
    if not losses or "all" in allowed:
        return
    in_words = _listed([EDGE_LOSSES.get(name, name) for name in losses])
    dropped = tuple(sorted({*losses, *allowed}))
    raise InputError(
        f"the PyG data has {in_words}, which a Graph does not hold; pass drop={dropped!r} if your "
        "model does not read this, as predictor(net).check(data) finds out."
    )


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def is_pyg(value: object) -> bool:
    """Return whether a value is an object of PyTorch Geometric, without importing it.

    Examples
    --------
    >>> is_pyg("cora.npz")
    False
    """
    return any(
        kind.__module__.partition(".")[0] == "torch_geometric" for kind in type(value).__mro__
    )


def write_pyg(fields: Mapping[str, Any]) -> Data:
    """Return the fields of a `Graph` as a ``Data`` with both directions of each edge.

    Examples
    --------
    >>> fields = {"features": np.eye(2), "edges": np.array([[0, 1]])}
    >>> write_pyg(fields).edge_index.tolist()
    [[0, 1], [1, 0]]
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError(
            "Graph.to_pyg needs torch and torch_geometric; run pip install 'graphtemper[pyg]'."
        ) from error
    features, edges = fields["features"], fields["edges"]
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    both = np.concatenate([edges, edges[:, ::-1]]).T.astype(np.int64)
    data = Data(x=torch.from_numpy(np.array(dense)), edge_index=torch.from_numpy(both).contiguous())
    if fields.get("labels") is not None:
        data.y = torch.from_numpy(np.array(fields["labels"]))
    for split in ("train", "val", "test"):
        masks = fields.get(f"{split}_masks")
        if masks is not None:
            mask = masks[0] if len(masks) == 1 else masks.T
            setattr(data, f"{split}_mask", torch.from_numpy(np.array(mask)))
    return data


def read_networkx(graph: nx.Graph, features: str | ArrayLike, labels: str | None) -> dict[str, Any]:
    """Return the fields of a ``networkx`` graph (see `Graph.from_networkx`).

    Examples
    --------
    >>> import networkx as nx
    >>> read_networkx(nx.path_graph(3), [[1.0], [2.0], [3.0]], None)["edges"].tolist()
    [[0, 1], [1, 2]]
    """
    index = {node: number for number, node in enumerate(graph.nodes)}
    pairs = [(index[edge[0]], index[edge[1]]) for edge in graph.edges]
    fields: dict[str, Any] = {
        "features": _attributes(graph, features) if isinstance(features, str) else features,
        "edges": np.array(pairs, dtype=np.int64).reshape(-1, 2),
    }
    if labels is not None:
        classes = [label for _, label in graph.nodes(data=labels, default=-1)]
        fields["labels"] = as_array(classes, "labels")
    return fields


def _attributes(graph: nx.Graph, name: str) -> NDArray[Any]:
    rows = []
    for node, value in graph.nodes(data=name):
        if value is None:
            raise InputError(f"node {node!r} has no attribute {name!r}; every node needs it.")
        rows.append(np.atleast_1d(value))
    return as_array(rows, f"the attribute {name!r}")


def read_scipy(adjacency: sp.spmatrix, num_nodes: int) -> NDArray[np.int64]:
    """Return row and column (E, 2) of each non-zero entry of an adjacency matrix.

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
            "features per node."
        )
    untyped: Any = adjacency  # the stubs give spmatrix no conversions
    matrix = untyped.tocsr().tocoo()  # repeated entries are summed
    if matrix.data.dtype.kind == "f" and not np.isfinite(matrix.data).all():
        raise InputError("the adjacency holds a number that is not finite; replace it first.")
    non_zero = matrix.data != 0
    return np.column_stack([matrix.row[non_zero], matrix.col[non_zero]]).astype(np.int64)
