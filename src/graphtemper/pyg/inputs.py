"""The inputs of a module: tensors of a `Graph`, or the fields of the user's own data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphtemper.errors import InputError, MissingExtraError
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.graph.operators import adjacency
from graphtemper.graph.pyg_conversion import is_hetero
from graphtemper.graph.pyg_writing import hetero_data, write_pyg
from graphtemper.pyg.signature import ROLE_OF, Needs

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

# What a message calls a role that a graph may lack, and the field of a `Graph` that fills it.
_FIELDS = {
    "edge_attr": "edge_features",
    "edge_type": "edge_type",
    "node_type": "node_type",
    "edge_attr_dict": "edge_features",
    "edge_weight_dict": "edge_weight",
}


@dataclass(frozen=True)
class Inputs:
    """Tensors by their role, those of optional arguments by their name, and the data they are from.

    ``num_features`` is a number, or a description for several node types.
    """

    tensors: Mapping[str, Any]
    num_nodes: int
    num_features: int
    data: Data | HeteroData | None = None
    extra: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def of_role(self, role: str, name: str) -> Any:
        """Return the input of a role; an error says which field the graph lacks for ``name``."""
        if role in ("data", "adj_t"):
            return self.as_data() if role == "data" else self.adj_t
        if self.tensors.get(role) is None:
            filled_by = _FIELDS.get(role)
            lacks = f"the graph has no {filled_by}" if filled_by else "the graph has no such input"
            raise InputError(f"the model reads {name!r}, but {lacks}; set it, or pass an adapter.")
        return self.tensors[role]

    def optional(self, names: Collection[str]) -> dict[str, Any]:
        """Return the optional arguments that the graph has an input for, by name."""
        weightless = "edge_weight" in self.tensors and self.tensors.get("has_weight") is None
        filled = {}
        for name in names:
            role = ROLE_OF.get(name)
            if role in ("data", "batch", "adj_t", "x") or (role == "edge_weight" and weightless):
                continue
            value = self.extra.get(name) if role is None else self.tensors.get(role)
            if value is not None:
                filled[name] = value
        return filled

    @cached_property
    def adj_t(self) -> Any:
        """The transposed adjacency matrix with weights, as ``ToSparseTensor`` makes it."""
        if (
            self.data is not None
            and not is_hetero(self.data)
            and self.data.get("adj_t") is not None
        ):
            return self.data.adj_t
        from torch_geometric.data import Data
        from torch_geometric.transforms import ToSparseTensor

        weight = self.tensors.get("edge_weight")
        data = Data(edge_index=self.tensors["edge_index"].clone(), num_nodes=self.num_nodes)
        data.edge_weight = None if weight is None else weight.clone()
        return ToSparseTensor(attr="edge_weight")(data).adj_t

    def as_data(self) -> Data | HeteroData:
        """Return the user's data, or one with features and edges and nothing else."""
        if self.data is not None:
            return self.data
        try:
            from torch_geometric.data import Data
        except ImportError as error:
            raise MissingExtraError(
                "passing a Data object needs torch_geometric; run pip install 'graphtemper[pyg]'."
            ) from error
        return Data(x=self.tensors["x"], edge_index=self.tensors["edge_index"])


def from_graph(
    graph: Graph, nodes: Rows | None, needs: Needs, device: torch.device, dtype: torch.dtype
) -> Inputs:
    """Return the inputs from a graph, or from the subgraph of some nodes.

    For a plain graph, the adjacency matrix is made once and holds every edge in both directions,
    sorted. Attributes and types go into a ``Data`` or ``HeteroData``.
    """
    if needs.attributes is not None and not needs.types and graph.edge_features is None:
        raise InputError(
            f"the model reads edge attributes in {needs.attributes}, but the graph has no "
            "edge_features; set them, or pass an adapter if the model works without."
        )
    if graph.is_plain and not needs.types:
        inputs = _from_plain(graph, nodes, device, dtype)
    else:
        part = graph if nodes is None else graph.subgraph(nodes)
        data = hetero_data(part) if needs.types else write_pyg(part, targets=False)
        inputs = from_data(data, device, dtype)
    if needs.adj_t and not is_hetero(inputs.as_data()):
        data = inputs.as_data()
        data.adj_t = inputs.adj_t
        return Inputs(inputs.tensors, inputs.num_nodes, inputs.num_features, data)
    return inputs


def _from_plain(
    graph: Graph, nodes: Rows | None, device: torch.device, dtype: torch.dtype
) -> Inputs:
    features, both = graph.features, adjacency(graph)
    if nodes is not None:
        features, both = features[nodes], both[nodes][:, nodes]
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    listed = both.tocoo()
    edges = np.stack([listed.row, listed.col]).astype(np.int64)
    tensors = {
        "x": torch.from_numpy(np.array(dense)).to(device, dtype),
        "edge_index": torch.from_numpy(edges).to(device),
        "edge_weight": torch.ones(edges.shape[1], device=device, dtype=dtype),
        "batch": torch.zeros(len(dense), device=device, dtype=torch.int64),
    }
    return Inputs(tensors, *dense.shape)


def from_data(data: Data | HeteroData, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return the inputs with which a user would call a module: copies of the fields of ``data``."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)

    own = data.clone().apply(convert)
    if is_hetero(own):
        return _from_hetero(own)
    fields = {key: own[key] for key in own.keys() if isinstance(own[key], torch.Tensor)}  # noqa: SIM118
    x, edge_index = own.x, fields.get("edge_index", own.get("adj_t"))
    weight, attributes = fields.get("edge_weight"), fields.get("edge_attr")
    if weight is None and attributes is not None and attributes.numel() == len(attributes):
        weight = attributes.reshape(-1)  # weights are often stored as the only attribute
        weight = weight if weight.is_floating_point() else weight.to(dtype)
    tensors = {
        "x": x,
        "edge_index": edge_index,
        "edge_weight": weight,
        "has_weight": weight,
        "edge_attr": attributes,
        "edge_type": fields.get("edge_type"),
        "node_type": fields.get("node_type"),
        "batch": fields.get("batch", torch.zeros(len(x), device=device, dtype=torch.int64)),
    }
    if weight is None and "edge_index" in fields:
        tensors["edge_weight"] = torch.ones(edge_index.shape[1], device=device, dtype=dtype)
    extra = {key: tensor for key, tensor in fields.items() if not _is_target(key)}
    return Inputs(tensors, len(x), int(x.shape[1]), own, extra)


def _from_hetero(own: HeteroData) -> Inputs:
    tensors: dict[str, Any] = {"x": own.x_dict, "edge_index": own.edge_index_dict}
    for key in ("edge_attr", "edge_weight"):
        tensors[key] = {kind: own[kind][key] for kind in own.edge_types if key in own[kind]} or None
    # PyG's to_hetero keeps the names of the arguments, which then are dictionaries.
    tensors |= {f"{key}_dict": values for key, values in tensors.items()}
    width = sum(int(x.shape[1]) for x in own.x_dict.values())
    return Inputs(tensors, sum(map(len, own.x_dict.values())), width, own)


def _is_target(key: str) -> bool:
    """Return whether a field holds labels or a split, which no model reads in deployment."""
    return key == "y" or key.endswith("_mask")
