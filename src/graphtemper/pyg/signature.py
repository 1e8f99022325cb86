"""The arguments of a module's ``forward``, recognised by name."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import torch

from graphtemper.errors import InputError

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
        raise InputError(f"{name}.forward does not show its arguments; {ADVICE}.") from error
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
            raise InputError(
                f"{name}.forward needs {parameter.name!r}, which is not one of "
                f"{', '.join(_ROLES)}; {ADVICE}."
            )
        by_keyword = parameter.kind is parameter.KEYWORD_ONLY
        passed.append(Argument(parameter.name, role, by_keyword))
    if [argument.role for argument in passed] == ["batch"]:  # a loader's batch is a Data
        passed = [passed[0]._replace(role="data")]
    roles = [argument.role for argument in passed]
    if not {"x", "x_dict", "data"} & set(roles):
        raise InputError(
            f"{name}.forward names none of x, x_dict and data among its arguments; {ADVICE}."
        )
    if len(set(roles)) < len(roles) or ("data" in roles and len(roles) > 1):
        listed = ", ".join(argument.name for argument in passed)
        raise InputError(f"{name}.forward({listed}) is ambiguous; {ADVICE}.")
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
