r"""Calibrated probabilities per class, as draws from what is not known.

.. math:: p_i = \mathrm{softmax}(\beta z_i + b + e_{\hat y_i})

with the logarithms z of the result's probabilities, a slope, a bias per class, and an effect e of
each predicted class: a table of confusions that no slope and biases describe. Slope and biases have
the accuracy without labels and the card's expectations (`graphtemper.card.class_bias`) as their
prior and labels of the target as their likelihood; the posterior is its normal approximation at the
maximum. Effects follow from labels by one step of Newton's method, so that with many labels every
predicted class has the frequencies that were counted. Each draw takes an accuracy from an interval
as wide as that of the result, and the slope at which its probabilities imply that accuracy. So no
metric is more certain than the accuracy is. Next to labels the model itself is what is least known,
so everything is drawn `WIDER`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.numerics import log_odds
from graphtemper.card.class_bias import ClassPrior, centred
from graphtemper.recalibration.few_labels import Labels

EFFECT, OF_SEGMENT = 0.2, 0.35
"""Deviation of the effect of a predicted class, and of that of a segment, before any label."""
WIDER = 1.5
"""Next to labels, deviations of draws over those of the normal approximation."""
DRAWS = 200
# Rows at which biases and slopes are fitted; no prior is as precise as a mean over them.
_ROWS, _SLOPE_ROWS = 2000, 500
# Deviation of log(slope) beside the accuracy, alone and next to labels, which say too little about
# it; and the smallest one of the accuracy's log-odds.
_FREE, _HELD, _FINEST = 2.0, 0.25, 0.02
_STEPS, _LONGEST, _HALVINGS = 12, 2.0, 13
_SLOPES = (-4.0, 3.0)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of slopes (D,), biases (D, K) and effects (D, K, K); the first one is the centre.

    ``effects[d, k]`` is added to the logits of nodes that are predicted to be of class k.
    """

    log_slopes: FloatArray
    biases: FloatArray
    effects: FloatArray

    def probabilities(self, logits: FloatArray, predicted: NDArray[np.intp], d: int) -> FloatArray:
        """Return the probabilities (n, K) of draw d."""
        shift = self.biases[d] + self.effects[d][predicted]
        return temperatures.apply(np.exp(self.log_slopes[d]) * logits + shift)


def draw(
    logits: FloatArray,
    accuracy: Estimate,
    before: Estimate,
    prior: ClassPrior,
    labels: Labels,
    rng: np.random.Generator,
) -> Draws:
    """Return draws for the logarithms (n, K) of a result's probabilities.

    ``before`` is the accuracy without labels: next to them, the result's would count them twice.
    """
    predicted, classes = logits.argmax(axis=1), logits.shape[1]
    value, low, high = (log_odds(x) for x in (accuracy.value, accuracy.low, accuracy.high))
    wider = WIDER if labels.rows.size else 1.0
    part = np.arange(0, len(logits), -(-len(logits) // _ROWS))
    slope_part = part[:: -(-part.size // _SLOPE_ROWS)]
    some, own = logits[slope_part], predicted[slope_part]
    start = slopes(some, own, prior.biases[None, None, :], np.array([log_odds(before.value)]))[0]
    mean, covariance, moves = fit(logits, part, prior, labels, float(start), before)
    noise = rng.standard_normal((DRAWS, classes + 1)) @ np.linalg.cholesky(covariance).T
    noise[0] = 0.0
    biases = centred(mean[1:] + wider * noise[:, 1:])
    at = temperatures.apply(np.exp(mean[0]) * logits[labels.rows] + mean[1:])
    centre, deviation = effects(at, labels, predicted[labels.rows], classes)
    moved = rng.standard_normal((DRAWS, classes, classes)) * wider * deviation
    moved[0] = 0.0
    # Where the accuracy lies in its interval, given the biases.
    steps = noise @ moves / np.sqrt(max(float(moves @ covariance @ moves), 1e-300))
    sides = wider * np.where(steps < 0.0, value - low, high - value) / DEVIATIONS
    table = centred(centre + moved)
    shift = biases[:, None, :] + table[:, own, :]
    if labels.rows.size:  # which of them are wrong tells more than how many
        p = temperatures.apply(np.exp(mean[0]) * some + shift[0])
        value = log_odds(float(p[np.arange(len(own)), own].mean()))
    found = slopes(some, own, shift, value + sides * steps)
    return Draws(found, biases, table)


def fit(
    logits: FloatArray,
    part: NDArray[np.intp],
    prior: ClassPrior,
    labels: Labels,
    start: float,
    accuracy: Estimate,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the likeliest (log slope, biases), their covariance, and derivatives of the accuracy.

    Gauss and Newton's method, from the log slope ``start``, on four terms: biases, class shares
    (the means of p over ``part`` of the rows), the log-odds of the ``accuracy`` that p implies
    there, and the likelihood of the labels.
    """
    rows = labels.rows
    near, count = logits[part], logits.shape[1]
    top = np.eye(count)[near.argmax(axis=1)]
    point = origin = np.append(start, prior.biases)
    goal = log_odds(accuracy.value)
    spread = (log_odds(accuracy.high) - log_odds(accuracy.low)) / (2.0 * DEVIATIONS)
    sure = max(spread, _FINEST) ** -2
    free = _HELD if rows.size else _FREE
    held, certain = np.append(free**-2, 1.0 / prior.bias_variance), 1.0 / prior.share_variance
    answers = np.eye(count)[labels.classes]
    even = np.full(len(near), 1.0 / len(near))
    for _ in range(_STEPS):
        slope = float(np.exp(point[0]))
        z = slope * near
        p = temperatures.apply(z + point[1:])
        shares = np.maximum(p.mean(axis=0), 1e-12)
        jacobian = _moves(p, z, even) / shares[:, None]
        right = (p * top).sum(axis=1)
        implied = float(np.clip(right.mean(), 1e-6, 1.0 - 1e-6))
        apart = right[:, None] * (top - p)
        moves = np.append((apart * z).sum(axis=1).mean(), apart.mean(axis=0))
        moves /= implied * (1.0 - implied)
        gradient = held * (origin - point)
        gradient += jacobian.T @ (certain * (prior.log_shares - np.log(shares)))
        gradient += moves * sure * (goal - log_odds(implied))
        information = np.diag(held) + jacobian.T @ (certain[:, None] * jacobian)
        information += sure * np.outer(moves, moves)
        if rows.size:
            z = slope * logits[rows]
            p = temperatures.apply(z + point[1:])
            left = answers - p
            gradient += np.append((left * z).sum(), left.sum(axis=0))
            information += _fisher(p, z)
        step = np.linalg.solve(information, gradient)
        point = point + step * min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-6:
            break
    covariance = np.linalg.inv(information)
    return point, np.asarray(0.5 * (covariance + covariance.T)), moves


def _moves(p: FloatArray, z: FloatArray, weights: FloatArray) -> FloatArray:
    """Return derivatives (K, K + 1) of weighted sums of p by log slope and biases."""
    weighted = weights[:, None] * p
    inner = np.diag(weighted.sum(axis=0)) - weighted.T @ p
    first = (weighted * (z - (p * z).sum(axis=1, keepdims=True))).sum(axis=0)
    return np.column_stack([first, inner])


def _fisher(p: FloatArray, z: FloatArray) -> FloatArray:
    """Return the information (K + 1, K + 1) of labels about log slope and biases."""
    moves = _moves(p, z, np.ones(len(p)))
    spread = float(((p * z**2).sum(axis=1) - (p * z).sum(axis=1) ** 2).sum())
    return np.vstack([np.append(spread, moves[:, 0]), moves])


def effects(
    p: FloatArray,
    labels: Labels,
    group: NDArray[np.intp],
    num_groups: int,
    before: float = EFFECT,
) -> tuple[FloatArray, FloatArray]:
    """Return the effects (groups, K) that labels of groups of nodes show, and their deviations.

    One step of Newton's method from probabilities p of the labelled nodes; ``before`` is the
    deviation before any label.
    """
    shape = (num_groups, p.shape[1])
    left, information = np.zeros(shape), np.zeros(shape)
    if labels.rows.size:
        answers = np.zeros_like(p)
        answers[np.arange(len(p)), labels.classes] = 1.0
        np.add.at(left, group, answers - p)
        np.add.at(information, group, p * (1.0 - p))
    variance = 1.0 / (before**-2 + information)
    return variance * left, np.sqrt(variance)


def slopes(
    logits: FloatArray, predicted: NDArray[np.intp], shift: FloatArray, accuracy: FloatArray
) -> FloatArray:
    """Return log slopes (D,) at which the mean probability of the predictions has given log-odds.

    ``shift`` (D, n or 1, K) is added to the logits. Where no slope does, the nearest end is taken.
    """
    rows, goal = np.arange(len(predicted)), 1.0 / (1.0 + np.exp(-accuracy))
    low, high = (np.full(accuracy.size, end) for end in _SLOPES)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        z = np.exp(middle)[:, None, None] * logits + shift
        z -= z.max(axis=2, keepdims=True)
        np.exp(z, out=z)
        implied = (z[:, rows, predicted] / z.sum(axis=2)).mean(axis=1)
        low, high = np.where(implied < goal, middle, low), np.where(implied < goal, high, middle)
    return np.asarray(0.5 * (low + high))
