r"""Random effects: the accuracy in a new environment, predicted from labelled ones.

Two estimates of the log-odds of the accuracy need no labels: mean confidence and the atlas. In a
labelled environment e their *gap* to the truth is known. With :math:`x_e` what is known of the
environment without labels, gaps are described by

.. math:: \gamma_e = \mu + f(x_e) + \epsilon_e + s_e,

a mean :math:`\mu \sim N(m, c^2)`; a part f that environments share the more, the more alike they
are; a part :math:`\epsilon` of each environment's own; and the sampling error s of its accuracy. f
is a Gaussian process with the kernel :math:`\exp(-d^2 / 2r^2)`, where d is the distance of two
environments in units of the median distance (`distances`). The variance of
:math:`f + \epsilon` is that of the gaps, shrunk towards a usual one. The expectation of the gap of
a new environment is then kriging: a mean of the known gaps in which similar environments count for
more (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, chapter 2).

An environment with wrong labels must not decide. Each counts with the weight
:math:`\min(1, (\nu + 1) / (\nu + z^2))` of a Student t, where z is the residual of its gap if it is
left out, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS
from graphtemper._core.numerics import log_odds_variance, to_share

FEWEST_EXCHANGEABLE = 9
"""With fewer environments no 90 % interval over exchangeable environments is bounded."""
_TAILS = 4.0
_LEVEL = 0.90
# An environment is named if it lies this many deviations off and there are others to compare with.
_STRANGE, _FEWEST_TO_COMPARE = 4.0, 3
_ROUNDS = 4
# Candidates for the accuracy of a new environment, and how many deviations off the farthest is.
_CANDIDATES, _FARTHEST = 81, 6.0


@dataclass(frozen=True)
class Constants:
    """The prior of the random effects, in log-odds.

    Attributes
    ----------
    mean, mean_scale
        Mean and deviation of the mean gap: models are over-confident elsewhere.
    spread, spread_count
        Usual deviation between environments, and how many environments that is worth.
    reach
        Distance, in median distances, at which environments have 60 % of the similar part alike.
    own_share
        Share of the variance between environments that even similar ones do not have in common.
    atlas_weight, unmoved_weight, ridge
        The usual weight of the atlas's estimate where feature means have moved, and where they have
        not, as under the shifts that the atlas knows; and the penalty that holds it there.
    """

    mean: float = -0.2
    mean_scale: float = 0.5
    spread: float = 0.6
    spread_count: float = 3.0
    reach: float = 0.7
    own_share: float = 1.0 / 3.0
    atlas_weight: float = 0.15
    unmoved_weight: float = 0.85
    ridge: float = 0.6

    def at(self, moved: float) -> Constants:
        """Return the constants for a target whose feature means have moved so far, from 0 to 1.

        Examples
        --------
        >>> CONSTANTS.at(1.0).atlas_weight, CONSTANTS.at(0.0).atlas_weight
        (0.15, 0.85)
        """
        weight = moved * self.atlas_weight + (1.0 - moved) * self.unmoved_weight
        return replace(self, atlas_weight=weight)


CONSTANTS = Constants()


@dataclass(frozen=True, eq=False)
class Environments:
    """What is known of m labelled environments, as arrays.

    Attributes
    ----------
    truth, variance : (m,) arrays
        Log-odds of the accuracy, and their sampling variance.
    estimates : (m, 2) array
        Log-odds of the accuracy by mean confidence and by the atlas, made without labels.
    distances : (m + 1, m + 1) array
        Squared distances between the environments and, in the last row and column, the new one.
    ordered
        Whether they are in order of time.
    """

    truth: FloatArray
    variance: FloatArray
    estimates: FloatArray
    distances: FloatArray
    ordered: bool = False


def distances(views: Sequence[FloatArray]) -> FloatArray:
    """Return squared distances between rows, on average over views that have one row for each.

    Each view is measured in units of its own median distance.

    Examples
    --------
    >>> near = np.array([[0.0], [1.0], [10.0]])
    >>> distances([near, near]).round(2).tolist()
    [[0.0, 0.01, 1.23], [0.01, 0.0, 1.0], [1.23, 1.0, 0.0]]
    """
    total = np.zeros((len(views[0]), len(views[0])))
    for view in views:
        square = ((view[:, None, :] - view[None, :, :]) ** 2).sum(axis=2)
        usual = float(np.median(square[np.triu_indices(len(view), 1)]))
        total += square / usual if usual > 0.0 else square > 0.0
    return total / len(views)


@dataclass(frozen=True, eq=False)
class Effects:
    """Gaps of some environments, explained: the kriging weights for any other.

    Attributes
    ----------
    mean
        Mean of the mean gap before any environment.
    common, own
        Variance of the mean gap and of the similar part; variance of an environment's own part.
    weighted : (m,) array
        Inverse covariance of the gaps times their deviation from the mean.
    inverse : (m, m) array
        Inverse covariance of the gaps.
    residuals, deviations : (m,) arrays
        How far each gap is from what the others let expect, and the deviation of that.
    """

    mean: float
    common: tuple[float, float]
    own: float
    weighted: FloatArray
    inverse: FloatArray
    residuals: FloatArray
    deviations: FloatArray

    def next_gap(self, similarity: FloatArray, variance: float) -> tuple[float, float]:
        """Return the mean and the deviation of the gap of a new environment.

        ``similarity`` is its kernel with the known ones (m,), ``variance`` the sampling variance of
        the accuracy there.
        """
        shared = self.common[0] + self.common[1] * similarity
        known = float(shared @ self.inverse @ shared)
        left = max(sum(self.common) - known, 0.0) + self.own + variance
        return self.mean + float(shared @ self.weighted), float(np.sqrt(left))


def fit(
    gaps: FloatArray,
    variance: FloatArray,
    similarity: FloatArray,
    constants: Constants = CONSTANTS,
) -> Effects:
    """Explain gaps (m,) with sampling variances (m,) and a kernel (m, m) between environments.

    Examples
    --------
    >>> apart = np.eye(2)
    >>> effects = fit(np.array([-1.0, 0.5]), np.full(2, 0.01), apart)
    >>> twin, stranger = np.array([1.0, 0.0]), np.zeros(2)
    >>> effects.next_gap(twin, 0.0)[0] < effects.next_gap(stranger, 0.0)[0]
    True
    """
    c, count = constants, gaps.size
    weights = np.ones(count)
    # Gaps of similar environments vary less than those of different ones.
    similar_degrees = count - float(similarity.sum()) / count
    degrees = c.own_share * (count - 1.0) + (1.0 - c.own_share) * similar_degrees
    for _ in range(_ROUNDS):
        centre = float(weights @ gaps / weights.sum())
        squares = float(weights @ (gaps - centre) ** 2)
        counted = degrees * float(weights.mean())
        total = (c.spread_count * c.spread**2 + squares) / (c.spread_count + counted)
        own, similar = c.own_share * total, (1.0 - c.own_share) * total
        noise = variance + own
        covariance = c.mean_scale**2 + similar * similarity + np.diag(noise / weights)
        inverse = np.linalg.inv(covariance).astype(np.float64, copy=False)
        weighted = inverse @ (gaps - c.mean)
        precision = np.diag(inverse)
        residuals = weighted / precision
        # The deviation of a gap that is left out, if it were as precise as the others.
        deviations = np.sqrt(1.0 / precision + noise - noise / weights)
        if count < _FEWEST_TO_COMPARE:
            break
        strange = (residuals / deviations) ** 2
        weights = np.minimum((_TAILS + 1.0) / (_TAILS + strange), 1.0)
    common = (c.mean_scale**2, similar)
    return Effects(c.mean, common, own, weighted, inverse, residuals, deviations)


def mixing_weight(known: Environments, constants: Constants = CONSTANTS) -> float:
    """Return the weight of the atlas's estimate that has the smallest left-out error.

    Residuals count less the larger they are, so that one environment with wrong labels does not
    decide.
    """
    similarity = _kernel(known.distances, constants)[:-1, :-1]
    confidence, atlas = (
        fit(known.truth - column, known.variance, similarity, constants).residuals
        for column in known.estimates.T
    )
    difference = atlas - confidence
    usual = confidence + constants.atlas_weight * difference
    smallest = np.minimum(np.abs(confidence), np.abs(atlas))
    counted = 1.0 / (1.0 + np.minimum(np.abs(usual), smallest) ** 2 / constants.spread**2)
    above = constants.ridge * constants.atlas_weight - (counted * confidence * difference).sum()
    below = constants.ridge + (counted * difference**2).sum()
    return float(np.clip(above / below, 0.0, 1.0))


@dataclass(frozen=True)
class Expected:
    """The log-odds of the accuracy in a new environment: median, 90 % interval, atlas's weight.

    ``exchangeable`` says that the interval is the conformal one, ``outlier`` which environment, if
    any, does not go with the others.
    """

    centre: float
    low: float
    high: float
    atlas_weight: float
    exchangeable: bool
    outlier: int | None = None

    @property
    def deviation(self) -> float:
        """The deviation of a symmetric 90 % interval that holds both ends."""
        return max(self.high - self.centre, self.centre - self.low) / DEVIATIONS


def expect(
    known: Environments,
    estimates: FloatArray,
    num_nodes: int,
    constants: Constants = CONSTANTS,
    sampled: float = 0.0,
) -> Expected:
    """Predict the accuracy on the n nodes of a new environment from its estimates (2,).

    ``sampled`` is the variance of the estimates if they are those of a sample of the nodes.
    """
    share = mixing_weight(known, constants)
    mix = np.array([1.0 - share, share])
    kernel = _kernel(known.distances, constants)
    effects = fit(known.truth - known.estimates @ mix, known.variance, kernel[:-1, :-1], constants)
    gap, deviation = effects.next_gap(kernel[-1, :-1], 0.0)
    centre = float(estimates @ mix) + gap
    variance = float(log_odds_variance(to_share(centre), num_nodes)) + sampled
    deviation = float(np.hypot(deviation, np.sqrt(variance)))
    low, high = centre - DEVIATIONS * deviation, centre + DEVIATIONS * deviation
    exchangeable = not known.ordered and known.truth.size >= FEWEST_EXCHANGEABLE
    if exchangeable:
        reach = np.linspace(-_FARTHEST, _FARTHEST, _CANDIDATES) * deviation
        # Constants that depend on the new environment would treat it in another way than others.
        ends = conformal_interval(known, estimates, num_nodes, centre + reach, sampled=sampled)
        # Nine gaps can lie together by chance, but no accuracy is known better than it is sampled.
        half = DEVIATIONS * float(np.sqrt(variance))
        low, high = min(ends[0], centre - half), max(ends[1], centre + half)
    strange = np.abs(effects.residuals / effects.deviations)
    worst = int(strange.argmax())
    named = strange.size >= _FEWEST_TO_COMPARE and strange[worst] > _STRANGE
    return Expected(centre, low, high, share, exchangeable, worst if named else None)


def conformal_interval(
    known: Environments,
    estimates: FloatArray,
    num_nodes: int,
    candidates: FloatArray,
    constants: Constants = CONSTANTS,
    level: float = _LEVEL,
    sampled: float = 0.0,
) -> tuple[float, float]:
    """Return the full conformal interval: accuracies whose residual is not extreme.

    Each candidate is taken for the truth in turn: the new environment joins the known ones, all of
    them are explained by the others, and the candidate is kept unless the new one is farther off
    than all but a share ``1 - level``. No step treats the new environment in another way than the
    known ones, so the interval holds the truth of an exchangeable environment with at least the
    stated probability (full conformal prediction; Vovk, Gammerman and Shafer, 2005). Its ends are
    those of the candidates if these are all kept.
    """
    size = known.truth.size + 1
    kept = []
    for candidate in candidates:
        together = Environments(
            truth=np.append(known.truth, candidate),
            variance=np.append(
                known.variance, log_odds_variance(to_share(candidate), num_nodes) + sampled
            ),
            estimates=np.vstack([known.estimates, estimates]),
            # Only the part between the environments is read.
            distances=np.pad(known.distances, (0, 1)),
        )
        share = mixing_weight(together, constants)
        gaps = together.truth - together.estimates @ np.array([1.0 - share, share])
        effects = fit(gaps, together.variance, _kernel(known.distances, constants), constants)
        far = np.abs(effects.residuals / effects.deviations)
        as_far = int((far >= far[-1] - 1e-12).sum())
        kept.append(as_far > (1.0 - level) * size + 1e-9)  # 0.1 is not exact
    inside = np.flatnonzero(kept)
    if inside.size == 0:
        return float(candidates[candidates.size // 2]), float(candidates[candidates.size // 2])
    first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, candidates.size - 1)
    return float(candidates[first]), float(candidates[last])


def _kernel(squares: FloatArray, constants: Constants) -> FloatArray:
    return np.asarray(np.exp(-0.5 * squares / constants.reach**2))
