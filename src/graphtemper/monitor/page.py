"""The page of a watch: charts over time, with marks at alarms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from graphtemper._core.files import atomic_write
from graphtemper.monitor.change import Change
from graphtemper.monitor.entry import Entry, Missed
from graphtemper.recalibration.report.html import embeddable, render_page, text_of
from graphtemper.recalibration.report.vega import (
    AFTER,
    BAND,
    BEFORE,
    PERCENT,
    TRUTH,
    Spec,
    at,
    sized,
    tip,
)

# Of more snapshots only every second, third, ... is drawn, to keep the page small; the newest and
# those that raised an alarm are always drawn.
_MAX_POINTS = 1500
_NEWEST_ROWS = 50
# Axis labels must fit on a phone (width in pixels); tooltips name every point.
_LABEL_WIDTH = 290
_TALL, _LOW = 260, 130  # heights of charts
_LETTER_WIDTH = 7
_MAX_LABELS = 9
# A missing value interrupts the line and does not affect the scale.
GAPS = "break-paths-filter-domains"
_SYMBOLS = {"trust": "circle", "caution": "triangle-up", "abstain": "cross"}


def write_page(
    path: str | os.PathLike[str],
    entries: Sequence[Entry],
    alarms: Sequence[Change],
    model: str,
    false_alarms: float,
    missed: Sequence[Missed] = (),
    every: int = 1,
) -> None:
    """Write the page of a log atomically.

    Parameters
    ----------
    path
        The HTML file.
    entries, alarms
        The log, oldest first, and its alarms.
    model
        Name of the predictor.
    false_alarms
        The stated rate of false alarms.
    missed
        Snapshots that could not be measured.
    every
        Every n-th snapshot was tested for changes.
    """
    page = render(entries, alarms, model, false_alarms, missed, every).encode("utf-8")
    with atomic_write(path) as stream:
        stream.write(page)


def render(
    entries: Sequence[Entry],
    alarms: Sequence[Change],
    model: str,
    false_alarms: float,
    missed: Sequence[Missed] = (),
    every: int = 1,
) -> str:
    """Return the page as HTML; the same log gives the same bytes."""
    rows = [_row(position, entry) for position, entry in enumerate(entries)]
    marks = [_mark(alarm, rows[alarm.position]) for alarm in alarms]
    positions = _drawn_positions(len(rows), {alarm.position for alarm in alarms})
    drawn = [rows[position] for position in positions]
    charts = {
        "accuracy": accuracy_chart(drawn, marks),
        "temperature": line_chart(drawn, marks, "temperature", "temperature"),
        "slope": line_chart(drawn, marks, "slope", "slope"),
    }
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in _SYMBOLS}
    return render_page(
        text_of("graphtemper.monitor", "template.html"),
        text_of("graphtemper.monitor", "page.js"),
        {"charts_json": embeddable(charts), "log_json": embeddable({"snapshots": drawn})},
        model=model,
        newest=entries[-1],
        newest_temperature=rows[-1]["temperature"],
        rows=rows[::-1][:_NEWEST_ROWS],
        total=len(rows),
        drawn=len(drawn),
        marks=marks[::-1],
        counts=counts,
        false_alarms=false_alarms,
        every=every,
        missed=missed[::-1][:_NEWEST_ROWS],
        missed_total=len(missed),
    )


def accuracy_chart(rows: list[dict[str, Any]], marks: list[dict[str, Any]]) -> Spec:
    """Return a chart of accuracy, with its interval, and of mean confidence over the snapshots."""
    y = {"type": "quantitative", "title": None, "axis": PERCENT, "scale": {"zero": False}}
    tips = [
        tip("name", "Snapshot"),
        tip("position", "Number", "d"),
        tip("accuracy", "Accuracy", ".1%"),
        tip("low", "at least", ".1%"),
        tip("high", "at most", ".1%"),
        tip("confidence", "Confidence before", ".1%"),
        tip("verdict", "Verdict"),
    ]
    x = _x_channel(rows)
    shape = {
        "field": "verdict",
        "type": "nominal",
        "scale": {"domain": list(_SYMBOLS), "range": list(_SYMBOLS.values())},
        "legend": None,
    }
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
                    "mark": {"type": "line", "color": TRUTH, "strokeWidth": 2},
                    "encoding": {"x": x, "y": at("accuracy", y)},
                },
                {
                    "mark": {"type": "point", "filled": True, "color": TRUTH, "size": 70},
                    "encoding": {"x": x, "y": at("accuracy", y), "shape": shape, "tooltip": tips},
                },
                *_rules(marks, x),
                _labels(rows, x, _TALL),
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
        "field": "position",
        "type": "quantitative",
        "title": None,
        "axis": {
            "values": [row["position"] for row in _labelled(rows)],
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
        {"position": row["position"], "name": row["name"], "side": side}
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


def _labelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    longest = max(len(row["name"]) for row in rows)
    count = min(max(_LABEL_WIDTH // (_LETTER_WIDTH * (longest + 2)), 2), _MAX_LABELS)
    last = len(rows) - 1
    return [
        rows[position] for position in sorted({round(k * last / (count - 1)) for k in range(count)})
    ]


def _rules(marks: list[dict[str, Any]], x: Spec) -> list[Spec]:
    if not marks:
        return []
    tips = [
        tip("name", "Alarm at"),
        tip("position", "Number", "d"),
        tip("series", "Loudest"),
        tip("evidence", "Evidence", ",.0f"),
    ]
    mark = {"type": "rule", "color": "var(--target)", "strokeWidth": 2, "strokeDash": [2, 2]}
    return [
        {
            "data": {"values": marks},
            "mark": mark,
            "encoding": {"x": x, "tooltip": tips},
        }
    ]


def _drawn_positions(total: int, always: set[int]) -> list[int]:
    step = max(-(-total // _MAX_POINTS), 1)
    return sorted({*range(0, total, step), *always, total - 1})


def _row(position: int, entry: Entry) -> dict[str, Any]:
    names = ("name", "num_nodes", "accuracy", "low", "high", "confidence")
    row = {"position": position + 1, "verdict": entry.verdict}
    row |= {name: getattr(entry, name) for name in names}
    # An abstention has neither a temperature nor a slope of its own.
    return row | {
        name: getattr(entry, name) if entry.settled else None for name in ("temperature", "slope")
    }


def _mark(alarm: Change, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "position": row["position"],
        "name": row["name"],
        "series": alarm.series.replace("_", " "),
        "evidence": alarm.evidence,
    }
