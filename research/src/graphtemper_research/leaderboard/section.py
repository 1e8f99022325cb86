"""The leaderboard's paragraph in the page of results, made from its JSON."""

from __future__ import annotations

from pathlib import Path

from graphtemper_research.harness import frame
from graphtemper_research.harness.frame import Row
from graphtemper_research.harness.outcome import read_outcome
from graphtemper_research.leaderboard.board import NAME, TITLE, contradicts, first_view, is_fitted
from graphtemper_research.leaderboard.methods import (
    PER_NODE,
    UNCALIBRATED,
    UNSEEN,
    UNSEEN_PER_NODE,
)
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def section(folder: Path, link: str = "") -> str:
    """Return the section about the leaderboard in ``folder``, or nothing where there is none.

    ``link`` is the folder as seen from the Markdown file.

    Examples
    --------
    >>> section(Path("nowhere"))
    ''
    """
    path = folder / f"{NAME}.json"
    if not path.is_file():
        return ""
    outcome = read_outcome(path)
    settings = outcome["settings"]
    lines = [
        f"## {TITLE}",
        "",
        f"`graphtemper bench all`: models {', '.join(settings['models'])}; graphs "
        f"{', '.join(settings['graphs'])}; seeds {len(settings['seeds'])}. "
        f"[The whole table]({link}{NAME}.md).",
        "",
        f"![{TITLE}]({link}{NAME}.png)",
        "",
    ]
    for setting in frame.distinct(outcome["rows"], "setting"):
        lines += [_paragraph(first_view(outcome["rows"], setting), setting), ""]
    return "\n".join(lines)


def _paragraph(rows: list[Row], setting: str) -> str:
    """Say in words how the paper's prediction fared."""
    by_name = {row["method"]: row for row in rows}
    source, oracle = by_name[SOURCE]["ece"], by_name[ORACLE]["ece"]
    plain = by_name.get(UNCALIBRATED)
    whole = by_name[SOURCE]["cells"]
    fitted = sorted(
        (row for row in rows if is_fitted(row) and row["cells"] == whole),
        key=lambda row: row["ece"],
    )
    against = [row for row in rows if is_fitted(row) and contradicts(row)]
    ranked = sum(row["rank"] is not None for row in rows)
    words = [
        f"**{setting.capitalize()}.** Mean ECE is {source:.3f} with source-T and {oracle:.3f} with "
        "the oracle's temperature."
    ]
    if plain is not None:
        words.append(f"Doing nothing has {plain['ece']:.3f}.")
    if fitted:
        best, worst = fitted[0], fitted[-1]
        words.append(
            f"The {len(fitted)} calibrators that are fitted at the source, and measured in all "
            f"{whole} cells, lie between "
            f"{best['ece']:.3f} ({best['method']}) and {worst['ece']:.3f} ({worst['method']})."
        )
        if against:
            listed = ", ".join(f"{r['method']} by {-r['against_source']:.3f}" for r in against)
            words.append(
                "Against the prediction that they inherit source-T's failure, these have less ECE "
                f"than source-T over graphs (p corrected for all methods): {listed}."
            )
        else:
            words.append(
                "No calibrator that is fitted at the source has less ECE than source-T over graphs "
                "once p is corrected for the number of methods, so nothing here contradicts the "
                "paper's prediction that they inherit its failure."
            )
    if some := [row for row in rows if row["cells"] < whole]:
        listed = ", ".join(
            f"{row['method']} {row['against_source']:+.3f} ({row['cells']})"
            for row in sorted(some, key=lambda row: row["against_source"])
        )
        words.append(
            "Against source-T in the cells where they were measured (how many in brackets): "
            f"{listed}."
        )
    for name in (ATLAS, PER_NODE, UNSEEN, UNSEEN_PER_NODE):
        if name not in by_name:
            continue
        row = by_name[name]
        words.append(
            f"The {name} has {row['ece']:.3f} and removes {row['removed']:.0%} of source-T's "
            f"excess over the oracle (mean rank {row['rank']:.1f} of {ranked})."
        )
    return " ".join(words)
