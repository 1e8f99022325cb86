"""What a module takes: the arguments of its ``forward``, recognised by name, and their tensors.

The tensors come from a `Graph`, or from the fields of the user's own data.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from graphtemper import errors
from graphtemper._core.lazy import cached_property
from graphtemper.errors import require
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.graph.operators import adjacency
from graphtemper.graph.pyg_conversion import is_hetero
from graphtemper.graph.pyg_writing import hetero_data, write_pyg

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
            raise errors.predictor(
                f"the model reads {name!r}, but {lacks}; set it, or pass an adapter."
            )
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
        pyg = require("pyg", "passing a Data object", "torch_geometric.data")
        return pyg.Data(x=self.tensors["x"], edge_index=self.tensors["edge_index"])


def from_graph(
    graph: Graph, nodes: Rows | None, needs: Needs, device: torch.device, dtype: torch.dtype
) -> Inputs:
    """Return the inputs from a graph, or from the subgraph of some nodes.

    For a plain graph, the adjacency matrix is made once and holds every edge in both directions,
    sorted. Attributes and types go into a ``Data`` or ``HeteroData``.
    """
    if needs.attributes is not None and not needs.types and graph.edge_features is None:
        raise errors.predictor(
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


# Common names of the arguments of forward; any other required argument needs an adapter.
_ROLES = {
    "x": ("x", "input", "inputs", "feat", "feats", "features", "h"),
    "edge_index": ("edge_index", "edges"),
    "edge_weight": ("edge_weight", "edge_weights"),
    "edge_attr": ("edge_attr", "edge_attrs", "edge_features"),
    "edge_type": ("edge_type", "edge_types"),
    "node_type": ("node_type", "node_types"),
    "adj_t": ("adj_t", "adj"),
    "x_dict": ("x_dict",),
    "edge_index_dict": ("edge_index_dict",),
    "edge_attr_dict": ("edge_attr_dict",),
    "edge_weight_dict": ("edge_weight_dict",),
    "batch": ("batch",),
    "data": ("data", "graph"),
}
ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}
# Without edges a graph network would silently be another model, so these are always passed.
_EDGES = ("edge_index", "edge_index_dict", "adj_t")
ADVICE = "pass adapter=lambda module, data: ... to say how it is called"


class Needs(NamedTuple):
    """What the inputs of a module must contain: dictionaries by type, and ``data.adj_t``.

    ``attributes`` names a layer that was made for edge attributes, which the module passes on.
    """

    types: bool = False
    adj_t: bool = False
    attributes: str | None = None


class Argument(NamedTuple):
    """An argument of ``forward``: its name, its role, and whether it is passed by keyword."""

    name: str
    role: str
    by_keyword: bool


def arguments(module: torch.nn.Module) -> tuple[Argument, ...]:
    """Return the arguments to pass to ``forward``, in order.

    Examples
    --------
    >>> from torch_geometric.nn import GCNConv
    >>> [argument.role for argument in arguments(GCNConv(4, 2))]
    ['x', 'edge_index']
    """
    name = type(module).__name__
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError) as error:
        raise errors.predictor(f"{name}.forward does not show its arguments; {ADVICE}.") from error
    passed: list[Argument] = []
    for parameter in parameters:
        role = _role(parameter)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            have_edges = any(argument.role in _EDGES for argument in passed)
            if role in _EDGES and not have_edges:
                passed.append(Argument(parameter.name, role, True))
            continue
        if role is None:
            raise errors.predictor(
                f"{name}.forward needs {parameter.name!r}, which is not one of "
                f"{', '.join(_ROLES)}; {ADVICE}."
            )
        by_keyword = parameter.kind is parameter.KEYWORD_ONLY
        passed.append(Argument(parameter.name, role, by_keyword))
    if [argument.role for argument in passed] == ["batch"]:  # a loader's batch is a Data
        passed = [passed[0]._replace(role="data")]
    roles = [argument.role for argument in passed]
    if not {"x", "x_dict", "data"} & set(roles):
        raise errors.predictor(
            f"{name}.forward names none of x, x_dict and data among its arguments; {ADVICE}."
        )
    if len(set(roles)) < len(roles) or ("data" in roles and len(roles) > 1):
        listed = ", ".join(argument.name for argument in passed)
        raise errors.predictor(f"{name}.forward({listed}) is ambiguous; {ADVICE}.")
    return tuple(passed)


def optional_fields(module: torch.nn.Module) -> tuple[str, ...]:
    """Return the names of the optional arguments of ``forward`` that a field of a graph may fill.

    Examples
    --------
    >>> from torch_geometric.nn import GCNConv
    >>> optional_fields(GCNConv(4, 2))
    ('edge_weight',)
    """
    return tuple(
        parameter.name
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.default is not parameter.empty and _role(parameter) not in _EDGES
    )


# The roles of arguments that a field of a graph fills; one attribute per edge may be a weight.
_FILLS = {
    "edge_weight": {"edge_weight", "edge_weight_dict", "adj_t"},
    "edge_features": {"edge_attr", "edge_attr_dict", "edge_weight", "edge_weight_dict"},
    "edge_type": {"edge_type", "edge_index_dict"},
    "node_type": {"node_type", "x_dict"},
}


def unread(module: torch.nn.Module, passed: tuple[Argument, ...]) -> tuple[str, ...]:
    """Return the optional fields of a graph that no argument of ``forward`` takes.

    Nothing is known of a module that gets a whole ``Data``, or of an adapter.

    Examples
    --------
    >>> from torch_geometric.nn import GCNConv
    >>> unread(GCNConv(4, 2), arguments(GCNConv(4, 2)))
    ('edge_type', 'node_type')
    """
    roles = {argument.role for argument in passed}
    if not roles or "data" in roles or _made_hetero(module):
        return ()
    roles |= {ROLE_OF.get(name, "") for name in optional_fields(module)}
    for role in ("edge_weight", "edge_attr"):  # PyG's models take both, and say what they use
        roles -= {role} if getattr(module, f"supports_{role}", True) is False else set()
    return tuple(field for field, fills in _FILLS.items() if not fills & roles)


def needs(module: torch.nn.Module, passed: tuple[Argument, ...], adapter: object) -> Needs:
    """Return what a module must get next to features and edges.

    Whether it reads ``data.adj_t`` is known from the names in the code of its parts.

    Examples
    --------
    >>> from torch_geometric.nn import GCNConv
    >>> needs(GCNConv(4, 2), arguments(GCNConv(4, 2)), None)
    Needs(types=False, adj_t=False, attributes=None)
    """
    roles = {argument.role for argument in passed}
    called = [adapter, *(part.forward for part in module.modules())]
    takes_data = adapter is not None or "data" in roles
    return Needs(
        types=any(role.endswith("_dict") for role in roles) or _made_hetero(module),
        adj_t=takes_data and any("adj_t" in _names_in_code(function) for function in called),
        attributes=_reads_attributes(module) if adapter is None else None,
    )


def _made_hetero(module: torch.nn.Module) -> bool:
    """Return whether PyG's ``to_hetero`` made the module: ``x`` is then a dictionary by type."""
    return isinstance(module, torch.fx.GraphModule) and any(
        len(key.split("__")) == 3
        for part in module.modules()
        if isinstance(part, torch.nn.ModuleDict)
        for key in part
    )


def _reads_attributes(module: torch.nn.Module) -> str | None:
    """Return the name of a layer for edge attributes if the module passes optional ones on.

    Without attributes such a layer runs too, as another model than the one that was trained.
    """
    made_for = (
        part for part in module.modules() if isinstance(getattr(part, "edge_dim", None), int)
    )
    layer = next(made_for, None)
    named = {
        ROLE_OF.get(name) for name in (*optional_fields(module), *_names_in_code(module.forward))
    }
    return type(layer).__name__ if layer is not None and "edge_attr" in named else None


def _names_in_code(function: object) -> tuple[str, ...]:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return () if code is None else (*code.co_names, *map(str, code.co_consts))


def _role(parameter: inspect.Parameter) -> str | None:
    annotation = parameter.annotation
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if kind.rpartition(".")[2] in ("Data", "HeteroData", "Batch"):
        return "data"
    return ROLE_OF.get(parameter.name)
