"""The page of a watch: charts over time, alarms, and the track record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from graphtemper._core.files import atomic_write
from graphtemper.monitor.change import Change
from graphtemper.monitor.drop import SOURCE, Drop
from graphtemper.monitor.entry import VERDICTS
from graphtemper.monitor.standing import Standing
from graphtemper.monitor.time_charts import accuracy_chart, line_chart, record_chart
from graphtemper.monitor.track_record import summary
from graphtemper.recalibration.report.html import embeddable, render_page, text_of

# Of more snapshots only every second, third, ... is drawn, to keep the page small; the newest and
# those that raised an alarm are always drawn.
_MAX_POINTS = 1500
_NEWEST_ROWS = 50


def write_page(path: str | os.PathLike[str], standing: Standing) -> None:
    """Write the page of a watch atomically."""
    page = render(standing).encode("utf-8")
    with atomic_write(path) as stream:
        stream.write(page)


def render(standing: Standing) -> str:
    """Return the page as HTML; the same log gives the same bytes."""
    answers, record = standing.answers, standing.record
    rows = _rows(standing)
    marks = [_mark(change, rows[change.position]) for change in standing.changes]
    begun = [_begun(drop, rows[drop.position]) for drop in standing.drops if drop.begins]
    always = {change.position for change in standing.changes}
    always |= {drop.position for drop in standing.drops if drop.begins}
    always |= {position for position, row in enumerate(rows) if row["true"] is not None}
    drawn = [rows[position] for position in _drawn_positions(len(rows), always)]
    rules = [*begun, *marks]
    charts = {
        "accuracy": accuracy_chart(drawn, rules, _lines(standing.limits)),
        "temperature": line_chart(drawn, rules, "temperature", "temperature"),
        "slope": line_chart(drawn, rules, "slope", "slope"),
    }
    if len(record) > 1:
        charts["record"] = record_chart(record[-_MAX_POINTS:])
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    return render_page(
        text_of("graphtemper.monitor", "template.html"),
        text_of("graphtemper.monitor", "page.js"),
        {"charts_json": embeddable(charts), "log_json": embeddable({"snapshots": drawn})},
        standing=standing,
        headline=standing.headline(),
        turned_out=summary(record),
        newest=answers[-1],
        newest_temperature=rows[-1]["temperature"],
        rows=rows[::-1][:_NEWEST_ROWS],
        record=record[::-1][:_NEWEST_ROWS],
        held=sum(item.covered for item in record),
        revised=any(answer.revision for answer in answers),
        total=len(rows),
        drawn=len(drawn),
        marks=marks[::-1],
        begun=begun[::-1],
        counts=counts,
        missed=standing.missed[::-1][:_NEWEST_ROWS],
    )


def _drawn_positions(total: int, always: set[int]) -> list[int]:
    step = max(-(-total // _MAX_POINTS), 1)
    return sorted({*range(0, total, step), *always, total - 1})


def _rows(standing: Standing) -> list[dict[str, Any]]:
    """Return one row per snapshot, placed by date if all have one, otherwise by number."""
    true = {item.first.name: item.labelled.accuracy for item in standing.record}
    days = [_day(entry.when) for entry in standing.answers]
    dated = None not in days and len(set(days)) > 1
    rows = []
    for position, (first, entry) in enumerate(zip(standing.first, standing.answers, strict=True)):
        names = ("name", "when", "num_nodes", "low", "high", "confidence", "verdict")
        row = {"position": position + 1, "x": days[position] if dated else position + 1}
        row |= {name: getattr(entry, name) for name in names}
        # An abstention claims no accuracy, and has neither a temperature nor a slope of its own.
        row |= {
            name: getattr(entry, name) if entry.settled else None
            for name in ("accuracy", "temperature", "slope")
        }
        replaced = entry.revision > first.revision and first.settled
        row["first"] = first.accuracy if replaced else None
        row["true"] = true.get(entry.name)
        rows.append(row)
    return rows


def _day(when: str | None) -> float | None:
    """Return a date as a number of days; None if it is none.

    Examples
    --------
    >>> _day("1970-02"), _day("1970-01-02T12:00"), _day("release 7")
    (31.0, 1.5, None)
    """
    if when is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{when}-01" if len(when) == 7 else when)
        return (
            moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        ).total_seconds() / 86400.0
    except (ValueError, OverflowError):
        return None


def _lines(limits: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the horizontal lines of the accuracy chart, with their texts."""
    return [
        {"limit": limit, "text": f"source {limit:.1%}" if name == SOURCE else name}
        for name, limit in limits.items()
    ]


def _mark(change: Change, row: dict[str, Any]) -> dict[str, Any]:
    series = change.series.replace("_", " ")
    return {
        **{name: row[name] for name in ("position", "x", "name", "when")},
        "series": series,
        "evidence": change.evidence,
        "text": f"change of {series}",
    }


def _begun(drop: Drop, row: dict[str, Any]) -> dict[str, Any]:
    below = "the source's accuracy" if drop.below == SOURCE else f"the gate {drop.below}"
    below += ", found later" * drop.late
    return {
        **{name: row[name] for name in ("position", "x", "name", "when")},
        "below": below,
        "limit": drop.limit,
        "bound": drop.bound,
        "text": f"drop below {below}",
    }
