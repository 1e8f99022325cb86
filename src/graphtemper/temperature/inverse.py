r"""The mean NLL and the mean confidence as functions of 1/T: one pass, its derivatives, the root.

With gaps :math:`d_{ij} = z_{ij} - \max_k z_{ik} \le 0` and inverse temperature :math:`\beta = 1/T`
each quantity is a sum over blocks of rows, so a pass costs O(n K) and needs no second copy.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import Derivatives, bounded_root
from graphtemper._core.reproducible import map_blocks

RELATIVE_BOUNDS = (1e-6, 1e6)
"""Smallest and largest temperature returned when no optimum exists, relative to the logits.

A node's spread is its largest minus its mean logit, and one class contributes its distance from
the largest logit, divided by K, to it. The upper end is in units of the largest spread of any node:
there every node's probabilities are uniform to about six digits, and an optimum beyond it is
reported as this bound. The lower end is in units of the smallest positive contribution of any
class of any node: there all probabilities are one-hot in float64 (but for exact ties), so no
optimum lies beyond it. Both follow the logits' scale, and nodes with nearly tied logits
cannot lower the upper end, nor nodes with large logits raise the lower end.
"""

Status = Literal["optimal", "at lower bound", "at upper bound", "undetermined"]

# The root finder stops when its own estimate of the remaining relative error falls below this.
TOLERANCE = 1e-9
# |log(1/T)| of any temperature: T and 1/T stay normal float64 numbers.
LOG_LIMIT = 700.0
# e^x is exactly 0 in float64 below this, so smaller exponents only overflow when multiplied.
EXPONENT_FLOOR = -750.0
# Every 64th, then every 8th row give the start for all rows: most steps cost little.
WARM_START_STRIDES = (64, 8)
MIN_WARM_START_ROWS = 4096
# Mean logit spreads outside this range would put temperatures beyond the float64 range.
SPREAD_RANGE = (1e-280, 1e280)


def gaps(z: NDArray[Any], rows: slice) -> FloatArray:
    # Classes first: reductions over K become long vector operations over nodes, which is
    # several times faster than reducing many short rows.
    block = np.array(z[rows].T, dtype=np.float64, order="C")
    top = block.max(axis=0)
    # Plain floats: NaN fails the comparison, and a spread that overflows is inf, not a warning.
    if not float(top.max()) - float(block.min()) < inf:
        _raise_if_not_finite(block, top, rows)
    block -= top
    return block


def _raise_if_not_finite(block: FloatArray, top: FloatArray, rows: slice) -> None:
    bad = ~np.isfinite(block).all(axis=0)
    if bad.any():
        row = int(np.argmax(bad))
        column = int(np.argmax(~np.isfinite(block[:, row])))
        raise errors.not_finite(
            f"logits[{rows.start + row}, {column}] is {block[column, row]}; "
            "every logit must be finite."
        )
    with np.errstate(over="ignore"):
        wide = np.isinf(block.min(axis=0) - top)
    if wide.any():
        row = rows.start + int(np.argmax(wide))
        raise errors.range(f"logits[{row}] spans more than float64 can hold; rescale the logits.")


class _Summary(NamedTuple):
    spread: float  # typical distance of a node's largest logit from its mean: geometric mean
    largest_spread: float  # the same distance at the node where it is largest
    mean_label_gap: float  # mean of d at the label; 0 if every node is right
    mean_gap: float  # mean of d over nodes and classes
    confidence_limit: float  # mean confidence as T -> 0: 1 / (number of tied top classes)


def summarise(z: NDArray[Any], y: NDArray[np.intp] | None) -> _Summary:
    n, num_classes = z.shape

    def part(rows: slice) -> FloatArray:
        d = gaps(z, rows)
        with np.errstate(over="ignore"):
            spread = -d.sum(axis=0) / num_classes
        positive = spread[spread > 0.0]
        label = 0.0 if y is None else d[y[rows], np.arange(d.shape[1])].sum()
        tied = np.count_nonzero(d == 0.0, axis=0) if y is None else np.ones(1)
        logs = np.log(positive).sum()
        mean, limit = spread.sum() / n, (1 / tied).sum()
        return np.array([logs, len(positive), label / n, mean, limit, spread.max()])

    with np.errstate(over="ignore"):
        table = np.array(map_blocks(part, n, num_classes))
        logs, count, label, mean, limit = table[:, :5].sum(axis=0)
    if count == 0:
        return _Summary(0.0, 0.0, 0.0, 0.0, 1.0 / num_classes)
    if not SPREAD_RANGE[0] < mean < SPREAD_RANGE[1]:
        raise errors.range(
            "logits differ by amounts too small or too large for float64 (outside 1e-280 to "
            "1e280); rescale the logits."
        )
    typical = max(exp(float(logs / count)), SPREAD_RANGE[0])
    largest = float(table[:, 5].max())
    return _Summary(typical, largest, float(label), -float(mean), float(limit) / n)


def smallest_contribution(z: NDArray[Any]) -> float:
    """Smallest positive distance of a logit from the largest of its row, divided by K."""

    def part(rows: slice) -> float:
        d = gaps(z, rows)
        return float(np.max(d, where=d < 0.0, initial=-inf))

    nearest: float = max(map_blocks(part, *z.shape))
    return -nearest / float(z.shape[1])


def exponents(z: NDArray[Any], rows: slice, beta: float) -> FloatArray:
    u = gaps(z, rows)
    u *= beta
    return np.maximum(u, EXPONENT_FLOOR, out=u)


def nll_derivatives(z: NDArray[Any], mean_label_gap: float, beta: float) -> Derivatives:
    # With u = beta d and moments under p: dNLL/dbeta = (E u - u_y) / beta, its derivative is
    # Var u / beta^2, the next is the third cumulant / beta^3. As functions of log(beta), and
    # times beta: value, slope = Var, bend = Var + cumulant. All are free of the logits' unit.

    def part(rows: slice) -> FloatArray:
        u = exponents(z, rows, beta)
        weight = np.exp(u)
        total = weight.sum(axis=0)
        moments = []
        for _ in range(3):
            weight *= u
            moments.append(weight.sum(axis=0) / total)
        first, second, third = moments
        variance = second - first * first
        cumulant = third - first * (second + 2.0 * variance)
        return np.array([first.sum(), variance.sum(), cumulant.sum()])

    with np.errstate(under="ignore", over="ignore"):
        first, variance, cumulant = np.sum(map_blocks(part, *z.shape), axis=0) / len(z)
    return Derivatives(
        float(first) - beta * mean_label_gap, float(variance), float(variance + cumulant)
    )


def confidence_derivatives(z: NDArray[Any], beta: float) -> Derivatives:
    # Confidence c = 1 / S with S = sum e^u. In x = log(beta): dS/dx = sum u e^u =: S1,
    # d2S/dx2 = S1 + sum u^2 e^u.

    def part(rows: slice) -> FloatArray:
        u = exponents(z, rows, beta)
        weight = np.exp(u)
        total = weight.sum(axis=0)
        weight *= u
        first = weight.sum(axis=0) / total
        weight *= u
        second = weight.sum(axis=0) / total
        confidence = 1.0 / total
        bend = confidence * (2.0 * first * first - first - second)
        return np.array([confidence.sum(), -(confidence * first).sum(), bend.sum()])

    with np.errstate(under="ignore", over="ignore"):
        sums = np.sum(map_blocks(part, *z.shape), axis=0) / len(z)
    return Derivatives(*map(float, sums))


def mean_nll(z: NDArray[Any], mean_label_gap: float, beta: float) -> float:
    def part(rows: slice) -> float:
        with np.errstate(under="ignore", over="ignore"):
            return float(np.log(np.exp(gaps(z, rows) * beta).sum(axis=0)).sum())

    return sum(map_blocks(part, *z.shape)) / len(z) - beta * mean_label_gap


# --- solving --------------------------------------------------------------------------------


class Optimum(NamedTuple):
    temperature: float
    status: Status
    iterations: int
    mean_label_gap: float


def find_optimum(z: NDArray[Any], y: NDArray[np.intp]) -> Optimum:
    summary = summarise(z, y)
    label_gap = summary.mean_label_gap
    if summary.spread == 0.0:
        return Optimum(1.0, "undetermined", 0, 0.0)
    high = RELATIVE_BOUNDS[1] * summary.largest_spread
    # Two cases need no iteration. The NLL's slope at beta = 0 is mean gap - label gap: if it is
    # not negative, no positive beta beats beta = 0. If every label has the largest logit, the NLL
    # falls without end as beta grows. Otherwise a finite optimum exists, a zero of the derivative.
    if summary.mean_gap >= label_gap:
        return Optimum(high, "at upper bound", 0, label_gap)
    if label_gap == 0.0:
        low = max(RELATIVE_BOUNDS[0] * smallest_contribution(z), exp(-LOG_LIMIT))
        return Optimum(low, "at lower bound", 0, 0.0)

    bounds = (-log(high), LOG_LIMIT)
    start = _warm_start(z, y, -log(-summary.mean_gap), bounds)
    log_beta, steps, inside = bounded_root(
        lambda x: nll_derivatives(z, label_gap, exp(x)), start, bounds, TOLERANCE
    )
    if inside:
        return Optimum(exp(-log_beta), "optimal", steps, label_gap)
    if log_beta == bounds[0]:
        return Optimum(high, "at upper bound", steps, label_gap)
    return Optimum(exp(-LOG_LIMIT), "at lower bound", steps, label_gap)


def _warm_start(
    z: NDArray[Any], y: NDArray[np.intp], start: float, bounds: tuple[float, float]
) -> float:
    for stride in WARM_START_STRIDES:
        if len(z) < stride * MIN_WARM_START_ROWS:
            continue
        part = z[::stride]
        summary = summarise(part, y[::stride])
        label_gap = summary.mean_label_gap
        if not summary.mean_gap < label_gap < 0.0:
            continue  # a subsample may have no optimum although all rows have one

        def derivatives(
            x: float, part: NDArray[Any] = part, label_gap: float = label_gap
        ) -> Derivatives:
            return nll_derivatives(part, label_gap, exp(x))

        root, _, inside = bounded_root(derivatives, start, bounds, tolerance=1e-5)
        if inside:
            start = root
    return start
