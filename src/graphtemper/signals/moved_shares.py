r"""The signal accuracy read a second way: as if the class shares of the target had moved.

The class model (`graphtemper.signals.class_model`) keeps the source's class shares and lets the
centre of the logits move to the target's mean. If the target's classes are mixed in other
proportions, its mean moves as well, and the same numbers mean something else: a target that is
mostly of one class then looks like one that has lost its signal. Here the centre stays and the
shares move: they solve

.. math:: \min_{\pi \ge 0,\; \sum_k \pi_k = 1} \Big| W^{-1/2} \big(\mu_t - \mu_s
          - g \sum_k \pi_k m_k \big) \Big|^2 + \lambda\, |\pi - \pi_s|^2,

with the means :math:`\mu` of the logits, the class offsets :math:`m_k` and the covariance W within
the classes of the source, and the gain g. What remains of the first term is the *misfit*: a mean
that no class shares can explain has moved for another reason. Neither reading is right for all
graphs; where they disagree, signals alone do not tell lost signal from other class shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.log_odds import log_odds
from graphtemper.signals.class_model import ClassMoments
from graphtemper.signals.evidence import Evidence, Reference, signal_accuracy
from graphtemper.signals.gains import Gains

# Weight of the source's class shares, and of the condition that shares sum to one.
_RIDGE, _SUM = 0.05, 1e3
# Directions with less than this share of the largest variance carry no information.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class MovedShares:
    """Class shares that explain the mean of a target's logits.

    Attributes
    ----------
    shares
        The class shares, (K,).
    misfit
        Distance between the target's mean and the mean they imply, in standard deviations within
        the classes of the source.
    """

    shares: FloatArray
    misfit: float


def explain_mean(
    moments: ClassMoments, gain: float, displacement: FloatArray, within: FloatArray
) -> MovedShares:
    """Return the class shares that explain best how far the mean of the logits has moved.

    Parameters
    ----------
    moments
        Class shares and offsets of the source.
    gain
        Factor by which the offsets of the target differ.
    displacement : (K,) array
        Mean of the target's centred logits minus that of the source.
    within : (K, K) array
        Covariance of the logits within the classes of the source.

    Examples
    --------
    Two classes with offsets of one half to both sides; the mean moves towards the second:

    >>> moments = ClassMoments(np.array([0.5, 0.5]), np.array([[0.5, -0.5], [-0.5, 0.5]]))
    >>> within = 0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> moved = explain_mean(moments, 1.0, np.array([-0.4, 0.4]), within)
    >>> moved.shares.round(2), moved.misfit < 0.1
    (array([0.1, 0.9]), True)
    """
    from scipy.optimize import nnls

    variances, directions = np.linalg.eigh(within)
    used = variances > _LEAST_VARIANCE * max(float(variances.max()), 1e-300)
    whiten = (directions[:, used] / np.sqrt(variances[used])).T
    design, wanted = whiten @ (gain * moments.offsets.T), whiten @ displacement
    size = moments.shares.size
    rows = [design, np.sqrt(_RIDGE) * np.eye(size), np.full((1, size), _SUM)]
    values = [wanted, np.sqrt(_RIDGE) * moments.shares, [_SUM]]
    shares, _ = nnls(np.vstack(rows), np.concatenate(values))
    shares /= shares.sum()
    return MovedShares(shares, float(np.linalg.norm(wanted - design @ shares)))


def read_moved(evidence: Evidence, reference: Reference, gains: Gains) -> tuple[float, float]:
    """Return the log-odds of the signal accuracy under moved class shares, and their misfit.

    ``gains`` are those of the target and must contain a signal gain.
    """
    moments, source = reference.moments, reference.evidence
    gain = float(np.exp(gains.signal or 0.0))
    within = source.covariance - moments.between
    moved = explain_mean(moments, gain, evidence.mean - source.mean, within)
    # Offsets from the mean of the target, which the class model adds.
    offsets = moments.offsets - moved.shares @ moments.offsets
    mixed = ClassMoments(moved.shares, offsets)
    return log_odds(signal_accuracy(evidence, reference, gain, mixed)), moved.misfit
