r"""Private labels: a card whose every number is differentially private in the labels.

Each label is replaced once, before anything is measured, by randomised response (Warner, JASA
1965): it is kept with probability :math:`\rho = e^\epsilon / (e^\epsilon + K - 1)` and is otherwise
one of the other K - 1 classes. Whatever another label the node has, no outcome gets more likely
than :math:`e^\epsilon` times. A card is computed from these answers, the graph without labels and
the model, so all of it is :math:`\epsilon`-differentially private with respect to the label of one
node, however many numbers it holds: no noise is added later, nothing composes, and there is no
:math:`\delta`.

Randomised answers are too often wrong. With :math:`p_i = \mathrm{softmax}(\beta z_i + b)`, fitted
to the answers r by maximum likelihood under the known probabilities :math:`P(r \mid y)`, labels are
drawn from

.. math:: P(y_i = k \mid r_i, z_i) \propto p_{ik}\, P(r_i \mid k),

and everything else is measured on the drawn labels. For a large :math:`\epsilon` they are the given
ones; for a small one they follow the model, whose calibration at the source is what the answers
still tell.
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError

# Larger budgets keep every label in practice, and their exponentials overflow.
MOST_EPSILON = 50.0


def check_epsilon(epsilon: float) -> float:
    """Return a privacy budget, or refuse it.

    Examples
    --------
    >>> check_epsilon(0)
    Traceback (most recent call last):
    graphtemper.errors.InputError: privacy must be an epsilon above 0 and at most 50, not 0.
    """
    number = isinstance(epsilon, int | float | np.number) and not isinstance(epsilon, bool)
    if not (number and 0.0 < epsilon <= MOST_EPSILON):
        raise InputError(
            f"privacy must be an epsilon above 0 and at most {MOST_EPSILON:g}, not {epsilon!r:.60}."
        )
    return float(epsilon)


def keep_probability(epsilon: float, num_classes: int) -> float:
    """Return the probability that randomised response keeps a label.

    Examples
    --------
    >>> round(keep_probability(1.0, 2), 3), round(keep_probability(3.0, 4), 3)
    (0.731, 0.87)
    """
    return 1.0 / (1.0 + (num_classes - 1) * math.exp(-epsilon))


def randomised_response(
    labels: NDArray[np.int64], num_classes: int, epsilon: float
) -> NDArray[np.int64]:
    """Return the randomised labels. The randomness is the operating system's, never a seed's.

    Labels change with a probability that is rounded up to a multiple of 2^-64: the probability of
    keeping them has too few digits next to one.
    """
    others = (num_classes - 1) * math.exp(-epsilon)
    threshold = 2**64 - math.ceil(others / (1.0 + others) * 2.0**64)
    words = np.frombuffer(secrets.token_bytes(16 * labels.size), dtype="<u8")
    kept, other = words[: labels.size] < threshold, words[labels.size :] % (num_classes - 1)
    moved = (labels + 1 + other.astype(np.int64)) % num_classes
    return np.asarray(np.where(kept, labels, moved))


def effective_nodes(num_nodes: int, accuracy: float, num_classes: int, epsilon: float) -> int:
    r"""Return how many exact labels tell as much about the accuracy as n randomised ones.

    An accuracy a that is read from randomised labels has variance
    :math:`\tilde a (1 - \tilde a) / n \lambda^2` with :math:`\tilde a = u + \lambda a`, where u is
    the probability of each other class and :math:`\lambda = \rho - u`.

    Examples
    --------
    >>> [effective_nodes(300, 0.8, 2, epsilon) for epsilon in (1.0, 3.0, 10.0)]
    [44, 223, 299]
    """
    kept = keep_probability(epsilon, num_classes)
    other = (1.0 - kept) / (num_classes - 1)
    right = min(max(accuracy, 0.02), 0.98)
    seen = other + (kept - other) * right
    ratio = right * (1.0 - right) * (kept - other) ** 2 / (seen * (1.0 - seen))
    return max(int(num_nodes * min(ratio, 1.0)), 1)


def private_labels(
    logits: FloatArray, labels: NDArray[np.int64], fitted: NDArray[np.int64], epsilon: float
) -> NDArray[np.int64]:
    """Return labels of all nodes that are differentially private in the given ones.

    Parameters
    ----------
    logits : (N, K) array
    labels : (N,) array
        -1 where there is none; these stay.
    fitted
        Labelled nodes that the model was not trained on, by which the answers are read.
    epsilon
        The budget, for each label.
    """
    classes = logits.shape[1]
    known = np.flatnonzero(labels >= 0)
    if int(labels.max()) >= classes:
        raise InputError(f"the labels must be below {classes}, the number of classes of the model.")
    answers = labels.copy()
    answers[known] = randomised_response(labels[known], classes, epsilon)
    kept = keep_probability(epsilon, classes)
    other = (1.0 - kept) / (classes - 1)
    slope, biases = _calibration(logits[fitted], answers[fitted], kept, other)
    likely = temperatures.apply(slope * logits[known] + biases)
    likely *= np.where(np.arange(classes) == answers[known, None], kept, other)
    total = likely.sum(axis=1)
    # Where the model excludes the answer, nothing else is known.
    likely[total == 0.0] = np.eye(classes)[answers[known]][total == 0.0]
    limits = np.cumsum(likely / likely.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    draws = np.random.default_rng(secrets.randbits(128)).random((known.size, 1))
    answers[known] = (draws > limits).sum(axis=1)
    return answers


def _calibration(
    logits: FloatArray, answers: NDArray[np.int64], kept: float, other: float
) -> tuple[float, FloatArray]:
    """Fit one slope and one bias per class to randomised labels, with normal priors."""
    rows = np.arange(len(logits))

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        slope = math.exp(min(max(point[0], -20.0), 20.0))
        p = temperatures.apply(slope * logits + point[1:])
        own = p[rows, answers]
        seen = np.maximum(other + (kept - other) * own, 1e-300)
        # d log(seen) / d(raw logits) = weight (onehot - p)
        weight = (kept - other) * own / seen
        gradient = weight[:, None] * p
        gradient[rows, answers] -= weight
        by_slope = slope * float((gradient * logits).sum())
        value = -float(np.log(seen).sum()) + 0.5 * float(point @ point)
        return value, point + np.concatenate([[by_slope], gradient.sum(axis=0)])

    best = minimize(loss, np.zeros(logits.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return math.exp(min(max(float(best[0]), -20.0), 20.0)), best[1:]
