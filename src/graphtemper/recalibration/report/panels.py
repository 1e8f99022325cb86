"""Numbers behind the panels of a report: histograms, groups of nodes, and labelled nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics
from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.recalibration.findings import Background, Findings
from graphtemper.recalibration.verdict import LEVEL
from graphtemper.temperature.scaling import nearest_temperature

_BARS = 20
# (fewest labels, bins): a bin with only a few nodes is not informative.
_BINS = ((1000, 15), (100, 10), (0, 5))


def histogram(before: FloatArray, after: FloatArray) -> dict[str, Any]:
    """Return the numbers of nodes in bins of confidence, before and after.

    Examples
    --------
    >>> bars = histogram(np.array([0.51, 0.52, 0.99]), np.array([0.51, 0.61, 0.71]))
    >>> bars["before"][10], bars["after"][10], len(bars["edges"])
    (2, 1, 21)
    """
    edges = equal_width_edges(_BARS)
    return {
        "edges": edges.tolist(),
        "before": _counts(before, edges),
        "after": _counts(after, edges),
    }


def _counts(confidence: FloatArray, edges: FloatArray) -> list[int]:
    index = bin_index(np.clip(confidence, 0.0, 1.0), edges, closed="left")
    counts: list[int] = np.bincount(index, minlength=_BARS).tolist()
    return counts


THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class ExpectedErrors:
    """Each node's probability of a wrong prediction: as estimated, and at the interval's ends.

    The ends are the temperatures at which mean confidence equals the ends of the accuracy interval.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, result: Findings) -> ExpectedErrors | None:
        """Return the expected errors of a result; None where its accuracy is not known."""
        if result.verdict == "abstain":
            return None
        # Logits up to a constant per node, with everything that was done to them.
        logits = np.log(np.maximum(result.probabilities, np.finfo(np.float64).tiny))
        ends = (result.accuracy.high, result.accuracy.low)
        low, high = (1.0 - _top(logits, nearest_temperature(logits, end)[0]) for end in ends)
        return cls(1.0 - result.probabilities.max(axis=1), low, high)

    def mean(self, chosen: NDArray[np.bool_]) -> dict[str, float] | None:
        """Return the mean error of the chosen nodes with its interval; None without nodes."""
        if not chosen.any():
            return None
        sides = {"value": self.value, "low": self.low, "high": self.high}
        return {name: float(values[chosen].mean()) for name, values in sides.items()}


def _top(logits: FloatArray, temperature: float) -> FloatArray:
    return np.asarray(temperatures.apply(logits, temperature).max(axis=1))


def decisions(result: Findings, errors: ExpectedErrors | None) -> list[dict[str, Any]] | None:
    """Return how many nodes reach each threshold of confidence, and the error expected of them."""
    if errors is None:
        return None
    confidence = result.probabilities.max(axis=1)
    rows = []
    for threshold in (0.0, *THRESHOLDS):
        passing = confidence >= threshold
        counted = {"nodes": int(passing.sum()), "share": float(passing.mean())}
        rows.append({"threshold": threshold, **counted, "error": errors.mean(passing)})
    return rows


def by_class(
    result: Findings, background: Background, errors: ExpectedErrors | None
) -> list[dict[str, Any]]:
    """Return one row per predicted class: its nodes, confidences, expected errors and shares."""
    card = background.card
    size = card.num_classes
    rows = _groups(result, background, background.predictions, size, errors)
    at_source = None if card.class_profile is None else card.class_profile.shares
    at_target = result.class_shares
    for k, row in enumerate(rows):
        row |= {
            "name": class_name(background.class_names, k),
            "share_at_source": None if at_source is None else float(at_source[k]),
            "estimated_share": None if at_target is None else float(at_target[k]),
            "accuracy_at_source": float(card.population.recalls[k]),
        }
    return rows


def class_name(names: tuple[str, ...], k: int) -> str:
    """Return the displayed name of a class.

    Examples
    --------
    >>> class_name(("cat", "1"), 0), class_name(("cat", "1"), 1), class_name((), 3)
    ('cat', 'class 1', 'class 3')
    """
    name = names[k] if k < len(names) else ""
    return f"class {name or k}" if not name or name.isdecimal() else name


def by_degree(
    result: Findings, background: Background, errors: ExpectedErrors | None
) -> list[dict[str, Any]]:
    """Return one row per non-empty range of degrees; ranges are powers of two."""
    index = degree_group(background.degrees)
    rows = _groups(result, background, index, int(index.max(initial=0)) + 1, errors)
    for k, row in enumerate(rows):
        low, high = (0, 0) if k == 0 else (2 ** (k - 1), 2**k - 1)
        row |= {"name": f"{low}" if low == high else f"{low}–{high}", "low": low, "high": high}
    return [row for row in rows if row["nodes"]]


def degree_group(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 for degree 0, and one more than the floor of the binary logarithm otherwise.

    Examples
    --------
    >>> degree_group(np.array([0, 1, 2, 3, 4, 7, 8])).tolist()
    [0, 1, 2, 2, 3, 3, 4]
    """
    return np.asarray(np.frexp(degrees)[1], dtype=np.int64)


def _groups(
    result: Findings,
    background: Background,
    index: NDArray[Any],
    size: int,
    errors: ExpectedErrors | None,
) -> list[dict[str, Any]]:
    count = np.bincount(index, minlength=size)
    after = result.probabilities.max(axis=1)
    temperature = result.node_temperatures
    if temperature is None:
        temperature = np.full(after.shape, result.temperature)
    means = {
        name: weighted_count(index, np.asarray(values), size) / np.maximum(count, 1)
        for name, values in (
            ("before", background.confidence),
            ("after", after),
            ("temperature", temperature),
        )
    }
    labelled = background.labels.rows
    rows: list[dict[str, Any]] = []
    for k in range(size):
        used = np.flatnonzero(index[labelled] == k)
        rows.append(
            {"nodes": int(count[k])}
            | {name: float(value[k]) if count[k] else None for name, value in means.items()}
            | {"error": None if errors is None else errors.mean(index == k)}
            | {"labels": int(used.size), "right": None}
        )
        if used.size:
            rows[-1]["right"] = _right(result, background, used)
    return rows


def _right(result: Findings, background: Background, used: NDArray[np.intp]) -> dict[str, float]:
    """Return the accuracy on some of the labelled nodes, with an exact binomial interval."""
    labels = background.labels
    curve = metrics.reliability_curve(
        result.probabilities[labels.rows[used]], labels.classes[used], bins=1, level=LEVEL
    )
    return {
        "value": float(curve.accuracy[0]),
        "low": float(curve.low[0]),
        "high": float(curve.high[0]),
    }


def labelled(result: Findings, background: Background) -> dict[str, Any] | None:
    """Return accuracy and calibration on the labelled nodes, or None without labels.

    Every labelled node counts once, whatever its weight. The floor is the ECE that a perfectly
    calibrated model would show on this number of nodes.
    """
    labels = background.labels
    count = int(labels.rows.size)
    if not count:
        return None
    bins = next(bins for least, bins in _BINS if count >= least)
    panel: dict[str, Any] = {"count": count, "bins": bins, "level": LEVEL}
    panel["accuracy"] = _right(result, background, np.arange(count))
    sides = {"before": background.labelled, "after": result.probabilities[labels.rows]}
    for side, p in sides.items():
        curve = metrics.reliability_curve(p, labels.classes, bins, level=LEVEL)
        panel[side] = {
            "ece": metrics.ece(p, labels.classes, bins),
            "floor": metrics.noise_floor(p, bins),
            "curve": [
                {
                    "confidence": float(curve.confidence[k]),
                    "accuracy": float(curve.accuracy[k]),
                    "low": float(curve.low[k]),
                    "high": float(curve.high[k]),
                    "nodes": int(curve.count[k]),
                }
                for k in range(len(curve.count))
            ],
        }
    return panel
