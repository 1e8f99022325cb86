"""The leaderboard's part of the page of results, made from its JSON."""

from __future__ import annotations

from graphtemper_research.harness.frame import Row, distinct, grouped
from graphtemper_research.leaderboard.board import NAME, TITLE, contradicts, first_view, is_fitted
from graphtemper_research.leaderboard.methods import UNCALIBRATED, UNSEEN
from graphtemper_research.numbers.tables import ABSENT, Results, table
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

REFERENCES = {
    "doing nothing": UNCALIBRATED,
    "source temperature": SOURCE,
    "the atlas": ATLAS,
    "a kind of shift that the card has not seen": UNSEEN,
    "best temperature": ORACLE,
}


def section(results: Results, link: str = "") -> str:
    """Return the part about the leaderboard; it finds the folder of results at ``link``."""
    rows = results.rows(NAME)
    views = {setting: first_view(rows, setting) for setting in distinct(rows, "setting")}
    head = ["mean ECE", *REFERENCES, "fitted at the source: least", "most"]
    lines = ([setting.capitalize(), *_errors(view)] for setting, view in views.items())
    better = [
        f"{row['method']} ({setting}) by {-row['against_source']:.3f}"
        for setting, view in views.items()
        for row in view
        if is_fitted(row) and contradicts(row)
    ]
    return (
        f"## {TITLE}\n\n`graphtemper bench all`. {results.stamp(NAME)} [The whole table]({link}"
        f"{NAME}.md).\n\n![{TITLE}]({link}{NAME}.png)\n\n{table(head, lines)}\n\nOf the "
        "calibrators that are fitted at the source, in all cells that source-T has, these have "
        "less ECE than it over graphs (p corrected for all methods), against the paper's "
        f"prediction that they inherit its failure: {', '.join(better) or 'none'}.\n"
    )


def _errors(view: list[Row]) -> list[str]:
    """Return mean errors: of the references, and the ends of those of fitted calibrators."""
    named = {name: row for (name,), (row, *_) in grouped(view, "method").items()}
    cells = [
        f"{named[name]['ece']:.3f}" if name in named else ABSENT for name in REFERENCES.values()
    ]
    whole = named[SOURCE]["cells"]
    fitted = [row for row in view if is_fitted(row) and row["cells"] == whole]
    ends = sorted(fitted, key=lambda row: float(row["ece"]))
    return cells + [f"{row['ece']:.3f} ({row['method']})" for row in (*ends[:1], *ends[-1:])]
