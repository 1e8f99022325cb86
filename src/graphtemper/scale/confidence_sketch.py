r"""The confidence sketch: a mergeable summary of mean confidence as a function of T.

Mean confidence :math:`m(x) = \frac1n \sum_i 1 / S_i`, with
:math:`S_i = \sum_j e^{-a_{ij} e^{-x}}`, :math:`x = \log T` and gaps :math:`a_{ij} \ge 0` to the top
logit, is analytic in a strip around the real axis. Let :math:`|\mathrm{Im}\,x| \le \theta` with

.. math:: \tan\theta = \frac{\pi}{2 \log(2(K-1))} .

A term with phase up to :math:`\pi/2` has a real part of at least 0. One beyond it has
:math:`a\,|\mathrm{Im}\,e^{-x}| > \pi/2`, hence a modulus below
:math:`e^{-\pi / (2\tan\theta)} = 1 / (2(K-1))`, and there are at most K - 1 of those, next to
the top logit's 1. So :math:`\mathrm{Re}\,S_i \ge 1/2` and :math:`|m| \le 2`. A polynomial of
degree n through Chebyshev points of an interval of half-length l then misses m by at most

.. math:: \varepsilon = \frac{4 \cdot 2\, \rho^{-n}}{\rho - 1}, \qquad
          \tfrac12 (\rho - \rho^{-1})\, l = \theta

(Trefethen, *Approximation Theory and Approximation Practice*, Theorem 8.2). The sketch is the sum
of confidences at those points: a few dozen numbers, which add up over files. The degree is the
smallest one with :math:`\varepsilon \le 10^{-9}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import atan, exp, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.optimize import brentq

from graphtemper._core.checks import FloatArray
from graphtemper._core.lazy import cached_property
from graphtemper._core.reproducible import map_blocks
from graphtemper.temperature.inverse import gaps

REACH = 2.0
"""Temperatures are covered from e^-REACH to e^REACH times the source's: 0.14 to 7.4."""
ERROR = 1e-9
"""Largest error of mean confidence, by the bound above."""


@cache
def degree(num_classes: int) -> int:
    """Return the smallest polynomial degree that keeps the error below `ERROR`.

    Examples
    --------
    >>> degree(2), degree(10), degree(40)
    (43, 98, 143)
    """
    half = atan(pi / (2.0 * log(2.0 * max(num_classes - 1, 1)))) / REACH
    rho = half + sqrt(1.0 + half * half)
    return int(np.ceil(log(8.0 / ((rho - 1.0) * ERROR)) / log(rho)))


@dataclass(frozen=True)
class ConfidenceSketch:
    """Sums of confidences at Chebyshev points of log T; sketches of parts add up.

    Examples
    --------
    >>> from graphtemper import temperature
    >>> z = np.random.default_rng(0).standard_normal((4000, 5)) * 3
    >>> sketch = ConfidenceSketch.of(z[:1000]) + ConfidenceSketch.of(z[1000:])
    >>> bool(abs(sketch.match(0.8) / temperature.match_confidence(z, 0.8) - 1) < 1e-6)
    True
    """

    count: int
    sums: FloatArray

    @classmethod
    def of(cls, logits: NDArray[Any]) -> ConfidenceSketch:
        """Return the sketch of logits (n, K), divided by the source temperature."""
        count, classes = logits.shape
        inverse = np.exp(-REACH * chebyshev.chebpts1(degree(classes) + 1))

        def part(rows: slice) -> FloatArray:
            d = gaps(logits, rows)
            with np.errstate(under="ignore", over="ignore"):
                return np.array([(1.0 / np.exp(d * beta).sum(axis=0)).sum() for beta in inverse])

        return cls(count, np.sum(map_blocks(part, count, classes), axis=0))

    def __add__(self, other: ConfidenceSketch) -> ConfidenceSketch:
        return ConfidenceSketch(self.count + other.count, self.sums + other.sums)

    def mean_confidence(self, temperature: float) -> float:
        """Return mean confidence at a temperature within `REACH`, with an error below `ERROR`."""
        return float(chebyshev.chebval(log(temperature) / REACH, self._series))

    @cached_property
    def _series(self) -> FloatArray:
        points = chebyshev.chebpts1(self.sums.size)
        return np.asarray(chebyshev.chebfit(points, self.sums / self.count, points.size - 1))

    def match(self, accuracy: float) -> float | None:
        """Return a temperature at which mean confidence is ``accuracy``, up to `ERROR`.

        None if it is out of reach.
        """

        def residual(x: float) -> float:
            return self.mean_confidence(exp(x)) - accuracy

        if not residual(-REACH) > 0.0 > residual(REACH):
            return None
        return exp(brentq(residual, -REACH, REACH, xtol=1e-14))
