"""A check of accuracy estimators, as scikit-learn's ``check_estimator`` is one of estimators."""

from __future__ import annotations

import copy
import json

import numpy as np

from graphtemper._core.estimate import Estimate
from graphtemper.errors import InputError
from graphtemper.estimators.base import Estimator
from graphtemper.models import SIGN
from graphtemper.shifts import rewire
from graphtemper.signals.observation import Observation
from graphtemper.theory import csbm


def check(estimator: Estimator) -> None:
    """Raise an error that says what an estimator does wrong; return None if it keeps the protocol.

    It is fitted to a model on a drawn block model, and estimates the accuracy there and after a
    shift. Tried are: an object that has to be fitted refuses to estimate before; ``fit``
    returns the object, and the same observation gives the same estimate, in [0, 1] with an interval
    around it and the name of the method; what it carries are a few finite numbers that JSON can
    hold. The object itself is not fitted.

    Examples
    --------
    >>> from graphtemper import estimators
    >>> estimators.check(estimators.ATC())
    >>> class Even(estimators.AverageConfidence):
    ...     def estimate(self, target):
    ...         return estimators.Estimate(1.5, 0.0, 1.0, "even")
    >>> estimators.check(Even())
    Traceback (most recent call last):
    graphtemper.errors.InputError: Even() estimates 1.5 in [0, 1], which is no accuracy in its ...
    """
    drawn = csbm.sample(
        900, degree=10, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1
    )
    model, nodes = SIGN(hops=1).fit(drawn, range(300)), range(300, 900)
    labels = np.array(drawn.labels)[300:]
    shifted = rewire(0.5)(drawn, 2)
    given = copy.deepcopy(estimator)
    if given.fit(Observation(model, drawn, nodes), labels) is not given:
        raise _wrong(estimator, "does not return itself from fit")
    try:
        carried = json.loads(json.dumps(given.carries, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise _wrong(estimator, "carries something else than finite numbers") from error
    if carried:
        _check_unfitted(copy.deepcopy(estimator), Observation(model, drawn, nodes))
    for target in (drawn, shifted):
        found = given.estimate(Observation(model, target, nodes))
        _check_estimate(estimator, found)
        if found != given.estimate(Observation(model, target, nodes)):
            raise _wrong(estimator, "answers differently when it is asked again")


def _check_unfitted(estimator: Estimator, observation: Observation) -> None:
    try:
        _ = estimator.carries
        return  # it needs no fit
    except (InputError, AttributeError):
        pass
    try:
        estimator.estimate(observation)
    except (InputError, AttributeError):
        return
    raise _wrong(estimator, "gives an estimate before it is fitted")


def _check_estimate(estimator: Estimator, found: Estimate) -> None:
    if not isinstance(found, Estimate) or not found.method:
        raise _wrong(estimator, "does not return an Estimate with the name of its method")
    if not 0.0 <= found.low <= found.value <= found.high <= 1.0 or found.low == found.high:
        span = f"[{found.low:g}, {found.high:g}]"
        raise _wrong(
            estimator, f"estimates {found.value:g} in {span}, which is no accuracy in its interval"
        )


def _wrong(estimator: Estimator, what: str) -> InputError:
    return InputError(f"{estimator!r:.80} {what}.")
