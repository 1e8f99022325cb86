r"""Privacy: draws that cannot be repeated without the labels, and private labels.

A card travels, the source does not. Whoever can repeat the shifts of the atlas can compute every
prediction in it, and its accuracies are then equations for the labels, which even rounded ones
determine. So the draws are secret: they come from a seed that depends on nodes and labels
(`secret_seed`) and that no card holds. Numbers are exact. Classes with fewer than `FEWEST` members
are described by the others. SECURITY.md says what is left for an attacker.

**Private labels** are a formal guarantee. Each label is replaced once, before anything is measured,
by randomised response (Warner, JASA 1965): it is kept with probability
:math:`\rho = e^\epsilon / (e^\epsilon + K - 1)` and is otherwise one of the other K - 1 classes.
Whatever another label the node has, no outcome gets more likely than :math:`e^\epsilon` times. A
card is computed from these answers, the graph without labels and the model, so all of it is
:math:`\epsilon`-differentially private with respect to the label of one node, however many numbers
it holds: no noise is added later, nothing composes, and there is no :math:`\delta`.

Randomised answers are too often wrong. With :math:`p_i = \mathrm{softmax}(\beta z_i + b)`, fitted
to the answers r by maximum likelihood under the known probabilities :math:`P(r \mid y)`, labels are
drawn from

.. math:: P(y_i = k \mid r_i, z_i) \propto p_{ik}\, P(r_i \mid k),

and everything else is measured on the drawn labels. For a large :math:`\epsilon` they are the given
ones; for a small one they follow the model, whose calibration at the source is what the answers
still tell.
"""

from __future__ import annotations

import hashlib
import math
import secrets

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper.card.class_profile import FEWEST, fit_biases
from graphtemper.signals.gains import ClassMoments

MOST_EPSILON = 50.0
"""Larger budgets keep every label in practice, and their exponentials overflow."""
# Rounds of key derivation: about 0.05 s per build, and per guess of whoever guesses labels.
_ROUNDS = 100_000


def secret_seed(seed: int, nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> int:
    """Return the seed of everything random in a card: the same for the same seed and labels.

    Without the labels it can only be guessed, together with all of them. Derivation is slow on
    purpose.

    Examples
    --------
    >>> nodes = np.arange(3)
    >>> one = secret_seed(0, nodes, np.array([0, 1, 1]))
    >>> one == secret_seed(0, nodes[::-1], np.array([4, 4, 2])), one == secret_seed(0, nodes, nodes)
    (True, False)
    """
    order = np.argsort(nodes, kind="stable")
    # Classes by first occurrence, so that their numbers do not matter.
    _, first, places = np.unique(labels[order], return_index=True, return_inverse=True)
    named = np.argsort(np.argsort(first))[places]
    content = np.stack([nodes[order], named]).astype("<i8").tobytes()
    salt = f"graphtemper card {seed}".encode()
    return int.from_bytes(hashlib.pbkdf2_hmac("sha256", content, salt, _ROUNDS)[:16], "little")


def pooled_moments(logits: FloatArray, labels: NDArray[np.int64]) -> ClassMoments:
    """Measure class shares and offsets; small classes share theirs.

    A small class gets the mean offset of the others, with its own logit in the place of theirs.
    """
    exact = ClassMoments.measure(logits, labels)
    classes = exact.shares.size
    small = np.bincount(labels, minlength=classes) < FEWEST
    if not small.any():
        return exact
    shares, offsets = exact.shares.copy(), exact.offsets.copy()
    shares[small] = shares[small].mean()
    own = float(np.diag(offsets)[~small].mean()) if not small.all() else 0.0
    offsets[small] = own * (np.eye(classes) - 1.0 / classes)[small] * classes / (classes - 1)
    offsets[small & (shares == 0.0)] = 0.0
    return ClassMoments(shares, offsets)


def pooled_recalls(
    labels: NDArray[np.int64], predictions: NDArray[np.intp], num_classes: int
) -> FloatArray:
    """Return the accuracy within each class; classes share theirs that have few right or few wrong.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 2, 3], [100, 100, 12, 8])
    >>> predictions = np.where(np.arange(220) % 4, labels, 0)
    >>> pooled_recalls(labels, predictions, 4).round(3).tolist()
    [0.958, 0.75, 0.958, 0.958]
    """
    counts = np.bincount(labels, minlength=num_classes)
    right = np.bincount(labels[predictions == labels], minlength=num_classes)
    few = np.minimum(right, counts - right) < FEWEST
    recalls = right / np.maximum(counts, 1)
    if few.any():
        # A class alone would have its own.
        pool = few if few.sum() > 1 and counts[few].any() else np.ones(num_classes, dtype=bool)
        recalls[few] = right[pool].sum() / counts[pool].sum()
    return np.asarray(recalls)


def check_epsilon(epsilon: float) -> float:
    """Return a privacy budget as a plain number, or refuse it.

    Examples
    --------
    >>> check_epsilon(np.uint8(3))
    3.0
    >>> check_epsilon(0)
    Traceback (most recent call last):
    graphtemper.errors.InputError: privacy must be an epsilon above 0 and at most 50, not 0.
    """
    number = isinstance(epsilon, int | float | np.integer | np.floating)
    if not number or isinstance(epsilon, bool) or not 0.0 < epsilon <= MOST_EPSILON:
        raise errors.range(
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


def effective_nodes(
    num_nodes: int, accuracy: float, num_classes: int, epsilon: float | None
) -> int:
    r"""Return how many exact labels tell as much about the accuracy as n randomised ones.

    Without an epsilon the labels are exact themselves.

    An accuracy a that is read from randomised labels has variance
    :math:`\tilde a (1 - \tilde a) / n \lambda^2` with :math:`\tilde a = u + \lambda a`, where u is
    the probability of each other class and :math:`\lambda = \rho - u`.

    Examples
    --------
    >>> [effective_nodes(300, 0.8, 2, epsilon) for epsilon in (1.0, 3.0, 10.0)]
    [44, 223, 299]
    """
    if epsilon is None:
        return num_nodes
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
        raise errors.range(
            f"the labels must be below {classes}, the number of classes of the model."
        )
    answers = labels.copy()
    answers[known] = randomised_response(labels[known], classes, epsilon)
    kept = keep_probability(epsilon, classes)
    other = (1.0 - kept) / (classes - 1)
    slope, biases = fit_biases(logits[fitted], answers[fitted], kept)
    likely = temperatures.apply(slope * logits[known] + biases)
    likely *= np.where(np.arange(classes) == answers[known, None], kept, other)
    total = likely.sum(axis=1)
    # Where the model excludes the answer, nothing else is known.
    likely[total == 0.0] = np.eye(classes)[answers[known]][total == 0.0]
    limits = np.cumsum(likely / likely.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    draws = np.random.default_rng(secrets.randbits(128)).random((known.size, 1))
    answers[known] = (draws > limits).sum(axis=1)
    return answers
