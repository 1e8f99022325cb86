r"""Gains: how much of the source's signal is left in a target, read from its views.

Halves of the columns give a precise gain that is blind to features which belong to another node;
witnesses see those, with more error. So the gain of the halves is lowered where the own view's
gain by witnesses is clearly below its gain by halves,

.. math:: \log g = \log g_{half} + \min(0,\; \log a - \log g_{own\,half} + z\,\mathrm{se}),

which errs on the low side, because mixed neighbours lower the halves' gain as well. Where columns
carry no redundancy the witnesses' model gain is used alone, drawn towards the change in the logits'
spread by its error. All gains here are logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.signals.neighbours import Covariance

# What the source must show for a covariance to be read against it.
_LEAST_STANDARD_ERRORS = 5.0
_LEAST_SHARE_OF_VARIANCE = 1e-6
# Gains outside are not told apart: below, no signal is left; above, the ratio is noise.
_RANGE = (float(np.log(0.03)), float(np.log(2.5)))
_OWN_RANGE = (float(np.log(0.03)), float(np.log(4.0)))
_HOMOPHILY_RANGE = (float(np.log(0.03)), float(np.log(3.0)))
# How far a log gain is expected to move, against which its standard error is weighed.
_EXPECTED_MOVE = 0.5
# Standard errors by which witnesses must contradict the halves before they are believed.
_CONTRADICTION = 0.5
_LARGEST_ERROR = 50.0
_WITNESSES = ("edge", "wedge", "held")
_LEAST_RATIO = 1e-4


class _Seen(Protocol):
    """The covariances that gains are read from, as in `graphtemper.signals.evidence.Evidence`."""

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
    """Log gains of a target against the source; None where the source does not allow a reading.

    Attributes
    ----------
    signal
        Of the whole model: what the deformation uses.
    halves, model, own
        By halves of the columns, by witnesses of the model, by witnesses of the own view.
    homophily
        Of the label correlation between neighbours, drawn to zero by its error.
    spread
        Of the logits' standard deviation; signal and noise together.
    """

    signal: float | None
    halves: float | None
    model: float | None
    own: float | None
    homophily: float
    spread: float

    @property
    def has_neighbour_gains(self) -> bool:
        """Whether neighbours could be read as witnesses at the source."""
        return self.model is not None

    def to_dict(self) -> dict[str, float]:
        """Return the gains themselves, as factors, without those that could not be read."""
        return {
            name: float(np.exp(value))
            for name, value in self.__dict__.items()
            if value is not None and (name != "homophily" or self.has_neighbour_gains)
        }


def read_gains(target: _Seen, source: _Seen) -> Gains:
    """Return the gains of a target against its source; both must have been seen with a model."""
    spread = _spread(target, source)
    halves = _halves(target, source)
    if not _shows(source, *_WITNESSES) or not _any(target, *_WITNESSES):
        return Gains(
            signal=halves, halves=halves, model=None, own=None, homophily=0.0, spread=spread
        )
    edge, wedge, held = (_log_ratio(target, source, name) for name in _WITNESSES)
    own = float(np.clip(edge.value - 0.5 * wedge.value, *_OWN_RANGE))
    own_error = float(np.hypot(edge.error, 0.5 * wedge.error))
    model = float(np.clip(held.value - 0.5 * wedge.value, *_RANGE))
    model_error = float(np.hypot(held.error, 0.5 * wedge.error))
    if halves is None:
        signal = _drawn(model, model_error, spread)
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


def _homophily(target: _Seen, source: _Seen, edge: Covariance, wedge: Covariance) -> float:
    """Return the gain of the label correlation; edges that turned unlike have the least."""
    now, then = _found(target, "edge"), _found(source, "edge")
    if now.value * then.value < 0.0 and abs(now.value) > 2.0 * now.error:
        return _HOMOPHILY_RANGE[0]
    gain = float(np.clip(wedge.value - edge.value, *_HOMOPHILY_RANGE))
    return _drawn(gain, float(np.hypot(edge.error, wedge.error)), 0.0)


def _halves(target: _Seen, source: _Seen) -> float | None:
    """Return the gain by halves, or None where the columns share nothing without neighbours."""
    if not _shows(source, "feature", "own_feature"):
        return None
    return float(np.clip(0.5 * _log_ratio(target, source, "feature").value, *_RANGE))


def _drawn(value: float, error: float, to: float) -> float:
    """Draw a log gain towards what is expected without it, by its error."""
    weight = _EXPECTED_MOVE**2 / (_EXPECTED_MOVE**2 + error**2)
    return float(to + (value - to) * weight)


def _spread(target: _Seen, source: _Seen) -> float:
    now, then = (float(np.trace(item.covariance)) for item in (target, source))
    return 0.5 * float(np.log(max(now / then, _LEAST_RATIO))) if then > 0.0 else 0.0


def _shows(source: _Seen, *names: str) -> bool:
    """Whether the source's covariances are clearly not zero, beyond chance and rounding."""
    least = _LEAST_SHARE_OF_VARIANCE * float(np.trace(source.covariance))
    for name in names:
        found: Covariance | None = getattr(source, name)
        if found is None or abs(found.value) <= max(_LEAST_STANDARD_ERRORS * found.error, least):
            return False
        # Edges may join unlike nodes, but two views of one node that disagree show no signal.
        if name not in ("edge", "held") and found.value < 0.0:
            return False
    return True


def _any(target: _Seen, *names: str) -> bool:
    """Whether there was anything to see: a graph without edges or wedges has no error either."""
    return all(_found(target, name).error > 0.0 for name in names)


def _found(seen: _Seen, name: str) -> Covariance:
    found: Covariance | None = getattr(seen, name)
    return Covariance(0.0, 0.0) if found is None else found


def _log_ratio(target: _Seen, source: _Seen, name: str) -> Covariance:
    """Return the logarithm of target over source with its error.

    What is smaller than its own standard error, or of the other sign, counts as one error.
    """
    now, then = _found(target, name), _found(source, name)
    size = abs(then.value)
    ratio = max(now.value / then.value, now.error / size, _LEAST_RATIO)
    error = float(np.hypot(now.error / size / ratio, then.error / size))
    return Covariance(float(np.log(ratio)), min(error, _LARGEST_ERROR))
