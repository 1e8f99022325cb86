r"""A second opinion: a linear classifier that reads the features of a node and nothing else.

Where classes mean the same but the inputs of a model have moved, the model and a simpler learner
err in different ways and agree less often than at the source. With the accuracy a and the agreement
g at the source and the agreement g' at a target,

.. math:: a' = \Phi\bigl(\Phi^{-1}(a) + \Phi^{-1}(g') - \Phi^{-1}(g)\bigr),

agreement on the line with slope one (Baek et al., *Agreement-on-the-line*, 2022), which needs no
constant. Where the meaning of the classes has moved, both err alike and agreement shows nothing: so
it may lower an estimate, and never raises one.

The classifier is a multinomial logistic regression on random signed sums of the standardised
columns, fitted to labelled nodes that the card does not score.

A card holds its coefficients, and at their optimum these are equations for the labels: with sums X,
one-hot labels Y and fitted probabilities P,

.. math:: X^\top (Y - P) = W

up to the constants, which have no penalty and show how many labels each class has.

Somebody with the features and the list of nodes solves them for 0/1 unknowns where there are enough
of them. So two thirds of the labels are drawn with the secret of the card, there is one sum for
every 16 of these (at most 64), none is fitted to fewer than 128, and members of a class with fewer
than ten have the classes of the model in the place of their labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import RANGE
from graphtemper._core.reproducible import stream

Float32 = NDArray[np.float32]
SKETCH = 64
"""Number of random signed sums that stand for the columns."""
LABELS_PER_SUM = 16
"""Fitted labels that hide in each sum; ``bench card-attacks`` measures how well."""
FEWEST_LABELS = 8 * LABELS_PER_SUM
"""With fewer labels the sums are too few to tell classes apart."""
FEWEST_MEMBERS = 10
# The score of a class that no fitted node had.
_ABSENT = -1e3


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """Coefficients (s + 1, K) of the classes, for the first s sums; the last row is constant.

    Examples
    --------
    >>> sums = np.array([[-1.0], [-2.0], [1.0], [3.0]])
    >>> opinion = SecondOpinion.fit(sums, np.array([0, 0, 1, 1]), num_classes=2)
    >>> opinion.scores(sums).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    weights: FloatArray

    @classmethod
    def fit(
        cls, sums: FloatArray | Float32, labels: NDArray[np.int64], num_classes: int
    ) -> SecondOpinion:
        """Fit sums (n, s) of labelled nodes, with a ridge penalty of one.

        Written out, because importing a library for it takes longer than the fit.
        """
        from scipy.optimize import minimize

        x = np.column_stack([sums, np.ones(len(sums))]).astype(np.float64)
        rows, shape = np.arange(labels.size), (x.shape[1], num_classes)

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            z = x @ weights
            z -= z.max(axis=1, keepdims=True)
            p = np.exp(z)
            total = p.sum(axis=1)
            value = float(np.log(total).sum() - z[rows, labels].sum())
            p /= total[:, None]
            p[rows, labels] -= 1.0
            penalised = weights.copy()
            penalised[-1] = 0.0
            value += 0.5 * float((penalised**2).sum())
            return value, (x.T @ p + penalised).ravel()

        found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
        weights = found.x.reshape(shape)
        weights[-1, np.setdiff1d(np.arange(num_classes), labels)] = _ABSENT
        return cls(weights)

    @classmethod
    def hiding(
        cls,
        sums: FloatArray | Float32,
        labels: NDArray[np.int64],
        predictions: NDArray[np.int64],
        num_classes: int,
    ) -> SecondOpinion | None:
        """Fit as many sums as the labels hide in; None if there are too few, or of one class.

        Members of a class with few have the class that the model predicts, so that nothing in the
        coefficients is theirs.
        """
        if labels.size < FEWEST_LABELS:
            return None
        members = np.bincount(labels, minlength=num_classes)
        shown, labels = members >= FEWEST_MEMBERS, labels.copy()
        few = ~shown[labels]
        likely = shown[predictions]
        labels[few] = np.where(likely, predictions, members.argmax())[few]
        if shown.sum() < 2:
            return None
        return cls.fit(sums[:, : labels.size // LABELS_PER_SUM], labels, num_classes)

    def scores(self, sums: FloatArray | Float32) -> FloatArray:
        """Return the log-odds of the classes, (n, K), up to a constant per node."""
        with np.errstate(over="ignore", invalid="ignore"):
            used = sums[:, : len(self.weights) - 1].astype(np.float64)
            found = used @ self.weights[:-1] + self.weights[-1]
        return np.asarray(np.nan_to_num(found))


def sketch_weights(column_std: FloatArray, seed: int) -> Float32:
    """Return signed weights (F, s) of the columns, in units of the source's column deviations.

    Random signed sums of standardised columns preserve distances between rows on average, so the
    mean of s squares estimates a squared distance to a relative error of the root of 2 / s.
    """
    scale = np.divide(1.0, column_std, out=np.zeros_like(column_std), where=column_std > 0)
    scale /= np.sqrt(max(int((column_std > 0).sum()), 1))
    signs = stream(seed, "node sketch").choice([-1.0, 1.0], size=(scale.size, SKETCH))
    return (signs * scale[:, None]).astype(np.float32)


def moved_accuracy(accuracy: float, at_source: float, here: float) -> float:
    """Return the accuracy that a change of agreement implies.

    Examples
    --------
    >>> round(moved_accuracy(0.8, 0.9, 0.9), 6), round(moved_accuracy(0.8, 0.9, 0.6), 3)
    (0.8, 0.426)
    """
    from scipy.special import ndtr, ndtri

    start, source, target = ndtri(np.clip([accuracy, at_source, here], *RANGE))
    return float(ndtr(start + target - source))
