r"""Apply a temperature to logits, match it to an accuracy, and fit it to labels.

A temperature T divides logits, so the probabilities are softmax(z / T). T > 1 lowers confidence.
Everything here works on the gaps :math:`d_{ij} = z_{ij} - \max_k z_{ik} \le 0` and on the inverse
temperature :math:`\beta = 1/T`, because

.. math:: \mathrm{NLL}(\beta) = \frac1n\sum_i \Big[\log\sum_j e^{\beta d_{ij}}
          - \beta d_{i y_i}\Big]

is convex in :math:`\beta`, no exponent is ever positive, and each pass over the logits is a sum
over blocks of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    as_array,
    check_matrix,
    check_number,
    check_pair,
    finite,
    non_negative,
    plain,
    together,
)
from graphtemper._core.numerics import Derivatives, bounded_root
from graphtemper._core.reproducible import map_blocks
from graphtemper.errors import GraphTemperWarning, InputError
from graphtemper.temperature.inverse import (
    LOG_LIMIT,
    RELATIVE_BOUNDS,
    Optimum,
    Status,
    confidence_derivatives,
    find_optimum,
    gaps,
    mean_nll,
    smallest_contribution,
    summarise,
)

# The largest difference between the accuracy and the mean confidence that matches it.
MATCH_TOLERANCE = 1e-12


def apply(logits: ArrayLike, temperature: ArrayLike = 1.0) -> FloatArray:
    r"""Turn logits into probabilities, softmax(z / T): the only softmax of the package.

    .. math:: p_{ij} = \frac{e^{(z_{ij} - \max_k z_{ik}) / T_i}}
              {\sum_l e^{(z_{il} - \max_k z_{ik}) / T_i}}

    Parameters
    ----------
    logits : (n, K) array
        Finite real numbers of any size; K >= 2. A binary score g is the pair [0, g].
    temperature : float or (n,) array
        Positive and finite; one for all nodes or one per node.

    Returns
    -------
    (n, K) float64 array
        Rows sum to 1. The order of the classes in a row is never reversed, so the argmax is
        unchanged; logits that differ by less than rounding at this temperature may tie.

    Examples
    --------
    >>> apply([[0.0, 2.0], [0.0, -2.0]], temperature=2.0).round(4)
    array([[0.2689, 0.7311],
           [0.7311, 0.2689]])
    """

    def normalise(weights: FloatArray) -> None:
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=0)

    return _by_node(logits, temperature, normalise)


def log_probabilities(logits: ArrayLike, temperature: ArrayLike = 1.0) -> FloatArray:
    """Return log softmax(z / T), finite where the probability itself would underflow to 0.

    Parameters
    ----------
    logits : (n, K) array
    temperature : float or (n,) array

    Returns
    -------
    (n, K) float64 array
        ``-inf`` only where (z - max z) / T is below the float64 range.

    Examples
    --------
    >>> log_probabilities([[0.0, 2.0], [0.0, 900.0]]).round(4)
    array([[-2.1269e+00, -1.2690e-01],
           [-9.0000e+02,  0.0000e+00]])
    """

    def normalise(exponents: FloatArray) -> None:
        exponents -= np.log(np.exp(exponents).sum(axis=0))

    return _by_node(logits, temperature, normalise)


def _by_node(
    logits: ArrayLike, temperature: ArrayLike, normalise: Callable[[FloatArray], None]
) -> FloatArray:
    """Return the exponents of every node, after a change of blocks (K, nodes) in place."""
    z = check_matrix(logits, "logits", allow_empty=True)
    scale = _check_temperature(temperature, len(z))
    out = np.empty(z.shape)

    def write(rows: slice) -> None:
        with np.errstate(under="ignore", over="ignore"):
            exponents = _exponents(z, rows, scale)
            normalise(exponents)
        out[rows] = exponents.T

    map_blocks(write, *z.shape)
    return out


def mean_confidence(logits: ArrayLike, temperature: ArrayLike = 1.0) -> float:
    """Return the mean over nodes of the largest probability at T, without storing probabilities.

    Parameters
    ----------
    logits : (n, K) array
    temperature : float or (n,) array

    Returns
    -------
    float
        Between 1/K (T -> infinity) and 1; it falls as T grows.

    Examples
    --------
    >>> round(mean_confidence([[0.0, 2.0], [0.0, -4.0]]), 4)
    0.9314
    """
    z = check_matrix(logits, "logits")
    scale = _check_temperature(temperature, len(z))

    def total(rows: slice) -> float:
        with np.errstate(under="ignore", over="ignore"):
            return float((1.0 / np.exp(_exponents(z, rows, scale)).sum(axis=0)).sum())

    return sum(map_blocks(total, *z.shape)) / len(z)


def match_confidence(logits: ArrayLike, accuracy: float) -> float:
    r"""Return the unique temperature at which the mean confidence equals ``accuracy``.

    Solves :math:`\frac1n\sum_i \max_j \mathrm{softmax}(z_i/T)_j = a`. The left side falls
    strictly from 1 (T -> 0) to 1/K (T -> infinity), unless nodes with tied largest logits keep
    it below 1; so the root is unique when it exists.

    Parameters
    ----------
    logits : (n, K) array
        Finite logits; no labels are needed.
    accuracy : float
        The known or estimated accuracy.

    Returns
    -------
    float
        T, with a residual in mean confidence below 1e-12.

    Raises
    ------
    InputError
        If no T that float64 can hold reaches ``accuracy``; the message gives the reachable range.

    Examples
    --------
    >>> T = match_confidence([[0.0, 2.0], [0.0, -4.0]], 0.8)
    >>> round(mean_confidence([[0.0, 2.0], [0.0, -4.0]], T), 12)
    0.8
    """
    z = check_matrix(logits, "logits")
    target = check_number(accuracy, "accuracy")
    summary = summarise(z, None)
    low, high = 1.0 / z.shape[1], summary.confidence_limit
    if summary.spread == 0.0:
        raise errors.range(
            f"accuracy {target:g} cannot be matched: every node's logits are all equal, "
            f"so the mean confidence is {low:g} at every temperature."
        )
    if not low < target < high:
        raise _out_of_reach(target, low, high)

    def residual(log_beta: float) -> Derivatives:
        confidence, slope, bend = confidence_derivatives(z, exp(log_beta))
        return Derivatives(confidence - target, slope, bend)

    bounds = (-LOG_LIMIT, LOG_LIMIT)
    log_beta, _, _ = bounded_root(residual, -log(summary.spread), bounds, tolerance=1e-15)
    if not abs(residual(log_beta).value) < MATCH_TOLERANCE:
        # Only logits that differ by less than the smallest temperature get here.
        raise _out_of_reach(target, low, residual(LOG_LIMIT).value + target)
    return exp(-log_beta)


def nearest_temperature(logits: FloatArray, accuracy: float) -> tuple[float, str]:
    """Return the temperature that matches the accuracy, or the nearest defined one and why.

    Mean confidence runs from 1/K (T -> infinity) to 1 (T -> 0; less where top logits tie). For an
    accuracy at or beyond an end the answer is a bound (`temperature.RELATIVE_BOUNDS` times the
    largest spread, or the smallest gap) where every node's probabilities are uniform, or one-hot,
    to six digits. Where all logits are equal no T changes anything, and T is 1.

    Examples
    --------
    >>> z = np.array([[0.0, 2.0], [0.0, -4.0]])
    >>> nearest_temperature(z, 0.9)[1]
    ''
    >>> nearest_temperature(z, 0.5)[1]
    'accuracy 0.5 is not above 1/K = 0.5, so T is its upper bound'
    """
    return nearest_defined(
        accuracy,
        logits.shape[1],
        summarise(logits, None),
        smallest=lambda: smallest_contribution(logits),
        match=lambda: match_confidence(logits, accuracy),
    )


class _Ends(Protocol):
    """What logits allow: a typical and the largest spread, and mean confidence as T -> 0."""

    @property
    def spread(self) -> float: ...
    @property
    def largest_spread(self) -> float: ...
    @property
    def confidence_limit(self) -> float: ...


def nearest_defined(
    accuracy: float,
    num_classes: int,
    ends: _Ends,
    *,
    smallest: Callable[[], float],
    match: Callable[[], float],
) -> tuple[float, str]:
    """Decide for `nearest_temperature`, wherever the logits are; see there.

    ``smallest`` and ``match`` read all logits, so they are called only where they are needed.
    """
    chance = 1.0 / num_classes
    if ends.spread == 0.0:
        return 1.0, "every node's logits are all equal, so T = 1"
    if accuracy <= chance:
        upper = RELATIVE_BOUNDS[1] * ends.largest_spread
        return upper, f"accuracy {accuracy:.4g} is not above 1/K = {chance:.4g}, " + (
            "so T is its upper bound"
        )
    if accuracy >= ends.confidence_limit:
        lower = RELATIVE_BOUNDS[0] * smallest()
        return lower, f"no temperature gives a mean confidence of {accuracy:.4g}, " + (
            "so T is its lower bound"
        )
    return match(), ""


def ece_bound(slope: ArrayLike, mean_abs_logit: ArrayLike) -> float | FloatArray:
    """Upper bound of the population ECE (``prop:bound``).

    Formula: |slope - 1| mean_abs_logit / 4, where mean_abs_logit is the mean of |delta| on the
    target. Assumptions: those of `theory.slope`; the sigmoid is 1/4-Lipschitz. Limits: 0 at slope
    1; it can exceed 1 (it does for large logits), where it says nothing. `theory.population_ece` is
    the value it bounds.

    Examples
    --------
    >>> ece_bound(0.5, 2.0)
    0.25
    """
    slope_ = finite("slope", slope)
    size = non_negative("mean_abs_logit", mean_abs_logit)
    together(slope=slope_, mean_abs_logit=size)
    with np.errstate(over="ignore", under="ignore"):  # `plain` turns overflow into an error
        return plain(0.25 * np.abs(slope_ - 1.0) * size)


def _out_of_reach(target: float, low: float, high: float) -> InputError:
    ties = " (nodes with tied largest logits keep it below 1)" if high < 1.0 else ""
    return errors.range(
        f"accuracy {target:g} cannot be matched: with these logits the mean confidence lies "
        f"strictly between {low:g} and {high:g}{ties}; pass an accuracy inside that range."
    )


def _exponents(z: NDArray[Any], rows: slice, temperature: FloatArray) -> FloatArray:
    # Dividing, not multiplying by 1/T: at the smallest temperatures 1/T is inf, and 0 * inf NaN,
    # while a gap of 0 stays 0 and any other ends at e^-inf = 0, the right limit.
    u = gaps(z, rows)
    u /= temperature if temperature.ndim == 0 else temperature[rows]
    return u


def _check_temperature(temperature: ArrayLike, rows: int) -> FloatArray:
    array = as_array(temperature, "temperature")
    if array.dtype.kind not in "fiu":
        raise errors.wrong_type(
            f"temperature must be a real number, but its type is {array.dtype}."
        )
    values = array.astype(np.float64)
    if values.ndim == 0:
        if not (values > 0.0 and np.isfinite(values)):
            raise errors.range(f"temperature must be positive and finite, not {float(values)}.")
        return values
    if values.shape != (rows,):
        raise errors.shape(
            f"temperature must be one number or have shape ({rows},), one per node, "
            f"not {values.shape}."
        )
    bad = ~((values > 0.0) & np.isfinite(values))
    if bad.any():
        node = int(np.argmax(bad))
        raise errors.range(
            f"temperature[{node}] is {values[node]}; it must be positive and finite."
        )
    return values


@dataclass(frozen=True, slots=True)
class TemperatureFit:
    """The NLL-optimal temperature, its status and the likelihood it reaches.

    Attributes
    ----------
    temperature : float
        The fitted T.
    inverse : float
        beta = 1 / T, the slope; libraries differ in which of the two they call "temperature".
    nll_before, nll_after : float
        Mean negative log-likelihood per node at T = 1 and at the fitted T, in nats.
    iterations : int
        Passes over all rows (the warm start on a subsample not counted).
    status : str
        ``"optimal"``: the unique minimiser. ``"at lower bound"``: the likelihood still grows as
        T -> 0 (every label has the largest logit of its node). ``"at upper bound"``: it grows as T
        -> infinity, or up to temperatures beyond the bound where all probabilities are uniform (the
        logits contradict the labels, or are unrelated to them). ``"undetermined"``: every node's
        logits are all equal, so no T changes anything; T is 1.
    """

    temperature: float
    inverse: float
    nll_before: float
    nll_after: float
    iterations: int
    status: Status


def fit(logits: ArrayLike, labels: ArrayLike) -> float:
    """Return the temperature that minimises the negative log-likelihood of the labels.

    The objective is convex in 1/T, so the answer is unique; it is found by a bracketed
    third-order Newton iteration to a relative error far below 1e-6. Scaling the logits by s
    multiplies the answer by s.

    Parameters
    ----------
    logits : (n, K) array
        Finite logits of labelled nodes.
    labels : (n,) integer array
        Classes 0 ... K-1. Unlabelled nodes (-1) are an error: select the labelled nodes first.

    Returns
    -------
    float
        The temperature. When no finite positive optimum exists the answer is still defined, and
        a `GraphTemperWarning` says so: the nearest end of `RELATIVE_BOUNDS` (in units of the
        logits' distances) if every node is correct (T -> 0) or the logits contradict the
        labels (T -> infinity), and 1 if every node's logits are all equal.

    See Also
    --------
    solve : the same answer with its status and the likelihood before and after.

    References
    ----------
    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    Three of four nodes with logit 3 are correct, so the calibrated confidence is 3/4:

    >>> from graphtemper.temperature import apply
    >>> T = fit([[0.0, 3.0]] * 4, [1, 1, 1, 0])
    >>> round(T, 6), round(float(apply([[0.0, 3.0]], T)[0, 1]), 6)
    (2.730718, 0.75)
    """
    z, y = check_pair(logits, labels, "logits")
    optimum = find_optimum(z, y)
    if optimum.status != "optimal":
        warnings.warn(_explain(optimum), GraphTemperWarning, stacklevel=2)
    return optimum.temperature


def solve(logits: ArrayLike, labels: ArrayLike) -> TemperatureFit:
    """Fit the temperature as `fit` does and report its status instead of warning.

    Parameters
    ----------
    logits : (n, K) array
    labels : (n,) integer array

    Returns
    -------
    TemperatureFit

    Examples
    --------
    >>> solve([[0.0, 3.0]] * 4, [1, 1, 1, 0]).status
    'optimal'
    >>> solve([[0.0, 3.0], [1.0, 0.0]], [1, 0]).status
    'at lower bound'
    """
    z, y = check_pair(logits, labels, "logits")
    optimum = find_optimum(z, y)
    before, after = (
        mean_nll(z, optimum.mean_label_gap, beta) for beta in (1.0, 1.0 / optimum.temperature)
    )
    return TemperatureFit(
        temperature=optimum.temperature,
        inverse=1.0 / optimum.temperature,
        nll_before=before,
        nll_after=after,
        iterations=optimum.iterations,
        status=optimum.status,
    )


def _explain(optimum: Optimum) -> str:
    if optimum.status == "undetermined":
        return (
            "Every node's logits are all equal, so no temperature changes the probabilities; "
            "T = 1 is returned."
        )
    if optimum.status == "at lower bound":
        return (
            "The likelihood keeps growing as T -> 0 because (nearly) every node is correct; "
            f"T is set to its lower bound {optimum.temperature:g}: use more labelled nodes."
        )
    return (
        "The likelihood keeps growing as T -> infinity because the logits carry no positive "
        f"evidence for the labels; T is set to its upper bound {optimum.temperature:g}: check "
        "the order of the classes and of the nodes."
    )
