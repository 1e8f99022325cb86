"""GATS: temperatures by attention over the neighbours' logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper._core.checks import FloatArray, check_integer, check_non_negative
from graphtemper.calibrators.base import Inputs
from graphtemper.calibrators.network import NetworkCalibrator, Stop, Training
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency, multiply, operator

if TYPE_CHECKING:
    from torch import Generator, Tensor

# T0 and gamma are free, and weight decay pulls them to zero: a temperature could become negative,
# the attention infinite. The authors do not guard against it.
LEAST_TEMPERATURE = 0.01
LEAST_FACTOR = 0.1


class Context(NamedTuple):
    """What GATS reads of one graph; edges run from ``end`` to ``node``, self-loops included."""

    sorted_logits: Tensor  # (N, K), min-max normalised, ascending
    confidence_gap: Tensor  # (N,) mean of c_i - c_j
    node: Tensor
    end: Tensor
    agreement: Tensor  # z_i . z_j of each edge
    distance: Tensor  # 0 at training nodes, 1 next to them, 2 elsewhere


class GATS(NetworkCalibrator):
    r"""Each node's temperature from its sorted logits, its neighbours', and its confidence gap.

    .. math:: T_i = T_0 + \frac1H \sum_h \mathrm{softplus}\Big(\omega\,\delta_i
       + \sum_j \alpha_{ij} \gamma_j \tau_j^h\Big), \qquad
       \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}\Big(
       \frac{z_i}{\gamma_i} \cdot \frac{z_j}{\gamma_j}\Big)

    j runs over the neighbours and i itself; :math:`\tau_j^h = \theta_h^\top \bar z_j` with
    :math:`\bar z` the logits scaled to [0, 1] and sorted; :math:`\delta_i` is the mean of
    :math:`c_i - c_j`; :math:`\gamma` is one number at training nodes, one next to them, and 1
    elsewhere. On a graph without training nodes (a target) :math:`\gamma = 1` everywhere.

    Dot products of logits are computed once, so memory is O(E + N K), not O(E K).

    Parameters
    ----------
    heads : int
        H.
    bias : float
        Initial :math:`T_0` (the authors: 1, and 1.5 on CoraFull).
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty (the authors: 0 to 0.2 by data set, 0.005 for a GCN on cora), the
        limits, and the seed.
    stop : {"folds", "train", "calibration"}
        Which nodes end the training: three folds of the calibration nodes, the base model's (the
        authors' rule), or the calibration nodes themselves.

    References
    ----------
    Hsu et al., "What Makes Graph Neural Networks Miscalibrated?", NeurIPS 2022.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> gats = GATS(epochs=5).fit(z, g.labels, g, range(50), train_nodes=range(50, 100))
    >>> gats.transform(z, graph=g, train_nodes=range(50, 100)).shape
    (200, 2)
    """

    needs = ("labels", "graph", "train_nodes")
    reference = "Hsu et al., NeurIPS 2022"
    differs = "temperatures stay above 0.01, distance factors above 0.1, against overflow"

    def __init__(
        self,
        heads: int = 8,
        bias: float = 1.0,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 2000,
        patience: int = 100,
        stop: Stop = "folds",
        seed: int = 0,
    ) -> None:
        self.heads = check_integer(heads, "heads", 1)
        self.bias = check_non_negative(bias, "bias")
        self._set_training(Training(lr, weight_decay, epochs, patience, stop, seed))

    def _context(self, inputs: Inputs) -> Context:
        import torch

        graph, logits = inputs.required_graph, inputs.logits
        node, end = looped_edges(graph)
        agreement = edge_products(logits, node, end)
        return Context(
            torch.from_numpy(unit_sorted(logits).astype(np.float32)),
            torch.from_numpy(confidence_gap(logits, graph).astype(np.float32)),
            torch.from_numpy(node),
            torch.from_numpy(end),
            torch.from_numpy(agreement.astype(np.float32)),
            torch.from_numpy(distance_class(graph, inputs.train_nodes)),
        )

    def _initial(self, context: Context, generator: Generator) -> list[Tensor]:
        import torch

        from graphtemper.calibrators.training import glorot, zeros

        theta = glorot((context.sorted_logits.shape[1], self.heads), generator)
        gamma = torch.ones(2, requires_grad=True)
        return [theta, zeros(1), gamma, torch.tensor([self.bias], requires_grad=True)]

    def _multipliers(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        import torch

        theta, omega, gamma, bias = parameters
        factor = torch.cat([gamma.clamp(min=LEAST_FACTOR), torch.ones(1)])[context.distance]
        drive = attend(context, context.sorted_logits @ theta, factor)
        drive = drive + (omega * context.confidence_gap)[:, None]
        temperatures = torch.nn.functional.softplus(drive).mean(dim=1) + bias
        return 1.0 / temperatures.clamp(min=LEAST_TEMPERATURE)


def attend(context: Context, values: Tensor, factor: Tensor) -> Tensor:
    """Return the attention-weighted sums over neighbours and self of factor x values, (N, H)."""
    import torch

    node, end = context.node, context.end
    score = torch.nn.functional.leaky_relu(
        context.agreement / (factor[node] * factor[end]), negative_slope=0.2
    )
    count = len(values)
    top = torch.full((count,), -torch.inf).scatter_reduce(0, node, score.detach(), "amax")
    weight = (score - top[node]).exp()
    total = torch.zeros(count).index_add(0, node, weight)
    share = (weight / total[node])[:, None]
    scaled = factor[:, None] * values
    return torch.zeros_like(values).index_add(0, node, share * scaled[end])


def looped_edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ends of every edge in both directions and of one self-loop per node.

    Examples
    --------
    >>> node, end = looped_edges(Graph(features=[[0.0]] * 2, edges=[[0, 1]]))
    >>> sorted(zip(node.tolist(), end.tolist()))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    loops = np.arange(graph.num_nodes, dtype=np.int64)
    low, high = graph.links.astype(np.int64).T
    return np.concatenate([low, high, loops]), np.concatenate([high, low, loops])


def edge_products(
    logits: FloatArray, node: NDArray[np.int64], end: NDArray[np.int64]
) -> FloatArray:
    """Return z_i . z_j of each edge, column by column so that no (E, K) array is made."""
    total = np.zeros(node.size)
    for column in np.ascontiguousarray(logits.T):
        total += column[node] * column[end]
    return total


def unit_sorted(logits: FloatArray) -> FloatArray:
    """Return each row scaled to [0, 1] and sorted ascending; a row of equal logits becomes zero.

    Examples
    --------
    >>> unit_sorted(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 5.0]])).tolist()
    [[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]]
    """
    ordered = np.sort(logits, axis=1)
    above = ordered - ordered[:, :1]
    spread = above[:, -1:]
    return np.asarray(np.divide(above, spread, out=np.zeros_like(above), where=spread > 0))


def confidence_gap(logits: FloatArray, graph: Graph) -> FloatArray:
    """Return the mean over neighbours and self of c_i - c_j, (N,)."""
    confidence = temperature.apply(logits).max(axis=1)
    degrees = graph.degrees.astype(np.float64)
    means = multiply(operator(graph, "mean"), confidence)
    return np.asarray((confidence - means) * degrees / (degrees + 1.0))


def distance_class(graph: Graph, train_nodes: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return 0 at training nodes, 1 at their neighbours, 2 elsewhere.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 4, edges=[[0, 1], [1, 2]])
    >>> distance_class(g, np.array([0])).tolist(), distance_class(g, None).tolist()
    ([0, 1, 2, 2], [2, 2, 2, 2])
    """
    distance = np.full(graph.num_nodes, 2, dtype=np.int64)
    if train_nodes is not None:
        inside = np.zeros(graph.num_nodes, dtype=np.float32)
        inside[train_nodes] = 1.0
        distance[multiply(adjacency(graph), inside) > 0] = 1
        distance[train_nodes] = 0
    return distance
