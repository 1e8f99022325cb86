"""The temperature that maximises the likelihood of labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from numpy.typing import ArrayLike

from graphtemper._core.arrays import check_pair
from graphtemper.errors import GraphTemperWarning
from graphtemper.temperature.inverse import Optimum, Status, find_optimum, mean_nll


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
