"""Charts of a report: pure functions from its content to Vega-Lite specifications."""

from __future__ import annotations

import math
from typing import Any

from graphtemper.recalibration.report.vega import (
    AFTER,
    BEFORE,
    INK,
    MUTED,
    PERCENT,
    TRUTH,
    Content,
    Spec,
    at,
    band,
    line,
    percent,
    sized,
    tip,
)

_MOST_ROWS = 30
# The accuracy of a group with fewer labels than this is in the table only.
_FEWEST_LABELS = 5


def charts(content: Content) -> dict[str, Spec]:
    """Return every chart of a report by the name of its place on the page."""
    specs = {
        "overview": overview(content),
        "histogram-before": confidence_histogram(content, "before"),
        "histogram-after": confidence_histogram(content, "after"),
        "classes": groups(content, "classes"),
        "degrees": groups(content, "degrees"),
    }
    if content["labels"] is not None:
        specs["reliability-before"] = reliability(content, "before")
        specs["reliability-after"] = reliability(content, "after")
    return specs


def overview(content: Content) -> Spec:
    """Return accuracy with its interval, and mean confidence before and after."""
    accuracy, confidence = content["accuracy"], content["mean_confidence"]
    rows = [
        {"what": "Confidence before", "value": confidence["before"], "colour": BEFORE},
        {"what": "Confidence after", "value": confidence["after"], "colour": AFTER},
        {"what": "Accuracy here", "value": accuracy["value"], "colour": TRUTH},
    ]
    if content["verdict"]["word"] == "abstain":
        rows[-1]["value"] = None  # only the interval is shown
    for row in rows:
        row |= {"low": None, "high": None}
    rows[-1] |= {"low": accuracy["low"], "high": accuracy["high"]}
    rows.append(
        {"what": "Accuracy at the source", "value": content["source"]["accuracy"], "colour": MUTED}
    )
    x = percent("value", _domain(content), "")
    y = {
        "field": "what",
        "type": "nominal",
        "sort": [row["what"] for row in rows],
        "title": None,
        "axis": {"labelLimit": 200, "ticks": False, "domain": False},
    }
    colour = {"field": "colour", "type": "nominal", "scale": None}
    tips = [tip("what", "What"), tip("value", "Value", ".1%")]
    return sized(
        132,
        {
            "data": {"values": rows},
            "layer": [
                band(accuracy, x),
                {
                    "transform": [{"filter": "isValid(datum.low)"}],
                    "mark": {"type": "rule", "strokeWidth": 3, "color": TRUTH},
                    "encoding": {"x": at("low", x), "x2": {"field": "high"}, "y": y},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1},
                    "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
                },
                {
                    "mark": {"type": "text", "dy": -13, "align": "center"},
                    "encoding": {"x": x, "y": y, "text": {"field": "value", "format": ".1%"}},
                },
            ],
        },
    )


def confidence_histogram(content: Content, side: str) -> Spec:
    """Return a histogram of confidence, with its mean and the estimated accuracy."""
    counts, edges = content["histogram"][side], content["histogram"]["edges"]
    total, known = max(sum(counts), 1), content["verdict"]["word"] != "abstain"
    both = [*content["histogram"]["before"], *content["histogram"]["after"]]
    bars = [
        {"low": edges[k], "high": edges[k + 1], "nodes": counts[k], "share": counts[k] / total}
        for k in range(len(counts))
    ]
    colour = BEFORE if side == "before" else AFTER
    first = next((k for k in range(len(counts)) if both[k] or both[k + len(counts)]), 0)
    start = min(edges[first], max(edge for edge in edges if edge <= content["accuracy"]["value"]))
    x = percent("low", [start, 1.0], "confidence")
    binned = x | {"bin": "binned"}
    y = {
        "field": "share",
        "type": "quantitative",
        "title": "share of nodes",
        "axis": {**PERCENT, "tickCount": 4},
        "scale": {"domain": [0, max(both) / total * 1.05]},
    }
    tips = [
        tip("low", "From", ".0%"),
        tip("high", "To", ".0%"),
        tip("nodes", "Nodes", ","),
        tip("share", "Share", ".1%"),
    ]
    return sized(
        190,
        {
            "layer": [
                band(content["accuracy"], x),
                {
                    "data": {"values": bars[first:]},
                    "mark": {"type": "bar", "color": colour, "binSpacing": 1},
                    "encoding": {"x": binned, "x2": {"field": "high"}, "y": y, "tooltip": tips},
                },
                *([line(content["accuracy"]["value"], TRUTH, [1, 0], x)] if known else []),
                line(content["mean_confidence"][side], INK, [5, 3], x),
            ]
        },
    )


def groups(content: Content, kind: str) -> Spec:
    """Return confidence before and after by predicted class or degree, and accuracy on labels."""
    filled = [row for row in content[kind] if row["nodes"]]
    if kind == "classes" and len(filled) > _MOST_ROWS:
        filled = sorted(filled, key=lambda row: -row["nodes"])[:_MOST_ROWS]
    # Rows are keyed by number, because two classes may have the same name.
    rows = [
        {key: row[key] for key in ("name", "nodes", "before", "after", "temperature")}
        | {"row": k}
        | _measured(row)
        for k, row in enumerate(filled)
    ]
    names = {"labelExpr": "data('rows')[datum.value].name", "ticks": False, "domain": False}
    title = None if kind == "classes" else "neighbours"
    y = {"field": "row", "type": "ordinal", "title": title, "axis": names}
    x = {"title": "mean confidence", "axis": PERCENT, "scale": {"domain": _group_domain(rows)}}
    tips = [
        tip("name", "Group"),
        tip("nodes", "Nodes", ","),
        tip("before", "Confidence before", ".1%"),
        tip("after", "Confidence after", ".1%"),
        tip("temperature", "Temperature", ".3g"),
        *([tip("right", "Accuracy on labels", ".1%")] if content["labels"] else []),
    ]
    layers = [
        _between("before", "after", {"color": MUTED, "strokeWidth": 2}, x, y),
        _points(
            "before", {"filled": False, "size": 150, "strokeWidth": 2, "color": BEFORE}, x, y, tips
        ),
        _points("after", {"filled": True, "color": AFTER, "opacity": 1}, x, y, tips),
    ]
    if content["labels"] is not None:
        measured = [{"filter": "isValid(datum.right)"}]
        bar = _between("low", "high", {"color": TRUTH, "strokeWidth": 1, "yOffset": 8}, x, y)
        tick = _points("right", {"color": TRUTH, "yOffset": 8, "shape": "diamond"}, x, y, tips)
        tick["mark"] |= {"filled": True, "size": 50, "opacity": 1}
        layers += [bar | {"transform": measured}, tick | {"transform": measured}]
    height = 30 * max(len(rows), 1) + 10
    return sized(height, {"data": {"name": "rows", "values": rows}, "layer": layers})


def reliability(content: Content, side: str) -> Spec:
    """Return accuracy against confidence on the labelled nodes, with intervals."""
    curve = content["labels"][side]["curve"]
    lowest = 0.0
    domain = [lowest, 1.0]
    colour = BEFORE if side == "before" else AFTER
    x = percent("confidence", domain, "confidence")
    y = percent("accuracy", domain, "accuracy of labelled nodes")
    tips = [
        tip("confidence", "Confidence", ".1%"),
        tip("accuracy", "Accuracy", ".1%"),
        tip("low", "At least", ".1%"),
        tip("high", "At most", ".1%"),
        tip("nodes", "Labelled nodes", ","),
    ]
    ends = [{"confidence": lowest, "accuracy": lowest}, {"confidence": 1.0, "accuracy": 1.0}]
    bars = {"x": x, "y": at("low", y), "y2": {"field": "high"}}
    return sized(
        280,
        {
            "data": {"values": curve},
            "layer": [
                {
                    "data": {"values": ends},
                    "mark": {"type": "line", "color": MUTED, "strokeDash": [4, 4]},
                    "encoding": {"x": x, "y": y},
                },
                {
                    "mark": {"type": "area", "color": colour, "opacity": 0.18},
                    "encoding": bars,
                },
                {
                    "mark": {"type": "rule", "color": colour, "strokeWidth": 1.5},
                    "encoding": bars,
                },
                {
                    "mark": {"type": "line", "color": colour, "strokeWidth": 1.5},
                    "encoding": {"x": x, "y": y},
                },
                {
                    "mark": {"type": "point", "filled": True, "color": colour, "opacity": 1},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "size": at("nodes") | {"scale": {"range": [40, 200]}, "legend": None},
                        "tooltip": tips,
                    },
                },
            ],
        },
    )


def _domain(content: Content) -> list[float]:
    """Return the ends of an axis for all values of the overview, with space for labels."""
    accuracy, confidence = content["accuracy"], content["mean_confidence"]
    low = min(accuracy["low"], confidence["before"], confidence["after"])
    return [max(math.floor(10.0 * low - 0.5) / 10.0, 0.0), 1.0]


def _group_domain(rows: list[dict[str, Any]]) -> list[float]:
    values = [
        row[key] for row in rows for key in ("before", "after", "low") if row[key] is not None
    ]
    return [math.floor(10.0 * min(values, default=0.0)) / 10.0, 1.0]


def _measured(row: dict[str, Any]) -> dict[str, float | None]:
    if row["labels"] < _FEWEST_LABELS:
        return {"right": None, "low": None, "high": None}
    right = row["right"]
    return {"right": right["value"], "low": right["low"], "high": right["high"]}


def _between(low: str, high: str, style: Spec, x: Spec, y: Spec) -> Spec:
    return {
        "mark": {"type": "rule"} | style,
        "encoding": {"x": at(low, x), "x2": {"field": high}, "y": y},
    }


def _points(field: str, style: Spec, x: Spec, y: Spec, tips: list[Spec]) -> Spec:
    return {
        "mark": {"type": "point", "size": 90} | style,
        "encoding": {"x": at(field, x), "y": y, "tooltip": tips},
    }
