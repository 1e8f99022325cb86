"""Histogram binning: a step function for each class."""

from __future__ import annotations

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray, bin_index


class HistogramBinning(Calibrator):
    r"""Replace each class's probability by the frequency of its label in a bin, then normalise.

    .. math:: p'_{ik} \propto \frac{\#\{j : p_{jk} \in B,\ y_j = k\}}{\#\{j : p_{jk} \in B\}},
       \qquad p_{ik} \in B

    Bins hold equal numbers of calibration nodes. A row whose frequencies are all zero keeps its
    probabilities. Differences inside a bin are lost, so predictions change.

    Parameters
    ----------
    bins : int
        Bins per class; fewer where probabilities repeat.

    Attributes
    ----------
    edges_, frequencies_ : lists of arrays
        Edges from 0 to 1 and the frequency in each bin, for every class.

    References
    ----------
    Zadrozny and Elkan, ICML 2001.

    Examples
    --------
    >>> z, y = [[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 2, [1, 1, 1, 0, 0, 0]
    >>> HistogramBinning(bins=3).fit(z, y).transform([[0.0, 1.0], [1.0, 0.0]]).round(6)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """

    granularity = "class"
    reference = "Zadrozny and Elkan, ICML 2001"

    def __init__(self, bins: int = 20) -> None:
        self.bins = bins

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        p = temperature.apply(inputs.logits[labelled.nodes])
        self.edges_, self.frequencies_ = [], []
        for k in range(p.shape[1]):
            edges = np.concatenate([[0.0], inner_edges(p[:, k], self.bins), [1.0]])
            index = bin_index(p[:, k], edges, "right")
            count = np.bincount(index, minlength=edges.size - 1)
            hits = np.bincount(index[labelled.labels == k], minlength=edges.size - 1)
            self.edges_.append(edges)
            self.frequencies_.append(hits / count)

    def _transform(self, inputs: Inputs) -> FloatArray:
        p = temperature.apply(inputs.logits)
        binned = np.empty_like(p)
        for k, (edges, frequencies) in enumerate(zip(self.edges_, self.frequencies_, strict=True)):
            binned[:, k] = frequencies[bin_index(p[:, k], edges, "right")]
        empty = binned.sum(axis=1) == 0.0
        binned[empty] = p[empty]
        return np.asarray(binned / binned.sum(axis=1, keepdims=True))


def inner_edges(values: FloatArray, bins: int) -> FloatArray:
    """Return inner edges of up to ``bins`` bins (edge, next edge], none of them empty.

    Equal values are in the same bin.

    Examples
    --------
    >>> inner_edges(np.array([0.1, 0.2, 0.2, 0.9]), 2).tolist()
    [0.2]
    """
    ordered = np.sort(values)
    ends = (np.arange(1, bins) * values.size) // bins
    edges = np.unique(ordered[ends[ends > 0] - 1])
    # The last bin must not be empty: no value is above the largest one.
    return np.asarray(edges[edges < ordered[-1]])
