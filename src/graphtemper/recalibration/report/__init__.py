"""Pages about a result: the HTML report.

`Recalibration.report` writes the HTML report; `read_report` reads its data back.
"""

from __future__ import annotations

from graphtemper.recalibration.report.page import read_report
from graphtemper.recalibration.report.schema import schema

__all__ = ["read_report", "schema"]
