"""Ratio-binned scaling: one temperature per degree of agreement with the neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, temperature
from graphtemper.calibrators import Inputs, Labelled, TemperatureCalibrator
from graphtemper.graph import operator
from graphtemper_research.harness.numeric import FloatArray, bin_index


class RBS(TemperatureCalibrator):
    r"""Temperature scaling in bins of the neighbours' mean probability of a node's own class.

    .. math:: r_i = \frac1{d_i} \sum_{j \in N(i)} p_{j \hat y_i}, \qquad
       T_i = T_{b(r_i)}

    Bins have equal widths on [0, 1]; a node without neighbours has r = 1. Each temperature is
    exact. A bin without calibration nodes, or whose likelihood has no optimum (all its nodes
    correct), uses the temperature of all calibration nodes.

    Parameters
    ----------
    bins : int
        The authors use 2 (cora, pubmed) to 4; one bin is temperature scaling.

    Attributes
    ----------
    temperatures_ : (bins,) array

    References
    ----------
    Liu, Liu, Hooi, "On Calibration of Graph Neural Networks for Node Classification", IJCNN 2022.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    >>> RBS().fit([[0.0, 3.0]] * 3, [1, 0, 1], graph=g).temperatures_.round(4).tolist()
    [4.3281, 4.3281]
    """

    needs = ("labels", "graph")
    granularity = "node"
    reference = "Liu et al., IJCNN 2022"
    differs = "exact temperatures; a bin without an optimum takes the global one"

    def __init__(self, bins: int = 2) -> None:
        self.bins = bins

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        logits, labels = inputs.logits[labelled.nodes], labelled.labels
        index = self._index(inputs)[labelled.nodes]
        self.temperatures_ = np.full(self.bins, temperature.fit(logits, labels))
        for part in np.unique(index):
            inside = index == part
            solved = temperature.solve(logits[inside], labels[inside])
            if solved.status == "optimal":
                self.temperatures_[part] = solved.temperature

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        return np.asarray(self.temperatures_[self._index(inputs)])

    def _index(self, inputs: Inputs) -> NDArray[np.intp]:
        ratio = neighbour_support(temperature.apply(inputs.logits), inputs.required_graph)
        return bin_index(np.minimum(ratio, 1.0), np.arange(self.bins + 1) / self.bins, "left")


def neighbour_support(p: FloatArray, graph: Graph) -> FloatArray:
    """Return the neighbours' mean probability of each node's predicted class, (N,); 1 if isolated.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    >>> neighbour_support(np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]]), g).tolist()
    [0.3, 0.1, 1.0]
    """
    means = operator(graph, "mean") @ p
    own = means[np.arange(len(p)), p.argmax(axis=1)]
    return np.where(graph.degrees > 0, own, 1.0).astype(np.float64)
