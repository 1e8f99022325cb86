"""Reading graphs of PyTorch Geometric, without importing it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.errors import InputError
from graphtemper.graph.attributes import reduced_edges
from graphtemper.graph.checks import checked_pairs

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

SPLITS = ("train", "val", "test")
# The name in PyG, and in a Graph.
EDGE_ATTRIBUTES = {
    "edge_weight": "edge_weight",
    "edge_attr": "edge_features",
    "edge_type": "edge_type",
}
# Masks under other names are no input of a model; adj_t is read as edges.
_KEPT_FIELDS = {"x", "edge_index", "adj_t", "y", "node_type", "environment", *EDGE_ATTRIBUTES}


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


def is_hetero(data: object) -> bool:
    """Return whether a value is a ``HeteroData``, without importing it."""
    return any(base.__name__ == "HeteroData" for base in type(data).__mro__)


def read_pyg(
    data: Data | HeteroData, drop: str | Collection[str] = (), target: str | None = None
) -> dict[str, Any]:
    """Return the fields of a `Graph` for a ``Data`` or ``HeteroData``, as copies on the CPU.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> fields = read_pyg(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]])))
    >>> fields["edges"].tolist(), fields["directed"]
    ([[0, 1]], False)
    """
    left_out = {drop} if isinstance(drop, str) else set(drop)
    fields = _hetero_fields(data, left_out, target) if is_hetero(data) else _fields(data, left_out)
    _check_losses(data, left_out)
    return fields


def pyg_losses(data: Data | HeteroData) -> tuple[str, ...]:
    """Return the fields per node or per edge that a `Graph` cannot hold and a model could read.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> pyg_losses(Data(x=torch.ones(2, 1), edge_index=edges, pos=torch.ones(2, 3)))
    ('pos',)
    """
    names = set()
    for store in data.stores:
        sizes = {_size(store, key) for key in ("x", "edge_index", "adj_t")} - {0}
        for key in store:
            kept = key in _KEPT_FIELDS or key.endswith("_mask")
            if kept or _size(store, key) not in sizes:
                continue
            if key == "batch" and not bool(store[key].any()):
                continue  # one graph: the same as no batch
            names.add(str(key))
    return tuple(sorted(names))


def _size(store: Any, key: str) -> int:
    """Return the number of nodes or edges that a field has rows for, 0 if it is none of these."""
    value = store.get(key)
    shape = tuple(getattr(value, "shape", ()))
    if key == "edge_index":
        return int(shape[1]) if len(shape) == 2 else 0
    if key == "adj_t" and value is not None:
        return int(value.nnz()) if hasattr(value, "nnz") else int(value._nnz())
    return int(shape[0]) if shape else 0


def _check_losses(data: Data | HeteroData, drop: set[str]) -> None:
    losses = [name for name in pyg_losses(data) if name not in drop]
    if not losses or "all" in drop:
        return
    in_words = " and ".join(filter(None, [", ".join(losses[:-1]), losses[-1]]))
    dropped = tuple(sorted({*losses, *drop}))
    raise errors.other_types(
        f"the PyG data has {in_words}, which a Graph does not hold; use Graph.from_pyg(data, "
        f"drop={dropped!r}) if your model does not read this, as predictor(net).check(data) finds "
        "out."
    )


def _array(tensor: Any, name: str) -> NDArray[Any]:
    """Return a tensor as an array that shares no memory with it."""
    if not hasattr(tensor, "is_meta"):
        raise errors.wrong_type(
            f"{name} of the PyG data must be a torch tensor, not {type(tensor).__name__}."
        )
    if tensor.is_meta:
        raise errors.predictor(f"{name} of the PyG data is on the device 'meta', without values.")
    own = tensor.detach().cpu()
    if own.is_floating_point() and own.element_size() < 4:
        own = own.float()  # NumPy has no bfloat16, and float32 holds every half-precision number
    return np.array(own.numpy())


def _features(x: Any, name: str = "x") -> NDArray[Any] | sp.csr_matrix:
    if x is None:
        raise errors.missing("the PyG data needs both x and edge_index; set them first.")
    if hasattr(x, "layout") and str(x.layout) != "torch.strided" and not x.is_meta:
        return sp.csr_matrix(_array(x.detach().to_dense(), name))
    return _array(x, name)


def _pairs(store: Any) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Return the ordered pairs of ``edge_index`` or ``adj_t``, and the weights in ``adj_t``."""
    if store.get("edge_index") is not None:
        pairs = _array(store["edge_index"], "edge_index")
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise errors.shape(f"edge_index must have shape (2, E), but has shape {pairs.shape}.")
        _check_same_edges(store, pairs.T)
        return pairs.T, None
    if store.get("adj_t") is None:
        raise errors.missing("the PyG data needs both x and edge_index; set them first.")
    return _read_adj_t(store["adj_t"])


def _read_adj_t(adj_t: Any) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Read a transposed adjacency matrix: rows are targets of edges, columns are sources."""
    if hasattr(adj_t, "coo"):  # a SparseTensor of torch_sparse
        row, column, value = adj_t.coo()
    else:
        listed = adj_t.detach().cpu().to_sparse_coo().coalesce()
        (row, column), value = listed.indices(), listed.values()
    pairs = np.column_stack([_array(column, "adj_t"), _array(row, "adj_t")])
    weight = None if value is None else _array(value, "adj_t")
    return pairs, None if weight is None or bool((weight == 1).all()) else weight


def _check_same_edges(store: Any, pairs: NDArray[np.int64]) -> None:
    """Refuse an ``adj_t`` next to ``edge_index`` that holds other edges or other weights."""
    if store.get("adj_t") is None:
        return
    others, weight = _read_adj_t(store["adj_t"])
    own = store.get("edge_weight")
    first: NDArray[Any] = pairs
    second: NDArray[Any] = others
    if weight is not None:
        ones = np.ones(len(pairs)) if own is None else _array(own, "edge_weight")
        first = np.column_stack([pairs, ones])
        second = np.column_stack([others, weight])
    if first.shape != second.shape or not np.array_equal(
        first[np.lexsort(first.T[::-1])], second[np.lexsort(second.T[::-1])]
    ):
        raise errors.conflict("adj_t and edge_index of the PyG data hold other edges; delete one.")


def _edge_attributes(
    store: Any, drop: set[str], weight: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    attributes = {} if weight is None else {"edge_weight": weight}
    for key, field in EDGE_ATTRIBUTES.items():
        if store.get(key) is not None:
            attributes[field] = _array(store[key], key)
    kept = () if "all" in drop else set(EDGE_ATTRIBUTES) - drop
    return {
        field: attributes[field]
        for key, field in EDGE_ATTRIBUTES.items()
        if key in kept and field in attributes
    }


def _target_fields(store: Any, rows: slice, num_nodes: int) -> dict[str, Any]:
    """Return labels and masks, which ``store`` holds for some of the nodes."""
    fields: dict[str, Any] = {}
    if store.get("y") is not None:
        labels = _array(store["y"], "y")
        if labels.ndim > 1 and labels.shape[1] > 1:
            raise errors.shape(
                f"y has shape {labels.shape}, several columns per node; give each node one class."
            )
        labels = labels.reshape(-1)
        fields["labels"] = _spread(labels, rows, num_nodes, -1)
    for split in SPLITS:
        mask = store.get(f"{split}_mask")
        if mask is not None:
            array = np.atleast_2d(_array(mask, f"{split}_mask").astype(bool).T)
            fields[f"{split}_masks"] = _spread(array, rows, num_nodes, False)
    return fields


def _spread(values: NDArray[Any], rows: slice, num_nodes: int, rest: Any) -> NDArray[Any]:
    """Return values of some nodes as values of all nodes; the others have ``rest``."""
    if rows == slice(0, num_nodes) or values.shape[-1] != rows.stop - rows.start:
        return values  # of all nodes, or of a wrong number of them, which `Graph` reports
    spread = np.full((*values.shape[:-1], num_nodes), rest, dtype=values.dtype)
    spread[..., rows] = values
    return spread


def _fields(data: Data, drop: set[str]) -> dict[str, Any]:
    features = _features(getattr(data, "x", None))
    num_nodes = int(features.shape[0])
    store = data.stores[0]
    pairs, weight = _pairs(store)
    attributes = _edge_attributes(store, drop, weight)
    _check_rows(attributes, len(pairs))
    checked_pairs(pairs, num_nodes)
    fields = {"features": features, **_target_fields(store, slice(0, num_nodes), num_nodes)}
    if store.get("node_type") is not None and not {"node_type", "all"} & drop:
        fields["node_type"] = _array(store["node_type"], "node_type")
    if store.get("environment") is not None:
        fields["environment"] = _array(store["environment"], "environment")
    names = store.get("feature_names")
    if isinstance(names, list | tuple) and len(names) == features.shape[1]:
        fields["feature_names"] = tuple(map(str, names))
    return fields | reduced_edges(pairs, attributes, num_nodes, drop)


def _check_rows(attributes: dict[str, NDArray[Any]], num_edges: int) -> None:
    for field, values in attributes.items():
        if values.ndim == 0 or len(values) != num_edges:
            raise errors.shape(
                f"{field} of the PyG data has shape {values.shape} for {num_edges} edges; give it "
                "one row per edge."
            )


def _hetero_fields(data: HeteroData, drop: set[str], target: str | None) -> dict[str, Any]:
    names = sorted(str(name) for name in data.node_types)  # the same columns in every graph
    target = _target(data, names, target)
    blocks = [_type_features(data, name) for name in names]
    counts, widths = (np.array([block.shape[axis] for block in blocks]) for axis in (0, 1))
    starts, columns = (np.concatenate([[0], np.cumsum(x)]) for x in (counts, widths))
    num_nodes, number = int(starts[-1]), names.index(target)
    rows = slice(int(starts[number]), int(starts[number + 1]))
    return {
        "features": _blocks(blocks),
        "node_type": np.repeat(np.arange(len(names)), counts),
        "node_type_names": names,
        "target_type": number,
        "type_columns": np.column_stack([columns[:-1], columns[1:]]),
        **_target_fields(data[target], rows, num_nodes),
        **_hetero_edges(data, dict(zip(names, starts.tolist(), strict=False)), drop),
    }


def _target(data: HeteroData, names: list[str], target: str | None) -> str:
    labelled = [name for name in names if data[name].get("y") is not None]
    if target is None and len(labelled or names) == 1:
        return (labelled or names)[0]
    if target not in names:
        raise errors.missing(
            f"choose the node type that is classified, Graph.from_pyg(data, target={names[0]!r}); "
            f"the data has {', '.join(names)}."
        )
    return target


def _type_features(data: HeteroData, name: str) -> Any:
    x = data[name].get("x")
    if x is None:
        raise errors.missing(
            f"the node type {name!r} has no x; give it one, for instance a column of ones with "
            f"T.Constant(node_types={name!r})."
        )
    features = _features(x, f"x of {name!r}")
    if len(features.shape) != 2:
        raise errors.shape(f"x of {name!r} must have shape (N, F), but has shape {features.shape}.")
    return features


def _blocks(blocks: list[Any]) -> Any:
    """Return the blocks along the diagonal: dense where at least half of it is filled."""
    shape = tuple(sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    filled = sum(int(np.prod(block.shape)) for block in blocks)
    diagonal = sp.csr_matrix(sp.block_diag(blocks, format="csr"))
    return diagonal.toarray() if 2 * filled >= shape[0] * shape[1] else diagonal


def _hetero_edges(data: HeteroData, start: dict[str, int], drop: set[str]) -> dict[str, Any]:
    pairs, types, parts = [], [], []
    kinds = data.edge_types  # in the order of the data, on which PyG's HGTConv depends
    for number, kind in enumerate(kinds):
        own, weight = _pairs(data[kind])
        pairs.append(own.reshape(-1, 2) + np.array([start[kind[0]], start[kind[2]]]))
        types.append(np.full(len(own), number))
        parts.append(_edge_attributes(data[kind], drop, weight))
        _check_rows(parts[-1], len(own))
    if not pairs:
        raise InputError("the HeteroData has no edge types; use a Data for nodes without edges.")
    fields = {
        "directed": True,
        "edges": np.concatenate(pairs),
        "edge_type": np.concatenate(types),
        "edge_type_names": ["__".join(kind) for kind in kinds],
    }
    for field in ("edge_weight", "edge_features"):
        values = [part[field] for part in parts if field in part]
        if not values:
            continue
        if len(values) < len(parts) or len({value.shape[1:] for value in values}) > 1:
            raise errors.other_types(
                f"edge types differ in {field}, which every one must have with the same width; "
                "fill it in, or leave it out with drop=('edge_attr', 'edge_weight')."
            )
        fields[field] = np.concatenate(values)
    return fields
