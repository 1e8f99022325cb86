"""The inputs of a module: tensors of a `Graph`, or the fields of the user's own ``Data``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from graphtemper.errors import MissingExtraError
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency
from graphtemper.pyg.batches import Rows

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Inputs:
    """Tensors by their role, optional arguments by their name, and the data they are from."""

    tensors: dict[str, torch.Tensor]
    optional: dict[str, torch.Tensor] = field(default_factory=dict)
    data: Data | None = None

    @property
    def num_nodes(self) -> int:
        """Number of rows of the features."""
        return int(self.tensors["x"].shape[0])

    @property
    def num_features(self) -> int:
        """Number of columns of the features."""
        return int(self.tensors["x"].shape[1])

    def as_data(self) -> Data:
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
    graph: Graph, nodes: Rows | None, device: torch.device, dtype: torch.dtype
) -> Inputs:
    """Return features and edges of the graph, or of the subgraph of some nodes.

    The adjacency matrix is made once per graph and holds every edge in both directions, once.
    """
    features, both = graph.features, adjacency(graph)
    if nodes is not None:
        features, both = features[nodes], both[nodes][:, nodes]
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    listed = both.tocoo()
    edges = np.stack([listed.row, listed.col]).astype(np.int64)
    return Inputs(
        {
            "x": torch.from_numpy(np.array(dense)).to(device, dtype),
            "edge_index": torch.from_numpy(edges).to(device),
            "edge_weight": torch.ones(edges.shape[1], device=device, dtype=dtype),
        }
    )


def from_data(
    data: Data, optional: Collection[str], device: torch.device, dtype: torch.dtype
) -> Inputs:
    """Return the inputs with which a user would call a module: copies of the fields of ``data``.

    ``optional`` names the optional arguments of the module; those that are fields of ``data`` are
    passed.
    """

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)

    own = data.clone().apply(convert)
    fields = {key: own[key] for key in own.keys() if isinstance(own[key], torch.Tensor)}  # noqa: SIM118
    weight = fields.get("edge_weight")
    attributes = fields.get("edge_attr")
    if weight is None and attributes is not None and attributes.numel() == len(attributes):
        weight = attributes.reshape(-1)  # weights are often stored as the only attribute
    arguments = {key: tensor for key, tensor in fields.items() if not _is_target(key)}
    if weight is not None:
        arguments |= {"edge_weight": weight, "edge_weights": weight}
    else:
        weight = torch.ones(own.edge_index.shape[1], device=device, dtype=dtype)
    return Inputs(
        {"x": own.x, "edge_index": own.edge_index, "edge_weight": weight},
        {name: arguments[name] for name in optional if name in arguments},
        own,
    )


def _is_target(key: str) -> bool:
    """Return whether a field holds labels or a split, which no model reads in deployment."""
    return key == "y" or key.endswith("_mask")
