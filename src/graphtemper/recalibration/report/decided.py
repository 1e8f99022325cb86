"""Metrics of decisions on a report: their content, and the charts of thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphtemper.metrics.classification import NAMES
from graphtemper.recalibration.decisions.metrics import Metrics, title
from graphtemper.recalibration.report.vega import AFTER, BAND, Spec, layer, percent, sized, tip

THRESHOLDS = np.linspace(0.02, 0.98, 49)
_IN_SEGMENTS = ("precision", "recall", "f1")


def content_of(metrics: Metrics, class_name: Callable[[int], str]) -> dict[str, Any]:
    """Return the metrics as values that JSON can hold."""
    plain = metrics.to_dict()
    found = [(name, plain[name]) for name in NAMES if plain[name] is not None]
    return {
        "rows": [
            {"name": title(name, metrics.k), "source": metrics.source.get(name)} | value
            for name, value in found
        ],
        "classes": [class_name(k) for k in range(len(metrics.confusion.value))],
        "confusion": plain["confusion"],
        "curve": [] if metrics.ranked is None else _curve(metrics),
        "segments": [
            {"name": name, "nodes": one["num_nodes"]} | {key: one[key] for key in _IN_SEGMENTS}
            for name, one in plain["segments"].items()
        ],
        "positive": None if metrics.positive is None else class_name(metrics.positive),
        "threshold": metrics.threshold,
        "notes": [f"{title(name)} is undefined: {why}." for name, why in metrics.undefined.items()]
        + metrics.notes,
    }


def _curve(metrics: Metrics) -> list[dict[str, float | None]]:
    """Return precision, recall and cost at thresholds at which nodes are flagged."""
    curve = metrics.at(THRESHOLDS)
    columns = {"precision": curve.precision, "recall": curve.recall, "cost": curve.cost}
    rows: list[dict[str, float | None]] = []
    for t in np.flatnonzero(curve.flagged > 0):
        row: dict[str, float | None] = {"threshold": float(curve.thresholds[t])}
        row["flagged"] = round(float(curve.flagged[t]))
        for name, band in columns.items():
            for end, key in enumerate((name, f"{name}_low", f"{name}_high")):
                row[key] = None if band is None else float(band[t, end])
        rows.append(row)
    return rows


def charts_of(content: dict[str, Any]) -> dict[str, Spec]:
    """Return precision against recall, and cost against the threshold, each with a band."""
    rows = content["curve"]
    if not rows:
        return {}
    unit = [0.0, 1.0]
    recall, precision = percent("recall", unit, "recall"), percent("precision", unit, "precision")
    specs = {"precision-recall": _banded(rows, recall, precision, "precision", ".1%")}
    if rows[0]["cost"] is not None:
        cost: Spec = {"field": "cost", "type": "quantitative", "title": "expected cost"}
        specs["cost"] = _banded(rows, percent("threshold", unit, "threshold"), cost, "cost", ",.0f")
    return specs


def _banded(rows: list[dict[str, Any]], x: Spec, y: Spec, name: str, form: str) -> Spec:
    tips = [tip("threshold", "Threshold", ".2f"), tip("flagged", "Flagged nodes", ",")]
    tips += [tip("recall", "Recall", ".1%"), tip(name, name.capitalize(), form)]
    ends = {"x": x, "y": y | {"field": f"{name}_low"}, "y2": {"field": f"{name}_high"}}
    order = {"field": "threshold", "type": "quantitative"}
    layers = [
        layer("area", ends, color=BAND, clip=True),
        layer("line", {"x": x, "y": y, "order": order}, color=AFTER, clip=True),
        layer("point", {"x": x, "y": y, "tooltip": tips}, color=AFTER, size=25, filled=True),
    ]
    return sized(240, {"data": {"values": rows}, "layer": layers})
