"""Wrap any torch or PyTorch Geometric module as a predictor: ``graph -> logits (N, K)``.

The module sees features and edges, never labels or masks. Every undirected edge is passed in both
directions, sorted and once; sparse features are made dense, which takes N x F numbers of memory.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import InputError, MissingExtraError
from graphtemper.graph import Graph
from graphtemper.propagate import adjacency

try:
    import torch
except ImportError as error:
    raise MissingExtraError(
        "graphtemper.pyg needs torch and torch_geometric; run pip install 'graphtemper[pyg]'."
    ) from error

if TYPE_CHECKING:
    from torch_geometric.data import Data

Returns = Literal["logits", "probabilities", "log-probabilities"]
Adapter = Callable[[torch.nn.Module, "Data"], torch.Tensor]

# What people call the arguments of forward; any other required argument needs an adapter.
_ROLES = {
    "x": ("x", "input", "inputs", "feat", "feats", "features", "h"),
    "edge_index": ("edge_index", "edges"),
    "edge_weight": ("edge_weight", "edge_weights"),
    "data": ("data", "batch", "graph"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}
_ADVICE = "pass adapter=lambda module, data: ... to say how it is called"


def predictor(
    module: torch.nn.Module, *, adapter: Adapter | None = None, returns: Returns = "logits"
) -> Predictor:
    """Wrap a trained module as a frozen predictor.

    The arguments of ``forward`` are recognised by name: ``f(x)``, ``f(x, edge_index)``,
    ``f(x, edge_index, edge_weight)`` with weights of one, or ``f(data)`` with a PyG ``Data`` that
    has ``x`` and ``edge_index``. Optional arguments other than ``edge_index`` keep their defaults.

    Every call runs in evaluation mode without gradients on the module's device, and leaves the
    module as it was. What layers keep from another graph (PyG's ``cached=True``) is set aside for
    the call and recomputed for the graph at hand.

    Parameters
    ----------
    module : torch.nn.Module
        The trained module.
    adapter : callable, optional
        ``adapter(module, data) -> tensor (N, K)`` for modules that are called in another way.
    returns : {"logits", "probabilities", "log-probabilities"}
        What the module returns. Probabilities become logits by their logarithm, where a zero
        counts as the smallest normal float32; log-probabilities already are logits.

    Raises
    ------
    InputError
        Here where the signature is not one of those above; in a call where the output is not
        what ``returns`` says, has a wrong shape, or is not finite, or a weight is not finite.

    Examples
    --------
    >>> from torch_geometric.nn.models import GCN
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=5, homophily=0.8, snr=1.0, num_features=4, seed=0)
    >>> model = predictor(GCN(in_channels=4, hidden_channels=8, num_layers=2, out_channels=2))
    >>> model(g).shape
    (200, 2)
    """
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"predictor wraps a torch.nn.Module, not {type(module).__name__}.")
    if returns not in get_args(Returns):
        raise InputError(f"returns must be one of {', '.join(get_args(Returns))}, not {returns!r}.")
    roles = () if adapter is not None else _arguments(module)
    return Predictor(module, adapter, returns, roles)


@dataclass(frozen=True, repr=False)
class Predictor:
    """A wrapped module; made by `predictor`."""

    module: torch.nn.Module
    adapter: Adapter | None
    returns: Returns
    arguments: tuple[tuple[str, str, bool], ...]

    def __repr__(self) -> str:
        how = "adapter" if self.adapter is not None else ", ".join(n for n, _, _ in self.arguments)
        return f"predictor({type(self.module).__name__}({how}), returns={self.returns!r})"

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return logits (N, K) for every node."""
        _check_weights(self.module)
        device, dtype = _home(self.module)
        tensors = _tensors(graph, device, dtype)
        with frozen(self.module):
            output = self._run(tensors)
        name = type(self.module).__name__
        return _as_logits(_checked_output(output, graph.num_nodes, name), self.returns, name)

    def _run(self, tensors: dict[str, torch.Tensor]) -> Any:
        if self.adapter is not None:
            return self.adapter(self.module, _data(tensors))
        positional, keyword = [], {}
        for name, role, by_keyword in self.arguments:
            value = _data(tensors) if role == "data" else tensors[role]
            if by_keyword:
                keyword[name] = value
            else:
                positional.append(value)
        return self.module(*positional, **keyword)


def _arguments(module: torch.nn.Module) -> tuple[tuple[str, str, bool], ...]:
    """Return (name, role, by keyword) of the arguments to pass to ``forward``."""
    name = type(module).__name__
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}.forward does not show its arguments; {_ADVICE}.") from error
    found = []
    for parameter in parameters:
        role = _role(parameter)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            # Without its edges a graph network would quietly be something else.
            if role == "edge_index":
                found.append((parameter.name, role, True))
            continue
        if role is None:
            raise InputError(
                f"{name}.forward needs {parameter.name!r}, which is not one of x, edge_index, "
                f"edge_weight or data; {_ADVICE}."
            )
        found.append((parameter.name, role, parameter.kind is parameter.KEYWORD_ONLY))
    roles = [role for _, role, _ in found]
    if not {"x", "data"} & set(roles):
        raise InputError(f"{name}.forward names neither x nor data among its arguments; {_ADVICE}.")
    if len(set(roles)) < len(roles) or ("data" in roles and len(roles) > 1):
        listed = ", ".join(argument for argument, _, _ in found)
        raise InputError(f"{name}.forward({listed}) is ambiguous; {_ADVICE}.")
    return tuple(found)


def _role(parameter: inspect.Parameter) -> str | None:
    annotation = parameter.annotation
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if kind.rpartition(".")[2] == "Data":
        return "data"
    return _ROLE_OF.get(parameter.name)


@contextlib.contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """Hold a module in evaluation mode without gradients or caches, then restore it.

    Examples
    --------
    >>> layer = torch.nn.Dropout()
    >>> with frozen(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    training = [(part, part.training) for part in module.modules()]
    caches = [
        (part, key, value)
        for part in module.modules()
        if isinstance(vars(part).get("cached"), bool)
        for key, value in vars(part).items()
        if key == "cached" or key.startswith("_cached_")
    ]
    try:
        module.eval()
        for part, key, _ in caches:
            setattr(part, key, False if key == "cached" else None)
        with torch.no_grad():
            yield
    finally:
        for part, flag in training:
            part.training = flag
        for part, key, value in caches:
            setattr(part, key, value)


def _home(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the floating type of the module's weights."""
    tensors = [*module.parameters(), *module.buffers()]
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        listed = ", ".join(sorted(str(device) for device in devices))
        raise InputError(f"the module's weights are on several devices ({listed}); {_ADVICE}.")
    types = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return next(iter(devices), torch.device("cpu")), types[0] if types else torch.float32


def _check_weights(module: torch.nn.Module) -> None:
    """Refuse weights that are not finite, by name."""
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in named:
        # Lazy weights have no values before the first call, and no call may give them some here.
        if torch.nn.parameter.is_lazy(tensor):
            raise InputError(f"the weight {name!r} has no values yet; train the module first.")
        if tensor.is_floating_point() and tensor.isnan().any():
            raise InputError(f"the weight {name!r} holds NaN; load or train the module again.")


def _tensors(graph: Graph, device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    dense = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    both = adjacency(graph).tocoo()
    edges = np.stack([both.row, both.col]).astype(np.int64)
    return {
        "x": torch.from_numpy(np.array(dense)).to(device, dtype),
        "edge_index": torch.from_numpy(edges).to(device),
        "edge_weight": torch.ones(edges.shape[1], device=device, dtype=dtype),
    }


def _data(tensors: dict[str, torch.Tensor]) -> Data:
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError(
            "passing a Data object needs torch_geometric; run pip install 'graphtemper[pyg]'."
        ) from error
    return Data(x=tensors["x"], edge_index=tensors["edge_index"])


def _checked_output(output: Any, num_nodes: int, name: str) -> NDArray[np.float64]:
    if not isinstance(output, torch.Tensor):
        raise InputError(
            f"{name} returned {type(output).__name__}, not a tensor; {_ADVICE} and pick the logits."
        )
    shape = tuple(output.shape)
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise InputError(
            f"{name} returned shape {shape}, one number a node; write a binary score g as two "
            "columns, logits [0, g], in an adapter."
        )
    if len(shape) != 2 or shape[0] != num_nodes:
        raise InputError(
            f"{name} returned shape {shape} for {num_nodes} nodes; a predictor returns one row of "
            "class logits a node."
        )
    if not output.is_floating_point():
        raise InputError(f"{name} returned {output.dtype}, not real numbers; return the logits.")
    array = output.detach().to("cpu", torch.float64).numpy()
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise InputError(f"{name} returned a number that is not finite at node {bad[0]}.")
    return array


def _as_logits(output: NDArray[np.float64], returns: Returns, name: str) -> NDArray[np.float32]:
    kind = _kind(output)
    if returns == "logits" != kind:
        raise InputError(
            f"{name} returns {kind}, not logits; pass returns={kind!r} to convert them."
        )
    if kind != returns:
        raise InputError(f"{name} does not return {returns} but {kind}; change returns=.")
    if returns == "probabilities":
        output = np.log(np.maximum(output, np.finfo(np.float32).tiny))
    return output.astype(np.float32)


def _kind(output: NDArray[np.float64]) -> Returns:
    """Tell probabilities and log-probabilities from logits by the sums of all rows.

    The tolerance is that of half precision: real logits have no reason to sum to one everywhere.
    """
    tolerance = 5e-3
    if (output >= 0).all() and np.abs(output.sum(axis=1) - 1.0).max() < tolerance:
        return "probabilities"
    if (output <= 0).all() and np.abs(np.exp(output).sum(axis=1) - 1.0).max() < tolerance:
        return "log-probabilities"
    return "logits"
