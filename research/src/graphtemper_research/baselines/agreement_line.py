"""Accuracy from the agreement with other learners, on the line that agreement draws."""

from __future__ import annotations

from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from graphtemper import Estimate, Observation
from graphtemper.estimators import Carried, HasParameters, share_estimate
from graphtemper.models import SGC, SIGN, Predictor
from graphtemper_research.baselines.importance import learned
from graphtemper_research.harness.numeric import FloatArray, stream

Classes = NDArray[np.intp]


class AgreementLine(HasParameters):
    r"""Agreement-on-the-line (ALine-D) of the model and three second learners.

    .. math:: \Phi^{-1}(\mathrm{agree}_t) = a\,\Phi^{-1}(\mathrm{agree}_s) + b
       \quad\text{over pairs, and}\quad
       \tfrac12(u_i + u_j) = \Phi^{-1}(\mathrm{agree}^t_{ij})
       + a\Big(\tfrac12(v_i + v_j) - \Phi^{-1}(\mathrm{agree}^s_{ij})\Big)

    with probits v of source accuracies and u of target accuracies, solved for u by least squares.
    The second learners are SGC with one and two hops and SIGN with one, trained on half of the
    source's labelled nodes; the other half measures accuracies and agreements. Fails where accuracy
    is not on the line, or where all learners make the same mistakes.

    References
    ----------
    Baek et al., "Agreement-on-the-Line: Predicting the Performance of Neural Networks under
    Distribution Shift", NeurIPS 2022. They have many networks; four models give six pairs.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g, range(300)), g, range(300, 600))
    >>> found = AgreementLine().fit(source, g.labels[300:]).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels[300:]).mean()) < 0.1)
    True
    """

    accuracies_: FloatArray
    agreements_: FloatArray
    learners_: list[Predictor]

    @property
    def carries(self) -> Carried:
        """Source accuracies and agreements; the learners travel as well."""
        found = learned(self, "accuracies_").tolist()
        return {"accuracies": found, "agreements": self.agreements_.tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Train the second learners, and measure accuracies and agreements at the source."""
        truth = np.asarray(labels)
        order = stream(source.seed, "second learners").permutation(source.num_nodes)
        train, test = np.array_split(order, 2)
        every = np.full(source.graph.num_nodes, -1)
        every[source.nodes] = truth
        graph = source.graph.replace(labels=every)
        makers = [make(hops, tol=1e-3) for make, hops in ((SGC, 1), (SGC, 2), (SIGN, 1))]
        self.learners_ = [maker.fit(graph, source.nodes[train]) for maker in makers]
        classes = self._classes(source)[:, test]
        self.accuracies_ = np.array([share(row == truth[test]) for row in classes])
        self.agreements_ = agreements(classes)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the model's accuracy on the line."""
        found = learned(self, "accuracies_")
        value = on_the_line(found, self.agreements_, agreements(self._classes(target)))
        return share_estimate(float(value[0]), target.num_nodes, "agreement-on-the-line")

    def _classes(self, observation: Observation) -> Classes:
        others = [learner(observation.graph)[observation.nodes] for learner in self.learners_]
        return np.array([observation.predictions, *(z.argmax(axis=1) for z in others)])


def share(hits: NDArray[np.bool_]) -> float:
    """Return the share of hits, with half a hit and half a miss added: its probit is finite."""
    return float((hits.sum() + 0.5) / (hits.size + 1.0))


def agreements(classes: Classes) -> FloatArray:
    """Return how often each pair of rows agrees, in the order of `itertools.combinations`.

    Examples
    --------
    >>> agreements(np.array([[0, 1, 1], [0, 1, 0], [1, 1, 1]])).round(3).tolist()
    [0.625, 0.625, 0.375]
    """
    return np.array([share(one == other) for one, other in combinations(classes, 2)])


def on_the_line(accuracies: FloatArray, source: FloatArray, target: FloatArray) -> FloatArray:
    """Return every model's accuracy at the target.

    Parameters
    ----------
    accuracies
        Those of every model at the source, (M,).
    source, target
        Agreements of every pair, (M (M - 1) / 2,).

    Examples
    --------
    Nothing moved:

    >>> on_the_line(np.array([0.8, 0.7, 0.9]), *2 * [np.array([0.6, 0.8, 0.7])]).round(6).tolist()
    [0.8, 0.7, 0.9]
    """
    here, there, probits = ndtri(source), ndtri(target), ndtri(accuracies)
    slope = float(np.polyfit(here, there, 1)[0]) if np.ptp(here) > 1e-9 else 1.0
    pairs = list(combinations(range(accuracies.size), 2))
    design = np.zeros((len(pairs), accuracies.size))
    for row, pair in enumerate(pairs):
        design[row, list(pair)] = 0.5
    right = there + slope * (design @ probits - here)
    return np.asarray(ndtr(np.linalg.lstsq(design, right, rcond=None)[0]))
