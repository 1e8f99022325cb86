"""Isotonic regression of probabilities: class by class, or one curve for all classes."""

from __future__ import annotations

import importlib

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray

Curve = tuple[FloatArray, FloatArray]
# Where a curve is flat the original order decides, as in the authors' code.
_TIE_BREAK = 1e-9


class Isotonic(Calibrator):
    r"""One increasing curve per class, from its probability to the frequency of its label.

    .. math:: p'_{ik} \propto f_k(p_{ik}) + 10^{-9} p_{ik}

    Fitted by scikit-learn's ``IsotonicRegression`` (pool adjacent violators), constant outside
    the fitted range; rows are then divided by their sum. With few labels the curves are coarse, and
    labels whose curve is zero make the NLL large.

    Attributes
    ----------
    curves_ : list of (x, y)
        Corner points of each class's curve.

    References
    ----------
    Zadrozny and Elkan, KDD 2002.

    Examples
    --------
    >>> z, y = [[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 2, [1, 1, 1, 0, 0, 0]
    >>> Isotonic().fit(z, y).transform([[0.0, 1.0], [1.0, 0.0]]).round(6)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """

    granularity = "class"
    reference = "Zadrozny and Elkan, KDD 2002"

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        p = temperature.apply(inputs.logits[labelled.nodes])
        truth = np.eye(p.shape[1])[labelled.labels]
        self.curves_ = [increasing_curve(p[:, k], truth[:, k]) for k in range(p.shape[1])]

    def _transform(self, inputs: Inputs) -> FloatArray:
        p = temperature.apply(inputs.logits)
        return bend(p, self.curves_)


class IsotonicShared(Calibrator):
    r"""One increasing curve for the probabilities of all classes (IRM of Mix-n-Match).

    .. math:: p'_{ik} \propto f(p_{ik}) + 10^{-9} p_{ik}

    Fitted to all n K pairs of a probability and whether it was the label's. One strictly
    increasing curve preserves the order of the classes.

    Attributes
    ----------
    curve_ : (x, y)
        Corner points of the curve.

    References
    ----------
    Zhang, Kailkhura, Han, "Mix-n-Match", ICML 2020.

    Examples
    --------
    >>> z, y = [[0.0, 1.0]] * 4, [1, 1, 1, 0]
    >>> IsotonicShared().fit(z, y).transform([[0.0, 1.0]]).round(6)
    array([[0.25, 0.75]])
    """

    preserves_argmax = True
    reference = "Zhang et al., ICML 2020 (IRM)"
    differs = "rows are divided by their sum; the authors' code does not normalise them"

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        p = temperature.apply(inputs.logits[labelled.nodes])
        truth = np.eye(p.shape[1])[labelled.labels]
        self.curve_ = increasing_curve(p.ravel(), truth.ravel())

    def _transform(self, inputs: Inputs) -> FloatArray:
        p = temperature.apply(inputs.logits)
        return bend(p, [self.curve_] * p.shape[1])


def increasing_curve(scores: FloatArray, hits: FloatArray) -> Curve:
    """Return the corner points of the increasing function nearest to the hits in least squares.

    Examples
    --------
    >>> x, y = increasing_curve(np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 0.0]))
    >>> y.tolist()
    [0.0, 0.5, 0.5]
    """
    sklearn = importlib.import_module("sklearn.isotonic")  # untyped, and slow to import
    model = sklearn.IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    model.fit(scores, hits)
    return np.asarray(model.X_thresholds_), np.asarray(model.y_thresholds_)


def bend(p: FloatArray, curves: list[Curve]) -> FloatArray:
    """Apply each column's curve, break ties by the column itself, and normalise rows."""
    bent = np.column_stack([np.interp(p[:, k], *curve) for k, curve in enumerate(curves)])
    bent += _TIE_BREAK * p
    return np.asarray(bent / bent.sum(axis=1, keepdims=True))
