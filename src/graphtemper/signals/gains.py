r"""Gains: how much of the source's signal is left in a target, computed from covariances of views.

Halves of the columns give a precise gain, which does not notice features that belong to another
node. Neighbour covariances notice these, with a larger error. So the gain of the halves is lowered
if the gain of the own view by neighbours is clearly below its gain by halves,

.. math:: \log g = \log g_{half} + \min(0,\; \log a - \log g_{own\,half} + z\,\mathrm{se}),

which errs on the low side, because mixed neighbours lower the gain of the halves as well. If the
columns are not redundant, the model gain by neighbours is used alone and shrunk towards the change
in the spread of the logits, by its error. All gains here are logarithms.

The *class model* transfers the source's class-conditional logits to a target by its gain g. At the
source, the centred logits of class k have offset :math:`m_k` from their mean. The mean
:math:`\mu_t` and covariance :math:`V_t` of the target's logits need no labels. If the signal keeps
its shape,

.. math:: z \mid y{=}k \;\sim\; N(\mu_t + g\,m_k,\; W_t), \qquad
          W_t = V_t - g^2 \sum_k \pi_k m_k m_k^\top,

which determines the accuracy, the NLL-optimal temperature and the whole reliability curve without
assuming a family of shifts. Negative eigenvalues of :math:`W_t` are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.signals.covariances import Covariance, centred

# Smallest covariance at the source that targets can be compared with.
_LEAST_STANDARD_ERRORS = 5.0
_LEAST_SHARE_OF_VARIANCE = 1e-6
# Gains are clipped to these ranges: below, no signal is left; above, the ratio is noise.
_RANGE = (float(np.log(0.03)), float(np.log(2.5)))
_OWN_RANGE = (float(np.log(0.03)), float(np.log(4.0)))
_HOMOPHILY_RANGE = (float(np.log(0.03)), float(np.log(3.0)))
# Expected size of a change of a log gain, against which its standard error is weighed.
_EXPECTED_CHANGE = 0.5
# Standard errors by which neighbours must contradict the halves to lower their gain.
_CONTRADICTION = 0.5
_LARGEST_ERROR = 50.0
NEIGHBOURS = ("edge", "wedge", "held")
"""The covariances of neighbours."""
COVARIANCES = ("feature", "own_feature", *NEIGHBOURS)
"""The covariances that a gain may be computed from."""
_LEAST_RATIO = 1e-4


class _Covariances(Protocol):
    """The covariances that gains compare, as in `graphtemper.signals.evidence.Evidence`."""

    @property
    def covariance(self) -> FloatArray: ...
    @property
    def feature(self) -> Covariance | None: ...
    @property
    def own_feature(self) -> Covariance | None: ...
    @property
    def edge(self) -> Covariance | None: ...
    @property
    def wedge(self) -> Covariance | None: ...
    @property
    def held(self) -> Covariance | None: ...


@dataclass(frozen=True)
class Gains:
    """Log gains of a target against the source; None where the source shows too little signal.

    Attributes
    ----------
    signal
        The gain of the whole model, which the class model uses.
    halves, model, own
        The gain by halves of the columns, by neighbours for the model, and by neighbours for the
        own view.
    homophily
        The gain of the label correlation between neighbours, shrunk to zero by its error.
    spread
        The gain of the standard deviation of the logits: signal and noise together.
    """

    signal: float | None
    halves: float | None
    model: float | None
    own: float | None
    homophily: float
    spread: float

    def to_dict(self) -> dict[str, float]:
        """Return the gains as factors, without those that are not available."""
        return {
            name: float(np.exp(value))
            for name, value in self.__dict__.items()
            if value is not None and (name != "homophily" or self.model is not None)
        }


def read_gains(target: _Covariances, source: _Covariances) -> Gains:
    """Return the gains of a target against its source; both must be measured with a model."""
    spread = _spread(target, source)
    halves = _halves(target, source)
    if not shows(source, *NEIGHBOURS) or not _measured(target, *NEIGHBOURS):
        return Gains(
            signal=halves, halves=halves, model=None, own=None, homophily=0.0, spread=spread
        )
    edge, wedge, held = (_log_ratio(target, source, name) for name in NEIGHBOURS)
    own = float(np.clip(edge.value - 0.5 * wedge.value, *_OWN_RANGE))
    own_error = float(np.hypot(edge.error, 0.5 * wedge.error))
    model = float(np.clip(held.value - 0.5 * wedge.value, *_RANGE))
    model_error = float(np.hypot(held.error, 0.5 * wedge.error))
    if halves is None:
        signal = _shrunk(model, model_error, spread)
    else:
        own_halves = 0.5 * _log_ratio(target, source, "own_feature").value
        signal = halves + min(0.0, own - own_halves + _CONTRADICTION * own_error)
    return Gains(
        signal=float(np.clip(signal, *_RANGE)),
        halves=halves,
        model=model,
        own=own,
        homophily=_homophily(target, source, edge, wedge),
        spread=spread,
    )


def _homophily(
    target: _Covariances, source: _Covariances, edge: Covariance, wedge: Covariance
) -> float:
    """Return the gain of the label correlation; the smallest one if its sign has changed."""
    now, then = _value(target, "edge"), _value(source, "edge")
    if now.value * then.value < 0.0 and abs(now.value) > 2.0 * now.error:
        return _HOMOPHILY_RANGE[0]
    gain = float(np.clip(wedge.value - edge.value, *_HOMOPHILY_RANGE))
    return _shrunk(gain, float(np.hypot(edge.error, wedge.error)), 0.0)


def _halves(target: _Covariances, source: _Covariances) -> float | None:
    """Return the gain by halves, or None if the halves share no signal without neighbours."""
    if not shows(source, "feature", "own_feature"):
        return None
    return float(np.clip(0.5 * _log_ratio(target, source, "feature").value, *_RANGE))


def _shrunk(value: float, error: float, to: float) -> float:
    """Shrink a log gain towards its expected value ``to``, by its error."""
    weight = _EXPECTED_CHANGE**2 / (_EXPECTED_CHANGE**2 + error**2)
    return float(to + (value - to) * weight)


def _spread(target: _Covariances, source: _Covariances) -> float:
    now, then = (float(np.trace(item.covariance)) for item in (target, source))
    return 0.5 * float(np.log(max(now / then, _LEAST_RATIO))) if then > 0.0 else 0.0


def shows(source: _Covariances, *names: str) -> bool:
    """Return whether the source's covariances differ from zero beyond chance and rounding."""
    least = _LEAST_SHARE_OF_VARIANCE * float(np.trace(source.covariance))
    for name in names:
        covariance = _value(source, name)
        if abs(covariance.value) <= max(_LEAST_STANDARD_ERRORS * covariance.error, least):
            return False
        # Edges may join unlike nodes, but two views of one node that disagree show no signal.
        if name not in ("edge", "held") and covariance.value < 0.0:
            return False
    return True


def _measured(target: _Covariances, *names: str) -> bool:
    """Return whether there was anything to measure: without edges or wedges the error is zero."""
    return all(_value(target, name).error > 0.0 for name in names)


def _value(evidence: _Covariances, name: str) -> Covariance:
    covariance: Covariance | None = getattr(evidence, name)
    return Covariance(0.0, 0.0) if covariance is None else covariance


def _log_ratio(target: _Covariances, source: _Covariances, name: str) -> Covariance:
    """Return the logarithm of target over source with its error.

    A target covariance below its standard error, or of the other sign, counts as one error.
    """
    now, then = _value(target, name), _value(source, name)
    size = abs(then.value)
    ratio = max(now.value / then.value, now.error / size, _LEAST_RATIO)
    error = float(np.hypot(now.error / size / ratio, then.error / size))
    return Covariance(float(np.log(ratio)), min(error, _LARGEST_ERROR))


DRAWS = 4096
# Smallest residual variance in any direction, as a fraction of the mean variance.
_FLOOR = 0.03


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Class shares (K,) and the offsets (K, K) of the classes' centred logits from their mean."""

    shares: FloatArray
    offsets: FloatArray

    @classmethod
    def measure(cls, logits: FloatArray, labels: NDArray[np.int64]) -> ClassMoments:
        """Measure labelled source nodes; a class without nodes has offset and share zero."""
        z = centred(logits)
        classes = z.shape[1]
        counts = np.bincount(labels, minlength=classes).astype(np.float64)
        sums = np.zeros((classes, classes))
        np.add.at(sums, labels, z - z.mean(axis=0))
        return cls(counts / counts.sum(), sums / np.maximum(counts, 1.0)[:, None])

    @property
    def class_order(self) -> NDArray[np.intp]:
        """The classes by share, own offset and size of their offsets, whatever their numbers."""
        size = (self.offsets**2).sum(axis=1)
        return np.lexsort([size.round(9), np.diag(self.offsets).round(9), self.shares.round(9)])

    @property
    def between(self) -> FloatArray:
        """Covariance of the class offsets, sum_k pi_k m_k m_k^T."""
        return np.asarray((self.offsets.T * self.shares) @ self.offsets)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """The class-conditional logits that the source predicts for a target, as a labelled sample."""

    logits: FloatArray
    labels: NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """Fraction of the sample whose largest logit is that of its class."""
        return float((self.logits.argmax(axis=1) == self.labels).mean())


def transfer(
    moments: ClassMoments, gain: float, mean: FloatArray, covariance: FloatArray
) -> ClassModel:
    """Transfer the source's classes to a target's mean, covariance and signal gain.

    The normal draws are always the same, so that the result is a smooth function of the arguments.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=4000)
    >>> g = np.where(y == 1, 2.0, -2.0) + 1.5 * rng.standard_normal(4000)
    >>> z = np.column_stack([np.zeros(4000), g])
    >>> moments = ClassMoments.measure(z, y)
    >>> c = centred(z)
    >>> same = transfer(moments, 1.0, c.mean(axis=0), np.cov(c.T, bias=True))
    >>> bool(abs(same.accuracy - ((g > 0) == (y == 1)).mean()) < 0.01)
    True
    """
    classes = moments.shares.size
    residual = covariance - gain**2 * moments.between
    values, vectors = np.linalg.eigh(residual)
    # Directions have the same sign whatever the order of classes.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(classes)])
    floor = _FLOOR * float(np.trace(covariance)) / classes
    order = moments.class_order
    counts = np.round(moments.shares * DRAWS).astype(np.int64)[order]
    labels = np.repeat(order, counts)
    spread = _noise(counts) * np.sqrt(np.maximum(values, floor)) @ vectors.T
    logits = mean + gain * moments.offsets[labels] + spread
    return ClassModel(logits - logits.mean(axis=1, keepdims=True), labels)


def _noise(counts: NDArray[np.int64]) -> FloatArray:
    """Return normal numbers, a row per draw and a column per direction, for classes of given sizes.

    Two classes may be mirror images of each other, so both get the same draws, in pairs of opposite
    sign.
    """
    rng = np.random.default_rng(0)
    if counts.size != 2:
        return np.asarray(rng.standard_normal((int(counts.sum()), counts.size)))
    half = rng.standard_normal((int(counts.max() + 1) // 2, 2))
    both = np.stack([half, -half], axis=1).reshape(-1, 2)
    return np.vstack([both[:count] for count in counts])
