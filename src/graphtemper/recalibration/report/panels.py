"""Numbers behind the panels of a report: histograms, groups of nodes, and what labels say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics
from graphtemper._core.arrays import FloatArray
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.recalibration.findings import Background, Findings
from graphtemper.recalibration.verdict import LEVEL

_BARS = 20
# Fewest labels for so many bins: a bin with a handful of nodes says nothing.
_BINS = ((1000, 15), (100, 10), (0, 5))


def histogram(before: FloatArray, after: FloatArray) -> dict[str, Any]:
    """Return how many nodes have each confidence, before and after.

    Examples
    --------
    >>> found = histogram(np.array([0.51, 0.52, 0.99]), np.array([0.51, 0.61, 0.71]))
    >>> found["before"][10], found["after"][10], len(found["edges"])
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


def by_class(result: Findings, background: Background) -> list[dict[str, Any]]:
    """Return one row a predicted class: how many nodes, how confident, and its shares."""
    card = background.card
    size = card.num_classes
    rows = _groups(result, background, background.predictions, size)
    at_source = None if card.class_profile is None else card.class_profile.shares
    now = result.class_shares
    for k, row in enumerate(rows):
        row |= {
            "name": class_name(background.class_names, k),
            "share_at_source": None if at_source is None else float(at_source[k]),
            "estimated_share": None if now is None else float(now[k]),
            "accuracy_at_source": float(card.population.recalls[k]),
        }
    return rows


def class_name(names: tuple[str, ...], k: int) -> str:
    """Return what a class is called.

    Examples
    --------
    >>> class_name(("cat", "1"), 0), class_name(("cat", "1"), 1), class_name((), 3)
    ('cat', 'class 1', 'class 3')
    """
    name = names[k] if k < len(names) else ""
    return f"class {name or k}" if not name or name.isdecimal() else name


def by_degree(result: Findings, background: Background) -> list[dict[str, Any]]:
    """Return one row a range of degrees, by powers of two, without the empty ones."""
    index = degree_group(background.degrees)
    rows = _groups(result, background, index, int(index.max(initial=0)) + 1)
    for k, row in enumerate(rows):
        low, high = (0, 0) if k == 0 else (2 ** (k - 1), 2**k - 1)
        row |= {"name": f"{low}" if low == high else f"{low}–{high}", "low": low, "high": high}
    return [row for row in rows if row["nodes"]]


def degree_group(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 for no neighbour, else one more than the whole part of the binary logarithm.

    Examples
    --------
    >>> degree_group(np.array([0, 1, 2, 3, 4, 7, 8])).tolist()
    [0, 1, 2, 2, 3, 3, 4]
    """
    return np.asarray(np.frexp(degrees)[1], dtype=np.int64)


def _groups(
    result: Findings, background: Background, index: NDArray[Any], size: int
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
            | {"labels": int(used.size), "right": None}
        )
        if used.size:
            rows[-1]["right"] = _right(result, background, used)
    return rows


def _right(result: Findings, background: Background, used: NDArray[np.intp]) -> dict[str, float]:
    """Return the accuracy on some of the labelled nodes, with an exact binomial interval."""
    given = background.labels
    curve = metrics.reliability_curve(
        result.probabilities[given.rows[used]], given.classes[used], bins=1, level=LEVEL
    )
    return {
        "value": float(curve.accuracy[0]),
        "low": float(curve.low[0]),
        "high": float(curve.high[0]),
    }


def labelled(result: Findings, background: Background) -> dict[str, Any] | None:
    """Return what the labels that were given say about calibration; None without labels.

    Every labelled node counts once, whatever its weight. The floor is the ECE that honest
    confidences would show on so few nodes.
    """
    given = background.labels
    count = int(given.rows.size)
    if not count:
        return None
    bins = next(bins for least, bins in _BINS if count >= least)
    found: dict[str, Any] = {"count": count, "bins": bins, "level": LEVEL}
    every = np.arange(count)
    found["accuracy"] = _right(result, background, every)
    sides = {"before": background.labelled, "after": result.probabilities[given.rows]}
    for side, p in sides.items():
        curve = metrics.reliability_curve(p, given.classes, bins, level=LEVEL)
        found[side] = {
            "ece": metrics.ece(p, given.classes, bins),
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
    return found
