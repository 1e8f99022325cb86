"""Simi-Mailbox: one temperature per group of nodes alike in confidence and in neighbourhood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from graphtemper import Graph, temperature
from graphtemper.calibrators import Inputs, Labelled, TemperatureCalibrator
from graphtemper.metrics import nll
from graphtemper_research.harness.numeric import FloatArray

# log T is searched this far on both sides of the temperature of all calibration nodes.
_REACH = 3.0


class SimiMailbox(TemperatureCalibrator):
    r"""Temperature scaling in groups by confidence and by similarity to the neighbours.

    .. math:: s_i = \frac1{d_i} \sum_{j \in N(i)} \sigma(z_i^\top z_j), \qquad
       T_g = \arg\min_T \frac{n_g}{n} \mathrm{NLL}_g(T) + \lambda\, (\bar c_g(T) - a_g)^2

    Nodes are grouped by k-means on the confidence :math:`c_i` and :math:`s_i`, both scaled to
    [0, 1]; :math:`n_g`, :math:`\bar c_g` and :math:`a_g` are the number, the mean confidence and
    the accuracy of the calibration nodes of a group. A node without neighbours has s = 1/2. A
    group with too few calibration nodes, or whose likelihood has no optimum (all its nodes
    correct), uses the temperature of all of them.

    Parameters
    ----------
    groups : int
        Number of groups; one group with ``gap=0`` is temperature scaling.
    gap : float
        :math:`\lambda`, the weight of the squared gap between confidence and accuracy.
    fewest : int
        Number of calibration nodes that a group needs for a temperature of its own.
    seed : int
        Seed of k-means.

    Attributes
    ----------
    temperatures_ : (groups,) array
    centres_ : (groups, 2) array

    References
    ----------
    "Simi-Mailbox", arXiv 2412.14223.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 4, edges=[[0, 1], [2, 3]])
    >>> z, y = [[0.0, 3.0], [0.0, 3.0], [0.0, 0.5], [0.5, 0.0]], [1, 0, 1, 0]
    >>> SimiMailbox(groups=2, gap=0.0).fit(z, y, graph=g).temperatures_.shape
    (2,)
    """

    needs = ("labels", "graph")
    granularity = "node"
    reference = "arXiv 2412.14223"
    differs = (
        "accuracies of groups from calibration nodes alone (the released code averages over test "
        "labels too); groups of the source are reused on a target; each temperature is solved; "
        "small groups take the global one"
    )

    def __init__(
        self, groups: int = 10, gap: float = 10.0, fewest: int = 30, seed: int = 0
    ) -> None:
        self.groups = groups
        self.gap = gap
        self.fewest = fewest
        self.seed = seed

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from sklearn.cluster import KMeans

        raw = _mailbox(inputs)
        self.low_, high = raw.min(axis=0), raw.max(axis=0)
        self.range_ = np.where(high > self.low_, high - self.low_, 1.0)
        scaled = (raw - self.low_) / self.range_
        count = min(self.groups, len(np.unique(scaled, axis=0)))
        means = KMeans(count, n_init=4, random_state=self.seed).fit(scaled)
        self.centres_ = np.asarray(means.cluster_centers_, dtype=np.float64)
        group = self._groups(inputs)[labelled.nodes]
        logits, labels = inputs.logits[labelled.nodes], labelled.labels
        start = temperature.fit(logits, labels)
        self.temperatures_ = np.full(count, start)
        for part in np.unique(group):
            inside = group == part
            solved = temperature.solve(logits[inside], labels[inside])
            if inside.sum() < self.fewest or solved.status != "optimal":
                continue
            share = float(inside.mean())
            self.temperatures_[part] = _best(logits[inside], labels[inside], start, share, self.gap)

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        return np.asarray(self.temperatures_[self._groups(inputs)])

    def _groups(self, inputs: Inputs) -> NDArray[np.intp]:
        """Return the group with the nearest centre, (N,)."""
        scaled = (_mailbox(inputs) - self.low_) / self.range_
        distance = ((scaled[:, None, :] - self.centres_) ** 2).sum(axis=2)
        return np.asarray(distance.argmin(axis=1))


def _mailbox(inputs: Inputs) -> FloatArray:
    p = temperature.apply(inputs.logits)
    similarity = neighbour_similarity(inputs.logits, inputs.required_graph)
    return np.column_stack([p.max(axis=1), similarity])


def neighbour_similarity(logits: FloatArray, graph: Graph) -> FloatArray:
    """Return the mean over neighbours of sigmoid(z_i . z_j), (N,); 1/2 without neighbours.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    >>> neighbour_similarity(np.array([[0.0, 2.0], [1.0, 0.0], [1.0, 1.0]]), g).tolist()
    [0.5, 0.5, 0.5]
    """
    first, second = graph.links[:, 0], graph.links[:, 1]
    likeness = expit((logits[first] * logits[second]).sum(axis=1))
    ends = np.concatenate([first, second])
    sums = np.bincount(ends, np.tile(likeness, 2), minlength=graph.num_nodes)
    count = np.bincount(ends, minlength=graph.num_nodes)
    return np.where(count > 0, sums / np.maximum(count, 1), 0.5)


def _best(
    logits: FloatArray, labels: NDArray[np.intp], start: float, share: float, gap: float
) -> float:
    """Minimise the loss of one group over log T: a grid, then a bounded search around its best."""
    accuracy = float((logits.argmax(axis=1) == labels).mean())

    def loss(log_temperature: float) -> float:
        p = temperature.apply(logits, float(np.exp(log_temperature)))
        distance = float(p.max(axis=1).mean()) - accuracy
        return share * min(nll(p, labels), 1e3) + gap * distance**2

    grid = np.log(start) + np.linspace(-_REACH, _REACH, 25)
    middle = float(grid[int(np.argmin([loss(point) for point in grid]))])
    step = float(grid[1] - grid[0])
    found = minimize_scalar(
        loss, bounds=(middle - step, middle + step), method="bounded", options={"xatol": 1e-6}
    )
    return float(np.exp(found.x))
