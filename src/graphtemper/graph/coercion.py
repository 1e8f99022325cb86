"""Accept other kinds of graphs where a `Graph` is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphtemper.errors import InputError
from graphtemper.graph.conversion import is_pyg
from graphtemper.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def as_graph(source: Graph | Data, predictor: object = None) -> Graph:
    """Return ``source`` itself if it is a `Graph`, and convert it if it is a PyG ``Data``.

    A predictor with a method ``check`` (`graphtemper.pyg.Predictor`) compares its logits on the
    graph with those of its module on the ``Data``, so fields that the module does not read are
    dropped. Without that method, a ``Data`` that a `Graph` cannot hold is refused.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> data = csbm.sample(50, degree=4, homophily=0.8, snr=1.0).to_pyg()
    >>> as_graph(data).num_nodes
    50
    >>> as_graph("cora.npz")
    Traceback (most recent call last):
    graphtemper.errors.InputError: the graph must be a graphtemper.Graph or ... not str; ...
    """
    if any(base.__module__.startswith("torch.nn.") for base in type(predictor).__mro__):
        raise InputError(
            f"{type(predictor).__name__} is a torch module; wrap it with "
            "graphtemper.pyg.predictor(module)."
        )
    if isinstance(source, Graph):
        return source
    if not is_pyg(source):
        raise InputError(
            f"the graph must be a graphtemper.Graph or a PyG Data, not {type(source).__name__}; "
            "Graph.load(path) reads a file."
        )
    check = getattr(predictor, "check", None)
    if not callable(check):
        return Graph.from_pyg(source)
    graph: Graph = check(source).graph
    return graph
