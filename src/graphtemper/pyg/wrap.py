"""Wrap a module as a predictor, in one pass or in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper.errors import InputError, MissingExtraError
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency
from graphtemper.pyg.batches import Batches
from graphtemper.pyg.frozen import check_weights, frozen, home, repeatable
from graphtemper.pyg.output import Returns, as_logits, checked_output
from graphtemper.pyg.signature import Argument, arguments

if TYPE_CHECKING:
    from torch_geometric.data import Data

Adapter = Callable[[torch.nn.Module, "Data"], torch.Tensor]
Tensors = dict[str, torch.Tensor]


def predictor(
    module: torch.nn.Module,
    *,
    adapter: Adapter | None = None,
    returns: Returns = "logits",
    batches: Batches | None = None,
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
    batches : Batches, optional
        For a graph that does not fit into one pass: how far the module reads, and how many nodes
        to answer at a time.

    Raises
    ------
    InputError
        Here where the signature is not one of those above; in a call where the output is not
        what ``returns`` says, has a wrong shape, is not finite or changes from call to call, or a
        weight is not finite.

    Examples
    --------
    >>> from torch_geometric.nn.models import GCN
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=5, homophily=0.8, snr=1.0, num_features=4, seed=0)
    >>> model = predictor(GCN(in_channels=4, hidden_channels=8, num_layers=2, out_channels=2))
    >>> model(g).shape
    (200, 2)
    """
    return Predictor(module, adapter, returns, batches)


@dataclass(frozen=True, repr=False)
class Predictor:
    """A wrapped module; made by `predictor`."""

    module: torch.nn.Module
    adapter: Adapter | None = None
    returns: Returns = "logits"
    batches: Batches | None = None
    arguments: tuple[Argument, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.module, torch.nn.Module):
            kind = type(self.module).__name__
            raise InputError(f"predictor wraps a torch.nn.Module, not {kind}.")
        if self.returns not in get_args(Returns):
            listed = ", ".join(get_args(Returns))
            raise InputError(f"returns must be one of {listed}, not {self.returns!r}.")
        if self.batches is not None and not isinstance(self.batches, Batches):
            raise InputError(f"batches must be Batches(hops=...), not {self.batches!r}.")
        found = () if self.adapter is not None else arguments(self.module)
        object.__setattr__(self, "arguments", found)

    @property
    def __name__(self) -> str:
        """What a source card calls the model."""
        return type(self.module).__name__

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments, as scikit-learn estimators do.

        Examples
        --------
        >>> predictor(torch.nn.Linear(4, 2)).get_params()["returns"]
        'logits'
        """
        names = ("module", "adapter", "returns", "batches")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        how = "adapter"
        if self.adapter is None:
            how = ", ".join(argument.name for argument in self.arguments)
        parts = "" if self.batches is None else f", batches={self.batches!r}"
        return f"predictor({self.__name__}({how}), returns={self.returns!r}{parts})"

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return logits (N, K) for every node."""
        if not isinstance(graph, Graph):
            raise InputError(
                f"a predictor takes a graphtemper.Graph, not {type(graph).__name__}; "
                "Graph.from_pyg(data) converts a PyG Data."
            )
        check_weights(self.module)
        device, dtype = home(self.module)
        with frozen(self.module):
            if self.batches is None:
                output = self._rows(_tensors(graph, None, device, dtype), device)
            else:
                parts = self.batches.parts(adjacency(graph))
                output = np.concatenate(
                    [
                        self._rows(_tensors(graph, nodes, device, dtype), device)[own]
                        for nodes, own in parts
                    ]
                )
        return as_logits(output, self.returns, self.__name__)

    def _rows(self, tensors: Tensors, device: torch.device) -> NDArray[np.float64]:
        output = repeatable(lambda: self._run(tensors), device, self.__name__)
        return checked_output(output, int(tensors["x"].shape[0]), self.__name__)

    def _run(self, tensors: Tensors) -> Any:
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


def _tensors(
    graph: Graph, nodes: NDArray[np.int64] | None, device: torch.device, dtype: torch.dtype
) -> Tensors:
    """Return features and edges of the graph, or of the subgraph of some nodes.

    The adjacency matrix is made once a graph and holds every edge in both directions, once.
    """
    features, both = graph.features, adjacency(graph)
    if nodes is not None:
        features, both = features[nodes], both[nodes][:, nodes]
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    listed = both.tocoo()
    edges = np.stack([listed.row, listed.col]).astype(np.int64)
    return {
        "x": torch.from_numpy(np.array(dense)).to(device, dtype),
        "edge_index": torch.from_numpy(edges).to(device),
        "edge_weight": torch.ones(edges.shape[1], device=device, dtype=dtype),
    }


def _data(tensors: Tensors) -> Data:
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError(
            "passing a Data object needs torch_geometric; run pip install 'graphtemper[pyg]'."
        ) from error
    return Data(x=tensors["x"], edge_index=tensors["edge_index"])
