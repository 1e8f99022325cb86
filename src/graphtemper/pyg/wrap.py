"""Wrap a module as a predictor, in one pass or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper.errors import GraphTemperError, ModelError
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.graph.operators import adjacency
from graphtemper.graph.pyg_conversion import is_pyg, pyg_losses
from graphtemper.pyg.batches import Batches
from graphtemper.pyg.deferred import LinearMaps, MakeInputs, ModulePasses, passes_through_maps
from graphtemper.pyg.inputs import (
    Argument,
    Inputs,
    Needs,
    arguments,
    from_data,
    from_graph,
    needs,
    optional_fields,
    unread,
)
from graphtemper.pyg.running import (
    Agreement,
    Returns,
    as_logits,
    check_binary,
    check_weights,
    checked_output,
    compare,
    differs,
    frozen,
    home,
    in_words,
    inputs_read,
    one_thread,
    repeatable,
    tolerance,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

Adapter = Callable[[torch.nn.Module, Any], torch.Tensor]


def predictor(
    module: torch.nn.Module,
    *,
    adapter: Adapter | None = None,
    returns: Returns = "logits",
    batches: Batches | None = None,
) -> Predictor:
    """Wrap a trained module as a frozen predictor.

    The arguments of ``forward`` are recognised by name: ``x``, ``edge_index``, ``edge_weight``
    (ones, where the graph has no weights), ``edge_attr``, ``edge_type``, ``node_type``, ``adj_t``,
    ``batch``, ``x_dict``, ``edge_index_dict``, ``edge_attr_dict``, or ``data`` alone, a PyG
    ``Data`` with all that the graph holds except labels and masks, or a ``HeteroData`` for a graph
    made from one. Optional arguments are passed if the graph has the field. `Predictor.check`
    compares the wrapped module with the module itself on a ``Data`` or ``HeteroData``.

    A module for several node types returns logits for the nodes of the target type, or a dictionary
    with them; the rows of all other nodes are zero.

    Every call runs in evaluation mode without gradients on the module's device, and restores the
    module's state. Values that layers have cached for another graph (PyG's ``cached=True``) are not
    used. What ``torch.compile`` or ``DataParallel`` has wrapped is taken out and called itself.

    Parameters
    ----------
    module : torch.nn.Module
        The trained module. It runs on the device that it is on: ``predictor(net.to("cuda"))``.
    adapter : callable, optional
        ``adapter(module, data) -> tensor (N, K)`` for modules that are called in another way.
    returns : {"logits", "probabilities", "log-probabilities", "binary"}
        What the module returns. Probabilities become logits by their logarithm, where a zero
        counts as the smallest normal float32; log-probabilities already are logits. ``"binary"`` is
        one score g per node, (N,) or (N, 1), as for ``BCEWithLogitsLoss``: the logits are 0 and g.
    batches : Batches, optional
        For a graph that does not fit into one pass: the number of hops that the module reads, and
        of nodes per batch.

    Raises
    ------
    InputError
        Here if the signature is not one of those above; in a call if the output is not what
        ``returns`` says, has a wrong shape, is not finite or changes from call to call, or a weight
        is NaN.
    ModelError
        In a call if the module itself fails.

    Examples
    --------
    >>> from torch_geometric.nn.models import GCN
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=5, homophily=0.8, snr=1.0, num_features=4, seed=0)
    >>> model = predictor(GCN(in_channels=4, hidden_channels=8, num_layers=2, out_channels=2))
    >>> model(g).shape
    (200, 2)
    """
    while type(module).__name__ in ("OptimizedModule", "DataParallel", "DistributedDataParallel"):
        module = vars(module)["_modules"].get("_orig_mod", getattr(module, "module", None))
    return Predictor(module, adapter, returns, batches)


@dataclass(frozen=True, repr=False)
class Predictor:
    """A wrapped module; made by `predictor`."""

    module: torch.nn.Module
    adapter: Adapter | None = None
    returns: Returns = "logits"
    batches: Batches | None = None
    arguments: tuple[Argument, ...] = field(init=False)
    optional: tuple[str, ...] = field(init=False)
    needs: Needs = field(init=False)
    maps: LinearMaps = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.module, torch.nn.Module):
            kind = "a class" if isinstance(self.module, type) else type(self.module).__name__
            raise errors.predictor(
                f"predictor wraps a torch.nn.Module, not {kind}; pass the module, and "
                "adapter=lambda module, data: ... if it is called in a way of its own."
            )
        if self.returns not in get_args(Returns):
            listed = ", ".join(get_args(Returns))
            raise errors.choice(f"returns must be one of {listed}, not {self.returns!r}.")
        if self.batches is not None and not isinstance(self.batches, Batches):
            raise errors.wrong_type(f"batches must be Batches(hops=...), not {self.batches!r}.")
        passed = () if self.adapter is not None else arguments(self.module)
        object.__setattr__(self, "arguments", passed)
        takes_fields = self.adapter is None and all(item.role != "data" for item in passed)
        names = optional_fields(self.module) if takes_fields else ()
        object.__setattr__(self, "optional", names)
        object.__setattr__(self, "needs", needs(self.module, passed, self.adapter))
        object.__setattr__(self, "maps", LinearMaps(self.module))

    @property
    def unread(self) -> tuple[str, ...]:
        """The optional fields of a graph that the module does not get."""
        return unread(self.module, self.arguments)

    @property
    def __name__(self) -> str:
        """The name of the model in a source card."""
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
            raise errors.wrong_type(
                f"a predictor takes a graphtemper.Graph, not {type(graph).__name__}; "
                "Graph.from_pyg(data) converts a PyG Data."
            )
        if self.batches is None:
            return self.logits_of(partial(from_graph, graph, None, self.needs), graph)
        if graph.target_type is not None:
            raise errors.other_types(
                "Batches are for graphs with one type of nodes; run this graph in one pass."
            )
        parts = self.batches.parts(adjacency(graph))
        return self._logits(
            ((partial(from_graph, graph, nodes, self.needs), rows) for nodes, rows in parts), graph
        )

    def fast_passes(self) -> ModulePasses | None:
        """Return passes through the module's first matrices; None if it is not known to have any.

        See `graphtemper.pyg.deferred`.
        """
        if self.batches is not None or self.needs.types or self.needs.adj_t:
            return None
        return passes_through_maps(self, input_width(self.module))

    def logits_of(self, make: MakeInputs, graph: Graph) -> NDArray[np.float32]:
        """Return the logits of every node of some inputs, made of a graph."""
        return self._logits([(make, None)], graph)

    def check(
        self,
        data: Data | HeteroData,
        logits: ArrayLike | torch.Tensor | None = None,
        *,
        target: str | None = None,
    ) -> Agreement:
        """Compare the logits of the wrapped module with the module's own on a PyG ``Data``.

        The module is called on ``data`` as its signature suggests: ``net(data)``, or
        ``net(x, edge_index)`` with each optional argument that ``data`` has a field for
        (``edge_weight``, ``edge_attr``), or through the adapter. The wrapped module is called on
        ``Graph.from_pyg(data)`` without the fields that a graph cannot hold.

        Parameters
        ----------
        data
            A graph as the module gets it in training or deployment.
        logits
            What the module returns for ``data`` in evaluation mode, if it is called in a way that
            its signature does not tell.
        target
            The node type of a ``HeteroData`` that is classified; by default the one with ``y``.

        Returns
        -------
        Agreement
            The converted graph, what it lacks, and how closely the logits agree.

        Raises
        ------
        InputError
            If the logits differ by more than rounding: the wrapped module would be another model.
            The message names what the module reads and the graph lacks.
        ModelError
            If the module itself fails on ``data``.

        Examples
        --------
        >>> from torch_geometric.nn import GCNConv
        >>> from graphtemper import csbm
        >>> data = csbm.sample(200, degree=5, homophily=0.8, snr=1.0, num_features=4).to_pyg()
        >>> predictor(GCNConv(4, 2)).check(data).equal_predictions
        1.0
        >>> data.edge_weight = torch.rand(data.num_edges)
        >>> data.num_edges, predictor(GCNConv(4, 2)).check(data).graph.edge_weight.shape
        (1096, (1096,))
        """
        if not is_pyg(data):
            raise errors.wrong_type(f"check compares on a PyG Data, not {type(data).__name__}.")
        graph = Graph.from_pyg(data, drop=pyg_losses(data), target=target)
        relative = tolerance(home(self.module)[1])

        def run(data: Data | HeteroData) -> NDArray[np.float32]:
            """Call the module on the data as a user would."""
            return self.logits_of(partial(from_data, data), graph)

        own = run(data) if logits is None else self._checked(logits, graph)
        if self.returns == "binary":
            check_binary(own, self.__name__)
        try:
            wrapped = self(graph)
        except ModelError as error:
            problem = f"it fails on a Graph of the data ({error.__cause__})"
        else:
            if not differs(own, wrapped, relative):
                return Agreement(graph, pyg_losses(data), *compare(own, wrapped), wrapped)
            problem = in_words(own, wrapped)
        # With logits from elsewhere, how the module is called on the data is not known.
        reads = inputs_read(run, data, relative) if logits is None else []
        raise errors.other_model(
            f"{self.__name__} is another model when wrapped: {problem}; {self._advice(reads)}"
        )

    def _advice(self, reads: list[str]) -> str:
        if reads:
            return (
                f"on the data it reads {', '.join(reads)}, which a Graph does not hold; if the "
                "model works without, check it on data without, or with an adapter that ignores it."
            )
        if self.batches is not None:
            return f"try more hops than in {self.batches!r}."
        return "wrap it with an adapter that computes all it reads from data.x and data.edge_index."

    def _checked(self, logits: ArrayLike | torch.Tensor, graph: Graph) -> NDArray[np.float32]:
        tensor, rows = torch.as_tensor(logits), graph.classified
        if len(tensor) != rows.size:
            rows = np.arange(graph.num_nodes)
        checked = checked_output(tensor, rows.size, "logits", self.returns)
        return _spread(as_logits(checked, self.returns, self.__name__), rows, graph.num_nodes)

    def _logits(
        self, parts: Iterable[tuple[MakeInputs, Rows | None]], graph: Graph
    ) -> NDArray[np.float32]:
        """Run the module on each part and concatenate the selected rows (default: all)."""
        check_weights(self.module)
        device, dtype = home(self.module)
        outputs = []
        with frozen(self.module), one_thread(graph.num_nodes + graph.num_edges):
            for make, rows in parts:
                # Inputs are made for each run: a module may work on them in place.
                run = partial(self._run, partial(make, device, dtype), graph)
                output = repeatable(run, device, self.__name__)
                outputs.append(output if rows is None else output[rows])
        output = np.concatenate(outputs)
        weight = graph.edge_weight
        if weight is not None and weight.min(initial=0.0) < 0.0 and not np.isfinite(output).all():
            raise errors.not_finite(
                f"{self.__name__} returned a number that is not finite on a graph with negative "
                "weights, which layers that divide by degrees cannot read; make them positive or "
                "leave them out with replace(edge_weight=None)."
            )
        logits = as_logits(output, self.returns, self.__name__)
        return _spread(logits, graph.classified, graph.num_nodes)

    def _run(self, make: Callable[[], Inputs], graph: Graph) -> NDArray[np.float64]:
        """Return the module's output for the classified nodes of the inputs."""
        inputs = make()
        try:
            output = self._call(inputs)
        except GraphTemperError:
            raise
        except Exception as error:
            width, given = input_width(self.module), inputs.num_features
            if width is not None and width != given:
                raise ModelError(
                    f"{self.__name__} takes {width} feature columns but the graph has {given}; "
                    "use the graph's own model, or the columns that it was trained on."
                ) from error
            raise ModelError(
                f"{self.__name__} raised {type(error).__name__} on a graph with "
                f"{inputs.num_nodes} nodes and {given} feature columns: {error}"
            ) from error
        if graph.target_type is None:
            return self._rows(output, inputs.num_nodes)
        names, rows = graph.node_type_names, graph.classified
        if isinstance(output, dict) and names is not None:
            output = output.get(names[graph.target_type], output)
        if isinstance(output, torch.Tensor) and len(output) == graph.num_nodes:
            return self._rows(output, graph.num_nodes)[rows]
        return self._rows(output, rows.size)

    def _rows(self, output: Any, num_nodes: int) -> NDArray[np.float64]:
        return checked_output(output, num_nodes, self.__name__, self.returns)

    def _call(self, inputs: Inputs) -> Any:
        if self.adapter is not None:
            return self.adapter(self.module, inputs.as_data())
        positional, keyword = [], inputs.optional(self.optional)
        for name, role, by_keyword in self.arguments:
            value = inputs.of_role(role, name)
            if by_keyword:
                keyword[name] = value
            else:
                positional.append(value)
        return self.module(*positional, **keyword)


def input_width(module: torch.nn.Module) -> int | None:
    """Return the number of columns that the first layer with a fixed width takes, if any.

    Examples
    --------
    >>> input_width(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2)))
    4
    """
    for layer in module.modules():
        for name in ("in_channels", "in_features"):
            width = getattr(layer, name, None)
            if isinstance(width, int) and width > 0:
                return width
    return None


def _spread(
    logits: NDArray[np.float32], rows: NDArray[np.int64], num_nodes: int
) -> NDArray[np.float32]:
    """Return logits of some nodes as logits of all; the others have zeros."""
    if rows.size == num_nodes:
        return logits
    spread = np.zeros((num_nodes, logits.shape[1]), dtype=logits.dtype)
    spread[rows] = logits
    return spread
