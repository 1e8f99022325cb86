"""Temperature scaling on mixed target nodes that carry predicted labels."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import Estimate, Observation, temperature
from graphtemper.estimators import Carried, HasParameters, correct, share_estimate
from graphtemper_research.harness.numeric import stream


class PseudoCal(HasParameters):
    r"""The likeliest temperature of mixed nodes, labelled by the larger part.

    .. math:: x_i' = \lambda x_i + (1 - \lambda)\, x_{\pi(i)}, \qquad
       T = \arg\min_T -\sum_{i:\,\hat y_i \ne \hat y_{\pi(i)}}
       \log \mathrm{softmax}(z_i'/T)_{\hat y_i}

    The features of all nodes are mixed at once by a random permutation, the graph stays. Mixed
    nodes near a decision boundary stand for the target's hard nodes. Nothing comes from the source;
    what accuracy a mixture of 0.65 means is arbitrary. The stated accuracy is the mean confidence
    at the temperature. No two classes among the predictions leave the temperature alone.

    References
    ----------
    Hu et al., "Pseudo-Calibration: Improving Predictive Uncertainty Estimation in Unsupervised
    Domain Adaptation", ICML 2024.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> found = PseudoCal().temperature(Observation(SIGN().fit(g), g))
    >>> 0.1 < found < 10.0
    True
    """

    def __init__(self, share: float = 0.65) -> None:
        self.share = share

    @property
    def carries(self) -> Carried:
        """Nothing."""
        return {}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Check the labels; nothing is learned."""
        correct(source, labels)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the mean confidence at the temperature."""
        value = temperature.mean_confidence(target.logits, self.temperature(target))
        return share_estimate(value, target.num_nodes, "PseudoCal")

    def temperature(self, target: Observation) -> float:
        """Return the temperature of the model's own logits."""
        graph, nodes = target.graph, target.nodes
        order = stream(target.seed, "mixed nodes").permutation(graph.num_nodes)
        mixed = self.share * graph.features + (1.0 - self.share) * graph.features[order]
        predicted = target.all_predictions
        chosen = nodes[predicted[nodes] != predicted[order[nodes]]]
        if chosen.size == 0:
            return target.temperature
        logits = np.asarray(target.predictor(graph.replace(features=mixed)), dtype=np.float64)
        return float(temperature.solve(logits[chosen], predicted[chosen]).temperature)
