r"""A few labels of the target: one posterior for the accuracy, from none to all nodes labelled.

The estimate without labels is the prior of the accuracy, in log-odds :math:`\eta` (see the density
of `graphtemper._core.estimate.Estimate`). It may be wrong, and a narrow prior would outvote many
labels. So it is mixed with an accuracy of which nothing is known, uniform between 0 and 1:

.. math:: \pi_w(\eta) = (1 - w)\,\pi(\eta) + w\,\sigma(\eta)\,\sigma(-\eta), \qquad
          w = \tfrac12 \min(n / 20, 1).

Labels that agree with the prior keep it, and labels that contradict it make it count for nothing.

Predictions of labelled nodes are right or wrong. What confidence, the predicted class and other
columns explain of that is taken from all nodes (`graphtemper.recalibration.labels.sequences`),
which leaves a share s of right predictions whose variance is that of n counted nodes:

.. math:: \log p(\eta) = \log \pi_w(\eta)
          + n \left[s \log\sigma(\eta) + (1 - s) \log\sigma(-\eta)\right].

Without labels this is the prior, and with many it is the labels. The accuracy is the median. The
temperature matches mean confidence to it, or goes only a part of the way, or nowhere, while the
posterior hardly says on which side of confidence the accuracy lies (`accuracy_to_match`): a handful
of labels must not undo a good calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper.card.earlier import which
from graphtemper.recalibration.labels.sequences import standardised

METHOD = "atlas and labels"
# With more classes than this, the predicted class explains nothing.
_MOST_CLASSES = 20
# Share of a uniform accuracy in the prior, from as many labels on; with none the prior is alone.
_VAGUE_SHARE, _SETTLED = 0.5, 20.0
EVEN: FloatArray = np.linspace(0.5, 59.5, 60) / 60.0
"""Quantiles by which a distribution of the accuracy is described: equally likely values."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled nodes: their rows among the chosen nodes, and their classes.

    ``columns`` (n, q) are what else is known of all chosen nodes: earlier labels and proxies.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    classes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    columns: FloatArray | None = None


NO_LABELS = Labels()


def design(
    confidence: FloatArray,
    predictions: NDArray[Any],
    num_classes: int,
    columns: FloatArray | None = None,
) -> FloatArray:
    """Return standardised columns of all chosen nodes that may explain which are right (n, p).

    Examples
    --------
    >>> design(np.array([0.6, 0.8]), np.array([0, 0]), 2).round(2).tolist()  # one class only
    [[-1.0], [1.0]]
    """
    own = [confidence, which(predictions, num_classes, _MOST_CLASSES)]
    return standardised(np.column_stack(own if columns is None else [*own, columns]))


def posterior(
    prior: Estimate,
    found: tuple[float, float],
    count: int,
    population: int | None = None,
) -> FloatArray:
    r"""Return equally likely values of the log-odds of the accuracy after some labels.

    Parameters
    ----------
    prior
        The accuracy before any label.
    found
        The accuracy by the labels alone, and the variance of one of them.
    count
        Number of labels.
    population
        The number of nodes N that the accuracy refers to, including the m labelled ones. The finite
        population correction multiplies the effective count by :math:`(N - 1) / (N - m)`.

    Examples
    --------
    >>> values = posterior(Estimate.of_log_odds(0.0, 1.0, "atlas"), (0.9, 0.09), 50)
    >>> accuracy(values).low.__round__(2), accuracy(values).high.__round__(2)
    (0.8, 0.95)
    """
    value, variance = found
    share = min(max(value, 0.5 / (count + 1.0)), 1.0 - 0.5 / (count + 1.0))
    worth = count * share * (1.0 - share) / variance
    if population is not None:
        worth *= (population - 1) / (population - count)

    # Fine where the labels are sharp, and where the prior is.
    near = log_odds(share) + np.linspace(-9.0, 9.0, 361) / np.sqrt(worth * share * (1.0 - share))
    x = np.union1d(prior.grid(), near)
    loss = share * np.logaddexp(0.0, -x) + (1.0 - share) * np.logaddexp(0.0, x)
    vague = _VAGUE_SHARE * min(worth / _SETTLED, 1.0)
    uniform = -np.logaddexp(0.0, -x) - np.logaddexp(0.0, x)
    mixed = np.logaddexp(np.log1p(-vague) + prior.log_density(x), np.log(vague) + uniform)
    y = mixed - worth * loss
    density = np.exp(y - y.max())
    below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(x)))
    return np.asarray(np.interp(EVEN, below / below[-1], x))


def accuracy(values: FloatArray) -> Estimate:
    """Return the accuracy and its 90 % credible interval from equally likely log-odds.

    Examples
    --------
    >>> accuracy(np.linspace(0.0, 2.0, 60)).value.__round__(3)
    0.731
    """
    low, value, high = 1.0 / (1.0 + np.exp(-np.interp((0.05, 0.5, 0.95), EVEN, values)))
    return Estimate(float(value), float(low), float(high), METHOD)


def more_labels(accuracy: Estimate, half_width: float) -> int:
    r"""Return how many more labels should bring the interval to a half-width; 0 if none.

    Every label adds :math:`a (1 - a)` to the precision of the log-odds, and the half-width falls
    with the root of the precision.

    Examples
    --------
    >>> prior = Estimate.of_log_odds(1.0, 0.8, "atlas")
    >>> now = accuracy(posterior(prior, (0.8, 0.16), 50))
    >>> more_labels(now, 0.06), more_labels(now, 0.1)
    (63, 0)
    >>> then = accuracy(posterior(prior, (0.8, 0.16), 110))
    >>> round(then.half_width, 3)
    0.061
    """
    value = min(max(accuracy.value, 0.01), 0.99)
    precision = max(accuracy.deviation, 1e-9) ** -2
    ratio = accuracy.half_width / half_width
    return max(int(np.ceil(precision * (ratio**2 - 1.0) / (value * (1.0 - value)))), 0)
