"""The report as one HTML file, with its content as a JSON block."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from graphtemper import errors
from graphtemper._core.files import atomic_write
from graphtemper._core.safe_reading import parse_json, read_bytes
from graphtemper.errors import VersionError
from graphtemper.recalibration.applied import Applied
from graphtemper.recalibration.decisions import Metrics
from graphtemper.recalibration.report.charts import charts
from graphtemper.recalibration.report.content import SCHEMA, content
from graphtemper.recalibration.report.html import check_name, embeddable, render_page, text_of

MAX_BYTES = 2_000_000
TOLERATED = 0.1
"""Share of errors for which the page names a threshold of confidence."""
_BLOCK = re.compile(r'<script type="application/json" id="graphtemper-report">(.*?)</script>', re.S)
_MARK = {"trust": "✓", "caution": "!", "abstain": "✕"}


def write_report(
    path: str | os.PathLike[str],
    result: Applied,
    name: str | None,
    date: str = "",
    metrics: Metrics | None = None,
) -> None:
    """Write a result as one HTML page, atomically; `content` determines what is on it."""
    check_name(path)
    page = render(content(result, name, date, metrics)).encode("utf-8")
    if len(page) > MAX_BYTES:
        raise errors.range(
            f"the report has {len(page)} bytes, more than the limit of {MAX_BYTES}; use a card "
            "with fewer environments, or shorter class names."
        )
    with atomic_write(path) as stream:
        stream.write(page)


def read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON block of a report, which holds all of its content."""
    source = Path(path)
    try:
        match = _BLOCK.search(read_bytes(source, MAX_BYTES).decode("utf-8"))
        block: Any = None if match is None else parse_json(match.group(1))
    except ValueError as error:
        raise errors.damaged(f"{source} cannot be read as a report: {error}") from error
    if not isinstance(block, dict) or block.get("schema") != SCHEMA:
        raise VersionError(f"{source} holds no report with the schema {SCHEMA}; write it again.")
    return block


def render(report: dict[str, Any]) -> str:
    """Return the page of a report; the same content gives the same bytes.

    Parameters
    ----------
    report
        The return value of `graphtemper.recalibration.report.content.content`.
    """
    # The lowest threshold of confidence whose error stays tolerable at the interval's end.
    useful = (
        row
        for row in report["decisions"] or ()
        if row["error"] is not None and row["error"]["high"] <= TOLERATED
    )
    return render_page(
        text_of("graphtemper.recalibration.report", "template.html"),
        text_of("graphtemper.recalibration.report", "page.js"),
        {"report_json": embeddable(report), "charts_json": embeddable(charts(report))},
        report=report,
        mark=_MARK[report["verdict"]["word"]],
        tolerated=TOLERATED,
        useful=next(useful, None),
    )
