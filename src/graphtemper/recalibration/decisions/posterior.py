r"""Calibrated probabilities per class, as draws from what is not known.

.. math:: p_i = \mathrm{softmax}(\beta z_i + b + e_{\hat y_i})

with logits z at the source temperature, a slope, a bias per class, and an effect e of each
predicted class: a table of confusions that no slope and biases describe. Slope and biases have the
accuracy without labels and the card's expectations (`graphtemper.card.class_bias`) as their prior,
effects are none on average, and labels of the target are the likelihood of all of them; the
posterior is its normal approximation at the maximum. So a label says more of the nodes with its
prediction than of others, and with many labels every predicted class has the frequencies that were
counted. Each draw takes an accuracy from an interval as wide as that of the result, and the slope
at which its probabilities imply that accuracy. So no metric is more certain than the accuracy is.
The model itself is what is least known, so biases and effects are drawn `WIDER`; next to labels,
which it weighs, the accuracy too.
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
from graphtemper.recalibration.labels.few_labels import Labels

EFFECT = 0.35
"""Deviation of the effect of a predicted class, or of a segment, before any label."""
WIDER = 1.5
"""Deviations of draws over those of the normal approximation."""
DRAWS = 200
# Rows at which biases and slopes are fitted; no prior is as precise as a mean over them.
_ROWS, _SLOPE_ROWS = 2000, 500
# Deviation of log(slope) beside the accuracy, alone and next to labels, which say too little about
# it; and the smallest one of the accuracy's log-odds.
_FREE, _HELD, _FINEST = 2.0, 0.5, 0.02
_STEPS, _LONGEST, _HALVINGS = 30, 2.0, 13
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
    """Return draws for logits (n, K) at the source temperature.

    ``before`` is the accuracy without labels: next to them, the result's would count them twice.
    """
    predicted, classes = logits.argmax(axis=1), logits.shape[1]
    value, low, high = (log_odds(x) for x in (accuracy.value, accuracy.low, accuracy.high))
    p = temperatures.apply(logits)
    order = np.lexsort((p.max(axis=1), predicted))
    part, slope_part = (_spread(order, most) for most in (_ROWS, _SLOPE_ROWS))
    some, own = logits[slope_part], predicted[slope_part]
    goal = np.array([log_odds(before.value)])
    start = float(slopes(some, own, prior.biases[None, None, :], goal)[0])
    mean, covariance, moves, centre, apart, gains = fit(logits, part, prior, labels, start, before)
    noise = rng.standard_normal((DRAWS, classes + 1)) @ np.linalg.cholesky(covariance).T
    noise[0] = 0.0
    biases = centred(mean[1:] + WIDER * noise[:, 1:])
    moved = rng.standard_normal((DRAWS, classes, classes))
    moved[0] = 0.0
    moved = np.einsum("kij,dkj->dki", np.linalg.cholesky(apart), moved)
    moved = WIDER * (moved - np.einsum("kij,dj->dki", gains, noise))
    # Where the accuracy lies in its interval, given the biases.
    steps = noise @ moves / np.sqrt(max(float(moves @ covariance @ moves), 1e-300))
    sides = np.where(steps < 0.0, value - low, high - value) / DEVIATIONS
    sides *= WIDER if labels.rows.size else 1.0
    table = centred(centre + moved)
    shift = biases[:, None, :] + table[:, own, :]
    if labels.rows.size:  # which of them are wrong tells more than how many
        p = temperatures.apply(np.exp(mean[0]) * some + shift[0])
        value = log_odds(float(p[np.arange(len(own)), own].mean()))
    return Draws(slopes(some, own, shift, value + sides * steps), biases, table)


def _spread(order: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return rows at equal distances in an order, at most a number of them."""
    step = -(-len(order) // most)
    return order[step // 2 :: step]


def fit(
    logits: FloatArray,
    part: NDArray[np.intp],
    prior: ClassPrior,
    labels: Labels,
    start: float,
    accuracy: Estimate,
) -> tuple[FloatArray, ...]:
    """Return a posterior: (log slope, biases), their covariance, and effects (K, K) given these.

    In between are derivatives of the log-odds of the accuracy. After the likeliest effects follow,
    for each predicted class, their covariance, and by how much slope and biases move them down.

    Gauss and Newton's method, from the log slope ``start``, on five terms: biases, effects, class
    shares (the means of p over ``part`` of the rows), the log-odds of the ``accuracy`` that p
    implies there, and the likelihood of the labels.
    """
    near, rows, count = logits[part], labels.rows, logits.shape[1]
    group, own = near.argmax(axis=1), logits[rows].argmax(axis=1)
    top = np.eye(count)[group]
    point = origin = np.append(start, prior.biases)
    table, gains = np.zeros((count, count)), np.zeros((count, count, count + 1))
    apart = np.tile(EFFECT**2 * np.eye(count), (count, 1, 1))
    spread = (log_odds(accuracy.high) - log_odds(accuracy.low)) / (2.0 * DEVIATIONS)
    sure = max(spread, _FINEST) ** -2
    free = _HELD if rows.size else _FREE
    held, certain = np.append(free**-2, 1.0 / prior.bias_variance), 1.0 / prior.share_variance
    longest, last = _LONGEST, np.zeros(count + 1)
    for _ in range(_STEPS):
        z = np.exp(point[0]) * near
        p = temperatures.apply(z + point[1:] + table[group])
        shares = np.maximum(p.mean(axis=0), 1e-12)
        jacobian = _moves(p, z) / (len(near) * shares[:, None])
        right = (p * top).sum(axis=1)
        implied = float(np.clip(right.mean(), 1e-6, 1.0 - 1e-6))
        off = right[:, None] * (top - p)
        moves = np.append((off * z).sum(axis=1).mean(), off.mean(axis=0))
        moves /= implied * (1.0 - implied)
        gradient = held * (origin - point)
        gradient += jacobian.T @ (certain * (prior.log_shares - np.log(shares)))
        gradient += moves * sure * (log_odds(accuracy.value) - log_odds(implied))
        information = np.diag(held) + jacobian.T @ (certain[:, None] * jacobian)
        information += sure * np.outer(moves, moves)
        z = np.exp(point[0]) * logits[rows]
        p = temperatures.apply(z + point[1:] + table[own])
        left = np.eye(count)[labels.classes] - p
        pull = np.zeros_like(table)
        for k in np.unique(own):  # what is left after the best effect of each predicted class
            mine = own == k
            fisher = _fisher(p[mine], z[mine])
            seen = np.append((left[mine] * z[mine]).sum(), left[mine].sum(axis=0))
            apart[k] = np.linalg.inv(fisher[1:, 1:] + EFFECT**-2 * np.eye(count))
            gains[k] = apart[k] @ fisher[1:]
            pull[k] = apart[k] @ (seen[1:] - EFFECT**-2 * table[k])
            gradient += seen - fisher[:, 1:] @ pull[k]
            information += fisher - fisher[:, 1:] @ gains[k]
        step = np.linalg.solve(information, gradient)
        moved = pull - gains @ step
        largest = max(float(np.abs(step).max()), float(np.abs(moved).max()), 1e-12)
        longest *= 1.0 if step @ last >= 0.0 else 0.5  # turning round: the last one was too long
        shorter, last = min(1.0, longest / largest), step
        point, table = point + shorter * step, table + shorter * moved
        if largest < 1e-6:
            break
    return point, np.linalg.inv(information), moves, table, apart, gains


def _moves(p: FloatArray, z: FloatArray) -> FloatArray:
    """Return derivatives (K, K + 1) of sums of p by log slope and biases."""
    inner = np.diag(p.sum(axis=0)) - p.T @ p
    first = (p * (z - (p * z).sum(axis=1, keepdims=True))).sum(axis=0)
    return np.column_stack([first, inner])


def _fisher(p: FloatArray, z: FloatArray) -> FloatArray:
    """Return the information (K + 1, K + 1) of labels about log slope and biases."""
    moves = _moves(p, z)
    spread = float(((p * z**2).sum(axis=1) - (p * z).sum(axis=1) ** 2).sum())
    return np.vstack([np.append(spread, moves[:, 0]), moves])


def effects(
    p: FloatArray, labels: Labels, group: NDArray[np.intp], num_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Return the effects (groups, K) that labels of groups of nodes show, and their deviations.

    One step of Newton's method from probabilities p of the labelled nodes.
    """
    member = np.eye(num_groups)[:, group]
    variance = 1.0 / (EFFECT**-2 + member @ (p * (1.0 - p)))
    return variance * (member @ (np.eye(p.shape[1])[labels.classes] - p)), np.sqrt(variance)


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
