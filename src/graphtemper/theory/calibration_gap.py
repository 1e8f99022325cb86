"""The calibration error of scaled decision values under a mixture of Gaussians, by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from graphtemper.theory.aggregated_law import Mixture

Floats = NDArray[np.float64]

# Gauss-Legendre nodes on (0, 1). Both ends are added with weight zero, so that no change of sign
# between the last node of a panel and the first of the next is overlooked.
_LEGENDRE, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES = np.concatenate([[0.0], 0.5 * (_LEGENDRE + 1.0), [1.0]])
_WEIGHTS = np.concatenate([[0.0], 0.5 * _LEGENDRE_WEIGHTS, [0.0]])
# Width of a panel in units of the narrowest Gaussian, and of the sigmoid where it bends.
_PANEL, _BEND, _BENDS = 4.0, 8.0, 5
# Position of a change of sign, as a fraction of a panel: the error of the integral is its square.
_ROOT = 1e-7


def calibration_gap(law: Mixture, scale: float) -> float:
    """Return E |sigmoid(|scale g|) - Pr(correct | g)| over a law given class +1.

    With f the density, the integrand on t = |g| > 0 is the absolute value of

        D(t) = sigmoid(|scale| t) f(-t) - sigmoid(-|scale| t) f(t)

    (f(t) and f(-t) exchanged for a negative scale). D is smooth on t > 0 and has a kink at 0, so
    panels of Gauss-Legendre nodes start there; panels in which D changes sign are cut at its roots.
    Isolated nodes are calibrated and add nothing.

    Examples
    --------
    >>> from graphtemper.theory.aggregated_law import mixture, read_degrees
    >>> law = mixture(0.6, 1.0, read_degrees("degree", 25.0))
    >>> round(calibration_gap(law, 15.3767), 5)
    0.14412
    """
    if not law.rows:
        return 0.0
    size = abs(scale)

    def gap(points: Floats) -> Floats:
        right, wrong = law.density(points), law.density(-points)
        if scale < 0.0:
            right, wrong = wrong, right
        return expit(size * points) * wrong - expit(-size * points) * right

    edges = _edges(law, size)
    panels, gaps = _integrate(gap, edges)
    signs = np.sign(gaps)
    changes = (signs.max(axis=1) > 0) & (signs.min(axis=1) < 0)
    total = float(np.abs(panels[~changes]).sum())
    for index in np.flatnonzero(changes):
        low, high = edges[index], edges[index + 1]
        points, values = low + (high - low) * _NODES, gaps[index]
        ends = points[:-1], points[1:], values[:-1], values[1:]
        roots = [
            brentq(lambda t: float(gap(np.array([t]))[0]), a, b, xtol=_ROOT * (high - low))
            for a, b, left, right in zip(*ends, strict=True)
            if left * right < 0.0
        ]
        parts, _ = _integrate(gap, np.array([low, *roots, high]))
        total += float(np.abs(parts).sum())
    return total


def _edges(law: Mixture, size: float) -> Floats:
    """Return ends of panels that resolve the Gaussians, and the sigmoid where it bends."""
    reach, width = law.reach, _PANEL / law.finest
    regular = np.linspace(0.0, reach, int(np.ceil(reach / width)) + 1)
    bends = _BEND * np.arange(1.0, _BENDS + 1.0) / size
    return np.union1d(regular, bends[bends < reach])


def _integrate(gap: Callable[[Floats], Floats], edges: Floats) -> tuple[Floats, Floats]:
    """Return the integral over every panel, and the values at its nodes."""
    widths = np.diff(edges)
    points = edges[:-1, np.newaxis] + widths[:, np.newaxis] * _NODES
    values = gap(points.ravel()).reshape(points.shape)
    return widths * (values @ _WEIGHTS), values
