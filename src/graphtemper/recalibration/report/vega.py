"""Parts that the charts of a report share: theme, scales, bands, lines and tooltips.

Colours are CSS variables of the page, so one specification serves light, dark and print. No string
from a file is part of an expression; it is data, or the text of a label.
"""

from __future__ import annotations

import json
from typing import Any

from graphtemper.recalibration.report.html import text_of

Spec = dict[str, Any]
Content = dict[str, Any]

INK, MUTED = "var(--ink)", "var(--muted)"
BEFORE, AFTER, TRUTH, BAND = "var(--before)", "var(--after)", "var(--truth)", "var(--band)"
PERCENT: Spec = {"format": ".1~%", "tickCount": 6}
# The page describes each chart in words and has its numbers in a table, hence no ARIA labels.
_CONFIG = json.loads(text_of("graphtemper.recalibration.report", "theme.json"))


def sized(height: int, spec: Spec) -> Spec:
    """Return a chart as wide as its place on the page, in the page's theme."""
    fit = {"type": "fit-x", "contains": "padding"}
    return {"width": "container", "height": height, "autosize": fit, "config": _CONFIG} | spec


def tip(field: str, title: str, form: str | None = None) -> Spec:
    """Return one line of a tooltip: a string, or a number in d3's format.

    Examples
    --------
    >>> tip("value", "Value", ".1%")["format"]
    '.1%'
    """
    if form is None:
        return {"field": field, "type": "nominal", "title": title}
    return {"field": field, "type": "quantitative", "title": title, "format": form}


def percent(field: str, domain: list[float], title: str | None) -> Spec:
    """Return a channel of fractions, shown as percentages on a given domain."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": PERCENT,
        "scale": {"domain": domain, "nice": False},
    }


def at(field: str, like: Spec | None = None) -> Spec:
    """Return a channel of numbers, with the axis and scale of the channel ``like``.

    A layer without a scale would stretch it to its own data, and to zero.
    """
    return (like or {}) | {"field": field, "type": "quantitative"}


def layer(
    kind: str,
    encoding: Spec,
    values: list[dict[str, Any]] | None = None,
    *,
    valid: str = "",
    **style: Any,
) -> Spec:
    """Return one layer of a chart: a mark with its style, and data of its own if it has any.

    Rows without a value in the field ``valid`` are left out.
    """
    spec: Spec = {"mark": {"type": kind} | style, "encoding": encoding}
    if values is not None:
        spec["data"] = {"values": values}
    if valid:
        spec["transform"] = [{"filter": f"isValid(datum.{valid})"}]
    return spec


def band(accuracy: dict[str, Any], x: Spec) -> Spec:
    """Return the interval of the accuracy as a band over the whole height."""
    row = {"low": accuracy["low"], "high": accuracy["high"]}
    tips = [tip("low", "Accuracy at least", ".1%"), tip("high", "at most", ".1%")]
    ends = {"x": at("low", x), "x2": {"field": "high"}, "tooltip": tips}
    return layer("rect", ends, [row], color=BAND, clip=True)


def line(value: float, colour: str, dash: list[int], x: Spec) -> Spec:
    """Return a vertical line."""
    row = {"value": value}
    return layer("rule", {"x": at("value", x)}, [row], color=colour, strokeWidth=2, strokeDash=dash)
