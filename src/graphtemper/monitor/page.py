"""The page of a watch: charts over time, alarms, and the track record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphtemper.metrics.classification import NAMES
from graphtemper.monitor.drop import SOURCE
from graphtemper.monitor.log import VERDICTS, Entry
from graphtemper.monitor.record import summary
from graphtemper.monitor.standing import Standing
from graphtemper.recalibration.decisions.metrics import title
from graphtemper.recalibration.report.html import embeddable, render_page, text_of
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
    layer,
    sized,
    tip,
)

# Of more snapshots only every second, third, ... is drawn, to keep the page small; the newest and
# those with alarms or labels are always drawn.
_MAX_POINTS = 1500
_NEWEST_ROWS = 50
# What differs from the source is shown for as many snapshots and names.
_RECENT, _MOST_NAMES = 12, 10
# A missing value interrupts the line and does not affect the scale.
_GAPS = "break-paths-filter-domains"
_SYMBOLS = {"trust": "circle", "caution": "triangle-up", "abstain": "cross"}
_TALL, _LOW = 260, 130  # heights of charts


def render(standing: Standing) -> str:
    """Return the page as HTML; the same log gives the same bytes."""
    answers, record, rows = standing.answers, standing.record, _rows(standing)
    marks = [
        rows[change.position]
        | {"series": (series := change.series.replace("_", " ")), "evidence": change.evidence}
        | {"text": f"change of {series}"}
        for change in standing.changes
    ]
    begun = [
        rows[drop.position]
        | {"below": (below := _below(drop.below, drop.late)), "limit": drop.limit}
        | {"bound": drop.bound, "text": f"drop below {below}"}
        for drop in standing.drops
        if drop.begins
    ]
    step = max(-(-len(rows) // _MAX_POINTS), 1)
    always = {row["position"] for row in (*marks, *begun, rows[-1])}
    always |= {row["position"] for row in rows if row["true"] is not None}
    drawn = [row for k, row in enumerate(rows) if k % step == 0 or row["position"] in always]
    rules = [{key: mark[key] for key in ("x", "name", "text")} for mark in (*begun, *marks)]
    lines = [
        {"limit": limit, "text": f"source {limit:.1%}" if name == SOURCE else name}
        for name, limit in standing.limits.items()
    ]
    charts = {
        "accuracy": accuracy_chart(drawn, rules, lines),
        "temperature": line_chart(drawn, rules, "temperature"),
        "slope": line_chart(drawn, rules, "slope"),
    }
    return render_page(
        text_of("graphtemper.monitor", "template.html"),
        text_of("graphtemper.recalibration.report", "page.js"),
        {"charts_json": embeddable(charts), "log_json": embeddable({"snapshots": drawn})},
        standing=standing,
        turned_out=summary(record),
        rows=rows[::-1][:_NEWEST_ROWS],
        record=record[::-1][:_NEWEST_ROWS],
        held=sum(item.covered for item in record),
        revised=any(answer.revision for answer in answers),
        total=len(rows),
        decided=[name for name in NAMES if any(name in row["metrics"] for row in rows)],
        titles={name: title(name, standing.newest.asked.get("k")) for name in NAMES},
        drawn=len(drawn),
        marks=marks[::-1],
        begun=begun[::-1],
        counts={word: sum(row["verdict"] == word for row in rows) for word in VERDICTS},
        missed=standing.missed[::-1][:_NEWEST_ROWS],
        moved=_over_time(answers[-_RECENT:]),
        recent=answers[-_RECENT:],
    )


def _over_time(answers: Sequence[Entry]) -> dict[str, list[float | None]]:
    """Return the size of the largest changes by name, for each snapshot; None where it is small."""
    sizes = [{item["name"]: item["size"] for item in entry.changes[::-1]} for entry in answers]
    largest = {name: max(row.get(name, 0.0) for row in sizes) for row in sizes for name in row}
    names = sorted(largest, key=lambda name: -largest[name])
    return {name: [row.get(name) for row in sizes] for name in names[:_MOST_NAMES]}


def _below(limit: str, late: bool) -> str:
    name = "the source's accuracy" if limit == SOURCE else f"the gate {limit}"
    return name + ", found later" * late


def _rows(standing: Standing) -> list[dict[str, Any]]:
    """Return one row per snapshot, placed by date if all have one, otherwise by name."""
    true = {item.first.name: item.labelled.accuracy for item in standing.record}
    realised = {item.first.name: item.labelled.metrics for item in standing.record}
    whens = [entry.when for entry in standing.answers]
    try:
        dates = [int(np.datetime64(when or "?", "ms").astype(np.int64)) for when in whens]
    except ValueError:
        dates = []
    rows = []
    for position, (first, entry) in enumerate(zip(standing.first, standing.answers, strict=True)):
        row: dict[str, Any] = {"position": position + 1}
        row["x"] = dates[position] if dates else entry.name
        for name in ("name", "when", "num_nodes", "low", "high", "confidence", "verdict"):
            row[name] = getattr(entry, name)
        # An abstention claims no accuracy, and has neither a temperature nor a slope of its own.
        for name in ("accuracy", "temperature", "slope"):
            row[name] = getattr(entry, name) if entry.settled else None
        replaced = entry.revision > first.revision and first.settled
        row |= {"first": first.accuracy if replaced else None, "true": true.get(entry.name)}
        row |= {"metrics": entry.metrics, "realised": realised.get(entry.name) or {}}
        rows.append(row)
    return rows


def accuracy_chart(
    rows: list[dict[str, Any]], rules: list[dict[str, Any]], lines: list[dict[str, Any]]
) -> Spec:
    """Return a chart of accuracy, estimated and true, and of mean confidence over the snapshots."""
    y = {"type": "quantitative", "title": None, "axis": PERCENT, "scale": {"zero": False}}
    shape = {
        "field": "verdict",
        "type": "nominal",
        "scale": {"domain": list(_SYMBOLS), "range": list(_SYMBOLS.values())},
        "legend": None,
    }
    x, known = _x(rows), {"field": "accuracy", "valid": True}
    numbers = {
        "accuracy": "Accuracy",
        "low": "at least",
        "high": "at most",
        "confidence": "Confidence before",
        "first": "First answer",
        "true": "True accuracy",
    }
    tips = [tip("name", "Snapshot"), tip("when", "Date"), tip("verdict", "Verdict")]
    tips += [tip(field, title, ".1%") for field, title in numbers.items()]

    def points(field: str, only: Spec, shape: Spec, **style: Any) -> Spec:
        place = {"x": x, "y": at(field, y), "tooltip": tips, "shape": shape}
        return layer("point", place, size=70, **style) | {"transform": [{"filter": only}]}

    def trend(field: str, colour: str, **style: Any) -> Spec:
        place = {"x": x, "y": at(field, y)}
        return layer("line", place, invalid=_GAPS, color=colour, **style)

    limit = at("limit", y)
    settled = [row["accuracy"] is not None for row in rows]
    # A layer without rows would have no extent. Abstentions have no estimate, and stand at the
    # confidence.
    marked = [
        (points("accuracy", known, shape, filled=True, color=TRUTH), any(settled)),
        (points("confidence", {"not": known}, shape, filled=True, color=BEFORE), not all(settled)),
        (
            points("true", {"field": "true", "valid": True}, {"value": "diamond"}, color=INK),
            any(row["true"] is not None for row in rows),
        ),
    ]
    replaced = any(row["first"] is not None for row in rows)
    ends = {"x": x, "y": at("low", y), "y2": {"field": "high"}}
    layers = [
        # An area needs two snapshots, a line does not.
        layer("rule" if len(rows) == 1 else "area", ends, color=BAND),
        trend("confidence", BEFORE, strokeDash=[5, 3], point=len(rows) == 1),
        layer("rule", {"y": limit}, lines, color=INK, strokeDash=[1, 3]),
        *([trend("first", MUTED, strokeWidth=1)] if replaced else []),
        trend("accuracy", TRUTH, strokeWidth=2),
        *(some for some, shown in marked if shown),
        *_alarms(rules, x),
        *_names(lines, limit),
    ]
    return sized(_TALL, {"data": {"values": rows}, "layer": layers})


def _names(lines: list[dict[str, Any]], y: Spec) -> list[Spec]:
    """Return the names of horizontal lines, at one end and the other, so that they stand apart."""
    layers = []
    for place, side in enumerate(("right", "left")):
        x = {"value": 0 if place else "width"}
        text = {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}}
        if lines[place::2]:
            layers.append(layer("text", text, lines[place::2], align=side, dy=-6, color=MUTED))
    return layers


def line_chart(rows: list[dict[str, Any]], rules: list[dict[str, Any]], field: str) -> Spec:
    """Return a chart of one quantity over the snapshots, with gaps at missing values."""
    values = [row[field] for row in rows if row[field] is not None] or [1.0]
    middle = (min(values) + max(values)) / 2.0
    # A tenth each way at least, so that nothing looks like a cliff.
    half = max(0.55 * (max(values) - min(values)), 0.1 * middle)
    scale = {"domain": [middle - half, middle + half], "nice": True, "zero": False}
    axis = {"format": ".2~f", "tickCount": 4}
    x, y = _x(rows), {"type": "quantitative", "title": field, "scale": scale, "axis": axis}
    tips = [tip("name", "Snapshot"), tip("when", "Date"), tip(field, field.capitalize(), ".3f")]
    place = {"x": x, "y": at(field, y), "tooltip": tips}
    line = layer("line", place, color=AFTER, point={"size": 25}, invalid=_GAPS)
    return sized(_LOW, {"data": {"values": rows}, "layer": [line, *_alarms(rules, x)]})


def _x(rows: list[dict[str, Any]]) -> Spec:
    """Return the channel of time: dates of snapshots, or names at equal distances."""
    axis: Spec = {"grid": False, "labelOverlap": "greedy", "labelAngle": 0, "labelSeparation": 8}
    channel: Spec = {"field": "x", "title": None, "axis": axis}
    places = [row["x"] for row in rows]
    if isinstance(places[0], int):
        days = np.array(places, "datetime64[ms]")
        monthly = bool((days == days.astype("datetime64[M]")).all())
        axis |= {"values": {"expr": str(places)}, "format": "%Y-%m" if monthly else "%Y-%m-%d"}
        return channel | {"type": "temporal", "scale": {"type": "utc"}}
    axis |= {"ticks": False, "labelBound": True}
    return channel | {"type": "nominal", "scale": {"type": "point", "domain": places}}


def _alarms(rules: list[dict[str, Any]], x: Spec) -> list[Spec]:
    """Return a layer of lines, or none: dates have no extent where there are no rows."""
    tips = [tip("name", "Alarm at"), tip("text", "Reason")]
    style: Spec = {"color": "var(--target)", "strokeWidth": 2, "strokeDash": [2, 2]}
    return [layer("rule", {"x": x, "tooltip": tips}, rules, **style)] if rules else []
