"""The content of a report: everything on the page, as plain values.

`content` is the only function that reads a result; charts and page are made from its return value,
so everything on a page is also in its JSON block.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics as scores
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.version import __version__
from graphtemper.errors import InputError
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.recalibration import words
from graphtemper.recalibration.applied import Applied
from graphtemper.recalibration.decisions import Metrics
from graphtemper.recalibration.diagnosis import diagnosis
from graphtemper.recalibration.report import decided
from graphtemper.recalibration.verdict import LEVEL
from graphtemper.temperature.scaling import nearest_temperature

SCHEMA = "graphtemper.report/3"
Row = dict[str, Any]
Errors = dict[str, FloatArray] | None
"""Each node's probability of a wrong prediction: ``value``, and ``low`` and ``high`` at the ends of
the accuracy interval; None where the accuracy is not known."""
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_BARS = 20
# (fewest labels, bins): a bin with only a few nodes is not informative.
_BINS = ((1000, 15), (100, 10), (0, 5))
_DIGITS = 6
_NAMED_FAMILIES = 5


def content(
    result: Applied,
    name: str | None = None,
    date: str = "",
    metrics: Metrics | None = None,
) -> Row:
    """Return the content of a report about a result, as values that JSON can hold.

    Parameters
    ----------
    result
        From `graphtemper.recalibrate`.
    name
        Name of the target. Default: the name of the graph.
    date
        When the target was observed, as it should be shown.
    metrics
        Metrics of decisions to lead with.

    Returns
    -------
    dict
        Valid under `schema`; numbers have six significant digits.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm, recalibrate
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
    >>> report = content(recalibrate(model, g, card, range(200, 400)), "January")
    >>> report["schema"], report["target"]["name"], sum(report["histogram"]["before"])
    ('graphtemper.report/3', 'January', 200)
    """
    if result.graph is None:
        raise InputError("only a result in memory can be reported; take it from recalibrate.")
    numbers, errors = result.to_dict(), expected_errors(result)
    facts = diagnosis(result, result.reading.card)
    shown = ("accuracy", "mean_confidence", "changes", "signals", "gains", "logit_shift")
    values = {
        "schema": SCHEMA,
        "graphtemper": __version__,
        "target": {
            "name": result.graph.name if name is None else name,
            "date": date,
            "num_nodes": result.num_nodes,
            "num_labels": result.num_labels,
        },
        "source": _source(result),
        "verdict": {
            "word": result.verdict,
            "headline": words.headline(result),
            "sentence": words.confidence_sentence(result),
            "reasons": [item.text[:1].upper() + item.text[1:] for item in result.reasons],
        },
        "temperature": {
            "value": result.temperature,
            "nodes": numbers.get("node_temperatures"),
            "meaning": words.temperature_in_words(result),
        },
        "direction": {
            "word": result.direction,
            "slope": numbers["slope"],
            "theory": facts["theory"],
            "severity_bound": result.severity_bound,
            "severity": words.severity(result.severity_bound),
        },
        "compared": [
            {"name": name, "source": value, "target": facts["target"][name]}
            for name, value in facts["source"].items()
        ],
        "novelty": result.reading.novelty,
        "nearest": numbers["nearest"][:_NAMED_FAMILIES],
        "histogram": histogram(_before(result), result.probabilities.max(axis=1)),
        "decisions": decisions(result, errors),
        "classes": by_class(result, errors),
        "degrees": by_degree(result, result.graph.degrees[result.nodes], errors),
        "labels": labelled(result),
        "next_steps": words.next_steps(result),
        "labels_to_take": words.suggestion(result),
    }
    if metrics is not None:
        values["metrics"] = decided.content_of(metrics, lambda k: class_name(result.class_names, k))
    rounded: Row = _rounded(values | {name: numbers[name] for name in shown})
    return rounded


def _source(result: Applied) -> Row:
    card = result.reading.card
    return {
        "predictor": card.predictor,
        "card": json.loads(card.to_json())["crc32"],
        "environments": [{"name": item.name, "when": item.when} for item in card.environments],
        "num_classes": card.num_classes,
        "num_nodes": card.num_nodes,
        "accuracy": card.reference.accuracy,
        "temperature": card.probe.temperature,
    }


def histogram(before: FloatArray, after: FloatArray) -> Row:
    """Return the numbers of nodes in bins of confidence, before and after.

    Examples
    --------
    >>> bars = histogram(np.array([0.51, 0.52, 0.99]), np.array([0.51, 0.61, 0.71]))
    >>> bars["before"][10], bars["after"][10], len(bars["edges"])
    (2, 1, 21)
    """
    edges = equal_width_edges(_BARS)
    index = [bin_index(np.clip(x, 0.0, 1.0), edges, closed="left") for x in (before, after)]
    counts = (np.bincount(x, minlength=_BARS).tolist() for x in index)
    return {"edges": edges.tolist()} | dict(zip(("before", "after"), counts, strict=True))


def _before(result: Applied) -> FloatArray:
    return np.asarray(result.at(result.source_temperature).max(axis=1))


def expected_errors(result: Applied) -> Errors:
    """Return the expected errors of a result.

    The ends are the temperatures at which mean confidence equals the ends of the accuracy interval.
    """
    if result.verdict == "abstain":
        return None
    # Logits up to a constant per node, with everything that was done to them.
    logits = np.log(np.maximum(result.probabilities, np.finfo(np.float64).tiny))
    ends = {"low": result.accuracy.high, "high": result.accuracy.low}
    at = {name: nearest_temperature(logits, end)[0] for name, end in ends.items()}
    return {"value": 1.0 - result.probabilities.max(axis=1)} | {
        name: 1.0 - temperatures.apply(logits, divisor).max(axis=1) for name, divisor in at.items()
    }


def _mean(errors: Errors, chosen: NDArray[np.bool_]) -> dict[str, float] | None:
    if errors is None or not chosen.any():
        return None
    return {name: float(values[chosen].mean()) for name, values in errors.items()}


def decisions(result: Applied, errors: Errors) -> list[Row] | None:
    """Return how many nodes reach each threshold of confidence, and the error expected of them."""
    if errors is None:
        return None
    confidence, rows = result.probabilities.max(axis=1), []
    for threshold in (0.0, *THRESHOLDS):
        passing = confidence >= threshold
        counted = {"nodes": int(passing.sum()), "share": float(passing.mean())}
        rows.append({"threshold": threshold, **counted, "error": _mean(errors, passing)})
    return rows


def by_class(result: Applied, errors: Errors) -> list[Row]:
    """Return one row per predicted class: its nodes, confidences, expected errors and shares."""
    card, target = result.reading.card, result.class_shares
    source = None if card.class_profile is None else card.class_profile.shares
    rows = _groups(result, result.predictions, card.num_classes, errors)
    for k, row in enumerate(rows):
        row |= {
            "name": class_name(result.class_names, k),
            "share_at_source": None if source is None else float(source[k]),
            "estimated_share": None if target is None else float(target[k]),
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


def by_degree(result: Applied, degrees: NDArray[Any], errors: Errors) -> list[Row]:
    """Return one row per non-empty range of degrees; ranges are powers of two."""
    index = np.frexp(degrees)[1]  # 0 for degree 0, else one more than the binary logarithm
    rows = _groups(result, index, int(index.max(initial=0)) + 1, errors)
    for k, row in enumerate(rows):
        low, high = (0, 0) if k == 0 else (2 ** (k - 1), 2**k - 1)
        row |= {"name": f"{low}" if low == high else f"{low}–{high}", "low": low, "high": high}
    return [row for row in rows if row["nodes"]]


def _groups(result: Applied, index: NDArray[Any], size: int, errors: Errors) -> list[Row]:
    count = np.bincount(index, minlength=size)
    after, temperature = result.probabilities.max(axis=1), result.node_temperatures
    if temperature is None:
        temperature = np.full(after.shape, result.temperature)
    sides = {"before": _before(result), "after": after, "temperature": temperature}
    means = {
        name: weighted_count(index, values, size) / np.maximum(count, 1)
        for name, values in sides.items()
    }
    rows: list[Row] = []
    for k in range(size):
        used = np.flatnonzero(index[result.labels.rows] == k)
        rows.append(
            {"nodes": int(count[k])}
            | {name: float(value[k]) if count[k] else None for name, value in means.items()}
            | {"error": _mean(errors, index == k)}
            | {"labels": int(used.size), "right": _right(result, used) if used.size else None}
        )
    return rows


def _right(result: Applied, used: NDArray[np.intp]) -> Row:
    """Return the accuracy on some of the labelled nodes, with an exact binomial interval."""
    p, classes = result.probabilities[result.labels.rows[used]], result.labels.classes[used]
    row = _curve(p, classes, bins=1)[0]
    return {"value": row["accuracy"], "low": row["low"], "high": row["high"]}


def _curve(p: FloatArray, classes: NDArray[np.int64], bins: int) -> list[Row]:
    curve = scores.reliability_curve(p, classes, bins, level=LEVEL)
    columns = {name: getattr(curve, name) for name in ("confidence", "accuracy", "low", "high")}
    columns["nodes"] = curve.count
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(values.tolist() for values in columns.values()), strict=True)
    ]


def labelled(result: Applied) -> Row | None:
    """Return accuracy and calibration on the labelled nodes, or None without labels.

    Every labelled node counts once, whatever its weight. The floor is the ECE that a perfectly
    calibrated model would show on this number of nodes.
    """
    rows, classes = result.labels.rows, result.labels.classes
    if not rows.size:
        return None
    bins = next(bins for least, bins in _BINS if rows.size >= least)
    panel: Row = {"count": int(rows.size), "bins": bins, "level": LEVEL}
    panel["accuracy"] = _right(result, np.arange(rows.size))
    sides = {"before": result.at(result.source_temperature)[rows]}
    sides["after"] = result.probabilities[rows]
    for side, p in sides.items():
        ece, floor = scores.ece(p, classes, bins), scores.noise_floor(p, bins)
        panel[side] = {"ece": ece, "floor": floor, "curve": _curve(p, classes, bins)}
    return panel


def _rounded(value: Any) -> Any:
    """Round every number; values that are not finite become null, which JSON can hold."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
