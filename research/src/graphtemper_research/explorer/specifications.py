"""Charts of the explorer: Vega-Lite specifications with named, empty data that the page fills.

Hue tells the operator and the quantity, dashes tell finite degree from the large-degree limit.
"""

from __future__ import annotations

from typing import Any

from graphtemper.recalibration.report.vega import (
    BAND,
    BEFORE,
    INK,
    MUTED,
    TRUTH,
    Spec,
    at,
    sized,
    tip,
)

SELF_LOOP = "var(--target)"
LARGEST_LOGIT = 6.0
_DASH = [5, 4]
_H = ("h", "target homophily")


def charts() -> dict[str, Spec]:
    """Return every chart by the name of its place on the page.

    Examples
    --------
    >>> sorted(charts())
    ['curve', 'errors', 'signal', 'slopes']
    """
    return {"curve": _curve(), "slopes": _slopes(), "errors": _errors(), "signal": _signal()}


def _curve() -> Spec:
    """Confidence and accuracy against logit magnitude, the paper's first figure."""
    x = _axis("t", "logit magnitude t", [0.0, LARGEST_LOGIT])
    y = _axis("confidence", "probability") | {"scale": _between("low", 1.0)}
    gap = {
        "data": {"name": "curve"},
        "mark": {"type": "area", "color": BAND, "clip": True},
        "encoding": {"x": x, "y": y, "y2": {"field": "accuracy"}},
    }
    tips = [tip("t", "Logit magnitude", ".2f"), tip("accuracy", "Measured accuracy", ".3f")]
    tips.append(tip("nodes", "Nodes", ","))
    return _chart(
        300,
        [{"name": "low", "value": 0.4}],
        gap,
        _line("curve", "t", "confidence", BEFORE),
        _line("curve", "t", "accuracy", TRUTH),
        _line("finite", "t", "accuracy", TRUTH, _DASH),
        *_measured("points", "t", "accuracy", tips),
    )


def _slopes() -> Spec:
    """Slope against target homophily, both operators, with and without the limit."""
    y = _axis("mean", "slope κ") | {"scale": _between("low", "high")}
    tips = [tip("h", "Target homophily", ".3f"), tip("slope", "Measured slope", ".3f")]
    tips.append(tip("operator", "Aggregation"))
    here = [tip("operator", "Aggregation"), tip("slope", "Slope", ".3f")]
    return _chart(
        260,
        [{"name": "low", "value": -1.0}, {"name": "high", "value": 2.0}],
        _level(1.0),
        _level(0.0),
        *_places(),
        _line("slopes", "h", "mean", TRUTH, axes={"x": _axis(*_H, [0.0, 1.0]), "y": y}),
        _line("slopes", "h", "selfLoop", SELF_LOOP),
        _line("finite", "h", "finiteSlope", TRUTH, _DASH),
        _line("finite", "h", "finiteSlopeSelfLoop", SELF_LOOP, _DASH),
        _dots("crossings", "h", "slope", {"shape": "cross", "size": 70}, None),
        _dots("here", "h", "slope", {"size": 90}, here),
        _dots("measured", "h", "slope", {"filled": False, "size": 80, "strokeWidth": 2}, tips),
    )


def _errors() -> Spec:
    """Exact ECE and its bound against target homophily."""
    y = _axis("ece", "ECE") | {"scale": _between(0.0, "high")}
    tips = [tip("h", "Target homophily", ".3f"), tip("ece", "Measured ECE", ".3f")]
    return _chart(
        220,
        [{"name": "high", "value": 0.5}],
        *_places(),
        _line("errors", "h", "ece", BEFORE, axes={"x": _axis(*_H, [0.0, 1.0]), "y": y}),
        _line("errors", "h", "eceBound", INK, [2, 3]),
        _line("finite", "h", "finiteEce", BEFORE, _DASH),
        _dots("here", "h", "ece", {"size": 90}, [tip("ece", "Exact ECE", ".3f")]),
        _dots("measured", "h", "ece", {"filled": False, "size": 80, "strokeWidth": 2}, tips),
    )


def _signal() -> Spec:
    """Signal coefficient of K classes against homophily."""
    axes = {"x": _axis("h", "homophily", [0.0, 1.0]), "y": _axis("signal", "signal c_K", [-1, 1])}
    tips = [tip("h", "Homophily", ".3f"), tip("signal", "Measured", ".3f")]
    here = [tip("name", "Graph"), tip("signal", "Signal coefficient", ".3f")]
    return _chart(
        220,
        [],
        _level(0.0),
        *_places(),
        _line("signal", "h", "signal", TRUTH, axes=axes),
        _dots("crossings", "h", "signal", {"shape": "cross", "size": 70}, None),
        _dots("here", "h", "signal", {"size": 90}, here),
        _dots("measured", "h", "signal", {"filled": False, "size": 80, "strokeWidth": 2}, tips),
    )


def _chart(height: int, params: list[Spec], *layers: Spec) -> Spec:
    return sized(height, {"params": params, "layer": list(layers)})


def _axis(field: str, title: str, domain: list[float] | None = None) -> Spec:
    scale: Spec = {} if domain is None else {"scale": {"domain": domain, "nice": False}}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {"tickCount": 6},
    } | scale


def _between(low: float | str, high: float | str) -> Spec:
    """Return a scale whose ends are numbers, or parameters that the page sets."""
    ends = [{"expr": end} if isinstance(end, str) else end for end in (low, high)]
    return {"domain": ends, "nice": False, "zero": False}


def _line(
    data: str, x: str, y: str, colour: str, dash: list[int] | None = None, *, axes: Any = None
) -> Spec:
    mark: Spec = {"type": "line", "color": colour, "clip": True, "strokeWidth": 2.5}
    if dash is not None:
        mark |= {"strokeDash": dash, "strokeWidth": 2}
    encoding = axes or {"x": at(x), "y": at(y)}
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def _dots(data: str, x: str, y: str, look: Spec, tips: list[Spec] | None) -> Spec:
    """Return points whose colour is in the data."""
    colour = {"field": "colour", "type": "nominal", "scale": None}
    encoding: Spec = {"x": at(x), "y": at(y), "color": colour}
    if tips is not None:
        encoding["tooltip"] = tips
    mark = {"type": "point", "filled": True, "opacity": 1, "clip": True} | look
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def _measured(data: str, x: str, y: str, tips: list[Spec]) -> list[Spec]:
    bar = {"type": "rule", "color": INK, "strokeWidth": 1.5, "clip": True}
    dot = {"type": "point", "color": INK, "size": 60, "strokeWidth": 2, "clip": True}
    ends = {"x": at(x), "y": at("least"), "y2": {"field": "most"}}
    return [
        {"data": {"name": data}, "mark": bar, "encoding": ends},
        {
            "data": {"name": data},
            "mark": dot,
            "encoding": {"x": at(x), "y": at(y), "tooltip": tips},
        },
    ]


def _level(value: float) -> Spec:
    rule = {"type": "rule", "color": MUTED, "strokeWidth": 1}
    return {"data": {"values": [{"y": value}]}, "mark": rule, "encoding": {"y": at("y")}}


def _places() -> list[Spec]:
    """Return vertical lines at the source and at the target, with their names."""
    rule = {"type": "rule", "color": MUTED, "strokeDash": [3, 3], "strokeWidth": 1.5}
    text = {"type": "text", "color": MUTED, "baseline": "top", "dy": -13, "fontSize": 12}
    text |= {"align": {"expr": "datum.align"}}
    words = {"x": at("h"), "y": {"value": 0}, "text": {"field": "name", "type": "nominal"}}
    return [
        {"data": {"name": "places"}, "mark": rule, "encoding": {"x": at("h")}},
        {"data": {"name": "places"}, "mark": text, "encoding": words},
    ]
