"""Charts of the page of a watch, for Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphtemper.monitor.track_record import Scored
from graphtemper.recalibration.report.vega import (
    AFTER,
    BAND,
    BEFORE,
    INK,
    MUTED,
    PERCENT,
    TRUTH,
    Spec,
    at,
    sized,
    tip,
)

# Axis labels must fit on a phone (width in pixels); tooltips name every point.
_LABEL_WIDTH = 290
_TALL, _LOW = 260, 130  # heights of charts
_LETTER_WIDTH = 7
_MAX_LABELS = 9
# A missing value interrupts the line and does not affect the scale.
GAPS = "break-paths-filter-domains"
_SYMBOLS = {"trust": "circle", "caution": "triangle-up", "abstain": "cross"}


def accuracy_chart(
    rows: list[dict[str, Any]], marks: list[dict[str, Any]], lines: list[dict[str, Any]]
) -> Spec:
    """Return a chart of accuracy, estimated and true, and of mean confidence over the snapshots."""
    y = {"type": "quantitative", "title": None, "axis": PERCENT, "scale": {"zero": False}}
    tips = [
        tip("name", "Snapshot"),
        tip("position", "Number", "d"),
        tip("when", "Date"),
        tip("accuracy", "Accuracy", ".1%"),
        tip("low", "at least", ".1%"),
        tip("high", "at most", ".1%"),
        tip("confidence", "Confidence before", ".1%"),
        tip("verdict", "Verdict"),
        tip("first", "First answer", ".1%"),
        tip("true", "True accuracy", ".1%"),
    ]
    x = _x_channel(rows)
    return sized(
        _TALL,
        {
            "data": {"values": rows},
            "layer": [
                {
                    "mark": {"type": "area", "color": BAND},
                    "encoding": {"x": x, "y": at("low", y), "y2": {"field": "high"}},
                },
                {
                    "mark": {"type": "line", "color": BEFORE, "strokeDash": [5, 3]},
                    "encoding": {"x": x, "y": at("confidence", y)},
                },
                {
                    "data": {"values": lines},
                    "mark": {"type": "rule", "color": INK, "strokeDash": [1, 3]},
                    "encoding": {"y": at("limit", y), "tooltip": [tip("text", "Line")]},
                },
                {
                    "data": {"values": lines},
                    "mark": {"type": "text", "align": "right", "dy": -6, "color": MUTED},
                    "encoding": {
                        "x": {"value": "width"},
                        "y": at("limit", y),
                        "text": {"field": "text", "type": "nominal"},
                    },
                },
                *(_first_answers(x, y) if any(row["first"] is not None for row in rows) else []),
                {
                    "mark": {"type": "line", "color": TRUTH, "strokeWidth": 2, "invalid": GAPS},
                    "encoding": {"x": x, "y": at("accuracy", y)},
                },
                *_points(x, y, tips),
                *(_truths(x, y, tips) if any(row["true"] is not None for row in rows) else []),
                *_rules(marks, x),
                _labels(rows, x, _TALL),
            ],
        },
    )


def _points(x: Spec, y: Spec, tips: list[Spec]) -> list[Spec]:
    """Return the estimates by verdict; abstentions, which have none, stand at the confidence."""
    shape = {
        "field": "verdict",
        "type": "nominal",
        "scale": {"domain": list(_SYMBOLS), "range": list(_SYMBOLS.values())},
        "legend": None,
    }
    known = {"field": "accuracy", "valid": True}
    return [
        {
            "transform": [{"filter": chosen}],
            "mark": {"type": "point", "filled": True, "color": colour, "size": 70},
            "encoding": {"x": x, "y": at(field, y), "shape": shape, "tooltip": tips},
        }
        for field, chosen, colour in (
            ("accuracy", known, TRUTH),
            ("confidence", {"not": known}, BEFORE),
        )
    ]


def _first_answers(x: Spec, y: Spec) -> list[Spec]:
    mark = {"type": "line", "color": MUTED, "strokeWidth": 1, "invalid": GAPS}
    return [{"mark": mark, "encoding": {"x": x, "y": at("first", y)}}]


def _truths(x: Spec, y: Spec, tips: list[Spec]) -> list[Spec]:
    return [
        {
            "transform": [{"filter": {"field": "true", "valid": True}}],
            "mark": {"type": "point", "shape": "diamond", "color": INK, "size": 90},
            "encoding": {"x": x, "y": at("true", y), "tooltip": tips},
        }
    ]


def record_chart(record: Sequence[Scored]) -> Spec:
    """Return a chart of first estimates, with their intervals, against true accuracies."""
    rows: list[dict[str, Any]] = [
        {
            "name": item.first.name,
            "true": item.labelled.accuracy,
            "said": item.first.accuracy if item.first.settled else None,
            "low": item.first.low,
            "high": item.first.high,
            "held": "inside" if item.covered else "outside",
        }
        for item in record
    ]
    ends = [value for row in rows for value in (row["true"], row["low"], row["high"])]
    domain = [min(ends), max(ends)] if min(ends) < max(ends) else [0.0, 1.0]
    scale = {"domain": domain, "nice": True}
    x, y = (
        {"type": "quantitative", "title": title, "axis": PERCENT, "scale": scale}
        for title in ("true accuracy", "estimated at first")
    )
    tips = [
        tip("name", "Snapshot"),
        tip("true", "True accuracy", ".1%"),
        tip("said", "Estimate", ".1%"),
        tip("low", "at least", ".1%"),
        tip("high", "at most", ".1%"),
        tip("held", "The truth is"),
    ]
    diagonal = [{"end": end} for end in domain]
    colour = {
        "field": "held",
        "type": "nominal",
        "scale": {"domain": ["inside", "outside"], "range": [TRUTH, "var(--target)"]},
        "legend": None,
    }
    return sized(
        _TALL,
        {
            "data": {"values": rows},
            "layer": [
                {
                    "data": {"values": diagonal},
                    "mark": {"type": "line", "color": MUTED, "strokeDash": [4, 3]},
                    "encoding": {"x": at("end", x), "y": at("end", y)},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        "x": at("true", x),
                        "y": at("low", y),
                        "y2": {"field": "high"},
                        "color": colour,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "invalid": GAPS},
                    "encoding": {
                        "x": at("true", x),
                        "y": at("said", y),
                        "color": colour,
                        "tooltip": tips,
                    },
                },
            ],
        },
    )


def line_chart(
    rows: list[dict[str, Any]], marks: list[dict[str, Any]], field: str, title: str
) -> Spec:
    """Return a chart of one quantity over the snapshots, with gaps at missing values."""
    x = _x_channel(rows)
    y = {"type": "quantitative", "title": title, "scale": {"zero": False}}
    tips = [
        tip("name", "Snapshot"),
        tip("position", "Number", "d"),
        tip(field, title.capitalize(), ".3f"),
    ]
    return sized(
        _LOW,
        {
            "data": {"values": rows},
            "layer": [
                {
                    "mark": {
                        "type": "line",
                        "color": AFTER,
                        "point": {"size": 25},
                        "invalid": GAPS,
                    },
                    "encoding": {"x": x, "y": at(field, y), "tooltip": tips},
                },
                *_rules(marks, x),
                _labels(rows, x, _LOW),
            ],
        },
    )


def _x_channel(rows: list[dict[str, Any]]) -> Spec:
    """Return the x channel, with ticks at the snapshots that `_labels` names."""
    return {
        "field": "x",
        "type": "quantitative",
        "title": None,
        "axis": {
            "values": [row["x"] for row in _labelled(rows)],
            "labels": False,
            "grid": False,
        },
        "scale": {"nice": False, "zero": False},
    }


def _labels(rows: list[dict[str, Any]], x: Spec, height: int) -> Spec:
    """Return a layer with the names of some snapshots under the axis."""
    labelled = _labelled(rows)
    sides = (
        ["left", *["center"] * (len(labelled) - 2), "right"] if len(labelled) > 1 else ["center"]
    )
    labels = [
        {"x": row["x"], "name": _label(row), "side": side}
        for row, side in zip(labelled, sides, strict=True)
    ]
    mark = {
        "type": "text",
        "align": {"expr": "datum.side"},
        "dy": 14,
        "limit": _LABEL_WIDTH // 2 - 10,
    }
    return {
        "data": {"values": labels},
        "mark": mark,
        "encoding": {"x": x, "y": {"value": height}, "text": {"field": "name", "type": "nominal"}},
    }


def _label(row: dict[str, Any]) -> str:
    return str(row["when"] or row["name"])


def _labelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows nearest to places at equal distances on the axis, the ends among them."""
    longest = max(len(_label(row)) for row in rows)
    count = min(max(_LABEL_WIDTH // (_LETTER_WIDTH * (longest + 2)), 2), _MAX_LABELS)
    places = np.linspace(rows[0]["x"], rows[-1]["x"], count)
    x = np.array([row["x"] for row in rows])
    nearest = {int(np.abs(x - place).argmin()) for place in places[1:-1]}
    return [rows[position] for position in sorted(nearest | {0, len(rows) - 1})]


def _rules(marks: list[dict[str, Any]], x: Spec) -> list[Spec]:
    if not marks:
        return []
    tips = [
        tip("name", "Alarm at"),
        tip("position", "Number", "d"),
        tip("text", "Reason"),
    ]
    mark = {"type": "rule", "color": "var(--target)", "strokeWidth": 2, "strokeDash": [2, 2]}
    return [
        {
            "data": {"values": marks},
            "mark": mark,
            "encoding": {"x": x, "tooltip": tips},
        }
    ]
