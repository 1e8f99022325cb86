"""The label-free inverse for several classes: a tied-covariance Gaussian mixture on the logits.

Homophily and covariate shift move and scale the class means of the logits but keep one covariance
for all classes, so unlabelled logits are a mixture of K Gaussians with a tied covariance. Started
from the predicted classes, its posterior stands in for the labels: it gives the accuracy and the
temperature that minimises the expected NLL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import helmert
from scipy.spatial.distance import pdist
from scipy.special import ndtri

from graphtemper import temperature
from graphtemper._core.numerics import increasing_root
from graphtemper.errors import (
    NotIdentifiableError,
    RangeError,
    ShapeError,
    TooFewError,
    WrongTypeError,
)
from graphtemper.theory import domain

Floats = NDArray[np.float64]

__all__ = ["ClassMixtureFit", "fit_multiclass"]

# Two neighbouring classes must be as separated as the binary fit requires: accuracy 0.75.
SMALLEST_SEPARATION = float(2.0 * ndtri(0.75))
LARGEST_ACCURACY = 0.99
# A component with less than this fraction of an equal share has collapsed on a few nodes.
_SMALLEST_PORTION = 0.2
_FEWEST_NODES_PER_CLASS = 20


@dataclass(frozen=True)
class ClassMixtureFit:
    """K classes fitted to unlabelled logits; ``means`` are of centred logits, one row per class."""

    means: Floats
    shares: Floats
    separation: float
    """Smallest Mahalanobis distance between two class means."""
    temperature: float
    accuracy: float
    posterior: Floats
    """Probability of each class for each node under the mixture."""

    @property
    def slope(self) -> float:
        """Reciprocal of the temperature."""
        return 1.0 / self.temperature


def fit_multiclass(logits: ArrayLike, *, max_iterations: int = 500) -> ClassMixtureFit:
    """Temperature and accuracy from unlabelled multi-class logits.

    Formula: fit sum_k w_k N(mu_k, Sigma) to the centred logits by expectation-maximisation started
    from the predicted classes; with its posterior q, accuracy = mean q[i, argmax z_i] and the
    temperature minimises - sum q[i, k] log softmax(z_i / T)[k] (convex in 1/T, solved exactly).

    Assumptions: class-conditional logits are Gaussian with one covariance, component k is class k.
    Limits: there is no bias correction for irregular degrees as in ``mixture.fit_binary``, and no
    standard error; class shares are free.

    Raises
    ------
    NotIdentifiableError
        When a class is never predicted, one Gaussian describes the logits as well (by the Bayesian
        information criterion), a component collapses or no longer has its own class as largest
        mean logit, two classes are closer than pairwise accuracy 0.75 allows, or the fitted
        accuracy is above 0.99.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 3000)
    >>> fit = fit_multiclass(4.0 * np.eye(3)[labels] + 1.5 * rng.standard_normal((3000, 3)))
    >>> abs(fit.slope / (4.0 / 1.5**2) - 1.0) < 0.05
    True
    """
    iterations = domain.one("max_iterations", domain.positive("max_iterations", max_iterations))
    if iterations != np.floor(iterations):
        raise WrongTypeError(f"max_iterations must be an integer; got {max_iterations!r}.")
    values, unit, predicted = _logits(logits)
    num_classes = values.shape[1]
    # The centred logits span K - 1 dimensions; an orthonormal basis makes the covariance full.
    basis = helmert(num_classes)
    points = values @ basis.T
    start = _start(points, predicted, num_classes)
    posterior, means, shares, precision, log_likelihood = _tied_mixture(
        points, start, int(iterations)
    )
    _refuse_one_gaussian(points, log_likelihood, num_classes)
    class_means = means @ basis
    if float(shares.min()) < _SMALLEST_PORTION / num_classes:
        raise _undetermined(f"the component of class {int(shares.argmin())} has collapsed")
    lost = np.flatnonzero(class_means.argmax(axis=1) != np.arange(num_classes))
    if lost.size:
        raise _undetermined(
            f"the component of class {int(lost[0])} has its largest mean logit elsewhere"
        )
    separation = float(pdist(means, "mahalanobis", VI=precision).min())
    if separation < SMALLEST_SEPARATION:
        raise _undetermined(
            f"two class means are only {separation:.2f} standard deviations apart "
            f"(at least {SMALLEST_SEPARATION:.2f} is needed)"
        )
    accuracy = float(np.mean(posterior[np.arange(predicted.size), predicted]))
    if accuracy > LARGEST_ACCURACY:
        raise _undetermined(f"at the fitted accuracy {accuracy:.3f} errors are too rare")
    temperature = unit * _temperature(values, posterior)
    return ClassMixtureFit(unit * class_means, shares, separation, temperature, accuracy, posterior)


def _tied_mixture(
    points: Floats, start: tuple[Floats, Floats, Floats], max_iterations: int
) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Posterior, means, shares, precision and total log likelihood of the fitted mixture."""
    # Imported here to keep the core's import light.
    from sklearn.mixture import GaussianMixture

    means, shares, covariance = start
    ridge = 1e-6 * float(np.trace(covariance)) / covariance.shape[0]
    if not ridge > 1e-14:
        raise _undetermined("they do not vary within the predicted classes")
    try:
        model = GaussianMixture(
            n_components=means.shape[0],
            covariance_type="tied",
            means_init=means,
            weights_init=shares,
            precisions_init=np.linalg.inv(covariance + ridge * np.eye(covariance.shape[0])),
            reg_covar=ridge,
            tol=1e-7,
            max_iter=max_iterations,
            random_state=0,
        ).fit(points)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise _undetermined("the fit of one Gaussian for each class broke down") from error
    total = float(model.score(points)) * points.shape[0]
    return (
        np.asarray(model.predict_proba(points), dtype=np.float64),
        np.asarray(model.means_, dtype=np.float64),
        np.asarray(model.weights_, dtype=np.float64),
        np.asarray(model.precisions_, dtype=np.float64),
        total,
    )


def _start(
    points: Floats, predicted: NDArray[np.intp], num_classes: int
) -> tuple[Floats, Floats, Floats]:
    """Means, shares and pooled covariance of the predicted classes."""
    counts = np.bincount(predicted, minlength=num_classes)
    if counts.min() < 2:
        raise _undetermined(f"class {int(counts.argmin())} is (almost) never predicted")
    means = np.stack([points[predicted == k].mean(axis=0) for k in range(num_classes)])
    residual = points - means[predicted]
    return means, counts / counts.sum(), residual.T @ residual / points.shape[0]


def _refuse_one_gaussian(points: Floats, log_likelihood: float, num_classes: int) -> None:
    size, dimension = points.shape
    covariance = np.cov(points.T, bias=True).reshape(dimension, dimension)
    log_determinant = float(np.linalg.slogdet(covariance)[1])
    single = -0.5 * size * (dimension * (1.0 + np.log(2.0 * np.pi)) + log_determinant)
    extra = (num_classes - 1) * (dimension + 1)
    if log_likelihood - single < 0.5 * extra * np.log(size):
        raise _undetermined("one Gaussian describes them as well as one for each class")


def _temperature(values: Floats, posterior: Floats) -> float:
    """NLL-optimal temperature for soft labels, from the first-order condition in 1/T."""
    target = float(np.sum(posterior * values))

    def condition(scale: float) -> tuple[float, float]:
        probability = temperature.apply(scale * values)
        mean = np.sum(probability * values, axis=1)
        spread = np.sum(probability * values**2, axis=1) - mean**2
        return float(mean.sum()) - target, float(spread.sum())

    scale = increasing_root(condition, 1.0 / float(values.std()))
    if scale <= 0.0:
        raise _undetermined("the fitted classes contradict the predicted ones")
    return 1.0 / scale


def _undetermined(reason: str) -> NotIdentifiableError:
    return NotIdentifiableError(
        f"The logits do not determine the temperature: {reason}; label some nodes of the target."
    )


def _logits(logits: ArrayLike) -> tuple[Floats, float, NDArray[np.intp]]:
    """Centred logits in units of their standard deviation, that unit, and the predictions."""
    values = domain.finite("logits", logits)
    if values.ndim != 2 or values.shape[1] < 3:
        raise ShapeError(
            "logits must be an (N, K) array with K of at least 3 classes; for two classes use "
            f"mixture.fit_binary on z_1 - z_0; got shape {values.shape}."
        )
    fewest = _FEWEST_NODES_PER_CLASS * values.shape[1]
    if values.shape[0] < fewest:
        raise TooFewError(
            f"logits must have at least {fewest} rows ({_FEWEST_NODES_PER_CLASS} per class); "
            f"got {values.shape[0]}."
        )
    largest = float(np.max(np.abs(values)))
    values = values / (largest or 1.0)
    values = values - values.mean(axis=1, keepdims=True)
    spread = float(values.std())
    if spread <= 1e-12 or np.linalg.matrix_rank(values) < values.shape[1] - 1:
        raise ShapeError(
            "logits vary in fewer than K - 1 directions, so the classes cannot be separated."
        )
    if not 1e-300 <= largest * spread <= 1e300:
        raise RangeError(
            f"logits of up to {largest:g} are outside double precision; change their unit."
        )
    return values / spread, largest * spread, values.argmax(axis=1)
