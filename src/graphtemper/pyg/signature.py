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
    "data": ("data", "batch", "graph"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}
ADVICE = "pass adapter=lambda module, data: ... to say how it is called"


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
    passed = []
    for parameter in parameters:
        role = _role(parameter)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            # Without edges a graph network would silently be another model.
            if role == "edge_index":
                passed.append(Argument(parameter.name, role, True))
            continue
        if role is None:
            raise InputError(
                f"{name}.forward needs {parameter.name!r}, which is not one of x, edge_index, "
                f"edge_weight or data; {ADVICE}."
            )
        by_keyword = parameter.kind is parameter.KEYWORD_ONLY
        passed.append(Argument(parameter.name, role, by_keyword))
    roles = [argument.role for argument in passed]
    if not {"x", "data"} & set(roles):
        raise InputError(f"{name}.forward names neither x nor data among its arguments; {ADVICE}.")
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
        if parameter.default is not parameter.empty and _role(parameter) != "edge_index"
    )


def _role(parameter: inspect.Parameter) -> str | None:
    annotation = parameter.annotation
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if kind.rpartition(".")[2] == "Data":
        return "data"
    return _ROLE_OF.get(parameter.name)
