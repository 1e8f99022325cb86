"""Scores of unlabelled logits, and regressions of accuracy on them over copies of the source.

The copies are the four kinds of GNNEvaluator: fewer edges, masked feature columns, mixed features
and an induced subgraph, at five strengths each. Every estimator sees the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import Estimate, Graph, Observation, shifts
from graphtemper.estimators import Carried, HasParameters, share_estimate
from graphtemper_research.baselines.importance import learned
from graphtemper_research.harness.numeric import FloatArray, log_odds, stream, to_share

STRENGTHS = (0.1, 0.25, 0.5, 0.75, 0.9)
RIDGE = 1e-2
Indices = NDArray[np.int64]
Copy = tuple[FloatArray, Indices]
"""Logits of observed nodes, and which of the observation's rows they are."""


def copies(source: Observation) -> list[Copy]:
    """Return the model's logits on every copy of the source, the source first; made once."""
    key = ("meta set",)
    if key not in source.memo:
        made = [(source.logits, np.arange(source.num_nodes))]
        for graph, nodes, rows in _changed(source):
            made.append((np.asarray(source.predictor(graph), dtype=np.float64)[nodes], rows))
        source.memo[key] = made
    found = cast("list[Copy]", source.memo[key])
    return [(logits / source.temperature, rows) for logits, rows in found]


def _changed(source: Observation) -> Iterator[tuple[Graph, Indices, Indices]]:
    """Yield copies: a graph, the places of observed nodes in it, and their rows."""
    every = np.arange(source.num_nodes)
    for number, level in enumerate(STRENGTHS):
        for make in (shifts.drop, shifts.drop_columns, shifts.blend):
            yield make(level)(source.graph, source.seed + number), source.nodes, every
        rng = stream(source.seed, f"meta set {level}")
        kept = rng.random(source.graph.num_nodes) >= level
        rows = np.flatnonzero(kept[source.nodes])
        if rows.size:
            places = np.cumsum(kept)[source.nodes[rows]] - 1
            yield source.graph.subgraph(kept), places, rows


class MetaSet(HasParameters, ABC):
    """A ridge regression of the log-odds of the accuracy on a score of logits.

    Scores are standardised over the copies. The published scores rank data sets; a regression over
    shifted copies of the source is what turns them into accuracies without another labelled graph.
    """

    weights_: FloatArray
    centre_: FloatArray
    spread_: FloatArray

    @property
    def carries(self) -> Carried:
        """The regression."""
        found = learned(self, "weights_").tolist()
        return {"weights": found, "centre": self.centre_.tolist(), "spread": self.spread_.tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Regress the accuracy on every copy of the source on its score."""
        truth = np.asarray(labels)
        self._prepare(source)
        made = copies(source)
        scores = np.array([self.score(logits) for logits, _ in made])
        right = [
            # Half a node more of each kind keeps the log-odds finite.
            log_odds(float((logits.argmax(1) == truth[rows]).sum() + 0.5) / (rows.size + 1.0))
            for logits, rows in made
        ]
        self.centre_, spread = scores.mean(axis=0), scores.std(axis=0)
        self.spread_ = np.where(spread > 1e-12, spread, 1.0)
        design = np.column_stack([np.ones(len(made)), (scores - self.centre_) / self.spread_])
        penalty = RIDGE * len(made) * np.diag([0.0, *np.ones(scores.shape[1])])
        self.weights_ = np.linalg.solve(design.T @ design + penalty, design.T @ np.array(right))
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the regression's accuracy at the target's score."""
        weights = learned(self, "weights_")
        place = (self.score(target.logits / target.temperature) - self.centre_) / self.spread_
        value = to_share(float(weights[0] + weights[1:] @ place))
        return share_estimate(value, target.num_nodes, type(self).__name__)

    @abstractmethod
    def score(self, logits: FloatArray) -> FloatArray:
        """Return the score of logits (n, K), as a vector."""

    def _prepare(self, source: Observation) -> None:
        """Learn what the score needs."""


class Dispersion(MetaSet):
    r"""How far the predicted classes lie apart in the logits.

    .. math:: S = \log \frac{\sum_k n_k \|\mu - \mu_k\|^2}{K - 1}\Big/ n

    with the mean logits of the n_k nodes that are predicted as k.

    References
    ----------
    Xie et al., "On the Importance of Feature Separability in Predicting Out-of-Distribution Error",
    NeurIPS 2023. Here divided by n, so that graphs of other sizes compare, on centred logits
    instead of a network's last hidden layer.

    Examples
    --------
    >>> z = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> bool(np.isclose(Dispersion().score(z)[0], np.log(2.0)))
    True
    """

    def score(self, logits: FloatArray) -> FloatArray:
        """Return the dispersion."""
        z = logits - logits.mean(axis=1, keepdims=True)
        predicted = z.argmax(axis=1)
        counts = np.bincount(predicted, minlength=z.shape[1])
        sums = np.zeros((z.shape[1], z.shape[1]))
        np.add.at(sums, predicted, z)
        means = sums / np.maximum(counts, 1)[:, None]
        away = counts @ ((means - z.mean(axis=0)) ** 2).sum(axis=1)
        return np.array([np.log(max(away / (z.shape[1] - 1) / len(z), 1e-12))])


class MDE(MetaSet):
    r"""Meta-distribution energy: how uneven the free energies of the nodes are.

    .. math:: \mathrm{MDE} = -\frac1n\sum_i \log \frac{e^{E_i}}{\sum_j e^{E_j}} - \log n, \qquad
       E_i = -\log\sum_k e^{z_{ik}}

    References
    ----------
    Peng et al., "Energy-based Automated Model Evaluation", ICLR 2024. The term log n is added here:
    without it the score depends on the number of nodes.

    Examples
    --------
    >>> MDE().score(np.zeros((5, 3))).round(12).tolist()
    [0.0]
    """

    def score(self, logits: FloatArray) -> FloatArray:
        """Return the energy's unevenness."""
        z = logits - logits.mean(axis=1, keepdims=True)
        energy = -np.logaddexp.reduce(z, axis=1)
        return np.array([float(np.logaddexp.reduce(energy) - np.log(len(z)) - energy.mean())])


class GNNEvaluatorLite(MetaSet):
    """Cosine similarities of the outputs to the source's mean output of every class.

    The score holds, sorted by class, the mean and the standard deviation over nodes of the
    similarity to each class, and the mean of the largest similarity.

    References
    ----------
    Zheng et al., "GNNEvaluator: Evaluating GNN Performance On Unseen Graphs Without Labels",
    NeurIPS 2023. Its copies are the same; it compares hidden layers with every training node and
    regresses with a graph network, here classes and a ridge regression stand for both.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = GNNEvaluatorLite().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 0.05)
    True
    """

    prototypes_: FloatArray

    def _prepare(self, source: Observation) -> None:
        unit = _directions(source.logits / source.temperature)
        means = [
            unit[source.predictions == k].mean(axis=0)
            for k in range(source.num_classes)
            if (source.predictions == k).any()
        ]
        self.prototypes_ = _directions(np.array(means))

    def score(self, logits: FloatArray) -> FloatArray:
        """Return moments of the similarities."""
        similar = _directions(logits) @ learned(self, "prototypes_").T
        moments = [similar.mean(axis=0), similar.std(axis=0), [similar.max(axis=1).mean()]]
        return np.asarray(np.concatenate(moments))


def _directions(rows: FloatArray) -> FloatArray:
    z = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12))
