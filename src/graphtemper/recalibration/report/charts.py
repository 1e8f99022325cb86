"""Charts of a report: pure functions from its content to Vega-Lite specifications."""

from __future__ import annotations

import math

from graphtemper.recalibration.report.decided import charts_of
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
    layer,
    line,
    percent,
    sized,
    tip,
)

_MOST_CHANGES = 8
_COLOUR = {"before": BEFORE, "after": AFTER}


def charts(content: Content) -> dict[str, Spec]:
    """Return every chart of a report by the name of its place on the page."""
    specs = {"overview": overview(content)}
    specs |= {f"histogram-{side}": confidence_histogram(content, side) for side in _COLOUR}
    if content["changes"]:
        specs["changes"] = changes(content)
    if "metrics" in content:
        specs |= charts_of(content["metrics"])
    if content["labels"] is not None:
        specs |= {f"reliability-{side}": reliability(content, side) for side in _COLOUR}
    return specs


def overview(content: Content) -> Spec:
    """Return accuracy with its interval, and mean confidence before and after."""
    accuracy, confidence = content["accuracy"], content["mean_confidence"]
    # Where the accuracy is not known, only its interval is shown.
    value = None if content["verdict"]["word"] == "abstain" else accuracy["value"]
    shown = (
        ("Confidence before", confidence["before"], BEFORE, None, None),
        ("Confidence after", confidence["after"], AFTER, None, None),
        ("Accuracy here", value, TRUTH, accuracy["low"], accuracy["high"]),
        ("Accuracy at the source", content["source"]["accuracy"], MUTED, None, None),
    )
    names = ("what", "value", "colour", "low", "high")
    rows = [dict(zip(names, row, strict=True)) for row in shown]
    low = min(accuracy["low"], confidence["before"], confidence["after"])
    x = percent("value", [max(math.floor(10.0 * low - 0.5) / 10.0, 0.0), 1.0], "")
    axis = {"labelLimit": 200, "ticks": False, "domain": False}
    y: Spec = {"field": "what", "type": "nominal", "title": None, "axis": axis}
    y["sort"] = [row["what"] for row in rows]
    colour = {"field": "colour", "type": "nominal", "scale": None}
    text = {"field": "value", "format": ".1%"}
    tips = [tip("what", "What"), tip("value", "Value", ".1%")]
    ends = {"x": at("low", x), "x2": {"field": "high"}, "y": y}
    points = {"x": x, "y": y, "color": colour, "tooltip": tips}
    layers = [
        band(accuracy, x),
        layer("rule", ends, valid="low", strokeWidth=3, color=TRUTH),
        layer("point", points, filled=True, size=130, opacity=1),
        layer("text", {"x": x, "y": y, "text": text}, dy=-13, align="center"),
    ]
    return sized(132, {"data": {"values": rows}, "layer": layers})


def changes(content: Content) -> Spec:
    """Return the sizes of the largest changes."""
    shown = content["changes"][:_MOST_CHANGES]
    rows = [{"row": k, "name": item["name"], "size": item["size"]} for k, item in enumerate(shown)]
    axis = {"labelExpr": "data('changes')[datum.value].name", "ticks": False, "domain": False}
    y = {"field": "row", "type": "ordinal", "title": None, "axis": axis | {"labelLimit": 200}}
    scale = {"type": "symlog"}
    x = {"field": "size", "type": "quantitative", "title": "size", "scale": scale}
    tips = [tip("name", "What"), tip("size", "Size", ".1f")]
    bars = layer("bar", {"x": x, "y": y, "tooltip": tips}, color=AFTER)
    lines = [line(value, MUTED, [4, 4], x) for value in (1.0, 10.0)]
    data = {"name": "changes", "values": rows}
    return sized(26 * len(rows) + 10, {"data": data, "layer": [bars, *lines]})


def confidence_histogram(content: Content, side: str) -> Spec:
    """Return a histogram of confidence, with its mean and the estimated accuracy."""
    counts, edges = content["histogram"][side], content["histogram"]["edges"]
    both = [*content["histogram"]["before"], *content["histogram"]["after"]]
    accuracy, total = content["accuracy"], max(sum(counts), 1)
    bars = [
        {"low": edges[k], "high": edges[k + 1], "nodes": count, "share": count / total}
        for k, count in enumerate(counts)
    ]
    first = next((k for k in range(len(counts)) if both[k] or both[k + len(counts)]), 0)
    start = min(edges[first], max(edge for edge in edges if edge <= accuracy["value"]))
    x = percent("low", [start, 1.0], "confidence")
    y = percent("share", [0.0, max(both) / total * 1.05], "share of nodes")
    y["axis"] = {**PERCENT, "tickCount": 4}
    tips = [tip("low", "From", ".0%"), tip("high", "To", ".0%")]
    tips += [tip("nodes", "Nodes", ","), tip("share", "Share", ".1%")]
    bar = {"x": x | {"bin": "binned"}, "x2": {"field": "high"}, "y": y, "tooltip": tips}
    layers = [
        band(accuracy, x),
        layer("bar", bar, bars[first:], color=_COLOUR[side], binSpacing=1),
        line(content["mean_confidence"][side], INK, [5, 3], x),
    ]
    if content["verdict"]["word"] != "abstain":
        layers.insert(2, line(accuracy["value"], TRUTH, [1, 0], x))
    return sized(190, {"layer": layers})


def reliability(content: Content, side: str) -> Spec:
    """Return accuracy against confidence on the labelled nodes, with intervals."""
    colour, domain = _COLOUR[side], [0.0, 1.0]
    x = percent("confidence", domain, "confidence")
    y = percent("accuracy", domain, "accuracy of labelled nodes")
    tips = [tip("confidence", "Confidence", ".1%"), tip("accuracy", "Accuracy", ".1%")]
    tips += [tip("low", "At least", ".1%"), tip("high", "At most", ".1%")]
    tips += [tip("nodes", "Labelled nodes", ",")]
    place, size = {"x": x, "y": y}, {"scale": {"range": [40, 200]}, "legend": None}
    bars = {"x": x, "y": at("low", y), "y2": {"field": "high"}}
    points = place | {"size": at("nodes") | size, "tooltip": tips}
    diagonal = [{"confidence": end, "accuracy": end} for end in domain]
    layers = [
        layer("line", place, diagonal, color=MUTED, strokeDash=[4, 4]),
        layer("area", bars, color=colour, opacity=0.18),
        layer("rule", bars, color=colour, strokeWidth=1.5),
        layer("line", place, color=colour, strokeWidth=1.5),
        layer("point", points, filled=True, color=colour, opacity=1),
    ]
    return sized(280, {"data": {"values": content["labels"][side]["curve"]}, "layer": layers})
