"""Pages about a result: the HTML report, the section of a model card.

`Recalibration.report` writes the HTML report; `read_report` reads its data back.
"""

from __future__ import annotations

from graphtemper.recalibration.report.content import schema
from graphtemper.recalibration.report.model_card import model_card_section
from graphtemper.recalibration.report.page import read_report

__all__ = ["model_card_section", "read_report", "schema"]
